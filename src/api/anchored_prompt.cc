#include "api/anchored_prompt.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/json.h"
#include "text/chat_format.h"

namespace cairn {
namespace {

constexpr std::string_view kDomain = "cairn.anchor.1";
// A reply that no template changes, to see what one puts behind it.
constexpr std::string_view kProbeReply = "cairn";

struct Cut {
  size_t at = 0;
  AnchorKey key;
};

// Digests of the text up to each cut, and of all of it as the state to go on from.
std::vector<Cut> digests_at(std::span<const size_t> ends, std::string_view text, Sha256& hash) {
  std::vector<Cut> cuts;
  size_t done = 0;
  for (const size_t end : ends) {
    hash.update(text.substr(done, end - done));
    done = end;
    cuts.push_back({end, hash.copy().finish()});
  }
  hash.update(text.substr(done));
  return cuts;
}

}  // namespace

Digest anchor_scope(const Digest& cache_root, const Tokenizer& tokenizer) {
  Sha256 hash;
  hash.update_field(kDomain).update(cache_root.bytes).update(tokenizer.digest().bytes);
  return hash.finish();
}

AnchoredPrompt encode_anchored(const ServedModel& model,
                               std::string_view key_namespace,
                               std::string_view text) {
  const Tokenizer& tokenizer = *model.tokenizer;
  AnchoredPrompt prompt;
  if (model.anchors == nullptr) {
    prompt.ids = tokenizer.encode(text, false);
    return prompt;
  }
  auto basis = std::make_shared<AnchorBasis>();
  basis->text.update(model.anchor_scope.bytes).update_field(key_namespace);
  const std::vector<Cut> cuts = digests_at(tokenizer.cuts(text), text, basis->text);
  size_t begin = 0;
  for (auto cut = cuts.rbegin(); cut != cuts.rend() && begin == 0; ++cut) {
    auto ids = model.anchors->find(cut->key);
    if (!ids || tokenizer.decode(*ids, false) != text.substr(0, cut->at)) continue;
    prompt.ids = std::move(*ids);
    basis->parent = cut->key;
    begin = cut->at;
  }
  prompt.n_anchored = prompt.ids.size();
  basis->ids = begin == 0 ? tokenizer.encode(text, false) : tokenizer.encode_behind(text, begin);
  prompt.ids.insert(prompt.ids.end(), basis->ids.begin(), basis->ids.end());
  prompt.basis = std::move(basis);
  return prompt;
}

std::optional<TokenId> end_of_turn(const ChatFormat& chat, const Tokenizer& tokenizer) {
  TemplateInputs inputs;
  inputs.messages = Json::array(
      {{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", kProbeReply}}});
  const auto rendered = chat.render(inputs);
  if (!rendered.is_ok()) return std::nullopt;
  const size_t reply = rendered->rfind(kProbeReply);
  if (reply == std::string::npos) return std::nullopt;
  const size_t begin = reply + kProbeReply.size();
  for (const size_t end : tokenizer.cuts(*rendered)) {
    if (end <= begin) continue;
    const auto id = tokenizer.find_token(std::string_view(*rendered).substr(begin, end - begin));
    return id && tokenizer.is_added(*id) ? id : std::nullopt;
  }
  return std::nullopt;
}

std::optional<Anchor> anchor_of_reply(const AnchorBasis& basis,
                                      const ServedModel& model,
                                      std::span<const TokenId> ids,
                                      std::string_view text) {
  if (!model.end_of_turn) return std::nullopt;
  const Tokenizer& tokenizer = *model.tokenizer;
  Anchor anchor{.key = {}, .parent = basis.parent, .ids = basis.ids};
  size_t n_bytes = 0;
  for (const TokenId id : ids) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    if (n_bytes + bytes.size() > text.size() || text.substr(n_bytes, bytes.size()) != bytes) break;
    n_bytes += bytes.size();
    anchor.ids.push_back(id);
  }
  if (n_bytes != text.size()) return std::nullopt;
  anchor.ids.push_back(*model.end_of_turn);
  anchor.key =
      basis.text.copy().update(text).update(tokenizer.token_bytes(*model.end_of_turn)).finish();
  return anchor;
}

}  // namespace cairn
