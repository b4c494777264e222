// What filters, tests and methods may ask of the rendering that they run in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace cairn::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<Text, Value>> named;
};

struct Scope;

// Something that can be called.
struct Callable {
  enum class Type : uint8_t { kMacro, kFunction, kMethod };
  enum class Function : uint8_t { kRange, kDict, kNamespace, kRaise, kStrftimeNow };

  Type type = Type::kFunction;
  Function function = Function::kRange;
  std::shared_ptr<const Macro> macro;
  // Where the macro was defined. That scope usually holds the macro, so the interpreter breaks the
  // circle when it ends.
  mutable std::shared_ptr<Scope> scope;
  Value self;  // kMethod: the object and the method's name
  Text name;
};

class Runtime {
 public:
  explicit Runtime(const Limits& limits) : budget_(limits) {}

  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  Runtime(Runtime&&) = delete;
  Runtime& operator=(Runtime&&) = delete;
  virtual ~Runtime() = default;

  Budget& budget() { return budget_; }

  Value string(std::string text) { return make_string(std::move(text), budget_); }

  Value list(std::vector<Value> items) { return make_list(std::move(items), budget_); }

  std::string str(const Value& value) { return to_str(value, budget_); }

 private:
  Budget budget_;
};

// Sorts arguments to parameters. Absent ones are null; the first n_required must be there.
template <size_t N>
std::array<const Value*, N> bind(std::string_view callee,
                                 const Arguments& arguments,
                                 const std::array<std::string_view, N>& names,
                                 size_t n_required);

// Errors of bind(), spelt once.
[[noreturn]] void fail_binding(std::string_view callee,
                               std::string_view problem,
                               std::string_view name);

template <size_t N>
std::array<const Value*, N> bind(std::string_view callee,
                                 const Arguments& arguments,
                                 const std::array<std::string_view, N>& names,
                                 size_t n_required) {
  std::array<const Value*, N> bound{};
  if (arguments.positional.size() > N) fail_binding(callee, "takes fewer arguments", "");
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    size_t at = 0;
    while (at < N && names[at] != *name) ++at;
    if (at == N) fail_binding(callee, "has no parameter", *name);
    if (bound[at] != nullptr) fail_binding(callee, "got twice the parameter", *name);
    bound[at] = &value;
  }
  for (size_t i = 0; i < n_required; ++i) {
    if (bound[i] == nullptr) fail_binding(callee, "misses the parameter", names[i]);
  }
  return bound;
}

}  // namespace cairn::jinja
