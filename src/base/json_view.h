// One value of a JSON text that has been checked, looked at where it lies: no tree, no copy.
//
// Moving past a value costs time in proportion to its text, but for the large ones, whose ends are
// remembered: so walk over large objects and take what is needed on the way. Thread: any. A text
// that another process changes meanwhile gives wrong values, never a read outside of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_scanner.h"
#include "base/result.h"

namespace cairn {

class JsonDocument;

// The text and the document outlive it.
class JsonView {
 public:
  enum class Kind : uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };

  // A null.
  JsonView() : text_("null") {}

  Kind kind() const;

  bool is_null() const { return kind() == Kind::kNull; }

  bool is_object() const { return kind() == Kind::kObject; }

  // Nothing for another kind.
  std::optional<bool> boolean() const;
  std::optional<uint64_t> unsigned_integer() const;  // nor for what is no integer in [0, 2^64)
  std::optional<double> number() const;              // nor beyond the largest double
  std::optional<std::string> string() const;
  // Between the quotes, as it is spelt; unescape_json() makes the string of it.
  std::optional<std::string_view> raw_string() const;

  // The first member of this key; nothing when there is none, or for what is no object.
  std::optional<JsonView> find(std::string_view key) const;

  // Bytes of the value's text.
  size_t n_bytes() const;

  struct Member;
  struct Large;

  // Steps over the members of an object or the items of an array. Nothing in other kinds.
  //   for (auto items = list.items(); const auto item = items.next();) ...
  class Items {
   public:
    explicit Items(const JsonView& owner);
    // The next one, or nothing at the end; raw_key is empty in an array.
    std::optional<Member> next();

   private:
    std::string_view rest_;
    const std::vector<Large>* large_ = nullptr;
    bool is_object_ = false;
  };

  Items items() const { return Items(*this); }

  // Members or items.
  size_t count() const;

 private:
  friend class JsonDocument;

  JsonView(std::string_view text, const std::vector<Large>* large) : text_(text), large_(large) {}

  const Large* find_large() const;

  std::string_view text_;                      // begins with the value; ends with the whole text
  const std::vector<Large>* large_ = nullptr;  // by begin
};

struct JsonView::Member {
  std::string_view raw_key;  // see raw_string()
  JsonView value;
};

// An array or object of many bytes.
struct JsonView::Large {
  const char* begin = nullptr;
  size_t n_bytes = 0;
  size_t count = 0;
};

// A checked text. Memory: 24 bytes for each array or object of 64 KiB and more.
class JsonDocument {
 public:
  // `text` is one JSON value and outlives the document.
  //   what       names the text in errors
  //   depth_max  objects and arrays that may be open at once
  //   words      see JsonScanner
  // Errors: kCorruption with the byte offset.
  static Result<JsonDocument> parse(std::string_view text,
                                    std::string_view what,
                                    size_t depth_max,
                                    JsonWords words = JsonWords::kStrict);

  // Stays valid when the document moves.
  JsonView root() const { return root_; }

 private:
  JsonDocument() = default;

  std::unique_ptr<std::vector<JsonView::Large>> large_;
  JsonView root_;
};

// The members of a large object that are wanted, found in one walk. Of equal keys the first counts.
class JsonMembers {
 public:
  // Nothing is wanted of what is no object.
  JsonMembers(const JsonView& object, std::span<const std::string_view> keys);

  JsonMembers(const JsonView& object, std::initializer_list<std::string_view> keys)
      : JsonMembers(object, std::span(keys.begin(), keys.size())) {}

  // Nothing for a key that is missing, or that was not asked for.
  std::optional<JsonView> find(std::string_view key) const;

 private:
  std::vector<std::pair<std::string, JsonView>> found_;
};

}  // namespace cairn
