#include "formats/gguf_pre_tokenizers.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string>

namespace cairn {

namespace {

constexpr std::string_view kGpt2 =
    R"re('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)re";

constexpr std::string_view kLlama3 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)re"
    R"re( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";

constexpr std::string_view kQwen2 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)re"
    R"re( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";

// Marks count as letters.
constexpr std::string_view kQwen35 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)re"
    R"re( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";

constexpr std::string_view kO200k =
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|)re"
    R"re('t|'re|'ve|'m|'ll|'d)?|)re"
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|)re"
    R"re('t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|)re"
    R"re(\s+(?!\S)|\s+)re";

constexpr std::string_view kTekken =
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)re"
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)re"
    R"re(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";

// The cased letters of the Unicode version that DeepSeek LLM was made with.
constexpr std::string_view kDeepseekLetters =
    R"(\s?[)"
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386})"
    R"(\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F})"
    R"(\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA})"
    R"(\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D})"
    R"(\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4})"
    R"(\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3})"
    R"(\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D})"
    R"(\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184})"
    R"(\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
    R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})"
    R"(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A})"
    R"(\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"
    R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
    R"(]+)";

constexpr std::string_view kDeepseekPunctuation =
    R"re(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)re";

// Han, and much else that lies around it.
constexpr std::string_view kDeepseekCjk =
    R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::string_view kDeepseek3Cjk =
    R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view kDeepseek3Words =
    R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)re"
    R"re([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)re"
    R"re(\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kBloomWords =
    R"re( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)re";

constexpr std::string_view kGpt2Splits[] = {kGpt2};
constexpr std::string_view kLlama3Splits[] = {kLlama3};
constexpr std::string_view kQwen2Splits[] = {kQwen2};
constexpr std::string_view kQwen35Splits[] = {kQwen35};
constexpr std::string_view kO200kSplits[] = {kO200k};
constexpr std::string_view kTekkenSplits[] = {kTekken};
constexpr std::string_view kDigitSplits[] = {R"(\p{N})", kGpt2};
constexpr std::string_view kFalconSplits[] = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2, "[0-9][0-9][0-9]"};
constexpr std::string_view kDefaultSplits[] = {
    R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"};
constexpr std::string_view kDeepseekLlmSplits[] = {
    R"([\r\n])", kDeepseekLetters, kDeepseekPunctuation, R"(\s+$)", kDeepseekCjk, R"(\p{N}+)"};
constexpr std::string_view kDeepseekCoderSplits[] = {
    R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepseekCjk, R"(\p{N})"};
constexpr std::string_view kDeepseek3Splits[] = {R"(\p{N}{1,3})", kDeepseek3Cjk, kDeepseek3Words};
constexpr std::string_view kBloomSplits[] = {kBloomWords};
constexpr std::string_view kVikingSplits[] = {kBloomWords, R"(\p{N})"};

struct Named {
  std::string_view name;
  GgufPreTokenizer what;
};

constexpr Named kNamed[] = {
    // name, splits, ignore_merges, adds_bos, composes; of equal ones the common name comes first
    {"default", {kDefaultSplits, false, false, false}},
    {"llama-bpe", {kLlama3Splits, true, true, false}},
    {"llama3", {kLlama3Splits, true, true, false}},
    {"llama-v3", {kLlama3Splits, true, true, false}},
    {"falcon3", {kLlama3Splits, true, true, false}},
    {"falcon-h1", {kLlama3Splits, true, true, false}},
    {"pixtral", {kLlama3Splits, true, true, false}},
    {"midm-2.0", {kLlama3Splits, true, true, false}},
    {"lfm2", {kLlama3Splits, true, true, false}},
    {"dbrx", {kLlama3Splits, false, false, false}},
    {"smaug-bpe", {kLlama3Splits, false, false, false}},
    {"chatglm-bpe", {kLlama3Splits, false, false, false}},
    {"glm4", {kLlama3Splits, false, false, false}},
    {"qwen2", {kQwen2Splits, false, false, true}},
    {"deepseek-r1-qwen", {kQwen2Splits, false, false, true}},
    {"megrez", {kQwen2Splits, false, false, true}},
    {"hunyuan", {kQwen2Splits, false, false, false}},
    {"kormo", {kQwen2Splits, false, false, false}},
    {"stablelm2", {kQwen2Splits, false, false, false}},
    {"qwen35", {kQwen35Splits, false, false, true}},
    {"gpt-4o", {kO200kSplits, true, false, false}},
    {"llama4", {kO200kSplits, true, false, false}},
    {"tekken", {kTekkenSplits, true, true, false}},
    {"gpt-2", {kGpt2Splits, false, false, false}},
    {"phi-2", {kGpt2Splits, false, false, false}},
    {"mpt", {kGpt2Splits, false, false, false}},
    {"olmo", {kGpt2Splits, false, false, false}},
    {"jais", {kGpt2Splits, false, false, false}},
    {"trillion", {kGpt2Splits, false, false, false}},
    {"gigachat", {kGpt2Splits, false, false, false}},
    {"jina-es", {kGpt2Splits, false, false, false}},
    {"jina-de", {kGpt2Splits, false, false, false}},
    {"jina-v2-es", {kGpt2Splits, false, false, false}},
    {"jina-v2-de", {kGpt2Splits, false, false, false}},
    {"granite-docling", {kGpt2Splits, false, false, false}},
    {"starcoder", {kDigitSplits, false, false, false}},
    {"refact", {kDigitSplits, false, false, false}},
    {"command-r", {kDigitSplits, false, false, false}},
    {"smollm", {kDigitSplits, false, false, false}},
    {"codeshell", {kDigitSplits, false, false, false}},
    {"exaone", {kDigitSplits, false, false, false}},
    {"minerva-7b", {kDigitSplits, false, false, false}},
    {"falcon", {kFalconSplits, false, false, false}},
    {"deepseek-llm", {kDeepseekLlmSplits, false, false, false}},
    {"deepseek-coder", {kDeepseekCoderSplits, false, false, false}},
    {"deepseek-v3", {kDeepseek3Splits, false, false, false}},
    {"hunyuan-dense", {kDeepseek3Splits, false, false, false}},
    {"bloom", {kBloomSplits, false, false, false}},
    {"poro-chat", {kBloomSplits, false, false, false}},
    {"gpt3-finnish", {kBloomSplits, false, false, false}},
    {"viking", {kVikingSplits, false, false, false}},
};

}  // namespace

Result<GgufPreTokenizer> find_gguf_pre_tokenizer(std::string_view name) {
  if (name.empty()) name = "default";  // files of before the key existed
  const auto* found = std::find_if(std::begin(kNamed),
                                   std::end(kNamed),
                                   [name](const Named& named) { return named.name == name; });
  if (found != std::end(kNamed)) return found->what;
  std::string known;
  for (const Named& named : kNamed) {
    if (!known.empty()) known += ", ";
    known += named.name;
  }
  return Status::unsupported(
      fmt::format("tokenizer.ggml.pre is \"{}\"; supported are {}", name, known));
}

std::string_view gpt2_split() {
  return kGpt2;
}

std::optional<std::string_view> find_gguf_pre_tokenizer_name(std::span<const std::string> splits,
                                                             std::optional<bool> ignore_merges,
                                                             bool composes) {
  for (const Named& named : kNamed) {
    const GgufPreTokenizer& what = named.what;
    if (what.composes != composes) continue;
    if (ignore_merges && what.ignore_merges != *ignore_merges) continue;
    if (std::equal(splits.begin(), splits.end(), what.splits.begin(), what.splits.end())) {
      return named.name;
    }
  }
  return std::nullopt;
}

}  // namespace cairn
