#include "base/options.h"

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>

namespace cairn {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(ParseSize, TakesBytesAndBothKindsOfUnits) {
  EXPECT_EQ(*parse_size("0"), 0U);
  EXPECT_EQ(*parse_size("1000"), 1000U);
  EXPECT_EQ(*parse_size("17B"), 17U);
  EXPECT_EQ(*parse_size("64MiB"), 64U << 20);
  EXPECT_EQ(*parse_size("64 mib"), 64U << 20);
  EXPECT_EQ(*parse_size("2GiB"), 2 * kGiB);
  EXPECT_EQ(*parse_size("1.5GB"), 1'500'000'000U);
  EXPECT_EQ(*parse_size("0.5KiB"), 512U);
  EXPECT_EQ(*parse_size("3TiB"), 3072 * kGiB);
  EXPECT_EQ(*parse_size("18446744073709551615"), std::numeric_limits<uint64_t>::max());
}

class ParseSizeBad : public testing::TestWithParam<const char*> {};

TEST_P(ParseSizeBad, IsRefusedAndNamed) {
  const auto size = parse_size(GetParam());
  ASSERT_FALSE(size.is_ok()) << *size;
  EXPECT_EQ(size.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(size.status().message().find(std::string("'") + GetParam() + "'"), std::string::npos);
  EXPECT_NE(size.status().message().find("64MiB"), std::string::npos) << "shows what is accepted";
}

INSTANTIATE_TEST_SUITE_P(Values,
                         ParseSizeBad,
                         testing::Values("",
                                         " ",
                                         "-1",
                                         "+1",
                                         "1.5",
                                         "1.5B",
                                         ".5GiB",
                                         "1.GiB",
                                         "1e9",
                                         "0x10",
                                         "GiB",
                                         "1GiBs",
                                         "1 G iB",
                                         " 1GiB",
                                         "1GiB ",
                                         "1.0000001GiB",
                                         "18446744073709551616",
                                         "16777216TiB",
                                         "99999999999999999999TiB",
                                         "nan"));

TEST(FormatSize, PicksTheUnit) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(1024), "1.0 KiB");
  EXPECT_EQ(format_size(kGiB + kGiB / 2), "1.5 GiB");
  EXPECT_EQ(format_size(kGiB - 1), "1.0 GiB");
  EXPECT_EQ(format_size(std::numeric_limits<uint64_t>::max()), "16.0 EiB");
}

TEST(ParseDuration, TakesMillisecondsToHours) {
  using std::chrono::milliseconds;
  EXPECT_EQ(*parse_duration("250ms"), milliseconds(250));
  EXPECT_EQ(*parse_duration("1s"), milliseconds(1000));
  EXPECT_EQ(*parse_duration("1.5s"), milliseconds(1500));
  EXPECT_EQ(*parse_duration("2m"), milliseconds(120'000));
  EXPECT_EQ(*parse_duration("1h"), milliseconds(3'600'000));
  EXPECT_EQ(*parse_duration("0s"), milliseconds(0));
}

TEST(ParseDuration, RefusesOtherTexts) {
  for (const char* text : {"", "1", "-1s", "1.5ms", "s", "1d", "1s2m", "999999999999h"}) {
    const auto duration = parse_duration(text);
    EXPECT_EQ(duration.status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(Environment, ReadsVariables) {
  ASSERT_EQ(::setenv("CAIRN_OPTIONS_TEST", "", 1), 0);
  EXPECT_EQ(env("CAIRN_OPTIONS_TEST"), "");
  ASSERT_EQ(::unsetenv("CAIRN_OPTIONS_TEST"), 0);
  EXPECT_EQ(env("CAIRN_OPTIONS_TEST"), std::nullopt);
}

class CacheDir : public testing::Test {
 protected:
  void SetUp() override {
    home_ = env("HOME");
    cache_ = env("XDG_CACHE_HOME");
  }

  void TearDown() override {
    restore("HOME", home_);
    restore("XDG_CACHE_HOME", cache_);
  }

  static void restore(const char* name, const std::optional<std::string>& value) {
    ASSERT_EQ(value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name), 0);
  }

  std::optional<std::string> home_;
  std::optional<std::string> cache_;
};

TEST_F(CacheDir, FollowsTheEnvironment) {
  restore("XDG_CACHE_HOME", "/x/cache");
  restore("HOME", "/home/someone");
  EXPECT_EQ(default_cache_dir(), "/x/cache/cairn");
  restore("XDG_CACHE_HOME", "relative");  // the XDG specification says to ignore these
  EXPECT_EQ(default_cache_dir(), "/home/someone/.cache/cairn");
  restore("XDG_CACHE_HOME", std::nullopt);
  restore("HOME", std::nullopt);
  const passwd* account = ::getpwuid(::getuid());
  ASSERT_NE(account, nullptr);
  EXPECT_EQ(default_cache_dir(), std::string(account->pw_dir) + "/.cache/cairn");
}

TEST(Machine, NumbersArePlausible) {
  EXPECT_GE(n_usable_cpus(), 1U);
  EXPECT_GT(available_memory_bytes(), uint64_t{16} << 20);
  EXPECT_LT(available_memory_bytes(), uint64_t{1} << 50);
  EXPECT_EQ(executable_dir().front(), '/');
}

}  // namespace
}  // namespace cairn
