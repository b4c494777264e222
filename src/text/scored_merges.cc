#include "text/scored_merges.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "text/utf8.h"

namespace cairn {

namespace {

constexpr size_t kPieceBytesMax = 512;
constexpr size_t kMergesMax = size_t{1} << 20U;  // the largest known model has 580,604

struct Pair {
  TokenId left = 0;
  TokenId right = 0;
  MergeTable::Merge merge;
};

// The distinct scores, best first: a score's place is its rank.
Result<std::vector<float>> rank_scores(const std::vector<ScoredPiece>& pieces) {
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
  return scores;
}

class PairFinder {
 public:
  PairFinder(const TokenTable& table, const std::vector<bool>& is_mergeable)
      : table_(table), is_mergeable_(is_mergeable) {}

  // Every way to cut the piece in two pieces.
  void add(const ScoredPiece& piece, uint32_t rank) {
    const std::string_view text = piece.text;
    for (size_t n = utf8::decode(text).n_bytes; n < text.size();
         n += utf8::decode(text.substr(n)).n_bytes) {
      const auto left = find(text.substr(0, n));
      if (!left) continue;
      const auto right = find(text.substr(n));
      if (!right) continue;
      pairs_.push_back({*left, *right, {rank, piece.id}});
      joins_.add(text.substr(0, n), text.substr(n));
    }
  }

  size_t n_pairs() const { return pairs_.size(); }

  ScoredMerges finish() {
    ScoredMerges out;
    out.merges = MergeTable(pairs_.size());
    for (const Pair& pair : pairs_) out.merges.insert(pair.left, pair.right, pair.merge);
    out.joins = std::move(joins_);
    return out;
  }

 private:
  std::optional<TokenId> find(std::string_view text) const {
    const auto id = table_.find(text);
    return id && is_mergeable_[*id] ? id : std::nullopt;
  }

  const TokenTable& table_;
  const std::vector<bool>& is_mergeable_;
  std::vector<Pair> pairs_;
  JoinFilter joins_;
};

}  // namespace

Result<ScoredMerges> make_scored_merges(std::vector<ScoredPiece> pieces,
                                        const TokenTable& table,
                                        const std::vector<bool>& is_mergeable) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<float> scores, rank_scores(pieces));
  PairFinder finder(table, is_mergeable);
  for (const ScoredPiece& piece : pieces) {
    const auto at = std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>());
    finder.add(piece, static_cast<uint32_t>(at - scores.begin()));
    if (finder.n_pairs() > kMergesMax) {
      return Status::unsupported(fmt::format(
          "the pieces imply more than {} merges; that is the most supported", kMergesMax));
    }
  }
  pieces = {};  // before the table takes its memory
  return finder.finish();
}

}  // namespace cairn
