#include "formats/json_stream.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "base/json_scanner.h"
#include "base/result.h"

namespace cairn {
namespace {

using Event = JsonScanner::Event;

// Far above every name and note in published files; it bounds what one string can cost.
constexpr size_t kStringBytesMax = size_t{16} << 20;

Status damaged(const JsonScanner& scanner, std::string_view problem) {
  return Status::corruption(fmt::format("bad JSON at byte {}: {}", scanner.offset(), problem));
}

Status on_number(const JsonScanner& scanner, JsonVisitor& visitor) {
  const std::string_view number = scanner.raw();
  if (const auto value = json_unsigned(number)) return visitor.on_unsigned(*value);
  if (!json_double(number)) return damaged(scanner, "a number out of range");
  const bool is_whole = number.find_first_of(".eE") == std::string_view::npos;
  return visitor.on_other(is_whole && number.starts_with('-') ? "a negative number" : number);
}

Status on_text(const JsonScanner& scanner,
               bool is_key,
               std::string& scratch,
               JsonVisitor& visitor) {
  const std::string_view raw = scanner.raw();
  if (raw.size() > kStringBytesMax) {
    return damaged(scanner,
                   fmt::format("a string of {} bytes; at most {}", raw.size(), kStringBytesMax));
  }
  const std::string_view text = unescape_json(raw, scratch);
  return is_key ? visitor.on_key(text) : visitor.on_string(text);
}

Status hand_on(Event event,
               const JsonScanner& scanner,
               std::string& scratch,
               JsonVisitor& visitor) {
  switch (event) {
    case Event::kBeginObject:
      return visitor.on_begin_object();
    case Event::kEndObject:
      return visitor.on_end_object();
    case Event::kBeginArray:
      return visitor.on_begin_array();
    case Event::kEndArray:
      return visitor.on_end_array();
    case Event::kKey:
    case Event::kString:
      return on_text(scanner, event == Event::kKey, scratch, visitor);
    case Event::kNumber:
      return on_number(scanner, visitor);
    case Event::kTrue:
      return visitor.on_other("true");
    case Event::kFalse:
      return visitor.on_other("false");
    case Event::kNull:
      return visitor.on_other("null");
    case Event::kBad:
      return damaged(scanner, scanner.problem());
    case Event::kEnd:
      break;
  }
  return Status::ok();
}

}  // namespace

Status walk_json(std::string_view text, int max_depth, JsonVisitor& visitor) {
  JsonScanner scanner(text, static_cast<size_t>(max_depth));
  std::string scratch;
  while (true) {
    const Event event = scanner.next();
    if (event == Event::kEnd) return Status::ok();
    CAIRN_RETURN_IF_ERROR(hand_on(event, scanner, scratch, visitor));
  }
}

}  // namespace cairn
