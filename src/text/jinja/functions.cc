// Functions that templates can call without importing them, and the fields of loop.
#include <fmt/core.h>

#include <ctime>

#include "text/jinja/builtins.h"
#include "text/jinja/operations.h"

namespace cairn::jinja {

namespace {

// The limit of Jinja's sandbox.
constexpr int64_t kRangeMax = 100'000;

Value make_range(const Arguments& arguments, Runtime& runtime) {
  const auto [a, b, c] = bind<3>("range", arguments, {"start", "stop", "step"}, 1);
  const int64_t begin = b == nullptr ? 0 : to_integer(*a, "range's start");
  const int64_t end = to_integer(b == nullptr ? *a : *b, "range's end");
  const int64_t step = c == nullptr ? 1 : to_integer(*c, "range's step");
  if (step == 0) fail("ValueError: range() arg 3 must not be zero");
  std::vector<Value> items;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (items.size() == kRangeMax) fail(fmt::format("a range has more than {} values", kRangeMax));
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  runtime.budget().spend(items.size() / 16);
  return runtime.list(std::move(items));
}

// The pairs of the one positional argument, a mapping, and of the named ones.
std::vector<std::pair<Value, Value>> pairs_of(std::string_view callee, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> items;
  if (arguments.positional.size() > 1 ||
      (arguments.positional.size() == 1 && !arguments.positional[0].is(Kind::kDict))) {
    fail(fmt::format("TypeError: {} takes one mapping and named values", callee));
  }
  if (!arguments.positional.empty()) items = arguments.positional[0].dict().items;
  for (const auto& [name, value] : arguments.named) {
    bool is_known = false;
    for (auto& [key, old] : items) {
      if (!key.is_string() || key.string() != *name) continue;
      old = value;
      is_known = true;
    }
    if (!is_known) items.emplace_back(Value(name), value);
  }
  return items;
}

Value make_namespace(const Arguments& arguments, Runtime& runtime) {
  auto scope = std::make_shared<Namespace>();
  for (auto& [key, value] : pairs_of("namespace", arguments)) {
    if (!key.is_string()) fail("TypeError: namespace's keys must be strings");
    scope->set(key.text(), std::move(value));
  }
  runtime.budget().allocate(256 + scope->fields.size() * sizeof(Value));
  return Value(std::move(scope));
}

Value format_time(const Arguments& arguments, int64_t now_unix, Runtime& runtime) {
  const auto [format] = bind<1>("strftime_now", arguments, {"format"}, 1);
  const std::string pattern(to_text(*format, "strftime_now's format"));
  if (pattern.empty()) return runtime.string("");
  const std::time_t now = now_unix;
  std::tm parts{};
  if (gmtime_r(&now, &parts) == nullptr) fail("strftime_now: the time is out of range");
  char buffer[1024];
  const size_t n = std::strftime(buffer, sizeof(buffer), pattern.c_str(), &parts);
  if (n == 0) fail("strftime_now: the format is too long or empty");
  return runtime.string(std::string(buffer, n));
}

}  // namespace

std::optional<Callable::Function> find_function(std::string_view name) {
  if (name == "range") return Callable::Function::kRange;
  if (name == "dict") return Callable::Function::kDict;
  if (name == "namespace") return Callable::Function::kNamespace;
  if (name == "raise_exception") return Callable::Function::kRaise;
  if (name == "strftime_now") return Callable::Function::kStrftimeNow;
  return std::nullopt;
}

Value call_function(Callable::Function function,
                    const Arguments& arguments,
                    int64_t now_unix,
                    Runtime& runtime) {
  switch (function) {
    case Callable::Function::kRange:
      return make_range(arguments, runtime);
    case Callable::Function::kDict:
      return make_dict(pairs_of("dict", arguments), runtime.budget());
    case Callable::Function::kNamespace:
      return make_namespace(arguments, runtime);
    case Callable::Function::kRaise: {
      const auto [message] = bind<1>("raise_exception", arguments, {"message"}, 1);
      throw TemplateError(runtime.str(*message), true);
    }
    case Callable::Function::kStrftimeNow:
      return format_time(arguments, now_unix, runtime);
  }
  return Value();
}

std::optional<Value> loop_attribute(const Loop& loop, std::string_view name) {
  const size_t n = loop.items->size();
  const size_t i = loop.idx;
  if (name == "index") return Value::size(i + 1);
  if (name == "index0") return Value::size(i);
  if (name == "revindex") return Value::size(n - i);
  if (name == "revindex0") return Value::size(n - i - 1);
  if (name == "first") return Value(i == 0);
  if (name == "last") return Value(i + 1 == n);
  if (name == "length") return Value::size(n);
  // They count the levels of a recursive loop only.
  if (name == "depth") return Value(int64_t{1});
  if (name == "depth0") return Value(int64_t{0});
  if (name == "previtem") return i == 0 ? Value() : (*loop.items)[i - 1];
  if (name == "nextitem") return i + 1 == n ? Value() : (*loop.items)[i + 1];
  return std::nullopt;
}

}  // namespace cairn::jinja
