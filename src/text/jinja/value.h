// Values of the template language: Python's, as far as chat templates can see them.
//
// Strings, lists and mappings are immutable and shared, so copying a value is cheap; only
// namespaces change. Mappings keep the order of their keys (DESIGN: tools are printed as the client
// wrote them). Source: the Jinja 3.1 and Python 3.11 documentation. Thread: a value belongs to one
// rendering.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json_fwd.h"
#include "text/jinja/budget.h"

namespace cairn::jinja {

struct List;
struct Dict;
struct Namespace;
struct Loop;
struct Callable;

using Text = std::shared_ptr<const std::string>;

inline Text make_text(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kBigInt,  // above 2^63 - 1: printed as it came, no arithmetic
  kFloat,
  kString,
  kList,  // and tuples
  kDict,
  kNamespace,
  kLoop,
  kCallable,
};

// What a name or attribute that is missing evaluates to. Testing and printing it is fine, using it
// is an error; then it says what was missing.
struct Undefined {
  enum class Reason : uint8_t { kVariable, kAttribute, kElement, kUnsafe, kNoValue };
  Text name;
  Reason reason = Reason::kNoValue;
  Kind owner = Kind::kNone;

  std::string message() const;
};

struct String {
  Text text;
  bool is_markup = false;  // from |safe: what is added to it gets HTML-escaped, as in Jinja
};

class Value {
 public:
  Value() : state_(Undefined{}) {}

  explicit Value(Undefined undefined) : state_(std::move(undefined)) {}

  explicit Value(bool flag) : state_(flag) {}

  explicit Value(int64_t number) : state_(number) {}

  explicit Value(double number) : state_(number) {}

  explicit Value(Text text) : state_(String{std::move(text), false}) {}

  explicit Value(String text) : state_(std::move(text)) {}

  explicit Value(std::shared_ptr<const List> list) : state_(std::move(list)) {}

  explicit Value(std::shared_ptr<const Dict> dict) : state_(std::move(dict)) {}

  explicit Value(std::shared_ptr<Namespace> scope) : state_(std::move(scope)) {}

  explicit Value(std::shared_ptr<Loop> loop) : state_(std::move(loop)) {}

  explicit Value(std::shared_ptr<const Callable> callable) : state_(std::move(callable)) {}

  static Value none() { return Value(State(std::monostate{})); }

  static Value big(uint64_t number);  // an int when it fits

  static Value size(size_t n) { return Value(static_cast<int64_t>(n)); }

  Kind kind() const { return static_cast<Kind>(state_.index()); }

  bool is(Kind kind) const { return this->kind() == kind; }

  bool is_undefined() const { return is(Kind::kUndefined); }

  bool is_none() const { return is(Kind::kNone); }

  bool is_string() const { return is(Kind::kString); }

  bool is_markup() const { return is_string() && std::get<String>(state_).is_markup; }

  bool is_number() const;   // bool, int, big int or float
  bool is_integer() const;  // bool or int
  bool is_tuple() const;

  // Each requires the kind that it names.
  const Undefined& undefined() const { return std::get<Undefined>(state_); }

  bool boolean() const { return std::get<bool>(state_); }

  int64_t integer() const;  // bool or int

  uint64_t big_integer() const { return std::get<uint64_t>(state_); }

  double number() const;  // any number

  const Text& text() const { return std::get<String>(state_).text; }

  std::string_view string() const { return *text(); }

  const List& list() const { return *std::get<std::shared_ptr<const List>>(state_); }

  const std::vector<Value>& items() const;

  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(state_); }

  Namespace& scope() const { return *shared_scope(); }

  const std::shared_ptr<Namespace>& shared_scope() const {
    return std::get<std::shared_ptr<Namespace>>(state_);
  }

  const Loop& loop() const { return *std::get<std::shared_ptr<Loop>>(state_); }

  const Callable& callable() const { return *std::get<std::shared_ptr<const Callable>>(state_); }

  // Identity of what is shared, for `is sameas` and for things without a value of their own.
  const void* address() const;

 private:
  // In the order of Kind.
  using State = std::variant<Undefined,
                             std::monostate,
                             bool,
                             int64_t,
                             uint64_t,
                             double,
                             String,
                             std::shared_ptr<const List>,
                             std::shared_ptr<const Dict>,
                             std::shared_ptr<Namespace>,
                             std::shared_ptr<Loop>,
                             std::shared_ptr<const Callable>>;

  explicit Value(State state) : state_(std::move(state)) {}

  State state_;
};

// `depth` bounds recursion over nested values: containers hold only values made before them, so it
// is known when they are made.
struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  uint32_t depth = 1;
  MemoryCharge charge;
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;  // keys are hashable and differ
  uint32_t depth = 1;
  MemoryCharge charge;

  const Value* find(const Value& key, Budget& budget) const;
  const Value* find(std::string_view key, Budget& budget) const;
};

struct Namespace {  // charged as it grows, kept until the rendering ends
  std::vector<std::pair<Text, Value>> fields;

  const Value* find(std::string_view name) const;
  // True when the field is new.
  bool set(const Text& name, Value value);
};

struct Loop {
  std::shared_ptr<const std::vector<Value>> items;
  size_t idx = 0;
};

// Each charges the memory for as long as the value lives, and refuses nesting past 300 levels.
Text make_counted_text(std::string text, Budget& budget);
Value make_list(std::vector<Value> items, Budget& budget);
Value make_tuple(std::vector<Value> items, Budget& budget);
Value make_dict(std::vector<std::pair<Value, Value>> items, Budget& budget);
Value make_string(std::string text, Budget& budget);
// Copies the whole tree.
Value from_json(const Json& json, Budget& budget);

bool is_true(const Value& value);
// Python's ==.
bool equal(const Value& a, const Value& b, Budget& budget);
// Python's a < b. Errors: kinds that have no order.
bool less(const Value& a, const Value& b, Budget& budget);
// Fails for values that cannot be keys (lists, mappings).
void check_hashable(const Value& value);

// "str", "NoneType", ... as Python's messages name them.
std::string_view type_name(const Value& value);
std::string_view type_name(Kind kind);

// Appends str(value) and repr(value).
void append_str(std::string& out, const Value& value, Budget& budget);
void append_repr(std::string& out, const Value& value, Budget& budget);
std::string to_str(const Value& value, Budget& budget);
// Shortest digits that read back, spelt as Python does: 1.0, 1e-07, 1e+22, inf.
std::string float_repr(double number);

}  // namespace cairn::jinja
