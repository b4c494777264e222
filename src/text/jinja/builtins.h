// The names that templates find in place: filters, tests, methods, functions and loop's fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace cairn::jinja {

// Null when there is none of this name.
FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);

enum class MethodAccess : uint8_t {
  kNone,
  kAllowed,
  kUnsafe,  // would change a list or mapping: refused, as Jinja's immutable sandbox does
};

// Whether `object` has a method of this name, also where Cairn does not implement it: then calling
// it says so.
MethodAccess find_method(const Value& object, std::string_view name);
Value call_method(const Value& object,
                  std::string_view name,
                  const Arguments& arguments,
                  Runtime& runtime);

// range, dict, namespace, raise_exception and strftime_now.
std::optional<Callable::Function> find_function(std::string_view name);
Value call_function(Callable::Function function,
                    const Arguments& arguments,
                    int64_t now_unix,
                    Runtime& runtime);

// loop.index and its companions.
std::optional<Value> loop_attribute(const Loop& loop, std::string_view name);

// json.dumps(value, ensure_ascii=..., indent=..., separators=..., sort_keys=...).
struct JsonStyle {
  bool ascii_only = false;
  bool sorts_keys = false;
  std::optional<std::string_view> indent;  // one level of it; without, all on one line
  std::string_view item_separator = ", ";
  std::string_view key_separator = ": ";
};

std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace cairn::jinja
