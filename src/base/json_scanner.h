// JSON as a stream of events, without memory of its own: for files whose tree would be many times
// their size.
//
// Everything is checked: grammar (RFC 8259), UTF-8, pairs of surrogates. Strings and numbers are
// views of the text as it is spelt. Thread: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

// Whether the bare words Infinity, -Infinity and NaN pass for numbers. JSON has none; published
// configurations, which Python wrote, hold them.
enum class JsonWords : uint8_t { kStrict, kWithInfinity };

class JsonScanner {
 public:
  enum class Event : uint8_t {
    kBeginObject,
    kEndObject,
    kBeginArray,
    kEndArray,
    kKey,
    kString,
    kNumber,
    kTrue,
    kFalse,
    kNull,
    kEnd,  // one value has been read, and nothing but white space follows it
    kBad,  // problem() at offset(); final
  };

  // `text` outlives the scanner.
  //   depth_max  objects and arrays that may be open at once
  JsonScanner(std::string_view text, size_t depth_max, JsonWords words = JsonWords::kStrict);

  Event next();

  // Of a key or string: what lies between the quotes, escapes as they are written. Of a number: its
  // spelling.
  std::string_view raw() const { return raw_; }

  // Where the last event begins in the text, in bytes.
  size_t offset() const { return begin_; }

  std::string_view problem() const { return problem_; }

 private:
  enum class State : uint8_t { kValue, kFirstItem, kFirstKey, kKey, kAfterValue, kBad };

  Event bad(std::string_view problem);
  Event value();
  Event open(bool is_object);
  Event close();
  Event key();
  Event after_value();
  Event word(std::string_view word, Event event);
  Event number();
  bool infinity();
  bool string();
  bool escape();
  std::optional<uint32_t> hex4();
  size_t digits();
  void skip_space();

  bool at(char c) const { return pos_ < text_.size() && text_[pos_] == c; }

  std::string_view text_;
  size_t depth_max_;
  JsonWords words_;
  size_t pos_ = 0;
  size_t begin_ = 0;
  std::string_view raw_;
  std::string_view problem_;
  State state_ = State::kValue;
  std::string open_;  // '{' and '[' that wait for their partners
};

// What a string stands for. `raw` is a JsonScanner's: `raw` itself when nothing in it is escaped,
// else a view of `scratch`.
std::string_view unescape_json(std::string_view raw, std::string& scratch);

// Nothing for what is no integer in [0, 2^64).
std::optional<uint64_t> json_unsigned(std::string_view number);

// The nearest double; nothing beyond the largest.
std::optional<double> json_double(std::string_view number);

}  // namespace cairn
