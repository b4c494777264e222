// Operators, subscripts and attributes on values, with Python's meaning and Python's refusals.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace cairn::jinja {

Value binary(Op op, const Value& left, const Value& right, Runtime& runtime);
Value unary(Op op, const Value& operand);
bool compare(CompareOp op, const Value& left, const Value& right, Runtime& runtime);
// `item in container`.
bool contains(const Value& container, const Value& item, Runtime& runtime);

// object.name: a method first, then a key or field; undefined when there is none.
Value attribute(const Value& object, const Text& name, Runtime& runtime);
// object[key]: a key or position first, then an attribute.
Value element(const Value& object, const Value& key, Runtime& runtime);
// object[begin:end:step]; absent bounds are null.
Value slice(
    const Value& object, const Value* begin, const Value* end, const Value* step, Runtime& runtime);

// What a for loop walks over. Errors: TypeError for what cannot be iterated.
std::vector<Value> iterate(const Value& value, Runtime& runtime);
// len(); nothing for what has none.
std::optional<size_t> length(const Value& value);

// The integer of a bool or int; `what` names it in the error otherwise.
int64_t to_integer(const Value& value, std::string_view what);
// Text of a string value. Errors: TypeError naming `what`.
std::string_view to_text(const Value& value, std::string_view what);

}  // namespace cairn::jinja
