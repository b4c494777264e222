// What state a model keeps per token: cache groups, their retention and their row encoding.
//
// Every kind of KV cache is a pair (retention, encoding); paging is how rows are always stored. An
// unknown kind is an error, never a silent route. Design: DESIGN.md 3.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "kernels/page_layout.h"

namespace cairn {

inline constexpr uint32_t kPageTokens = 64;

enum class Retention { kFull };  // window and state retentions join when their families do

// Layers with one geometry. Sliding-window layers are masks over full pages.
struct CacheGroup {
  std::vector<uint32_t>
      layers;  // model layer indices, ascending; position in here = layer inside pages
  Retention retention = Retention::kFull;
  PageLayout layout;
};

struct CacheGeometry {
  uint32_t page_tokens = kPageTokens;
  std::vector<CacheGroup> groups;  // at least one

  size_t page_bytes() const;     // all groups' slots for one page, as allocated
  size_t payload_bytes() const;  // all groups' bytes of one page without padding
};

// "f32" or "bf16" (the --kv flag). Errors: kInvalidArgument naming the accepted values.
Result<RowEncoding> parse_row_encoding(std::string_view text);

// A root names one timeline of keys: everything that decides what a row's bytes are.
struct RootSpec {
  Digest model_identity;  // numbers-changing ModelSpec fields and weight content
  CacheGeometry geometry;
  std::string numerics_version;  // Backend::numerics_version() and the model's own choices
  std::string key_namespace;     // "" for the default
  std::string model_label;       // for people; not part of the key
};

}  // namespace cairn
