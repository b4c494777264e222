#include "text/jinja/value.h"

#include <fmt/core.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/json.h"
#include "text/utf8.h"

namespace cairn::jinja {

namespace {

// JSON of requests nests at most 256 deep; templates add a few levels.
constexpr uint32_t kValueDepthMax = 300;

uint32_t depth_of(const Value& value) {
  if (value.is(Kind::kList)) return value.list().depth;
  if (value.is(Kind::kDict)) return value.dict().depth;
  return 0;
}

void check_depth(uint32_t depth) {
  if (depth > kValueDepthMax) fail("a list or mapping nests too deeply");
}

Value make_sequence(std::vector<Value> items, bool is_tuple, Budget& budget) {
  budget.spend(1 + items.size() / 8);
  auto list = std::make_shared<List>();
  list->charge = MemoryCharge(budget, sizeof(List) + items.size() * sizeof(Value));
  for (const Value& item : items) list->depth = std::max(list->depth, depth_of(item) + 1);
  check_depth(list->depth);
  list->items = std::move(items);
  list->is_tuple = is_tuple;
  return Value(std::shared_ptr<const List>(std::move(list)));
}

Value convert(const Json& json, uint32_t depth, Budget& budget) {
  check_depth(depth);
  budget.spend();
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      return Value::big(json.get<uint64_t>());
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return make_string(json.get_ref<const std::string&>(), budget);
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(convert(item, depth + 1, budget));
      return make_list(std::move(items), budget);
    }
    case Json::value_t::object: {
      std::vector<std::pair<Value, Value>> items;
      items.reserve(json.size());
      for (const auto& [key, item] : json.items()) {
        items.emplace_back(make_string(key, budget), convert(item, depth + 1, budget));
      }
      return make_dict(std::move(items), budget);
    }
    default:
      return Value::none();
  }
}

// str.isprintable(): everything but separators other than the space, and the C categories.
bool is_printable(char32_t code) {
  if (code == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

void append_string_repr(std::string& out, std::string_view text) {
  const bool uses_double =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = uses_double ? '"' : '\'';
  out += quote;
  for (size_t pos = 0; pos < text.size();) {
    const utf8::Decoded c = utf8::decode(text.substr(pos));
    const std::string_view raw = text.substr(pos, c.n_bytes);
    pos += c.n_bytes;
    if (c.code == static_cast<unsigned char>(quote) || c.code == '\\') {
      out += '\\';
      out += raw;
    } else if (c.code == '\n') {
      out += "\\n";
    } else if (c.code == '\r') {
      out += "\\r";
    } else if (c.code == '\t') {
      out += "\\t";
    } else if (is_printable(c.code)) {
      out += raw;
    } else if (c.code < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c.code));
    } else if (c.code < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c.code));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c.code));
    }
  }
  out += quote;
}

// Charges what `write` appends.
template <typename Write>
void charged(std::string& out, Budget& budget, const Write& write) {
  const size_t before = out.size();
  write();
  budget.spend_text(out.size() - before);
  budget.check(out.size());
}

void append_list_repr(std::string& out, const List& list, Budget& budget) {
  out += list.is_tuple ? '(' : '[';
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(out, list.items[i], budget);
  }
  if (list.is_tuple && list.items.size() == 1) out += ',';
  out += list.is_tuple ? ')' : ']';
}

void append_dict_repr(std::string& out, const Dict& dict, Budget& budget) {
  out += '{';
  for (size_t i = 0; i < dict.items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(out, dict.items[i].first, budget);
    out += ": ";
    append_repr(out, dict.items[i].second, budget);
  }
  out += '}';
}

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is(Kind::kBigInt) && b.is(Kind::kBigInt)) return a.big_integer() == b.big_integer();
  if (a.is_integer() && b.is_integer()) return a.integer() == b.integer();
  return a.number() == b.number();
}

bool equal_lists(const List& a, const List& b, Budget& budget) {
  if (a.is_tuple != b.is_tuple || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(a.items[i], b.items[i], budget)) return false;
  }
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const Value* other = b.find(key, budget);
    if (other == nullptr || !equal(value, *other, budget)) return false;
  }
  return true;
}

}  // namespace

std::string Undefined::message() const {
  const std::string_view owner_name = owner == Kind::kNone ? "None" : type_name(owner);
  const std::string_view suffix = owner == Kind::kNone ? "" : " object";
  switch (reason) {
    case Reason::kVariable:
      return fmt::format("'{}' is undefined", *name);
    case Reason::kAttribute:
      return fmt::format("'{}{}' has no attribute '{}'", owner_name, suffix, *name);
    case Reason::kElement:
      return fmt::format("{}{} has no element {}", owner_name, suffix, *name);
    case Reason::kUnsafe:
      return fmt::format("access to attribute '{}' of '{}' object is unsafe.", *name, owner_name);
    case Reason::kNoValue:
      break;
  }
  return "a value is undefined";
}

Value Value::big(uint64_t number) {
  if (number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Value(static_cast<int64_t>(number));
  }
  return Value(State(number));
}

bool Value::is_number() const {
  return is(Kind::kBool) || is(Kind::kInt) || is(Kind::kBigInt) || is(Kind::kFloat);
}

bool Value::is_integer() const {
  return is(Kind::kBool) || is(Kind::kInt);
}

bool Value::is_tuple() const {
  return is(Kind::kList) && list().is_tuple;
}

int64_t Value::integer() const {
  return is(Kind::kBool) ? int64_t{boolean()} : std::get<int64_t>(state_);
}

double Value::number() const {
  if (is(Kind::kFloat)) return std::get<double>(state_);
  if (is(Kind::kBigInt)) return static_cast<double>(big_integer());
  return static_cast<double>(integer());
}

const std::vector<Value>& Value::items() const {
  return list().items;
}

const void* Value::address() const {
  switch (kind()) {
    case Kind::kString:
      return text().get();
    case Kind::kList:
      return &list();
    case Kind::kDict:
      return &dict();
    case Kind::kNamespace:
      return &scope();
    case Kind::kLoop:
      return &loop();
    case Kind::kCallable:
      return &callable();
    default:
      return nullptr;
  }
}

const Value* Dict::find(const Value& key, Budget& budget) const {
  if (key.is_string()) return find(key.string(), budget);
  budget.spend(1 + items.size());
  for (const auto& [known, value] : items) {
    if (!known.is_string() && equal(known, key, budget)) return &value;
  }
  return nullptr;
}

const Value* Dict::find(std::string_view key, Budget& budget) const {
  budget.spend(1 + items.size() / 16);
  for (const auto& [known, value] : items) {
    if (known.is_string() && known.string() == key) return &value;
  }
  return nullptr;
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [known, value] : fields) {
    if (*known == name) return &value;
  }
  return nullptr;
}

bool Namespace::set(const Text& name, Value value) {
  for (auto& [known, old] : fields) {
    if (*known == *name) {
      old = std::move(value);
      return false;
    }
  }
  fields.emplace_back(name, std::move(value));
  return true;
}

Value make_list(std::vector<Value> items, Budget& budget) {
  return make_sequence(std::move(items), false, budget);
}

Value make_tuple(std::vector<Value> items, Budget& budget) {
  return make_sequence(std::move(items), true, budget);
}

Value make_dict(std::vector<std::pair<Value, Value>> items, Budget& budget) {
  budget.spend(1 + items.size() / 4);
  auto dict = std::make_shared<Dict>();
  dict->charge = MemoryCharge(budget, sizeof(Dict) + items.size() * 2 * sizeof(Value));
  for (const auto& [key, value] : items) {
    dict->depth = std::max({dict->depth, depth_of(key) + 1, depth_of(value) + 1});
  }
  check_depth(dict->depth);
  dict->items = std::move(items);
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

Text make_counted_text(std::string text, Budget& budget) {
  struct Counted {
    std::string text;
    MemoryCharge charge;
  };

  budget.spend_text(text.size());
  MemoryCharge charge(budget, sizeof(Counted) + text.size());
  const auto counted = std::make_shared<const Counted>(Counted{std::move(text), std::move(charge)});
  return {counted, &counted->text};
}

Value make_string(std::string text, Budget& budget) {
  return Value(make_counted_text(std::move(text), budget));
}

Value from_json(const Json& json, Budget& budget) {
  return convert(json, 1, budget);
}

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.number() != 0;
    case Kind::kString:
      return !value.string().empty();
    case Kind::kList:
      return !value.items().empty();
    case Kind::kDict:
      return !value.dict().items.empty();
    default:
      return true;
  }
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.spend();
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kString:
      budget.spend(std::min(a.string().size(), b.string().size()) / 64);
      return a.string() == b.string();
    case Kind::kList:
      return equal_lists(a.list(), b.list(), budget);
    case Kind::kDict:
      return equal_dicts(a.dict(), b.dict(), budget);
    case Kind::kNamespace:
    case Kind::kLoop:
    case Kind::kCallable:
      return a.address() == b.address();
    default:
      return true;  // none and undefined
  }
}

bool less(const Value& a, const Value& b, Budget& budget) {
  budget.spend();
  if (a.is_undefined()) fail(a.undefined().message());
  if (b.is_undefined()) fail(b.undefined().message());
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return a.integer() < b.integer();
    return a.number() < b.number();
  }
  if (a.is_string() && b.is_string()) {
    // UTF-8 sorts as its code points do.
    budget.spend(std::min(a.string().size(), b.string().size()) / 64);
    return a.string() < b.string();
  }
  if (a.is(Kind::kList) && b.is(Kind::kList) && a.is_tuple() == b.is_tuple()) {
    const auto& left = a.items();
    const auto& right = b.items();
    for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
      if (!equal(left[i], right[i], budget)) return less(left[i], right[i], budget);
    }
    return left.size() < right.size();
  }
  fail(fmt::format("TypeError: '<' not supported between instances of '{}' and '{}'",
                   type_name(a),
                   type_name(b)));
}

void check_hashable(const Value& value) {
  if (value.is_tuple()) {
    for (const Value& item : value.items()) check_hashable(item);
    return;
  }
  if (value.is(Kind::kList) || value.is(Kind::kDict)) {
    fail(fmt::format("TypeError: unhashable type: '{}'", type_name(value)));
  }
}

std::string_view type_name(Kind kind) {
  constexpr std::array<std::string_view, 12> kNames = {"Undefined",
                                                       "NoneType",
                                                       "bool",
                                                       "int",
                                                       "int",
                                                       "float",
                                                       "str",
                                                       "list",
                                                       "dict",
                                                       "Namespace",
                                                       "LoopContext",
                                                       "function"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view type_name(const Value& value) {
  return value.is_tuple() ? "tuple" : type_name(value.kind());
}

std::string float_repr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(
      buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<size_t>(end.ptr - buffer.data()));
  const size_t e = text.find('e');
  int exponent = 0;
  const bool is_negative_exponent = text[e + 1] == '-';
  std::from_chars(text.data() + e + 2, text.data() + text.size(), exponent);
  if (is_negative_exponent) exponent = -exponent;
  // Python switches to exponents below 1e-4 and from 1e16.
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto fixed =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::fixed);
  std::string out(buffer.data(), static_cast<size_t>(fixed.ptr - buffer.data()));
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

void append_str(std::string& out, const Value& value, Budget& budget) {
  if (!value.is_string() && !value.is_undefined()) return append_repr(out, value, budget);
  budget.spend();
  if (value.is_string()) charged(out, budget, [&] { out += value.string(); });
}

void append_repr(std::string& out, const Value& value, Budget& budget) {
  budget.spend();
  switch (value.kind()) {
    case Kind::kUndefined:
      out += "Undefined";
      break;
    case Kind::kNone:
      out += "None";
      break;
    case Kind::kBool:
      out += value.boolean() ? "True" : "False";
      break;
    case Kind::kInt:
      charged(out, budget, [&] { out += std::to_string(value.integer()); });
      break;
    case Kind::kBigInt:
      charged(out, budget, [&] { out += std::to_string(value.big_integer()); });
      break;
    case Kind::kFloat:
      charged(out, budget, [&] { out += float_repr(value.number()); });
      break;
    case Kind::kString:
      charged(out, budget, [&] { append_string_repr(out, value.string()); });
      break;
    case Kind::kList:
      append_list_repr(out, value.list(), budget);
      break;
    case Kind::kDict:
      append_dict_repr(out, value.dict(), budget);
      break;
    case Kind::kNamespace:
      out += "<Namespace>";
      break;
    case Kind::kLoop:
      out += "<LoopContext>";
      break;
    case Kind::kCallable:
      out += "<function>";
      break;
  }
}

std::string to_str(const Value& value, Budget& budget) {
  std::string out;
  append_str(out, value, budget);
  return out;
}

}  // namespace cairn::jinja
