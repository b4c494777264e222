#include "text/unigram.h"

#include <limits>
#include <utility>

#include "base/check.h"
#include "text/utf8.h"

namespace cairn {

namespace {

constexpr uint32_t kNoPiece = std::numeric_limits<uint32_t>::max();

}  // namespace

Unigram::Unigram(PieceTrie pieces,
                 std::vector<double> scores,
                 ByteTokens byte_tokens,
                 Options options)
    : pieces_(std::move(pieces)),
      scores_(std::move(scores)),
      byte_tokens_(std::move(byte_tokens)),
      options_(options) {}

void Unigram::find_best(std::string_view piece, Scratch& scratch) const {
  auto& best = scratch.best;
  best.assign(piece.size() + 1, {0, kNoPiece, 0});
  const auto offer = [&](size_t end, double score, size_t begin, TokenId id) {
    Scratch::Step& step = best[end];
    if (step.begin != kNoPiece && !(score > step.score)) return;
    if (options_.has_f32_sums) score = static_cast<double>(static_cast<float>(score));
    step = {score, static_cast<uint32_t>(begin), id};
  };
  for (size_t begin = 0; begin < piece.size();) {
    const double score_here = best[begin].score;
    const size_t n_first = utf8::decode(piece.substr(begin)).n_bytes;
    bool has_first = false;
    pieces_.for_each_prefix(piece.substr(begin), [&](size_t n_bytes, TokenId id) {
      offer(begin + n_bytes, scores_[id] + score_here, begin, id);
      has_first |= n_bytes == n_first;
    });
    if (!has_first) {
      double score = options_.unknown_score + score_here;
      if (options_.has_f32_sums) score = static_cast<double>(static_cast<float>(score));
      offer(begin + n_first, score, begin, options_.unknown);
    }
    begin += n_first;
  }
}

void Unigram::append_unknown(std::string_view characters, std::vector<TokenId>& out) const {
  if (options_.looks_up_unknown) {
    if (const auto id = pieces_.find(characters)) {
      out.push_back(*id);
      return;
    }
  }
  if (options_.has_byte_fallback && byte_tokens_.append(characters, out)) return;
  out.push_back(options_.unknown);
}

void Unigram::encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  CAIRN_CHECK(piece.size() < kNoPiece);
  find_best(piece, scratch);
  auto& path = scratch.path;
  path.clear();
  for (size_t end = piece.size(); end > 0; end = path.back().begin) {
    path.push_back(scratch.best[end]);
  }
  for (size_t i = path.size(); i-- > 0;) {
    if (path[i].id != options_.unknown) {
      out.push_back(path[i].id);
      continue;
    }
    const size_t begin = path[i].begin;
    while (i > 0 && path[i - 1].id == options_.unknown) --i;
    const size_t end = i == 0 ? piece.size() : path[i - 1].begin;
    append_unknown(piece.substr(begin, end - begin), out);
  }
}

}  // namespace cairn
