// Names of prefixes. key(page) = SHA-256(key(parent) || elements): equal keys mean equal context.
//
// An element is a tag byte and a payload; tokens are tag 1 and u32 little-endian (media digests
// will be another tag, so ids cannot imitate media). A leaf's position key is the same formula over
// the tokens since the last page edge. Cryptographic because prompts are untrusted; ids are
// compared too. Design: DESIGN.md 3.3.
#pragma once

#include <span>
#include <string>

#include "base/hash.h"
#include "cache/geometry.h"
#include "cache/token.h"

namespace cairn {

using PageKey = Digest;
using RootKey = Digest;

// SHA-256 over the domain tag "cairn.root.1" and every field of `spec` except model_label, each
// length-prefixed: groups with layers, retention, encoding, geometry; page_tokens; numerics;
// namespace.
RootKey root_key(const RootSpec& spec);

// `parent` is the root key for the first page. `tokens`: 1..page_tokens ids.
PageKey chain_key(const PageKey& parent, std::span<const TokenId> tokens);

// SHA-256 of a whole id list, for usage.cairn.prompt_ids_hash.
std::string prompt_ids_hash(std::span<const TokenId> tokens);

}  // namespace cairn
