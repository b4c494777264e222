// String operations as Python's str has them, over UTF-8. Positions count characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::jinja {

// str.isspace() of one character: White_Space and U+001C to U+001F.
bool is_space(char32_t code);

enum class Side { kLeft, kRight, kBoth };

// strip(), lstrip(), rstrip(); without `characters` white space is taken off.
std::string_view strip(std::string_view text,
                       Side side,
                       std::optional<std::string_view> characters = std::nullopt);

// split(None, max) and split(separator, max); n_max < 0 is no limit. Requires a non-empty
// separator.
std::vector<std::string_view> split_space(std::string_view text, int64_t n_max);
std::vector<std::string_view> split(std::string_view text,
                                    std::string_view separator,
                                    int64_t n_max);
std::vector<std::string_view> rsplit(std::string_view text,
                                     std::string_view separator,
                                     int64_t n_max);
std::vector<std::string_view> split_lines(std::string_view text, bool keeps_ends);

// replace(); n_max < 0 is no limit. The caller bounds the size of the result.
std::string replace(std::string_view text,
                    std::string_view from,
                    std::string_view to,
                    int64_t n_max);
size_t count(std::string_view text, std::string_view part);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);
// Jinja's title filter: words begin after white space and - ( { [ < only, so "it's" stays one.
std::string title_words(std::string_view text);

// isalpha(), isdigit(), ...; all false for the empty text.
enum class CharClass { kAlpha, kDigit, kDecimal, kNumeric, kAlnum, kSpace };
bool all_are(std::string_view text, CharClass char_class);
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);

// Byte offset of the idx-th character; text.size() at or past the end.
size_t byte_offset(std::string_view text, size_t idx);
std::vector<std::string_view> characters(std::string_view text);

// HTML: & < > " ' as entities.
std::string escape_html(std::string_view text);

}  // namespace cairn::jinja
