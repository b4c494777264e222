#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/check.h"
#include "text/utf8.h"

namespace cairn {

namespace {

bool is_composed(NormalForm form) {
  return form == NormalForm::kNfc || form == NormalForm::kNfkc;
}

bool is_compatible(NormalForm form) {
  return form == NormalForm::kNfkc || form == NormalForm::kNfkd;
}

// True when no character of `text` can change or combine with a neighbour. ASCII never does; below
// U+0300 every character is its own NFC (lead bytes up to 0xCB).
bool is_unchanged(std::string_view text, NormalForm form) {
  const unsigned limit = form == NormalForm::kNfc ? 0xCC : 0x80;
  return std::all_of(text.begin(), text.end(), [limit](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < limit;
  });
}

std::string convert(std::string_view text, NormalForm form) {
  unsigned options = UTF8PROC_STABLE;
  options |= is_composed(form) ? unsigned{UTF8PROC_COMPOSE} : unsigned{UTF8PROC_DECOMPOSE};
  if (is_compatible(form)) options |= unsigned{UTF8PROC_COMPAT};
  utf8proc_uint8_t* bytes = nullptr;
  const utf8proc_ssize_t n = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                          static_cast<utf8proc_ssize_t>(text.size()),
                                          &bytes,
                                          static_cast<utf8proc_option_t>(options));
  CAIRN_CHECK(n >= 0, "utf8proc refuses only invalid UTF-8 and exhausted memory");
  std::string out(reinterpret_cast<const char*>(bytes), static_cast<size_t>(n));
  std::free(bytes);  // NOLINT(cppcoreguidelines-no-malloc): utf8proc allocates with malloc
  return out;
}

// One overload a step: the new text, or nothing when it stays as it is. `text` is not empty.
std::optional<std::string> run(NormalForm form, std::string_view text) {
  if (is_unchanged(text, form)) return std::nullopt;
  return convert(text, form);
}

std::optional<std::string> run(const PrependText& step, std::string_view text) {
  return step.text + std::string(text);
}

std::optional<std::string> run(const ReplaceText& step, std::string_view text) {
  size_t next = text.find(step.from);
  if (next == std::string_view::npos) return std::nullopt;
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  size_t done = 0;
  for (; next != std::string_view::npos; next = text.find(step.from, done)) {
    out += text.substr(done, next - done);
    out += step.to;
    done = next + step.from.size();
  }
  out += text.substr(done);
  return out;
}

std::optional<std::string> run(const ReplaceMatches& step, std::string_view text) {
  Regex::Matcher matcher(step.pattern);
  std::optional<std::string> out;
  size_t done = 0;
  for (size_t pos = 0; pos < text.size();) {
    const auto match = matcher.find(text, pos);
    if (!match || match->begin >= text.size()) break;
    if (match->begin == match->end) {
      pos = match->begin + utf8::decode(text.substr(match->begin)).n_bytes;
      continue;
    }
    if (!out) out.emplace();
    *out += text.substr(done, match->begin - done);
    *out += step.to;
    done = pos = match->end;
  }
  if (out) *out += text.substr(done);
  return out;
}

std::optional<std::string> run(const StripSpace& step, std::string_view text) {
  std::string_view rest = text;
  while (step.strips_left && !rest.empty()) {
    const utf8::Decoded c = utf8::decode(rest);
    if (!utf8::is_white_space(c.code)) break;
    rest.remove_prefix(c.n_bytes);
  }
  while (step.strips_right && !rest.empty()) {
    const utf8::Decoded c = utf8::previous(rest, rest.size());
    if (!utf8::is_white_space(c.code)) break;
    rest.remove_suffix(c.n_bytes);
  }
  if (rest.size() == text.size()) return std::nullopt;
  return std::string(rest);
}

std::optional<std::string> run(const MapGraphemes& step, std::string_view text) {
  constexpr size_t kWholeBytesMax = 5;
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    std::string_view cluster = text.substr(pos, utf8::first_grapheme(text.substr(pos)));
    pos += cluster.size();
    if (cluster.size() <= kWholeBytesMax) {
      if (const auto rule = step.map.find_shortest(cluster)) {
        out += rule->replacement;
        continue;
      }
    }
    while (!cluster.empty()) {
      const std::string_view character = cluster.substr(0, utf8::decode(cluster).n_bytes);
      const auto rule = step.map.find_shortest(character);
      out += rule ? rule->replacement : character;
      cluster.remove_prefix(character.size());
    }
  }
  return out;
}

std::optional<std::string> run(const SentencePieceRules& step, std::string_view text) {
  return step.normalize(text);
}

}  // namespace

std::string_view Normalizer::normalize(std::string_view text, std::string& scratch) const {
  for (const Step& step : steps_) {
    if (text.empty()) break;
    auto next = std::visit([text](const auto& known) { return run(known, text); }, step);
    if (!next) continue;
    scratch = std::move(*next);
    text = scratch;
  }
  return text;
}

}  // namespace cairn
