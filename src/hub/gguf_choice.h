// Which GGUF of several is meant. Names are all there is to go by: "x-Q4_K_M.gguf", and in parts
// "x-Q4_K_M-00001-of-00003.gguf".
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn {

// What people mean who do not say which: the usual balance of size and loss.
inline constexpr std::string_view kDefaultQuant = "Q4_K_M";

// One model in one file or several.
struct GgufChoice {
  std::vector<std::string> parts;  // paths, in order; the first stands for all
  size_t n_parts = 1;              // that the names speak of; more than parts.size(): some miss

  const std::string& name() const { return parts.front(); }

  bool is_whole() const { return parts.size() == n_parts; }
};

// The GGUF models among `paths`, sorted by name. Vision parts (mmproj*) and importance matrices
// (*imatrix*) are none.
std::vector<GgufChoice> gguf_choices(std::span<const std::string> paths);

// Whether `path` carries `quant` as a word of its own, in any case: "x-Q4_K_M.gguf" does not carry
// "Q4_K", "x-IQ4_XS.gguf" does not carry "Q4_XS". Folders count: "Q8_0/x-00001-of-00002.gguf".
bool carries_quant(std::string_view path, std::string_view quant);

// The one of `choices` that carries `quant`, or when that is empty the only one, or that of
// kDefaultQuant. Errors: kNotFound (none carries it; none there), kInvalidArgument (several); both
// list what is there, and say how to choose.
Result<GgufChoice> choose_gguf(std::span<const GgufChoice> choices,
                               std::string_view quant,
                               std::string_view repo_id);

// The one whose part is `file`. Errors: kNotFound.
Result<GgufChoice> find_gguf(std::span<const GgufChoice> choices,
                             std::string_view file,
                             std::string_view repo_id);

}  // namespace cairn
