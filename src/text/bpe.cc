#include "text/bpe.h"

#include <cstdint>
#include <utility>

namespace cairn {

Bpe::Bpe(TokenTable tokens, MergeTable merges, Options options)
    : tokens_(std::move(tokens)), merges_(std::move(merges)), options_(options) {
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const char c = static_cast<char>(byte);
    byte_ids_[byte] = tokens_.find(std::string_view(&c, 1));
    if (!byte_ids_[byte]) byte_ids_[byte] = options_.unknown;
  }
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  if (options_.ignore_merges) {
    if (const auto id = tokens_.find(piece)) {
      out.push_back(*id);
      return;
    }
  }
  scratch.ids.clear();
  for (const char c : piece) {
    if (const auto id = byte_ids_[static_cast<uint8_t>(c)]) scratch.ids.push_back(*id);
  }
  merges_.apply(scratch);
  out.insert(out.end(), scratch.ids.begin(), scratch.ids.end());
}

}  // namespace cairn
