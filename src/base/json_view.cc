#include "base/json_view.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn {
namespace {

constexpr size_t kLargeBytes = size_t{64} << 10;

std::string_view skip_space(std::string_view text) {
  const size_t n = text.find_first_not_of(" \n\r\t");
  return n == std::string_view::npos ? std::string_view() : text.substr(n);
}

// Bytes of the string that `text` begins with, quotes included.
size_t string_bytes(std::string_view text) {
  for (size_t end = text.find('"', 1); end != std::string_view::npos;
       end = text.find('"', end + 1)) {
    size_t n_slashes = 0;
    while (n_slashes + 1 < end && text[end - 1 - n_slashes] == '\\') ++n_slashes;
    if (n_slashes % 2 == 0) return end + 1;
  }
  return text.size();
}

// Bytes of the object or array that `text` begins with.
size_t container_bytes(std::string_view text) {
  size_t depth = 0;
  for (size_t pos = 0; pos < text.size();) {
    const char c = text[pos];
    if (c == '"') {
      pos += string_bytes(text.substr(pos));
      continue;
    }
    ++pos;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) return pos;
  }
  return text.size();
}

size_t value_bytes(std::string_view text) {
  if (text.empty()) return 0;
  if (text[0] == '"') return string_bytes(text);
  if (text[0] == '{' || text[0] == '[') return container_bytes(text);
  return std::min(text.find_first_of(",]} \n\r\t"), text.size());
}

std::string_view between_quotes(std::string_view text) {
  const size_t n = string_bytes(text);
  return n < 2 ? std::string_view() : text.substr(1, n - 2);
}

// Measures arrays and objects while the text is checked, so that large ones need not be walked
// through to find their ends.
class Measure {
 public:
  explicit Measure(std::string_view text) : text_(text) {}

  void take(JsonScanner::Event event, size_t offset) {
    using Event = JsonScanner::Event;
    if (event == Event::kEndObject || event == Event::kEndArray) return close(offset);
    if (event == Event::kKey) {
      ++open_.back().count;
      return;
    }
    if (!open_.empty() && open_.back().is_array) ++open_.back().count;
    if (event == Event::kBeginObject || event == Event::kBeginArray) {
      open_.push_back({offset, 0, event == Event::kBeginArray});
    }
  }

  // Calls keep(begin, n_bytes, count) for those that are large.
  template <typename Keep>
  void report(const Keep& keep) const {
    for (const Done& done : done_) keep(text_.data() + done.begin, done.n_bytes, done.count);
  }

 private:
  struct Open {
    size_t begin = 0;
    size_t count = 0;
    bool is_array = false;
  };

  struct Done {
    size_t begin = 0;
    size_t n_bytes = 0;
    size_t count = 0;
  };

  void close(size_t offset) {
    const Open closed = open_.back();
    open_.pop_back();
    const size_t n_bytes = offset + 1 - closed.begin;
    if (n_bytes >= kLargeBytes) done_.push_back({closed.begin, n_bytes, closed.count});
  }

  std::string_view text_;
  std::vector<Open> open_;
  std::vector<Done> done_;
};

}  // namespace

Result<JsonDocument> JsonDocument::parse(std::string_view text,
                                         std::string_view what,
                                         size_t depth_max,
                                         JsonWords words) {
  JsonScanner scanner(text, depth_max, words);
  Measure measure(text);
  size_t begin = std::string_view::npos;
  for (auto event = scanner.next(); event != JsonScanner::Event::kEnd; event = scanner.next()) {
    if (event == JsonScanner::Event::kBad) {
      return Status::corruption(
          fmt::format("{}: not JSON at byte {}: {}", what, scanner.offset(), scanner.problem()));
    }
    begin = std::min(begin, scanner.offset());
    measure.take(event, scanner.offset());
  }
  JsonDocument document;
  document.large_ = std::make_unique<std::vector<JsonView::Large>>();
  measure.report([&](const char* at, size_t n_bytes, size_t count) {
    document.large_->push_back({at, n_bytes, count});
  });
  std::ranges::sort(*document.large_, {}, &JsonView::Large::begin);
  document.root_ = JsonView(text.substr(begin), document.large_.get());
  return document;
}

const JsonView::Large* JsonView::find_large() const {
  if (large_ == nullptr || (kind() != Kind::kObject && kind() != Kind::kArray)) return nullptr;
  const auto at = std::ranges::lower_bound(*large_, text_.data(), {}, &Large::begin);
  return at == large_->end() || at->begin != text_.data() ? nullptr : &*at;
}

JsonView::Kind JsonView::kind() const {
  switch (text_.empty() ? 'n' : text_[0]) {
    case '{':
      return Kind::kObject;
    case '[':
      return Kind::kArray;
    case '"':
      return Kind::kString;
    case 't':
    case 'f':
      return Kind::kBool;
    case 'n':
      return Kind::kNull;
    default:
      return Kind::kNumber;
  }
}

std::optional<bool> JsonView::boolean() const {
  if (kind() != Kind::kBool) return std::nullopt;
  return text_[0] == 't';
}

std::optional<uint64_t> JsonView::unsigned_integer() const {
  if (kind() != Kind::kNumber) return std::nullopt;
  return json_unsigned(text_.substr(0, n_bytes()));
}

std::optional<double> JsonView::number() const {
  if (kind() != Kind::kNumber) return std::nullopt;
  return json_double(text_.substr(0, n_bytes()));
}

std::optional<std::string_view> JsonView::raw_string() const {
  if (kind() != Kind::kString) return std::nullopt;
  return between_quotes(text_);
}

std::optional<std::string> JsonView::string() const {
  const auto raw = raw_string();
  if (!raw) return std::nullopt;
  std::string scratch;
  return std::string(unescape_json(*raw, scratch));
}

std::optional<JsonView> JsonView::find(std::string_view key) const {
  if (!is_object()) return std::nullopt;
  std::string scratch;
  for (Items members = items(); const auto member = members.next();) {
    if (unescape_json(member->raw_key, scratch) == key) return member->value;
  }
  return std::nullopt;
}

size_t JsonView::n_bytes() const {
  const Large* large = find_large();
  return large == nullptr ? value_bytes(text_) : large->n_bytes;
}

JsonView::Items::Items(const JsonView& owner)
    : large_(owner.large_), is_object_(owner.is_object()) {
  if (is_object_ || owner.kind() == Kind::kArray) rest_ = skip_space(owner.text_.substr(1));
}

std::optional<JsonView::Member> JsonView::Items::next() {
  if (rest_.empty() || rest_[0] == '}' || rest_[0] == ']') return std::nullopt;
  Member member;
  if (is_object_) {
    const size_t n_key = string_bytes(rest_);
    member.raw_key = between_quotes(rest_);
    rest_ = skip_space(rest_.substr(n_key));
    if (!rest_.empty()) rest_ = skip_space(rest_.substr(1));  // the colon
  }
  member.value = JsonView(rest_, large_);
  rest_ = skip_space(rest_.substr(std::min(member.value.n_bytes(), rest_.size())));
  if (!rest_.empty() && rest_[0] == ',') rest_ = skip_space(rest_.substr(1));
  return member;
}

JsonMembers::JsonMembers(const JsonView& object, std::span<const std::string_view> keys) {
  if (!object.is_object()) return;
  std::string scratch;
  for (auto members = object.items(); const auto next = members.next();) {
    const std::string_view key = unescape_json(next->raw_key, scratch);
    if (std::ranges::find(keys, key) == keys.end() || find(key)) continue;
    found_.emplace_back(key, next->value);
  }
}

std::optional<JsonView> JsonMembers::find(std::string_view key) const {
  const auto at = std::ranges::find(found_, key, &std::pair<std::string, JsonView>::first);
  return at == found_.end() ? std::nullopt : std::optional(at->second);
}

size_t JsonView::count() const {
  if (const Large* large = find_large()) return large->count;
  size_t n = 0;
  for (Items all = items(); all.next();) ++n;
  return n;
}

}  // namespace cairn
