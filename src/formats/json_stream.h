// Reads JSON as a stream of events, for files whose tree would be large or whose duplicate keys
// must be seen: a tree keeps one of two equal keys and hides that there were two.
//
// Thread: any; a visitor belongs to one call. Format: RFC 8259, UTF-8 checked.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace cairn {

// What the stream meets. The first call that returns an error ends the walk with that error. Views
// are valid for the call.
class JsonVisitor {
 public:
  JsonVisitor() = default;
  JsonVisitor(const JsonVisitor&) = delete;
  JsonVisitor& operator=(const JsonVisitor&) = delete;
  JsonVisitor(JsonVisitor&&) = delete;
  JsonVisitor& operator=(JsonVisitor&&) = delete;
  virtual ~JsonVisitor() = default;

  virtual Status on_begin_object() = 0;
  virtual Status on_end_object() = 0;
  virtual Status on_begin_array() = 0;
  virtual Status on_end_array() = 0;
  virtual Status on_key(std::string_view key) = 0;
  virtual Status on_string(std::string_view text) = 0;
  virtual Status on_unsigned(uint64_t value) = 0;
  // null, true, false, a negative number or a fraction; `what` says which.
  virtual Status on_other(std::string_view what) = 0;
};

// Walks one JSON value that fills `text` but for white space.
//   max_depth  objects and arrays that may be open at once
// Errors: kCorruption with the byte offset for bad JSON or too deep nesting; the visitor's own.
Status walk_json(std::string_view text, int max_depth, JsonVisitor& visitor);

}  // namespace cairn
