#include "text/char_bpe.h"

#include <utility>

#include "text/utf8.h"

namespace cairn {

void JoinFilter::add(std::string_view left, std::string_view right) {
  if (left.empty() || right.empty()) return;
  const char32_t last = utf8::previous(left, left.size()).code;
  const size_t bit = bit_of(last, utf8::decode(right).code);
  bits_[bit / 64] |= uint64_t{1} << (bit % 64);
}

CharBpe::CharBpe(TokenTable pieces, MergeTable merges, JoinFilter joins, Options options)
    : pieces_(std::move(pieces)),
      merges_(std::move(merges)),
      joins_(std::move(joins)),
      options_(options),
      byte_tokens_(pieces_) {
  for (size_t code = 0; code < ascii_ids_.size(); ++code) {
    const char c = static_cast<char>(code);
    ascii_ids_[code] = pieces_.find(std::string_view(&c, 1));
  }
}

std::optional<TokenId> CharBpe::find_character(std::string_view character) const {
  if (character.size() == 1) return ascii_ids_[static_cast<uint8_t>(character[0])];
  return pieces_.find(character);
}

void CharBpe::encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  if (options_.ignore_merges) {
    if (const auto id = pieces_.find(piece)) {
      out.push_back(*id);
      return;
    }
  }
  auto& run = scratch.ids;
  const auto merge_run = [&] {
    merges_.apply(scratch);
    out.insert(out.end(), run.begin(), run.end());
    run.clear();
  };
  run.clear();
  // An unknown character waits for the next known one. As in the reference, bytes of fallback do
  // not end the wait.
  bool has_unknown = false;
  char32_t previous = 0;
  for (size_t pos = 0; pos < piece.size();) {
    const utf8::Decoded c = utf8::decode(piece.substr(pos));
    const std::string_view character = piece.substr(pos, c.n_bytes);
    pos += c.n_bytes;
    if (!has_unknown && !run.empty() && !joins_.may_join(previous, c.code)) merge_run();
    previous = c.code;
    if (const auto id = find_character(character)) {
      if (has_unknown) run.push_back(*options_.unknown);
      has_unknown = false;
      run.push_back(*id);
      continue;
    }
    if (options_.has_byte_fallback && byte_tokens_.append(character, run)) continue;
    if (!options_.unknown) continue;
    if (has_unknown && !options_.fuses_unknown) run.push_back(*options_.unknown);
    has_unknown = true;
  }
  if (has_unknown) run.push_back(*options_.unknown);
  merge_run();
}

}  // namespace cairn
