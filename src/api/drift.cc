#include "api/drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"

namespace cairn {
namespace {

// How much has to be found again elsewhere before it counts as the same text.
constexpr size_t kProbeBytes = 40;
constexpr size_t kWordBytesMax = 40;
constexpr size_t kNearBytes = 24;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// The word that the difference lies in: the end of what is shared and the front of `rest`.
std::string word_at(std::string_view shared, std::string_view rest) {
  size_t n_before = 0;
  while (n_before < std::min(shared.size(), kWordBytesMax) &&
         !is_space(shared[shared.size() - 1 - n_before])) {
    ++n_before;
  }
  const size_t n_behind = static_cast<size_t>(
      std::find_if(rest.begin(),
                   rest.begin() + static_cast<std::ptrdiff_t>(std::min(rest.size(), kWordBytesMax)),
                   is_space) -
      rest.begin());
  return std::string(shared.substr(shared.size() - n_before)) +
         std::string(rest.substr(0, n_behind));
}

constexpr std::array<std::string_view, 19> kCalendarWords = {"Jan",
                                                             "Feb",
                                                             "Mar",
                                                             "Apr",
                                                             "May",
                                                             "Jun",
                                                             "Jul",
                                                             "Aug",
                                                             "Sep",
                                                             "Oct",
                                                             "Nov",
                                                             "Dec",
                                                             "Mon",
                                                             "Tue",
                                                             "Wed",
                                                             "Thu",
                                                             "Fri",
                                                             "Sat",
                                                             "Sun"};

bool has_calendar_word(std::string_view text) {
  return std::any_of(kCalendarWords.begin(), kCalendarWords.end(), [&](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  });
}

// 2026-12-01, 14:03:59, 1764554400, "1" beside "December".
bool looks_like_a_time(std::string_view word, std::string_view around) {
  const auto n_digits = std::count_if(word.begin(), word.end(), is_digit);
  if (n_digits == 0) return has_calendar_word(word);
  const bool has_mark = word.find_first_of(":-/.") != std::string_view::npos;
  const auto n_letters = std::count_if(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
  if (n_digits >= 9) return true;  // seconds since 1970, perhaps in an identifier
  if (n_letters > 2 && !has_calendar_word(word)) return false;
  return (has_mark && n_digits >= 3) || has_calendar_word(around);
}

bool is_clock(const Difference& d) {
  // Times change at the head; what users write further down may well be numbers.
  if (d.message != nullptr && d.message->role != "system" && d.message->index > 0) return false;
  const std::string near(d.shared.substr(d.shared.size() - std::min(d.shared.size(), kNearBytes)));
  const std::string known = word_at(d.shared, d.known);
  const std::string given = word_at(d.shared, d.given);
  return known != given &&
         looks_like_a_time(known, near + std::string(d.known.substr(0, kNearBytes))) &&
         looks_like_a_time(given, near + std::string(d.given.substr(0, kNearBytes)));
}

// Names in the order in which they first appear, quoted as JSON prints them.
std::vector<std::string> names_in(std::string_view text, const std::vector<std::string>& names) {
  std::vector<std::pair<size_t, std::string>> found;
  for (const std::string& name : names) {
    const size_t at = text.find('"' + name + '"');
    if (at != std::string_view::npos) found.emplace_back(at, name);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> ordered;
  for (auto& [at, name] : found) ordered.push_back(std::move(name));
  return ordered;
}

bool is_tool_order(const Difference& d, const PromptOutline& outline) {
  if (outline.tool_names.size() < 2) return false;
  // The difference lies inside a tool: its front is in what both share.
  const std::string shared(d.shared.substr(
      d.shared.rfind('{') == std::string_view::npos ? d.shared.size() : d.shared.rfind('{')));
  const auto known = names_in(shared + std::string(d.known), outline.tool_names);
  const auto given = names_in(shared + std::string(d.given), outline.tool_names);
  return !known.empty() && !given.empty() && known.front() != given.front() &&
         std::find(given.begin(), given.end(), known.front()) != given.end();
}

constexpr std::array<std::string_view, 5> kReasoningMarks = {
    "<think>", "<thinking>", "[THINK]", "<|channel|>analysis", "<reasoning>"};

bool is_dropped_reasoning(const Difference& d) {
  const std::string_view known = d.known.substr(0, kProbeBytes);
  const std::string_view given = d.given.substr(0, kProbeBytes);
  return std::any_of(kReasoningMarks.begin(), kReasoningMarks.end(), [&](std::string_view mark) {
    return known.find(mark) != std::string_view::npos && given.find(mark) == std::string_view::npos;
  });
}

bool comes_later(std::string_view text, std::string_view in) {
  if (text.size() < kProbeBytes) return false;
  const size_t at = in.find(text.substr(0, kProbeBytes));
  return at != std::string_view::npos && at > 0;
}

bool is_same_text(const Difference& d) {
  const size_t n = std::min({d.known.size(), d.given.size(), kProbeBytes});
  return n > 0 && d.known.substr(0, n) == d.given.substr(0, n);
}

std::string place_of(const Difference& d) {
  return d.message == nullptr ? "the prompt" : fmt::format("messages[{}]", d.message->index);
}

}  // namespace

std::string_view to_string(DriftCause cause) {
  switch (cause) {
    case DriftCause::kSameText:
      return "same_text";
    case DriftCause::kClock:
      return "clock";
    case DriftCause::kToolsReordered:
      return "tools_reordered";
    case DriftCause::kReasoningDropped:
      return "reasoning_dropped";
    case DriftCause::kMessagesRemoved:
      return "messages_removed";
    case DriftCause::kMessagesInserted:
      return "messages_inserted";
    case DriftCause::kOtherReply:
      return "other_reply";
    case DriftCause::kEditedMessage:
      return "edited_message";
  }
  check_failed("cause", __FILE__, __LINE__, "unknown cause of a drift");
}

std::optional<Drift> recognise_drift(const Difference& d, const PromptOutline& outline) {
  const std::string place = place_of(d);
  if (is_same_text(d)) {
    return Drift{DriftCause::kSameText,
                 "the text is the same and was made of other tokens: leave text anchors on, or "
                 "send token ids"};
  }
  if (is_clock(d)) {
    return Drift{DriftCause::kClock,
                 fmt::format("a date or time in {} changes between requests: put it into the last "
                             "message, or leave out what changes",
                             place)};
  }
  if (is_tool_order(d, outline)) {
    return Drift{DriftCause::kToolsReordered,
                 "the tools are the same in another order: send them in one order, sorted by name"};
  }
  if (is_dropped_reasoning(d)) {
    return Drift{DriftCause::kReasoningDropped,
                 fmt::format("the reasoning of a reply before {} did not come back: what was "
                             "before it is reused; send it back to keep the rest",
                             place)};
  }
  if (comes_later(d.given, d.known)) {
    return Drift{DriftCause::kMessagesRemoved,
                 fmt::format("something that stood before {} is gone: shorten a history at its "
                             "end, or summarise it seldom",
                             place)};
  }
  if (comes_later(d.known, d.given)) {
    return Drift{DriftCause::kMessagesInserted,
                 fmt::format("something new stands in {} before what was known: add new text at "
                             "the end",
                             place)};
  }
  if (d.message == nullptr) return std::nullopt;
  if (d.message->role == "assistant") {
    return Drift{DriftCause::kOtherReply,
                 fmt::format("{} is another reply than the one that was cached: send replies back "
                             "as they came",
                             place)};
  }
  return Drift{DriftCause::kEditedMessage,
               fmt::format("{} was changed: everything behind a change is computed again", place)};
}

}  // namespace cairn
