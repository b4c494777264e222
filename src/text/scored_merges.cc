#include "text/scored_merges.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "text/utf8.h"

namespace cairn {

namespace {

constexpr size_t kPieceBytesMax = 512;

struct Pair {
  TokenId left = 0;
  TokenId right = 0;
  MergeTable::Merge merge;
  size_t n_left = 0;
  std::string_view text;
};

void append_pairs(const ScoredPiece& piece,
                  uint32_t rank,
                  const TokenTable& table,
                  std::vector<Pair>& out) {
  const std::string_view text = piece.text;
  for (size_t n = utf8::decode(text).n_bytes; n < text.size();
       n += utf8::decode(text.substr(n)).n_bytes) {
    const auto left = table.find(text.substr(0, n));
    if (!left) continue;
    const auto right = table.find(text.substr(n));
    if (right) out.push_back({*left, *right, {rank, piece.id}, n, text});
  }
}

}  // namespace

Result<ScoredMerges> make_scored_merges(std::span<const ScoredPiece> pieces,
                                        const TokenTable& table) {
  std::vector<float> scores;
  scores.reserve(pieces.size());
  for (const ScoredPiece& piece : pieces) {
    if (std::isnan(piece.score)) {
      return Status::corruption(fmt::format("the score of id {} is no number", piece.id));
    }
    if (piece.text.size() > kPieceBytesMax) {
      return Status::unsupported(
          fmt::format("id {} is a piece of {} bytes, at most {} are supported",
                      piece.id,
                      piece.text.size(),
                      kPieceBytesMax));
    }
    scores.push_back(piece.score);
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<Pair> pairs;
  for (const ScoredPiece& piece : pieces) {
    const auto at = std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>());
    append_pairs(piece, static_cast<uint32_t>(at - scores.begin()), table, pairs);
  }
  ScoredMerges out;
  out.merges = MergeTable(pairs.size());
  for (const Pair& pair : pairs) {
    out.merges.insert(pair.left, pair.right, pair.merge);
    out.joins.add(pair.text.substr(0, pair.n_left), pair.text.substr(pair.n_left));
  }
  return out;
}

}  // namespace cairn
