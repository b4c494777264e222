#include "base/log.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(Log, WritesLevelAndTextToStandardError) {
  set_log_level(LogLevel::kInfo);
  testing::internal::CaptureStderr();
  log_warning("store {} is {} % full", "/s", 97);
  log_debug("not {}", "shown");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("warning"), std::string::npos) << text;
  EXPECT_NE(text.find("store /s is 97 % full\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("shown"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << "no colours in a file";
}

TEST(Log, ALevelHidesLowerOnes) {
  set_log_level(LogLevel::kError);
  EXPECT_FALSE(log_enabled(LogLevel::kWarning));
  EXPECT_TRUE(log_enabled(LogLevel::kError));
  set_log_level(LogLevel::kOff);
  EXPECT_FALSE(log_enabled(LogLevel::kError));
  EXPECT_FALSE(log_enabled(LogLevel::kOff));
  set_log_level(LogLevel::kInfo);
}

TEST(Log, ParsesItsLevelNames) {
  EXPECT_EQ(parse_log_level("debug"), LogLevel::kDebug);
  EXPECT_EQ(parse_log_level("off"), LogLevel::kOff);
  EXPECT_EQ(parse_log_level("loud"), std::nullopt);
}

}  // namespace
}  // namespace cairn
