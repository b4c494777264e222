#include "text/jinja/operations.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja/builtins.h"
#include "text/jinja/strings.h"
#include "text/utf8.h"

namespace cairn::jinja {

namespace {

void check_defined(const Value& value) {
  if (value.is_undefined()) fail(value.undefined().message());
}

[[noreturn]] void fail_operands(std::string_view op, const Value& left, const Value& right) {
  fail(fmt::format("TypeError: unsupported operand type(s) for {}: '{}' and '{}'",
                   op,
                   type_name(left),
                   type_name(right)));
}

[[noreturn]] void fail_overflow() {
  fail("an integer leaves the range of 64 bits");
}

std::string_view spelling(Op op) {
  switch (op) {
    case Op::kAdd:
    case Op::kPlus:
      return "+";
    case Op::kSubtract:
    case Op::kMinus:
      return "-";
    case Op::kMultiply:
      return "*";
    case Op::kDivide:
      return "/";
    case Op::kFloorDivide:
      return "//";
    case Op::kModulo:
      return "%";
    case Op::kPower:
      return "** or pow()";
  }
  return "?";
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) fail("ZeroDivisionError: integer division or modulo by zero");
  if (a == std::numeric_limits<int64_t>::min() && b == -1) fail_overflow();
  const int64_t quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

Value integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
  return Value(result);
}

Value integer_binary(Op op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Op::kAdd:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow();
      return Value(result);
    case Op::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow();
      return Value(result);
    case Op::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) fail_overflow();
      return Value(result);
    case Op::kDivide:
      if (b == 0) fail("ZeroDivisionError: division by zero");
      return Value(static_cast<double>(a) / static_cast<double>(b));
    case Op::kFloorDivide:
      return Value(floor_divide(a, b));
    case Op::kModulo:
      if (b == -1) return Value(int64_t{0});
      return Value(a - floor_divide(a, b) * b);
    case Op::kPower:
      return integer_power(a, b);
    default:
      return Value();
  }
}

Value float_binary(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return Value(a + b);
    case Op::kSubtract:
      return Value(a - b);
    case Op::kMultiply:
      return Value(a * b);
    case Op::kPower:
      return Value(std::pow(a, b));
    default:
      break;
  }
  if (b == 0) fail("ZeroDivisionError: float division by zero");
  if (op == Op::kDivide) return Value(a / b);
  if (op == Op::kFloorDivide) return Value(std::floor(a / b));
  const double remainder = std::fmod(a, b);
  return Value(remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder);
}

Value add_strings(const Value& left, const Value& right, Runtime& runtime) {
  // Markup escapes what it meets (markupsafe 2.1).
  const bool is_markup = left.is_markup() || right.is_markup();
  runtime.budget().check(left.string().size() + right.string().size());
  std::string text;
  for (const Value* part : {&left, &right}) {
    if (is_markup && !part->is_markup()) {
      text += escape_html(part->string());
    } else {
      text += part->string();
    }
  }
  return Value(String{make_counted_text(std::move(text), runtime.budget()), is_markup});
}

Value add_lists(const Value& left, const Value& right, Runtime& runtime) {
  runtime.budget().spend(left.items().size() + right.items().size());
  std::vector<Value> items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  return left.is_tuple() ? make_tuple(std::move(items), runtime.budget())
                         : runtime.list(std::move(items));
}

Value add_others(const Value& left, const Value& right, Runtime& runtime) {
  if (left.is_string()) {
    if (right.is_string()) return add_strings(left, right, runtime);
    fail(fmt::format("TypeError: can only concatenate str (not \"{}\") to str", type_name(right)));
  }
  if (left.is(Kind::kList)) {
    if (right.is(Kind::kList) && left.is_tuple() == right.is_tuple()) {
      return add_lists(left, right, runtime);
    }
    fail(fmt::format("TypeError: can only concatenate {0} (not \"{1}\") to {0}",
                     type_name(left),
                     type_name(right)));
  }
  fail_operands("+", left, right);
}

// A string or list, several times over.
Value repeat(const Value& value, int64_t times, Runtime& runtime) {
  const auto n = static_cast<uint64_t>(std::max<int64_t>(times, 0));
  const uint64_t n_bytes =
      value.is_string() ? value.string().size() : value.items().size() * sizeof(Value);
  uint64_t total = 0;
  if (__builtin_mul_overflow(n, n_bytes, &total)) total = std::numeric_limits<uint64_t>::max();
  runtime.budget().check(total);
  if (value.is_string()) {
    std::string text;
    if (n_bytes == 1) {
      text.assign(static_cast<size_t>(n), value.string()[0]);
    } else {
      text.reserve(static_cast<size_t>(total));
      for (uint64_t i = 0; n_bytes > 0 && i < n; ++i) text += value.string();
    }
    return Value(String{make_counted_text(std::move(text), runtime.budget()), value.is_markup()});
  }
  std::vector<Value> items;
  for (uint64_t i = 0; n_bytes > 0 && i < n; ++i) {
    items.insert(items.end(), value.items().begin(), value.items().end());
  }
  return value.is_tuple() ? make_tuple(std::move(items), runtime.budget())
                          : runtime.list(std::move(items));
}

bool can_repeat(const Value& value) {
  return value.is_string() || value.is(Kind::kList);
}

Value missing_element(const Value& object, const Value& key, Runtime& runtime) {
  const Kind owner = object.kind();
  if (key.is_string()) {
    return Value(Undefined{key.text(), Undefined::Reason::kAttribute, owner});
  }
  return Value(Undefined{make_text(runtime.str(key)), Undefined::Reason::kElement, owner});
}

// The character at a position that may count from the end.
Value character_at(const Value& object, int64_t idx, Runtime& runtime) {
  const std::string_view text = object.string();
  runtime.budget().spend(1 + text.size() / 16);
  if (idx < 0) idx += static_cast<int64_t>(utf8::length(text));
  if (idx < 0) return Value();
  const size_t begin = byte_offset(text, static_cast<size_t>(idx));
  if (begin >= text.size()) return Value();
  return runtime.string(std::string(text.substr(begin, utf8::decode(text.substr(begin)).n_bytes)));
}

Value item_at(const Value& object, int64_t idx) {
  const auto& items = object.items();
  const auto n = static_cast<int64_t>(items.size());
  if (idx < 0) idx += n;
  return idx >= 0 && idx < n ? items[static_cast<size_t>(idx)] : Value();
}

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t step = 1;
};

int64_t bound_or(const Value* value, int64_t otherwise) {
  if (value == nullptr || value->is_none()) return otherwise;
  return to_integer(*value, "a slice index");
}

// Python's slice.indices(n).
Range resolve(const Value* begin, const Value* end, const Value* step, int64_t n) {
  Range range;
  range.step = bound_or(step, 1);
  if (range.step == 0) fail("ValueError: slice step cannot be zero");
  const bool is_forward = range.step > 0;
  const int64_t lowest = is_forward ? 0 : -1;
  const int64_t highest = is_forward ? n : n - 1;
  const auto clamp = [&](const Value* bound, int64_t otherwise) {
    int64_t idx = bound_or(bound, otherwise);
    if (bound != nullptr && !bound->is_none() && idx < 0) idx = idx < -n ? lowest : idx + n;
    return std::clamp(idx, lowest, highest);
  };
  range.begin = clamp(begin, is_forward ? 0 : n - 1);
  range.end = clamp(end, is_forward ? n : -1);
  return range;
}

template <typename Visit>
void walk(const Range& range, const Visit& visit) {
  for (int64_t i = range.begin; range.step > 0 ? i < range.end : i > range.end;) {
    visit(static_cast<size_t>(i));
    if (__builtin_add_overflow(i, range.step, &i)) return;
  }
}

Value slice_string(std::string_view text,
                   const Value* begin,
                   const Value* end,
                   const Value* step,
                   Runtime& runtime) {
  runtime.budget().spend(1 + text.size() / 16);
  const Range range = resolve(begin, end, step, static_cast<int64_t>(utf8::length(text)));
  std::string out;
  if (range.step == 1) {
    const size_t first = byte_offset(text, static_cast<size_t>(range.begin));
    const auto n = static_cast<size_t>(std::max<int64_t>(range.end - range.begin, 0));
    out = text.substr(first, byte_offset(text.substr(first), n));
  } else {
    runtime.budget().check(text.size() * sizeof(std::string_view));
    const auto all = characters(text);
    walk(range, [&](size_t i) { out += all[i]; });
  }
  return runtime.string(std::move(out));
}

}  // namespace

void fail_binding(std::string_view callee, std::string_view problem, std::string_view name) {
  fail(fmt::format("TypeError: {} {}{}{}", callee, problem, name.empty() ? "" : " ", name));
}

int64_t to_integer(const Value& value, std::string_view what) {
  check_defined(value);
  if (!value.is_integer()) {
    fail(fmt::format("TypeError: {} must be an integer, not {}", what, type_name(value)));
  }
  return value.integer();
}

std::string_view to_text(const Value& value, std::string_view what) {
  check_defined(value);
  if (!value.is_string()) {
    fail(fmt::format("TypeError: {} must be a string, not {}", what, type_name(value)));
  }
  return value.string();
}

Value binary(Op op, const Value& left, const Value& right, Runtime& runtime) {
  check_defined(left);
  check_defined(right);
  if (left.is_integer() && right.is_integer()) {
    return integer_binary(op, left.integer(), right.integer());
  }
  if (left.is_number() && right.is_number()) {
    if (!left.is(Kind::kFloat) && !right.is(Kind::kFloat)) fail_overflow();  // a big integer
    return float_binary(op, left.number(), right.number());
  }
  if (op == Op::kAdd) return add_others(left, right, runtime);
  if (op == Op::kMultiply) {
    if (can_repeat(left) && right.is_integer()) return repeat(left, right.integer(), runtime);
    if (can_repeat(right) && left.is_integer()) return repeat(right, left.integer(), runtime);
  }
  if (op == Op::kModulo && left.is_string()) fail("formatting a string with % is not supported");
  fail_operands(spelling(op), left, right);
}

Value unary(Op op, const Value& operand) {
  check_defined(operand);
  if (operand.is(Kind::kFloat))
    return Value(op == Op::kMinus ? -operand.number() : operand.number());
  if (!operand.is_integer()) {
    fail(fmt::format(
        "TypeError: bad operand type for unary {}: '{}'", spelling(op), type_name(operand)));
  }
  if (op == Op::kPlus) return Value(operand.integer());
  return integer_binary(Op::kSubtract, 0, operand.integer());
}

bool compare(CompareOp op, const Value& left, const Value& right, Runtime& runtime) {
  Budget& budget = runtime.budget();
  switch (op) {
    case CompareOp::kEqual:
      return equal(left, right, budget);
    case CompareOp::kNotEqual:
      return !equal(left, right, budget);
    case CompareOp::kLess:
      return less(left, right, budget);
    case CompareOp::kGreater:
      return less(right, left, budget);
    case CompareOp::kLessEqual:
      return less(left, right, budget) || equal(left, right, budget);
    case CompareOp::kGreaterEqual:
      return less(right, left, budget) || equal(left, right, budget);
    case CompareOp::kIn:
      return contains(right, left, runtime);
    case CompareOp::kNotIn:
      return !contains(right, left, runtime);
  }
  return false;
}

bool contains(const Value& container, const Value& item, Runtime& runtime) {
  Budget& budget = runtime.budget();
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString:
      if (!item.is_string()) {
        check_defined(item);
        fail(fmt::format("TypeError: 'in <string>' requires string as left operand, not {}",
                         type_name(item)));
      }
      budget.spend(1 + container.string().size() / 64);
      return container.string().find(item.string()) != std::string_view::npos;
    case Kind::kList:
      return std::any_of(container.items().begin(),
                         container.items().end(),
                         [&](const Value& value) { return equal(value, item, budget); });
    case Kind::kDict:
      check_hashable(item);
      return container.dict().find(item, budget) != nullptr;
    default:
      fail(fmt::format("TypeError: argument of type '{}' is not iterable", type_name(container)));
  }
}

Value attribute(const Value& object, const Text& name, Runtime& runtime) {
  check_defined(object);
  switch (find_method(object, *name)) {
    case MethodAccess::kAllowed: {
      auto method = std::make_shared<Callable>();
      method->type = Callable::Type::kMethod;
      method->self = object;
      method->name = name;
      return Value(std::shared_ptr<const Callable>(std::move(method)));
    }
    case MethodAccess::kUnsafe:
      return Value(Undefined{name, Undefined::Reason::kUnsafe, object.kind()});
    case MethodAccess::kNone:
      break;
  }
  if (object.is(Kind::kDict)) {
    if (const Value* value = object.dict().find(*name, runtime.budget())) return *value;
  } else if (object.is(Kind::kNamespace)) {
    runtime.budget().spend(object.scope().fields.size() / 16);
    if (const Value* value = object.scope().find(*name)) return *value;
  } else if (object.is(Kind::kLoop)) {
    if (auto value = loop_attribute(object.loop(), *name)) return *std::move(value);
  }
  return Value(Undefined{name, Undefined::Reason::kAttribute, object.kind()});
}

Value element(const Value& object, const Value& key, Runtime& runtime) {
  check_defined(object);
  if (object.is(Kind::kDict)) {
    if (const Value* value = object.dict().find(key, runtime.budget())) return *value;
  } else if (object.is(Kind::kList) && key.is_integer()) {
    Value value = item_at(object, key.integer());
    return value.is_undefined() ? missing_element(object, key, runtime) : value;
  } else if (object.is_string() && key.is_integer()) {
    Value value = character_at(object, key.integer(), runtime);
    return value.is_undefined() ? missing_element(object, key, runtime) : value;
  }
  if (!key.is_string()) return missing_element(object, key, runtime);
  return attribute(object, key.text(), runtime);
}

Value slice(const Value& object,
            const Value* begin,
            const Value* end,
            const Value* step,
            Runtime& runtime) {
  check_defined(object);
  if (object.is_string()) return slice_string(object.string(), begin, end, step, runtime);
  if (!object.is(Kind::kList)) {
    fail(fmt::format("TypeError: '{}' object cannot be sliced", type_name(object)));
  }
  const auto& items = object.items();
  std::vector<Value> out;
  walk(resolve(begin, end, step, static_cast<int64_t>(items.size())),
       [&](size_t i) { out.push_back(items[i]); });
  runtime.budget().spend(out.size());
  return object.is_tuple() ? make_tuple(std::move(out), runtime.budget())
                           : runtime.list(std::move(out));
}

std::vector<Value> iterate(const Value& value, Runtime& runtime) {
  std::vector<Value> out;
  switch (value.kind()) {
    case Kind::kUndefined:
      break;
    case Kind::kList:
      out = value.items();
      break;
    case Kind::kDict:
      for (const auto& [key, item] : value.dict().items) out.push_back(key);
      break;
    case Kind::kString:
      runtime.budget().check(value.string().size() * sizeof(std::string_view));
      for (const std::string_view c : characters(value.string())) {
        out.push_back(runtime.string(std::string(c)));
      }
      break;
    default:
      fail(fmt::format("TypeError: '{}' object is not iterable", type_name(value)));
  }
  runtime.budget().spend(out.size() / 8);
  runtime.budget().check(out.size() * sizeof(Value));
  return out;
}

std::optional<size_t> length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return utf8::length(value.string());
    case Kind::kList:
      return value.items().size();
    case Kind::kDict:
      return value.dict().items.size();
    default:
      return std::nullopt;
  }
}

}  // namespace cairn::jinja
