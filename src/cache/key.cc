#include "cache/key.h"

#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/coding.h"

namespace cairn {

namespace {

constexpr uint8_t kTokenTag = 1;
constexpr size_t kElementBytes = 1 + sizeof(TokenId);

std::string_view to_text(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()};
}

// Spelled out, not the enumerator's number: inserting a value must not rename every root.
std::string_view retention_name(Retention retention) {
  switch (retention) {
    case Retention::kFull:
      return "full";
  }
  check_failed("retention", __FILE__, __LINE__, "unknown retention");
}

std::byte* put_elements(std::byte* out, std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) {
    *out = std::byte{kTokenTag};
    store_le<uint32_t>(out + 1, token);
    out += kElementBytes;
  }
  return out;
}

void hash_group(Sha256& hash, const CacheGroup& group) {
  hash.update_u32(static_cast<uint32_t>(group.layers.size()));
  for (const uint32_t layer : group.layers) hash.update_u32(layer);
  hash.update_field(retention_name(group.retention));
  hash.update_field(to_string(group.layout.encoding));
  hash.update_u32(group.layout.n_layers);
  hash.update_u32(group.layout.n_kv_heads);
  hash.update_u32(group.layout.head_dim);
  hash.update_u32(group.layout.page_tokens);
}

}  // namespace

RootKey root_key(const RootSpec& spec) {
  Sha256 hash;
  hash.update_field("cairn.root.1");
  hash.update_field(to_text(spec.model_identity));
  hash.update_u32(spec.geometry.page_tokens);
  hash.update_u32(static_cast<uint32_t>(spec.geometry.groups.size()));
  for (const CacheGroup& group : spec.geometry.groups) hash_group(hash, group);
  hash.update_field(spec.numerics_version);
  hash.update_field(spec.key_namespace);
  return hash.finish();
}

PageKey chain_key(const PageKey& parent, std::span<const TokenId> tokens) {
  std::vector<std::byte> message(parent.bytes.size() + tokens.size() * kElementBytes);
  std::memcpy(message.data(), parent.bytes.data(), parent.bytes.size());
  put_elements(message.data() + parent.bytes.size(), tokens);
  return sha256(message);
}

std::string prompt_ids_hash(std::span<const TokenId> tokens) {
  std::vector<std::byte> message(tokens.size() * kElementBytes);
  put_elements(message.data(), tokens);
  return to_hex(sha256(message));
}

}  // namespace cairn
