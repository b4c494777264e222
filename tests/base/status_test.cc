#include "base/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "base/result.h"

namespace cairn {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Status::invalid_argument("odd");
  return n / 2;
}

Result<int> quarter(int n) {
  CAIRN_ASSIGN_OR_RETURN(const int h, half(n));
  return half(h);
}

Result<std::unique_ptr<int>> boxed(int n) {
  if (n < 0) return Status::invalid_argument("negative");
  return std::make_unique<int>(n);
}

Status check_quarter(int n) {
  CAIRN_RETURN_IF_ERROR(quarter(n).status());
  return Status::ok();
}

TEST(Status, TextNamesTheCode) {
  EXPECT_EQ(Status::ok().to_string(), "OK");
  EXPECT_EQ(Status::corruption("bad magic").to_string(), "CORRUPTION: bad magic");
  EXPECT_EQ(to_string(StatusCode::kInvalidArgument), "INVALID_ARGUMENT");
}

TEST(Status, ErrnoValuesBecomeCodes) {
  EXPECT_EQ(Status::from_errno(ENOSPC, "write x").code(), StatusCode::kNoSpace);
  EXPECT_EQ(Status::from_errno(EDQUOT, "write x").code(), StatusCode::kNoSpace);
  EXPECT_EQ(Status::from_errno(ENOENT, "open x").code(), StatusCode::kNotFound);
  EXPECT_EQ(Status::from_errno(EIO, "read x").code(), StatusCode::kIo);
  EXPECT_EQ(Status::from_errno(ENOENT, "open /x").message(),
            "open /x: No such file or directory (errno 2)");
}

TEST(Status, APrefixGoesBeforeErrorsOnly) {
  EXPECT_EQ(Status::io("b").with_prefix("a").message(), "a: b");
  EXPECT_EQ(Status::io("b").with_prefix("a").code(), StatusCode::kIo);
  EXPECT_TRUE(Status::ok().with_prefix("a").is_ok());
}

TEST(Result, MacrosHandErrorsOn) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).status().message(), "odd");
  EXPECT_TRUE(check_quarter(4).is_ok());
  EXPECT_EQ(check_quarter(3).code(), StatusCode::kInvalidArgument);
}

TEST(Result, HoldsWhatCanOnlyBeMoved) {
  Result<std::unique_ptr<int>> result = boxed(7);
  ASSERT_TRUE(result.is_ok());
  const std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 7);
  EXPECT_EQ(boxed(-1).status().message(), "negative");
}

TEST(ResultDeathTest, AnErrorHasNoValue) {
  const Result<int> result(Status::not_found("gone"));
  EXPECT_DEATH(static_cast<void>(result.value()), "gone");
}

}  // namespace
}  // namespace cairn
