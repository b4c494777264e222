// Filters, with the meaning of Jinja 3.1's; tojson is the plain json.dumps of chat templates.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "text/jinja/builtins.h"
#include "text/jinja/operations.h"
#include "text/jinja/strings.h"

namespace cairn::jinja {

namespace {

bool flag(const Value* value, bool otherwise) {
  return value == nullptr ? otherwise : is_true(*value);
}

void check_no_arguments(std::string_view name, const Arguments& arguments) {
  bind<0>(name, arguments, {}, 0);
}

// --- attributes of items: map(attribute=...), sort(attribute=...), selectattr(...) ---

// "a.b.0": keys, and positions where a part is a number.
Value attribute_path(const Value& item, const Value& path, Runtime& runtime) {
  if (!path.is_string()) return element(item, path, runtime);
  Value value = item;
  for (const std::string_view part : split(path.string(), ".", -1)) {
    int64_t idx = 0;
    const char* end = part.data() + part.size();
    const auto parsed = std::from_chars(part.data(), end, idx);
    const bool is_position = parsed.ec == std::errc() && parsed.ptr == end && !part.empty();
    value = element(value, is_position ? Value(idx) : runtime.string(std::string(part)), runtime);
  }
  return value;
}

// What items are compared by: an attribute, if any, in lower case unless case matters.
Value sort_key(const Value& item, const Value* attribute, bool case_sensitive, Runtime& runtime) {
  Value key = attribute == nullptr ? item : attribute_path(item, *attribute, runtime);
  if (case_sensitive || !key.is_string()) return key;
  return runtime.string(lower(key.string()));
}

struct Keyed {
  Value key;
  Value item;
};

// n log n comparisons at most, each charged as it is made.
Value sorted(std::vector<Keyed> keyed, bool is_reversed, Runtime& runtime) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
    return is_reversed ? less(b.key, a.key, runtime.budget())
                       : less(a.key, b.key, runtime.budget());
  });
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return runtime.list(std::move(items));
}

Value filter_sort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto [reverse, case_sensitive, attribute] =
      bind<3>("sort", arguments, {"reverse", "case_sensitive", "attribute"}, 0);
  std::vector<Keyed> keyed;
  for (const Value& item : iterate(input, runtime)) {
    keyed.push_back({sort_key(item, attribute, flag(case_sensitive, false), runtime), item});
  }
  return sorted(std::move(keyed), flag(reverse, false), runtime);
}

Value filter_dictsort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto [case_sensitive, by, reverse] =
      bind<3>("dictsort", arguments, {"case_sensitive", "by", "reverse"}, 0);
  if (!input.is(Kind::kDict)) {
    fail(fmt::format("TypeError: dictsort needs a mapping, not {}", type_name(input)));
  }
  const std::string_view which = by == nullptr ? "key" : to_text(*by, "dictsort's \"by\"");
  if (which != "key" && which != "value") fail("dictsort can sort by 'key' or 'value' only");
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : input.dict().items) {
    const Value& chosen = which == "key" ? key : value;
    keyed.push_back({sort_key(chosen, nullptr, flag(case_sensitive, false), runtime),
                     make_tuple({key, value}, runtime.budget())});
  }
  return sorted(std::move(keyed), flag(reverse, false), runtime);
}

Value filter_unique(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto [case_sensitive, attribute] =
      bind<2>("unique", arguments, {"case_sensitive", "attribute"}, 0);
  std::vector<Value> seen;
  std::vector<Value> out;
  for (const Value& item : iterate(input, runtime)) {
    Value key = sort_key(item, attribute, flag(case_sensitive, false), runtime);
    check_hashable(key);
    const bool is_known = std::any_of(seen.begin(), seen.end(), [&](const Value& other) {
      return equal(other, key, runtime.budget());
    });
    if (is_known) continue;
    seen.push_back(std::move(key));
    out.push_back(item);
  }
  return runtime.list(std::move(out));
}

Value extreme(std::string_view name,
              bool wants_max,
              Runtime& runtime,
              const Value& input,
              const Arguments& arguments) {
  const auto [case_sensitive, attribute] =
      bind<2>(name, arguments, {"case_sensitive", "attribute"}, 0);
  std::optional<Keyed> best;
  for (const Value& item : iterate(input, runtime)) {
    Value key = sort_key(item, attribute, flag(case_sensitive, false), runtime);
    if (!best || (wants_max ? less(best->key, key, runtime.budget())
                            : less(key, best->key, runtime.budget()))) {
      best = Keyed{std::move(key), item};
    }
  }
  return best ? best->item : Value();
}

Value filter_max(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return extreme("max", true, runtime, input, arguments);
}

Value filter_min(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return extreme("min", false, runtime, input, arguments);
}

// Arguments after the first n.
Arguments drop(const Arguments& arguments, size_t n) {
  Arguments rest;
  n = std::min(n, arguments.positional.size());
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(n),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

Value filter_map(Runtime& runtime, const Value& input, const Arguments& arguments) {
  std::vector<Value> out;
  if (arguments.positional.empty()) {
    const auto [attribute, otherwise] = bind<2>("map", arguments, {"attribute", "default"}, 0);
    if (attribute == nullptr) fail("map needs a filter or an attribute");
    for (const Value& item : iterate(input, runtime)) {
      Value value = attribute_path(item, *attribute, runtime);
      out.push_back(value.is_undefined() && otherwise != nullptr ? *otherwise : std::move(value));
    }
    return runtime.list(std::move(out));
  }
  const std::string_view name = to_text(arguments.positional[0], "map's filter");
  const FilterFunction filter = find_filter(name);
  if (filter == nullptr) fail(fmt::format("No filter named '{}' found.", name));
  const Arguments rest = drop(arguments, 1);
  const Budget::Nesting nesting(runtime.budget());
  for (const Value& item : iterate(input, runtime)) out.push_back(filter(runtime, item, rest));
  return runtime.list(std::move(out));
}

// select, reject, selectattr and rejectattr.
Value choose(bool wants,
             bool by_attribute,
             Runtime& runtime,
             const Value& input,
             const Arguments& arguments) {
  const size_t n_before_test = by_attribute ? 1 : 0;
  if (arguments.positional.size() < n_before_test)
    fail("selectattr and rejectattr need an attribute");
  TestFunction test = nullptr;
  if (arguments.positional.size() > n_before_test) {
    const std::string_view name = to_text(arguments.positional[n_before_test], "the test's name");
    test = find_test(name);
    if (test == nullptr) fail(fmt::format("No test named '{}' found.", name));
  }
  const Arguments rest = drop(arguments, n_before_test + 1);
  std::vector<Value> out;
  for (const Value& item : iterate(input, runtime)) {
    const Value value =
        by_attribute ? attribute_path(item, arguments.positional[0], runtime) : item;
    const bool holds = test == nullptr ? is_true(value) : test(runtime, value, rest);
    if (holds == wants) out.push_back(item);
  }
  return runtime.list(std::move(out));
}

Value filter_select(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return choose(true, false, runtime, input, arguments);
}

Value filter_reject(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return choose(false, false, runtime, input, arguments);
}

Value filter_selectattr(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return choose(true, true, runtime, input, arguments);
}

Value filter_rejectattr(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return choose(false, true, runtime, input, arguments);
}

// --- lists ---

Value filter_length(Runtime&, const Value& input, const Arguments& arguments) {
  check_no_arguments("length", arguments);
  const auto n = length(input);
  if (!n) fail(fmt::format("TypeError: object of type '{}' has no len()", type_name(input)));
  return Value::size(*n);
}

Value filter_first(Runtime& runtime, const Value& input, const Arguments& arguments) {
  check_no_arguments("first", arguments);
  const auto items = iterate(input, runtime);
  return items.empty() ? Value() : items.front();
}

Value filter_last(Runtime& runtime, const Value& input, const Arguments& arguments) {
  check_no_arguments("last", arguments);
  const auto items = iterate(input, runtime);
  return items.empty() ? Value() : items.back();
}

Value filter_list(Runtime& runtime, const Value& input, const Arguments& arguments) {
  check_no_arguments("list", arguments);
  return runtime.list(iterate(input, runtime));
}

Value filter_reverse(Runtime& runtime, const Value& input, const Arguments& arguments) {
  check_no_arguments("reverse", arguments);
  if (input.is_string()) {
    const Value step(int64_t{-1});
    return slice(input, nullptr, nullptr, &step, runtime);
  }
  auto items = iterate(input, runtime);
  std::reverse(items.begin(), items.end());
  return runtime.list(std::move(items));
}

Value filter_items(Runtime& runtime, const Value& input, const Arguments& arguments) {
  check_no_arguments("items", arguments);
  if (input.is_undefined()) return runtime.list({});
  if (!input.is(Kind::kDict)) fail("TypeError: Can only get item pairs from a mapping.");
  return call_method(input, "items", {}, runtime);
}

Value filter_join(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto [separator, attribute] = bind<2>("join", arguments, {"d", "attribute"}, 0);
  const std::string between = separator == nullptr ? "" : runtime.str(*separator);
  std::string out;
  bool is_first = true;
  for (const Value& item : iterate(input, runtime)) {
    runtime.budget().spend_text(between.size());
    runtime.budget().check(out.size() + between.size());
    if (!is_first) out += between;
    is_first = false;
    append_str(out,
               attribute == nullptr ? item : attribute_path(item, *attribute, runtime),
               runtime.budget());
  }
  return runtime.string(std::move(out));
}

Value filter_sum(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto [attribute, start] = bind<2>("sum", arguments, {"attribute", "start"}, 0);
  Value total = start == nullptr ? Value(int64_t{0}) : *start;
  for (const Value& item : iterate(input, runtime)) {
    total = binary(Op::kAdd,
                   total,
                   attribute == nullptr ? item : attribute_path(item, *attribute, runtime),
                   runtime);
  }
  return total;
}

// --- text ---

Value filter_string(Runtime& runtime, const Value& input, const Arguments& arguments) {
  check_no_arguments("string", arguments);
  if (input.is_string()) return input;
  return runtime.string(runtime.str(input));
}

Value filter_trim(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto [chars] = bind<1>("trim", arguments, {"chars"}, 0);
  const std::string text = runtime.str(input);
  std::optional<std::string_view> set;
  if (chars != nullptr && !chars->is_none()) set = to_text(*chars, "trim's characters");
  runtime.budget().spend(text.size() / 64);
  return runtime.string(std::string(strip(text, Side::kBoth, set)));
}

template <std::string (*kConvert)(std::string_view)>
Value filter_case(Runtime& runtime, const Value& input, const Arguments& arguments) {
  check_no_arguments("a case filter", arguments);
  const std::string text = runtime.str(input);
  runtime.budget().spend(1 + text.size() / 16);
  return runtime.string(kConvert(text));
}

Value filter_replace(Runtime& runtime, const Value& input, const Arguments& arguments) {
  bind<3>("replace", arguments, {"old", "new", "count"}, 2);
  return call_method(runtime.string(runtime.str(input)), "replace", arguments, runtime);
}

Value filter_indent(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto [width, first, blank] = bind<3>("indent", arguments, {"width", "first", "blank"}, 0);
  std::string indent(4, ' ');
  if (width != nullptr && width->is_string()) {
    indent = width->string();
  } else if (width != nullptr) {
    const int64_t n = std::max<int64_t>(to_integer(*width, "indent's width"), 0);
    runtime.budget().check(static_cast<uint64_t>(n));
    indent = std::string(static_cast<size_t>(n), ' ');
  }
  // The added line end makes a text that ends in one keep it.
  const std::string text = runtime.str(input) + "\n";
  runtime.budget().check(text.size() * sizeof(std::string_view));
  const auto lines = split_lines(text, false);
  runtime.budget().check(lines.size() * (indent.size() + 1));
  std::string out = flag(first, false) ? indent : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (!lines[i].empty() || flag(blank, false))) out += indent;
    out += lines[i];
  }
  return runtime.string(std::move(out));
}

Value filter_center(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto [width] = bind<1>("center", arguments, {"width"}, 0);
  Arguments given;
  given.positional.push_back(width == nullptr ? Value(int64_t{80}) : *width);
  return call_method(runtime.string(runtime.str(input)), "center", given, runtime);
}

Value filter_wordcount(Runtime& runtime, const Value& input, const Arguments& arguments) {
  check_no_arguments("wordcount", arguments);
  const std::string text = runtime.str(input);
  runtime.budget().check(text.size() * sizeof(std::string_view) / 2);
  return Value::size(split_space(text, -1).size());
}

Value filter_escape(Runtime& runtime, const Value& input, const Arguments& arguments) {
  check_no_arguments("escape", arguments);
  if (input.is_markup()) return input;
  const std::string text = runtime.str(input);
  runtime.budget().check(text.size() * 5);
  return Value(String{make_counted_text(escape_html(text), runtime.budget()), true});
}

Value filter_safe(Runtime& runtime, const Value& input, const Arguments& arguments) {
  check_no_arguments("safe", arguments);
  return Value(String{make_counted_text(runtime.str(input), runtime.budget()), true});
}

Value filter_tojson(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto [ensure_ascii, indent, separators, sort_keys] =
      bind<4>("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0);
  JsonStyle style;
  style.ascii_only = flag(ensure_ascii, false);
  style.sorts_keys = flag(sort_keys, false);
  std::string one_level;
  if (indent != nullptr && !indent->is_none()) {
    if (indent->is_string()) {
      one_level = indent->string();
    } else {
      const int64_t n = std::max<int64_t>(to_integer(*indent, "tojson's indent"), 0);
      runtime.budget().check(static_cast<uint64_t>(n));
      one_level.assign(static_cast<size_t>(n), ' ');
    }
    style.indent = one_level;
    style.item_separator = ",";
  }
  if (separators != nullptr && !separators->is_none()) {
    if (!separators->is(Kind::kList) || separators->items().size() != 2) {
      fail("TypeError: tojson's separators must be two strings");
    }
    style.item_separator = to_text(separators->items()[0], "tojson's item separator");
    style.key_separator = to_text(separators->items()[1], "tojson's key separator");
  }
  return runtime.string(to_json(input, style, runtime.budget()));
}

// --- numbers and defaults ---

Value filter_default(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto [value, boolean] = bind<2>("default", arguments, {"default_value", "boolean"}, 0);
  const bool is_missing = input.is_undefined() || (flag(boolean, false) && !is_true(input));
  if (!is_missing) return input;
  return value == nullptr ? runtime.string("") : *value;
}

std::optional<double> parse_float(std::string_view text) {
  text = strip(text, Side::kBoth);
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  double number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<int64_t> parse_integer(std::string_view text, int base) {
  text = strip(text, Side::kBoth);
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  int64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<int64_t> truncated(double number) {
  // 2^63 as a double; the comparison is false for NaN.
  constexpr double kLimit = 9223372036854775808.0;
  if (!(number > -kLimit && number < kLimit)) return std::nullopt;
  return static_cast<int64_t>(number);
}

Value filter_int(Runtime&, const Value& input, const Arguments& arguments) {
  const auto [otherwise, base] = bind<2>("int", arguments, {"default", "base"}, 0);
  std::optional<int64_t> number;
  if (input.is_integer()) {
    number = input.integer();
  } else if (input.is(Kind::kFloat)) {
    number = truncated(input.number());
  } else if (input.is_string()) {
    const int64_t radix = base == nullptr ? 10 : to_integer(*base, "int's base");
    if (radix < 2 || radix > 36) fail("ValueError: int's base must be 2 to 36");
    number = parse_integer(input.string(), static_cast<int>(radix));
    if (!number) {
      if (const auto real = parse_float(input.string())) number = truncated(*real);
    }
  }
  if (number) return Value(*number);
  return otherwise == nullptr ? Value(int64_t{0}) : *otherwise;
}

Value filter_float(Runtime&, const Value& input, const Arguments& arguments) {
  const auto [otherwise] = bind<1>("float", arguments, {"default"}, 0);
  if (input.is_number()) return Value(input.number());
  if (input.is_string()) {
    if (const auto number = parse_float(input.string())) return Value(*number);
  }
  return otherwise == nullptr ? Value(0.0) : *otherwise;
}

Value filter_abs(Runtime&, const Value& input, const Arguments& arguments) {
  check_no_arguments("abs", arguments);
  if (input.is(Kind::kFloat)) return Value(std::fabs(input.number()));
  const int64_t number = to_integer(input, "abs's value");
  return number < 0 ? unary(Op::kMinus, input) : Value(number);
}

Value filter_round(Runtime&, const Value& input, const Arguments& arguments) {
  const auto [precision, method] = bind<2>("round", arguments, {"precision", "method"}, 0);
  if (!input.is_number()) fail(fmt::format("TypeError: cannot round {}", type_name(input)));
  const int64_t digits = precision == nullptr ? 0 : to_integer(*precision, "round's precision");
  if (digits < -300 || digits > 300) fail("round's precision is out of range");
  const std::string_view how = method == nullptr ? "common" : to_text(*method, "round's method");
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = input.number() * scale;
  if (!std::isfinite(scaled)) return Value(input.number());
  if (how == "ceil") return Value(std::ceil(scaled) / scale);
  if (how == "floor") return Value(std::floor(scaled) / scale);
  if (how != "common") fail("round's method must be common, ceil or floor");
  if (input.is_integer()) {
    return digits >= 0 ? Value(input.integer())
                       : Value(truncated(std::nearbyint(scaled) / scale).value_or(0));
  }
  if (digits <= 0) return Value(std::nearbyint(scaled) / scale);  // half to even, as Python
  // Python rounds the decimal expansion correctly; so does printing.
  const std::string text = fmt::format("{:.{}f}", input.number(), digits);
  return Value(parse_float(text).value_or(input.number()));
}

}  // namespace

FilterFunction find_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, FilterFunction> kFilters = {
      {"abs", filter_abs},
      {"capitalize", filter_case<capitalize>},
      {"center", filter_center},
      {"count", filter_length},
      {"d", filter_default},
      {"default", filter_default},
      {"dictsort", filter_dictsort},
      {"e", filter_escape},
      {"escape", filter_escape},
      {"first", filter_first},
      {"float", filter_float},
      {"indent", filter_indent},
      {"int", filter_int},
      {"items", filter_items},
      {"join", filter_join},
      {"last", filter_last},
      {"length", filter_length},
      {"list", filter_list},
      {"lower", filter_case<lower>},
      {"map", filter_map},
      {"max", filter_max},
      {"min", filter_min},
      {"reject", filter_reject},
      {"rejectattr", filter_rejectattr},
      {"replace", filter_replace},
      {"reverse", filter_reverse},
      {"round", filter_round},
      {"safe", filter_safe},
      {"select", filter_select},
      {"selectattr", filter_selectattr},
      {"sort", filter_sort},
      {"string", filter_string},
      {"sum", filter_sum},
      {"title", filter_case<title_words>},
      {"tojson", filter_tojson},
      {"trim", filter_trim},
      {"unique", filter_unique},
      {"upper", filter_case<upper>},
      {"wordcount", filter_wordcount},
  };
  const auto found = kFilters.find(name);
  return found == kFilters.end() ? nullptr : found->second;
}

}  // namespace cairn::jinja
