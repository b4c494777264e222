// How long tokenizers take to load, and to encode 100,000 tokens in one call.
//
//   cairn-tokenizer-bench TEXT FILE...    FILE: a model folder, or a SentencePiece .model
//
// The text is repeated until it has 100,000 tokens and cut there; medians of 7, in milliseconds.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "text/tokenizer.h"

namespace cairn {
namespace {

constexpr size_t kTokens = 100'000;
constexpr int kRounds = 7;

using TokenizerResult = Result<std::shared_ptr<const Tokenizer>>;

TokenizerResult open(const std::string& path) {
  if (!path.ends_with(".model")) return Tokenizer::load(path);
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes,
                         read_text_file(posix_file_system(), path, uint64_t{1} << 30U));
  return Tokenizer::from_sentencepiece(bytes);
}

// Whole repetitions of `text`, then its first characters, until the tokens are enough.
std::string fill(const Tokenizer& tokenizer, const std::string& text) {
  const size_t n_once = std::max<size_t>(tokenizer.encode(text, false).size(), 1);
  std::string out;
  for (size_t n = 0; n < kTokens / n_once; ++n) out += text;
  const size_t rest = text.size() * (kTokens % n_once) / n_once;
  return out + text.substr(0, rest);
}

template <typename Work>
double median_ms(Work work) {
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    times.push_back(taken.count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

Status measure(const std::string& path, const std::string& text) {
  TokenizerResult tokenizer = open(path);
  if (!tokenizer.is_ok()) return tokenizer.status();
  const double load_ms = median_ms([&] { tokenizer = open(path); });
  const std::string prompt = fill(**tokenizer, text);
  std::vector<TokenId> ids;
  const double encode_ms = median_ms([&] { ids = (*tokenizer)->encode(prompt, false); });
  const double decode_ms = median_ms([&] { (void)(*tokenizer)->decode(ids, false); });
  fmt::print("{:>9} tokens {:>9} bytes  load {:7.1f}  encode {:7.1f}  decode {:6.1f}  {}\n",
             ids.size(),
             prompt.size(),
             load_ms,
             encode_ms * kTokens / static_cast<double>(std::max<size_t>(ids.size(), 1)),
             decode_ms,
             path);
  return Status::ok();
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) {
    std::fputs("usage: cairn-tokenizer-bench TEXT FILE...\n", stderr);
    return 2;
  }
  const auto text = read_text_file(posix_file_system(), arguments[0], uint64_t{64} << 20U);
  if (!text.is_ok()) {
    fmt::print(stderr, "{}\n", text.status().to_string());
    return 1;
  }
  for (size_t i = 1; i < arguments.size(); ++i) {
    const Status status = measure(arguments[i], *text);
    if (status.is_ok()) continue;
    fmt::print(stderr, "{}\n", status.to_string());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  return cairn::run(std::vector<std::string>(argv + 1, argv + argc));
}
