// The template language against Jinja2 itself (tests/data/jinja), and its limits.
#include <gtest/gtest.h>

#include <string>

#include "text/chat_template.h"
#include "text/jinja/strings.h"
#include "text/jinja/value.h"
#include "text/oracle_files.h"

namespace cairn {
namespace {

constexpr int64_t kClock = 1'721'997'296;  // 2024-07-26 12:34:56

Result<std::string> render(const std::string& source,
                           const Json& variables = Json::object(),
                           RenderError* error = nullptr) {
  auto chat = ChatTemplate::parse(source, "test");
  if (!chat.is_ok()) return chat.status();
  TemplateInputs inputs;
  inputs.kwargs = variables;
  inputs.now_unix = kClock;
  return chat->render(inputs, error);
}

std::string failure(const std::string& source, const Json& variables = Json::object()) {
  const auto result = render(source, variables);
  EXPECT_FALSE(result.is_ok()) << source;
  return result.is_ok() ? "" : result.status().message();
}

TEST(Jinja, AgreesWithJinja2) {
  const Json file =
      read_json_or_die(std::string(CAIRN_SOURCE_DIR) + "/tests/data/jinja/cases.json");
  size_t n = 0;
  for (const Json& row : file["cases"]) {
    const auto source = row["template"].get<std::string>();
    const auto result = render(source, file["variables"]);
    ++n;
    if (row.contains("fails")) {
      EXPECT_FALSE(result.is_ok()) << source << " rendered " << *result;
      continue;
    }
    ASSERT_TRUE(result.is_ok()) << source << ": " << result.status().to_string();
    EXPECT_EQ(*result, row["rendered"].get<std::string>()) << source;
  }
  EXPECT_GT(n, 500U);
}

TEST(Jinja, ErrorsNameTemplateAndLine) {
  EXPECT_EQ(failure("a\n\n{{ x.y }}"), "chat template test, line 3: 'x' is undefined");
  EXPECT_EQ(failure("a\n{% if %}"), "chat template test, line 2: expected an expression, found %}");
  EXPECT_NE(failure("{% include 'x' %}").find("include"), std::string::npos);
  EXPECT_NE(failure("{{ 'a'|nofilter }}").find("nofilter"), std::string::npos);
  EXPECT_NE(failure("{% if true %}").find("endif"), std::string::npos);
  EXPECT_EQ(failure("{{ [1].append(2) }}"),
            "chat template test, line 1: access to attribute 'append' of 'list' object is unsafe.");
}

TEST(Jinja, RaisedErrorsAreTold) {
  RenderError error;
  EXPECT_FALSE(render("{{ raise_exception('No ' ~ 1) }}", Json::object(), &error).is_ok());
  EXPECT_TRUE(error.is_raised);
  EXPECT_EQ(error.message, "No 1");
  EXPECT_FALSE(render("{{ 1 / 0 }}", Json::object(), &error).is_ok());
  EXPECT_FALSE(error.is_raised);
}

TEST(Jinja, UnknownFiltersFailOnlyWhenTheyAreReached) {
  EXPECT_EQ(*render("{% if false %}{{ 1|from_json }}{% endif %}ok"), "ok");
}

TEST(Jinja, NumbersPrintAsTheyCame) {
  const Json numbers = parse_json(
                           "[1.0, 1e-07, 1e22, -0.0, 18446744073709551615, -9223372036854775808,"
                           " 0.1, 123456789.125, 5e-324, 1.7976931348623157e308]",
                           "test")
                           .value();
  EXPECT_EQ(*render("{{ n|tojson }}", {{"n", numbers}}),
            "[1.0, 1e-07, 1e+22, -0.0, 18446744073709551615, -9223372036854775808, 0.1, "
            "123456789.125, 5e-324, 1.7976931348623157e+308]");
}

TEST(Jinja, KeysKeepTheirOrder) {
  const Json json = parse_json(R"({"z": 1, "a": {"y": 2, "b": 3}})", "test").value();
  EXPECT_EQ(*render("{{ j|tojson }}", {{"j", json}}), R"({"z": 1, "a": {"y": 2, "b": 3}})");
}

TEST(Jinja, MessagesAndToolsCannotInjectTemplateCode) {
  EXPECT_EQ(*render("{{ m }}", {{"m", "{{ 7*7 }}{% raise %}"}}), "{{ 7*7 }}{% raise %}");
}

TEST(JinjaLimits, EndlessWorkIsStopped) {
  EXPECT_NE(failure("{% for a in range(3000) %}{% for b in range(3000) %}{% endfor %}{% endfor %}")
                .find("too many steps"),
            std::string::npos);
  EXPECT_NE(failure("{{ range(100001)|list }}").find("100000"), std::string::npos);
}

TEST(JinjaLimits, MemoryIsBounded) {
  const std::string doubling =
      "{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}"
      "{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}";
  EXPECT_NE(failure(doubling).find("too much memory"), std::string::npos);
  EXPECT_NE(failure("{{ 'abc' * 1000000000000 }}").find("too much memory"), std::string::npos);
  EXPECT_NE(failure("{{ [1] * 9223372036854775807 }}").find("too much memory"), std::string::npos);
  EXPECT_NE(failure("{{ ('x' * 10000).replace('', 'y' * 100000) }}").find("too much memory"),
            std::string::npos);
  EXPECT_NE(failure("{{ 'x'.center(1000000000000) }}").find("too much memory"), std::string::npos);
  EXPECT_NE(failure("{{ 'x'|indent(1000000000000) }}").find("too much memory"), std::string::npos);
  EXPECT_NE(failure("{{ [1]|tojson(indent=1000000000000) }}").find("too much memory"),
            std::string::npos);
  EXPECT_NE(
      failure("{% for i in range(1000) %}{{ 'x' * 1000000 }}{% endfor %}").find("too much memory"),
      std::string::npos);
  EXPECT_NE(failure("{{ {1:{2:[3]}}|tojson(indent='x' * 40000000) }}").find("too much memory"),
            std::string::npos);
  EXPECT_NE(failure("{{ [1,2,3]|join('x' * 40000000) }}").find("too much memory"),
            std::string::npos);
}

TEST(JinjaLimits, FreedMemoryDoesNotCount) {
  // A hundred megabytes and more in passing.
  EXPECT_EQ(
      *render("{% set ns = namespace(n=0) %}{% for i in range(50) %}"
              "{% set x = ('x' * 1000000) ~ 'y' %}{% set ns.n = ns.n + x|length %}{% endfor %}"
              "{{ ns.n }}"),
      "50000050");
  // A prompt may be long when its messages are.
  const std::string content(5'000'000, 'x');
  const auto prompt = render("{% for i in range(16) %}{{ 'a' + c }}{% endfor %}", {{"c", content}});
  ASSERT_TRUE(prompt.is_ok()) << prompt.status().to_string();
  EXPECT_EQ(prompt->size(), 80'000'016U);
}

TEST(JinjaLimits, SharedValuesDoNotExplode) {
  // Sixty levels of [x, x]: a kilobyte in memory, 2^60 elements when printed or compared.
  const std::string nested =
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}";
  EXPECT_FALSE(render(nested + "{{ ns.x }}").is_ok());
  EXPECT_FALSE(render(nested + "{{ ns.x|tojson }}").is_ok());
  EXPECT_FALSE(render(nested + "{{ ns.x == [ns.x, ns.x] }}{{ ns.x == ns.x }}").is_ok());
}

TEST(JinjaLimits, NestingIsBounded) {
  EXPECT_NE(
      failure("{% set ns = namespace(x=[]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}"
              "{% endfor %}")
          .find("too deeply"),
      std::string::npos);
  EXPECT_NE(failure("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").find("too deeply"),
            std::string::npos);
  const std::pair<std::string, std::string> pairs[] = {{"(", ")"},
                                                       {"[", "]"},
                                                       {"{1:", "}"},
                                                       {"not ", ""},
                                                       {"1 if 1 else ", ""},
                                                       {"-", ""},
                                                       {"{% if 1 %}", "{% endif %}"}};
  for (const auto& [open, close] : pairs) {
    std::string source = open[0] == '{' && open[1] == '%' ? "" : "{{ ";
    const std::string end = source.empty() ? "" : " }}";
    for (int i = 0; i < 10'000; ++i) source += open;
    source += "1";
    for (int i = 0; i < 10'000; ++i) source += close;
    EXPECT_NE(failure(source + end).find("too deeply"), std::string::npos) << open;
  }
  for (const char* link : {" + 1", ".x", "[0]", "|upper", " and 1", " or 1", "()", " ** 1"}) {
    std::string source = "{{ 1";
    for (int i = 0; i < 10'000; ++i) source += link;
    EXPECT_NE(failure(source + " }}").find("too long"), std::string::npos) << link;
  }
}

TEST(JinjaLimits, OrdinaryNestingFits) {
  std::string source = "{{ ";
  for (int i = 0; i < 30; ++i) source += "(";
  source += "'a'";
  for (int i = 0; i < 30; ++i) source += " ~ 'b')";
  EXPECT_EQ(*render(source + " }}"), "a" + std::string(30, 'b'));
  EXPECT_EQ(
      *render("{% macro f(n) %}{% if n > 0 %}{{ n % 10 }}{{ f(n - 1) }}{% endif %}{% endmacro %}"
              "{{ f(40)|length }}"),
      "40");
}

TEST(JinjaLimits, CirclesAreFreed) {
  // The leak checker of the sanitizer build watches.
  EXPECT_EQ(
      *render("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = [b] %}"
              "{% macro m() %}{{ a.b[0].a.b|length }}{% endmacro %}{% set a.m = m %}{{ m() }}"),
      "1");
}

TEST(JinjaLimits, SourcesAreBoundedAndUtf8) {
  EXPECT_NE(failure(std::string(2'000'000, 'x')).find("2000000 bytes"), std::string::npos);
  EXPECT_NE(failure("\xFF").find("UTF-8"), std::string::npos);
}

TEST(JinjaLimits, ALongConversationIsFarFromTheLimits) {
  Json messages = Json::array();
  for (int i = 0; i < 2000; ++i) {
    messages.push_back(
        {{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::string(500, 'x')}});
  }
  const auto prompt = render(
      "{% for m in msgs[::-1] %}{% endfor %}{% for m in msgs %}{{ '<|im_start|>' + m.role + '\\n' "
      "+ "
      "(m.content|trim).split('</think>')[-1].lstrip('\\n') + '<|im_end|>' + '\\n' }}{% endfor %}",
      {{"msgs", messages}});
  ASSERT_TRUE(prompt.is_ok()) << prompt.status().to_string();
  EXPECT_EQ(prompt->size(), 1000U * (500 + 4 + 24) + 1000U * (500 + 9 + 24));
}

TEST(JinjaValue, FloatsAreSpeltAsInPython) {
  EXPECT_EQ(jinja::float_repr(1e16), "1e+16");
  EXPECT_EQ(jinja::float_repr(9007199254740993.0), "9007199254740992.0");
  EXPECT_EQ(jinja::float_repr(0.0001), "0.0001");
  EXPECT_EQ(jinja::float_repr(0.00001), "1e-05");
  EXPECT_EQ(jinja::float_repr(-1.5), "-1.5");
}

TEST(JinjaStrings, WhiteSpaceIsPythons) {
  using jinja::Side;
  EXPECT_EQ(jinja::strip("\x1F\xC2\x85 x \x1C\u3000", Side::kBoth), "x");
  EXPECT_EQ(jinja::strip("\uFEFFx\u180E", Side::kBoth), "\uFEFFx\u180E");
  EXPECT_EQ(jinja::strip("aabxbaa", Side::kLeft, "ab"), "xbaa");
  EXPECT_EQ(jinja::strip("éxé", Side::kRight, "é"), "éx");
}

}  // namespace
}  // namespace cairn
