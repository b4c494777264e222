// Tests: what may stand behind `is`. Meaning of Jinja 3.1.
#include <fmt/core.h>

#include <unordered_map>

#include "text/jinja/builtins.h"
#include "text/jinja/operations.h"
#include "text/jinja/strings.h"

namespace cairn::jinja {

namespace {

const Value& argument(std::string_view name, const Arguments& arguments) {
  return *bind<1>(name, arguments, {"other"}, 1)[0];
}

// A test without arguments, of the value alone.
template <bool (*kTest)(const Value&)>
bool plain(Runtime&, const Value& input, const Arguments& arguments) {
  bind<0>("a test", arguments, {}, 0);
  return kTest(input);
}

template <CompareOp kOp>
bool comparison(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return compare(kOp, input, argument("a comparison", arguments), runtime);
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}

bool is_undefined(const Value& value) {
  return value.is_undefined();
}

bool is_none(const Value& value) {
  return value.is_none();
}

bool is_boolean(const Value& value) {
  return value.is(Kind::kBool);
}

bool is_true_constant(const Value& value) {
  return value.is(Kind::kBool) && value.boolean();
}

bool is_false_constant(const Value& value) {
  return value.is(Kind::kBool) && !value.boolean();
}

bool is_whole(const Value& value) {
  return value.is(Kind::kInt) || value.is(Kind::kBigInt);
}

bool is_float(const Value& value) {
  return value.is(Kind::kFloat);
}

bool is_number(const Value& value) {
  return value.is_number();
}

bool is_string(const Value& value) {
  return value.is_string();
}

bool is_mapping(const Value& value) {
  return value.is(Kind::kDict);
}

// What has a length and subscripts: undefined too, which is empty.
bool is_sequence(const Value& value) {
  return length(value).has_value();
}

bool is_iterable(const Value& value) {
  return length(value).has_value();
}

bool is_callable(const Value& value) {
  return value.is(Kind::kCallable);
}

bool is_lower_case(Runtime& runtime, const Value& input, const Arguments&) {
  return is_lower(runtime.str(input));
}

bool is_upper_case(Runtime& runtime, const Value& input, const Arguments&) {
  return is_upper(runtime.str(input));
}

bool is_odd(const Value& value) {
  return to_integer(value, "the tested value") % 2 != 0;
}

bool is_even(const Value& value) {
  return to_integer(value, "the tested value") % 2 == 0;
}

bool is_divisible(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Value rest = binary(Op::kModulo, input, argument("divisibleby", arguments), runtime);
  return rest.number() == 0;
}

bool is_in(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return contains(argument("in", arguments), input, runtime);
}

bool is_same(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Value& other = argument("sameas", arguments);
  if (input.kind() != other.kind()) return false;
  if (input.address() != nullptr) return input.address() == other.address();
  return equal(input, other, runtime.budget());
}

bool is_filter(Runtime&, const Value& input, const Arguments&) {
  return input.is_string() && find_filter(input.string()) != nullptr;
}

bool is_test(Runtime&, const Value& input, const Arguments&) {
  return input.is_string() && find_test(input.string()) != nullptr;
}

bool is_escaped(const Value& value) {
  return value.is_markup();
}

}  // namespace

TestFunction find_test(std::string_view name) {
  static const std::unordered_map<std::string_view, TestFunction> kTests = {
      {"!=", comparison<CompareOp::kNotEqual>},
      {"<", comparison<CompareOp::kLess>},
      {"<=", comparison<CompareOp::kLessEqual>},
      {"==", comparison<CompareOp::kEqual>},
      {">", comparison<CompareOp::kGreater>},
      {">=", comparison<CompareOp::kGreaterEqual>},
      {"boolean", plain<is_boolean>},
      {"callable", plain<is_callable>},
      {"defined", plain<is_defined>},
      {"divisibleby", is_divisible},
      {"eq", comparison<CompareOp::kEqual>},
      {"equalto", comparison<CompareOp::kEqual>},
      {"escaped", plain<is_escaped>},
      {"even", plain<is_even>},
      {"false", plain<is_false_constant>},
      {"filter", is_filter},
      {"float", plain<is_float>},
      {"ge", comparison<CompareOp::kGreaterEqual>},
      {"greaterthan", comparison<CompareOp::kGreater>},
      {"gt", comparison<CompareOp::kGreater>},
      {"in", is_in},
      {"integer", plain<is_whole>},
      {"iterable", plain<is_iterable>},
      {"le", comparison<CompareOp::kLessEqual>},
      {"lessthan", comparison<CompareOp::kLess>},
      {"lower", is_lower_case},
      {"lt", comparison<CompareOp::kLess>},
      {"mapping", plain<is_mapping>},
      {"ne", comparison<CompareOp::kNotEqual>},
      {"none", plain<is_none>},
      {"number", plain<is_number>},
      {"odd", plain<is_odd>},
      {"sameas", is_same},
      {"sequence", plain<is_sequence>},
      {"string", plain<is_string>},
      {"test", is_test},
      {"true", plain<is_true_constant>},
      {"undefined", plain<is_undefined>},
      {"upper", is_upper_case},
  };
  const auto found = kTests.find(name);
  return found == kTests.end() ? nullptr : found->second;
}

}  // namespace cairn::jinja
