#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"

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

}  // namespace

std::string_view Normalizer::normalize(std::string_view text, std::string& scratch) const {
  for (const NormalForm form : forms_) {
    if (is_unchanged(text, form)) continue;
    scratch = convert(text, form);
    text = scratch;
  }
  return text;
}

}  // namespace cairn
