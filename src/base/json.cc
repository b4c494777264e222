#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cairn {
namespace {

constexpr size_t kDepthMax = 256;
// Up to here a linear search for a repeated key is cheaper than a table.
constexpr size_t kScannedKeysMax = 16;

// The library's scanner knows no infinities, but hands on the spelling of each number. The bare
// words are therefore respelt as numbers that nobody writes, and recognised by that spelling. Same
// length as "Infinity", so that columns in messages stay right.
constexpr std::string_view kInfinitySpelling = "2e000300";
constexpr std::string_view kNanSpelling = "3e000300";

// Builds the value. Ours instead of the library's, because that one has no depth limit, and because
// inserting into its ordered object searches all keys: a vocabulary of 150 000 keys took minutes.
class TreeBuilder {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  bool null() { return add(Json(nullptr)); }

  bool boolean(bool v) { return add(Json(v)); }

  bool number_integer(number_integer_t v) { return add(Json(v)); }

  bool number_unsigned(number_unsigned_t v) { return add(Json(v)); }

  bool number_float(number_float_t v, const string_t& spelling);

  bool string(string_t& v) { return add(Json(std::move(v))); }

  bool binary(binary_t& v) { return add(Json(std::move(v))); }

  bool start_object(size_t) { return open(false); }

  bool start_array(size_t) { return open(true); }

  bool end_object() { return close(); }

  bool end_array() { return close(); }

  bool key(string_t& name);
  bool parse_error(size_t position, const std::string& token, const nlohmann::detail::exception& e);

  void expect_respelt_words() { respelt_ = true; }

  Json take() { return std::move(root_); }

  bool is_too_deep() const { return too_deep_; }

  size_t error_position() const { return error_position_; }

  const std::string& error_message() const { return error_message_; }

 private:
  using Member = std::pair<std::string, Json>;

  // An array or object that is not finished. Members wait here and not in the library's object,
  // whose growth copies all of its values deeply (its keys are const, so it cannot move them).
  struct Level {
    bool is_array = false;
    Json::array_t items;
    std::vector<Member> members;
    std::string name;                                // of the member that comes next
    std::unordered_map<std::string, size_t> places;  // name -> member, once there are many
  };

  bool add(Json value);
  bool open(bool is_array);
  bool close();
  static void add_member(Level* level, Json value);

  std::vector<Level> levels_;
  Json root_;
  bool respelt_ = false;
  bool too_deep_ = false;
  size_t error_position_ = 0;
  std::string error_message_;
};

bool TreeBuilder::number_float(number_float_t v, const string_t& spelling) {
  if (respelt_) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    std::string_view magnitude = spelling;
    if (magnitude.starts_with('-')) magnitude.remove_prefix(1);
    if (magnitude == kInfinitySpelling) v = spelling.front() == '-' ? -kInfinity : kInfinity;
    if (magnitude == kNanSpelling) v = std::numeric_limits<double>::quiet_NaN();
  }
  return add(Json(v));
}

bool TreeBuilder::key(string_t& name) {
  levels_.back().name = std::move(name);
  return true;
}

void TreeBuilder::add_member(Level* level, Json value) {
  auto& members = level->members;
  if (members.size() < kScannedKeysMax) {
    const auto found = std::ranges::find(members, level->name, &Member::first);
    if (found != members.end()) {
      found->second = std::move(value);  // the last one wins
      return;
    }
  } else {
    if (level->places.empty()) {
      for (size_t i = 0; i < members.size(); ++i) level->places.emplace(members[i].first, i);
    }
    const auto [place, is_new] = level->places.emplace(level->name, members.size());
    if (!is_new) {
      members[place->second].second = std::move(value);
      return;
    }
  }
  members.emplace_back(std::move(level->name), std::move(value));
}

bool TreeBuilder::add(Json value) {
  if (levels_.empty()) {
    root_ = std::move(value);
  } else if (levels_.back().is_array) {
    levels_.back().items.push_back(std::move(value));
  } else {
    add_member(&levels_.back(), std::move(value));
  }
  return true;
}

bool TreeBuilder::open(bool is_array) {
  too_deep_ = levels_.size() >= kDepthMax;
  if (too_deep_) return false;
  levels_.emplace_back().is_array = is_array;
  return true;
}

bool TreeBuilder::close() {
  Level level = std::move(levels_.back());
  levels_.pop_back();
  if (level.is_array) return add(Json(std::move(level.items)));
  Json done = Json::object();
  auto& object = done.get_ref<Json::object_t&>();
  object.reserve(level.members.size());
  for (Member& member : level.members) {
    object.emplace_back(std::move(member.first), std::move(member.second));
  }
  return add(std::move(done));
}

bool TreeBuilder::parse_error(size_t position,
                              const std::string& /*token*/,
                              const nlohmann::detail::exception& e) {
  error_position_ = position;
  error_message_ = e.what();
  // "[json.exception.parse_error.101] parse error at line 1, column 2: <the part we keep>"
  const size_t id_end = error_message_.find("] ");
  if (id_end != std::string::npos) error_message_.erase(0, id_end + 2);
  if (error_message_.starts_with("parse error at line")) {
    error_message_.erase(0, error_message_.find(": ") + 2);
  }
  return false;
}

// Whether a value may begin after `before`; a '-' in front of a word belongs to it.
bool value_may_follow(std::string_view before) {
  if (before.ends_with('-')) before.remove_suffix(1);
  constexpr std::string_view kSeparators = " \t\r\n,:[";
  return before.empty() || kSeparators.find(before.back()) != std::string_view::npos;
}

std::string respell_bare_words(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\' && i + 1 < text.size()) {
      out.append(text, i, 2);
      ++i;
      continue;
    }
    if (c == '"') in_string = !in_string;
    const std::string_view rest = text.substr(i);
    if (!in_string && rest.starts_with("Infinity") && value_may_follow(text.substr(0, i))) {
      out += kInfinitySpelling;
      i += 7;
    } else if (!in_string && rest.starts_with("NaN") && value_may_follow(text.substr(0, i))) {
      out += kNanSpelling;
      i += 2;
    } else {
      out += c;
    }
  }
  return out;
}

bool has_bare_words(std::string_view text) {
  return text.find("Infinity") != std::string_view::npos ||
         text.find("NaN") != std::string_view::npos;
}

Status parse_failure(std::string_view text, std::string_view what, const TreeBuilder& builder) {
  if (builder.is_too_deep()) {
    return Status::invalid_argument(
        fmt::format("{}: nested deeper than {} levels; flatten it", what, kDepthMax));
  }
  // The position counts bytes read, the offending one included.
  const size_t end = std::min(builder.error_position(), text.size());
  const std::string_view before = text.substr(0, end > 0 ? end - 1 : 0);
  const auto n_lines = std::ranges::count(before, '\n');
  const size_t line_begin = before.rfind('\n');
  const size_t column =
      before.size() - (line_begin == std::string_view::npos ? 0 : line_begin + 1) + 1;
  return Status::invalid_argument(fmt::format("{}: not JSON at line {}, column {}: {}",
                                              what,
                                              n_lines + 1,
                                              column,
                                              builder.error_message()));
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what, bool allow_infinity) {
  TreeBuilder builder;
  std::string respelt;
  if (allow_infinity && has_bare_words(text)) {
    if (text.find(kInfinitySpelling) != std::string_view::npos ||
        text.find(kNanSpelling) != std::string_view::npos) {
      return Status::invalid_argument(fmt::format(
          "{}: holds Infinity or NaN together with {} or {}; write the number in another way",
          what,
          kInfinitySpelling,
          kNanSpelling));
    }
    respelt = respell_bare_words(text);
    text = respelt;
    builder.expect_respelt_words();
  }
  if (Json::sax_parse(text.begin(), text.end(), &builder)) return builder.take();
  return parse_failure(text, what, builder);
}

}  // namespace cairn
