// Methods of strings, lists and mappings: Python's, as far as they change nothing.
#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "text/jinja/builtins.h"
#include "text/jinja/operations.h"
#include "text/jinja/strings.h"
#include "text/utf8.h"

namespace cairn::jinja {

namespace {

using Method = Value (*)(Runtime&, const Value& self, const Arguments&);
using MethodTable = std::unordered_map<std::string_view, Method>;

int64_t integer_or(const Value* value, int64_t otherwise, std::string_view what) {
  return value == nullptr ? otherwise : to_integer(*value, what);
}

Value strings(const std::vector<std::string_view>& parts, Runtime& runtime) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.push_back(runtime.string(std::string(part)));
  return runtime.list(std::move(items));
}

// Work and memory of a pass over the text that may cut it into n parts.
void charge(Runtime& runtime, std::string_view text, size_t n_parts) {
  runtime.budget().spend(1 + text.size() / 64 + n_parts / 4);
  runtime.budget().check(n_parts * sizeof(std::string_view));
}

// --- str ---

template <Side kSide>
Value str_strip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto [chars] = bind<1>("strip", arguments, {"chars"}, 0);
  std::optional<std::string_view> set;
  if (chars != nullptr && !chars->is_none()) set = to_text(*chars, "strip's characters");
  charge(runtime, self.string(), 0);
  return runtime.string(std::string(strip(self.string(), kSide, set)));
}

template <bool kFromRight>
Value str_split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto [sep, maxsplit] = bind<2>("split", arguments, {"sep", "maxsplit"}, 0);
  const int64_t n_max = integer_or(maxsplit, -1, "split's limit");
  const std::string_view text = self.string();
  if (sep == nullptr || sep->is_none()) {
    if (kFromRight && n_max >= 0) fail("str.rsplit() with a limit needs a separator here");
    charge(runtime, text, text.size() / 2 + 1);
    return strings(split_space(text, n_max), runtime);
  }
  const std::string_view separator = to_text(*sep, "split's separator");
  if (separator.empty()) fail("ValueError: empty separator");
  charge(runtime, text, count(text, separator) + 1);
  return strings(kFromRight ? rsplit(text, separator, n_max) : split(text, separator, n_max),
                 runtime);
}

Value str_splitlines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto [keepends] = bind<1>("splitlines", arguments, {"keepends"}, 0);
  charge(runtime, self.string(), self.string().size());
  return strings(split_lines(self.string(), keepends != nullptr && is_true(*keepends)), runtime);
}

template <bool kFromRight>
Value str_partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto [sep] = bind<1>("partition", arguments, {"sep"}, 1);
  const std::string_view separator = to_text(*sep, "partition's separator");
  if (separator.empty()) fail("ValueError: empty separator");
  const std::string_view text = self.string();
  charge(runtime, text, 0);
  const size_t at = kFromRight ? text.rfind(separator) : text.find(separator);
  std::vector<Value> parts(3, runtime.string(""));
  if (at == std::string_view::npos) {
    parts[kFromRight ? 2 : 0] = self;
  } else {
    parts[0] = runtime.string(std::string(text.substr(0, at)));
    parts[1] = *sep;
    parts[2] = runtime.string(std::string(text.substr(at + separator.size())));
  }
  return make_tuple(std::move(parts), runtime.budget());
}

Value str_replace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto [old_text, new_text, limit] =
      bind<3>("replace", arguments, {"old", "new", "count"}, 2);
  const std::string_view text = self.string();
  const std::string_view from = to_text(*old_text, "replace's old text");
  const std::string_view to = to_text(*new_text, "replace's new text");
  int64_t n_max = -1;
  if (limit != nullptr && !limit->is_none()) n_max = to_integer(*limit, "replace's count");
  charge(runtime, text, 0);
  runtime.budget().check(count(text, from) * to.size());
  return runtime.string(replace(text, from, to, n_max));
}

// startswith and endswith: a string or a tuple of strings, between optional positions.
template <bool kAtEnd>
Value str_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto [affix, begin, end] = bind<3>("startswith", arguments, {"prefix", "start", "end"}, 1);
  Value sliced;
  std::string_view text = self.string();
  if (begin != nullptr || end != nullptr) {
    sliced = slice(self, begin, end, nullptr, runtime);
    text = sliced.string();
  }
  const auto fits = [text](std::string_view part) {
    return kAtEnd ? text.ends_with(part) : text.starts_with(part);
  };
  if (!affix->is_tuple())
    return Value(fits(to_text(*affix, "startswith's or endswith's argument")));
  return Value(std::any_of(affix->items().begin(), affix->items().end(), [&](const Value& item) {
    return fits(to_text(item, "startswith's or endswith's argument"));
  }));
}

template <bool kFromRight, bool kMustExist>
Value str_find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto [sub] = bind<1>("find", arguments, {"sub"}, 1);
  const std::string_view text = self.string();
  const std::string_view part = to_text(*sub, "find's text");
  charge(runtime, text, 0);
  const size_t at = kFromRight ? text.rfind(part) : text.find(part);
  if (at != std::string_view::npos) return Value::size(utf8::length(text.substr(0, at)));
  if (kMustExist) fail("ValueError: substring not found");
  return Value(int64_t{-1});
}

Value str_count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto [sub] = bind<1>("count", arguments, {"sub"}, 1);
  charge(runtime, self.string(), 0);
  return Value::size(count(self.string(), to_text(*sub, "count's text")));
}

Value str_join(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto [iterable] = bind<1>("join", arguments, {"iterable"}, 1);
  std::string out;
  bool is_first = true;
  for (const Value& item : iterate(*iterable, runtime)) {
    const std::string_view text = to_text(item, "each item of join");
    runtime.budget().spend_text(self.string().size() + text.size());
    runtime.budget().check(out.size() + self.string().size() + text.size());
    if (!is_first) out += self.string();
    is_first = false;
    out += text;
  }
  return runtime.string(std::move(out));
}

template <std::string (*kConvert)(std::string_view)>
Value str_case(Runtime& runtime, const Value& self, const Arguments& arguments) {
  bind<0>("a case method", arguments, {}, 0);
  runtime.budget().spend(1 + self.string().size() / 16);
  return runtime.string(kConvert(self.string()));
}

template <CharClass kClass>
Value str_is(Runtime& runtime, const Value& self, const Arguments& arguments) {
  bind<0>("a character test", arguments, {}, 0);
  runtime.budget().spend(1 + self.string().size() / 16);
  return Value(all_are(self.string(), kClass));
}

template <bool (*kTest)(std::string_view)>
Value str_is_case(Runtime& runtime, const Value& self, const Arguments& arguments) {
  bind<0>("a case test", arguments, {}, 0);
  runtime.budget().spend(1 + self.string().size() / 16);
  return Value(kTest(self.string()));
}

template <bool kAtEnd>
Value str_remove(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto [affix] = bind<1>("removeprefix", arguments, {"prefix"}, 1);
  const std::string_view text = self.string();
  const std::string_view part = to_text(*affix, "removeprefix's or removesuffix's argument");
  if (!(kAtEnd ? text.ends_with(part) : text.starts_with(part))) return self;
  return runtime.string(
      std::string(text.substr(kAtEnd ? 0 : part.size(), text.size() - part.size())));
}

enum class Align { kLeft, kRight, kCenter };

template <Align kAlign>
Value str_pad(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto [width, fill] = bind<2>("padding", arguments, {"width", "fillchar"}, 1);
  const std::string_view filler = fill == nullptr ? " " : to_text(*fill, "the fill character");
  if (utf8::length(filler) != 1) fail("TypeError: the fill character must be one character");
  const int64_t missing =
      to_integer(*width, "the width") - static_cast<int64_t>(utf8::length(self.string()));
  if (missing <= 0) return self;
  runtime.budget().check(static_cast<uint64_t>(missing) * filler.size());
  // Python puts the odd one on the left when the width is odd.
  int64_t n_left = kAlign == Align::kRight ? missing : 0;
  if (kAlign == Align::kCenter)
    n_left = missing / 2 + (missing & to_integer(*width, "the width") & 1);
  std::string out;
  for (int64_t i = 0; i < n_left; ++i) out += filler;
  out += self.string();
  for (int64_t i = n_left; i < missing; ++i) out += filler;
  return runtime.string(std::move(out));
}

Value str_zfill(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto [width] = bind<1>("zfill", arguments, {"width"}, 1);
  const std::string_view text = self.string();
  const int64_t missing =
      to_integer(*width, "zfill's width") - static_cast<int64_t>(utf8::length(text));
  if (missing <= 0) return self;
  runtime.budget().check(static_cast<uint64_t>(missing));
  const size_t n_sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  return runtime.string(std::string(text.substr(0, n_sign)) +
                        std::string(static_cast<size_t>(missing), '0') +
                        std::string(text.substr(n_sign)));
}

const MethodTable& string_methods() {
  static const MethodTable kMethods = {
      {"capitalize", str_case<capitalize>},
      {"casefold", str_case<lower>},
      {"center", str_pad<Align::kCenter>},
      {"count", str_count},
      {"endswith", str_affix<true>},
      {"find", str_find<false, false>},
      {"index", str_find<false, true>},
      {"isalnum", str_is<CharClass::kAlnum>},
      {"isalpha", str_is<CharClass::kAlpha>},
      {"isdecimal", str_is<CharClass::kDecimal>},
      {"isdigit", str_is<CharClass::kDigit>},
      {"islower", str_is_case<is_lower>},
      {"isnumeric", str_is<CharClass::kNumeric>},
      {"isspace", str_is<CharClass::kSpace>},
      {"isupper", str_is_case<is_upper>},
      {"join", str_join},
      {"ljust", str_pad<Align::kLeft>},
      {"lower", str_case<lower>},
      {"lstrip", str_strip<Side::kLeft>},
      {"partition", str_partition<false>},
      {"removeprefix", str_remove<false>},
      {"removesuffix", str_remove<true>},
      {"replace", str_replace},
      {"rfind", str_find<true, false>},
      {"rindex", str_find<true, true>},
      {"rjust", str_pad<Align::kRight>},
      {"rpartition", str_partition<true>},
      {"rsplit", str_split<true>},
      {"rstrip", str_strip<Side::kRight>},
      {"split", str_split<false>},
      {"splitlines", str_splitlines},
      {"startswith", str_affix<false>},
      {"strip", str_strip<Side::kBoth>},
      {"title", str_case<title>},
      {"upper", str_case<upper>},
      {"zfill", str_zfill},
  };
  return kMethods;
}

// --- list and tuple ---

Value list_count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto [value] = bind<1>("count", arguments, {"value"}, 1);
  int64_t n = 0;
  for (const Value& item : self.items()) n += equal(item, *value, runtime.budget()) ? 1 : 0;
  return Value(n);
}

Value list_index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto [value] = bind<1>("index", arguments, {"value"}, 1);
  for (size_t i = 0; i < self.items().size(); ++i) {
    if (equal(self.items()[i], *value, runtime.budget())) return Value::size(i);
  }
  fail("ValueError: the value is not in the list");
}

Value copy_itself(Runtime&, const Value& self, const Arguments& arguments) {
  bind<0>("copy", arguments, {}, 0);
  return self;  // immutable: a copy cannot be told from the original
}

const MethodTable& list_methods() {
  static const MethodTable kMethods = {
      {"copy", copy_itself}, {"count", list_count}, {"index", list_index}};
  return kMethods;
}

// --- dict ---

Value dict_get(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto [key, otherwise] = bind<2>("get", arguments, {"key", "default"}, 1);
  check_hashable(*key);
  if (const Value* value = self.dict().find(*key, runtime.budget())) return *value;
  return otherwise == nullptr ? Value::none() : *otherwise;
}

Value dict_items(Runtime& runtime, const Value& self, const Arguments& arguments) {
  bind<0>("items", arguments, {}, 0);
  runtime.budget().spend(self.dict().items.size());
  std::vector<Value> out;
  for (const auto& [key, value] : self.dict().items) {
    out.push_back(make_tuple({key, value}, runtime.budget()));
  }
  return runtime.list(std::move(out));
}

Value dict_keys(Runtime& runtime, const Value& self, const Arguments& arguments) {
  bind<0>("keys", arguments, {}, 0);
  return runtime.list(iterate(self, runtime));
}

Value dict_values(Runtime& runtime, const Value& self, const Arguments& arguments) {
  bind<0>("values", arguments, {}, 0);
  runtime.budget().spend(self.dict().items.size());
  std::vector<Value> out;
  for (const auto& [key, value] : self.dict().items) out.push_back(value);
  return runtime.list(std::move(out));
}

const MethodTable& dict_methods() {
  static const MethodTable kMethods = {{"copy", copy_itself},
                                       {"get", dict_get},
                                       {"items", dict_items},
                                       {"keys", dict_keys},
                                       {"values", dict_values}};
  return kMethods;
}

// Methods that change what they are called on.
bool is_mutator(Kind kind, std::string_view name) {
  static const std::unordered_set<std::string_view> kList = {
      "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
  static const std::unordered_set<std::string_view> kDict = {
      "clear", "pop", "popitem", "setdefault", "update"};
  if (kind == Kind::kList) return kList.contains(name);
  return kind == Kind::kDict && kDict.contains(name);
}

// Methods of Python's str that Cairn does not have: they exist, but cannot be called.
bool is_missing_string_method(std::string_view name) {
  static const std::unordered_set<std::string_view> kNames = {"encode",
                                                              "expandtabs",
                                                              "format",
                                                              "format_map",
                                                              "isascii",
                                                              "isidentifier",
                                                              "isprintable",
                                                              "istitle",
                                                              "maketrans",
                                                              "swapcase",
                                                              "translate"};
  return kNames.contains(name);
}

const MethodTable* table_of(const Value& object) {
  switch (object.kind()) {
    case Kind::kString:
      return &string_methods();
    case Kind::kList:
      return &list_methods();
    case Kind::kDict:
      return &dict_methods();
    default:
      return nullptr;
  }
}

Value cycle(const Loop& loop, const Arguments& arguments) {
  if (!arguments.named.empty() || arguments.positional.empty()) {
    fail("TypeError: loop.cycle needs values");
  }
  return arguments.positional[loop.idx % arguments.positional.size()];
}

}  // namespace

MethodAccess find_method(const Value& object, std::string_view name) {
  if (object.is(Kind::kLoop) && name == "cycle") return MethodAccess::kAllowed;
  const MethodTable* table = table_of(object);
  if (table == nullptr) return MethodAccess::kNone;
  if (table->contains(name)) {
    return object.is_tuple() && name == "copy" ? MethodAccess::kNone : MethodAccess::kAllowed;
  }
  if (is_mutator(object.kind(), name) && !object.is_tuple()) return MethodAccess::kUnsafe;
  if (object.is_string() && is_missing_string_method(name)) return MethodAccess::kAllowed;
  return MethodAccess::kNone;
}

Value call_method(const Value& object,
                  std::string_view name,
                  const Arguments& arguments,
                  Runtime& runtime) {
  if (object.is(Kind::kLoop)) return cycle(object.loop(), arguments);
  const MethodTable* table = table_of(object);
  const auto method = table == nullptr ? MethodTable::const_iterator() : table->find(name);
  if (table == nullptr || method == table->end()) {
    fail(fmt::format("method '{}' of '{}' is not supported", name, type_name(object)));
  }
  return method->second(runtime, object, arguments);
}

}  // namespace cairn::jinja
