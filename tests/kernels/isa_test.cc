#include "kernels/isa.h"

#include <gtest/gtest.h>

#include "kernels/backend.h"

namespace cairn {
namespace {

TEST(Isa, AutoIsTheBestClassOfTheProcessor) {
  const std::vector<Isa> here = supported_isas();
  ASSERT_FALSE(here.empty());
  EXPECT_EQ(*parse_isa("auto"), here.back());
  for (const Isa isa : here) EXPECT_EQ(*parse_isa(to_string(isa)), isa);
}

TEST(Isa, UnknownNamesAreInvalidAndSayWhatIsKnown) {
  for (const char* name : {"", "AVX2", "avx2 ", "neon", "avx512vnni"}) {
    const Result<Isa> isa = parse_isa(name);
    ASSERT_FALSE(isa.is_ok()) << name;
    EXPECT_EQ(isa.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(isa.status().message().find("avx512bf16"), std::string::npos);
  }
}

TEST(Isa, ClassPrecisionAndSplitAreInTheNumericsVersion) {
  for (const Isa isa : supported_isas()) {
    const auto fast = make_cpu_backend({isa, Precision::kFast, 1});
    const auto exact = make_cpu_backend({isa, Precision::kF32, 1});
    EXPECT_NE(fast->numerics_version().find(to_string(isa)), std::string::npos);
    EXPECT_NE(fast->numerics_version(), exact->numerics_version());
    EXPECT_NE(fast->numerics_version().find("s512"), std::string::npos);
  }
}

TEST(Isa, ThreadsAreNotInTheNumericsVersion) {
  const Isa isa = supported_isas().back();
  EXPECT_EQ(make_cpu_backend({isa, Precision::kFast, 1})->numerics_version(),
            make_cpu_backend({isa, Precision::kFast, 2})->numerics_version());
}

}  // namespace
}  // namespace cairn
