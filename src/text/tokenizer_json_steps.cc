// tokenizer.json: normaliser, pre-tokenizer, decoder and post-processor.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/json_scanner.h"
#include "text/byte_level.h"
#include "text/byte_tokens.h"
#include "text/tokenizer_json.h"

namespace cairn::tokenizer_json {

namespace {

// The split that a ByteLevel pre-tokenizer brings along (Radford et al. 2019).
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Bounds what a hostile file can make of a text: each step multiplies its length by at most the
// longest replacement, and real files have one or two of 3 bytes.
constexpr size_t kStepsMax = 8;
constexpr size_t kReplacementBytesMax = 64;
constexpr size_t kGrowthMax = 4096;

// Of a normaliser, pre-tokenizer, decoder or post-processor. The largest known is a character map
// of 0.4 MB.
constexpr size_t kPartBytesMax = size_t{8} << 20U;
// Real files have four at most.
constexpr size_t kSplitsMax = 64;
// Ids that a post-processor puts around a text; real files have one or two.
constexpr size_t kAffixIdsMax = 1024;

Status damaged_member(std::string what) {
  return Status::corruption("tokenizer.json: " + std::move(what));
}

}  // namespace

Result<std::string> to_text(const std::optional<JsonView>& value, std::string_view key) {
  const auto raw = value ? value->raw_string() : std::nullopt;
  if (!raw) return damaged_member(fmt::format("\"{}\" is missing or not a string", key));
  if (raw->size() > kPartBytesMax) {
    return Status::unsupported(
        fmt::format("tokenizer.json: \"{}\" has {} bytes, at most {} are supported",
                    key,
                    raw->size(),
                    kPartBytesMax));
  }
  std::string scratch;
  return std::string(unescape_json(*raw, scratch));
}

Result<bool> to_bool(const std::optional<JsonView>& value,
                     std::string_view key,
                     bool when_missing) {
  if (!value) return when_missing;
  if (const auto flag = value->boolean()) return *flag;
  return damaged_member(fmt::format("\"{}\" is not true or false", key));
}

Result<JsonView> to_array(const std::optional<JsonView>& value, std::string_view key) {
  if (value && value->kind() == JsonView::Kind::kArray) return *value;
  return damaged_member(fmt::format("\"{}\" is missing or not a list", key));
}

namespace {

// A pattern that matches `text` and nothing else.
std::string quote_pattern(std::string_view text) {
  // \Q...\E quotes everything but its own end, which is written outside.
  std::string quoted = "\\Q";
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = text.find("\\E", pos);
    if (end == std::string_view::npos) {
      quoted += text.substr(pos);
      break;
    }
    quoted += text.substr(pos, end - pos);
    quoted += "\\E\\\\E\\Q";
    pos = end + 2;
  }
  return quoted + "\\E";
}

// Nothing for text that is not base64 (RFC 4648, with padding).
std::optional<std::string> decode_base64(std::string_view text) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    values[static_cast<uint8_t>(kAlphabet[i])] = static_cast<int8_t>(i);
  }
  if (text.size() % 4 != 0) return std::nullopt;
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  unsigned n_bits = 0;
  for (const char c : text) {
    const int value = values[static_cast<uint8_t>(c)];
    if (value < 0) return std::nullopt;
    bits = (bits << 6U) | static_cast<uint32_t>(value);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    out.push_back(static_cast<char>((bits >> n_bits) & 0xFFU));
  }
  return out;
}

class NormalizerReader {
 public:
  explicit NormalizerReader(TokenizerBuilder& builder) : builder_(builder) {}

  Status read(const JsonView& node);

  Normalizer finish() { return Normalizer(std::move(steps_)); }

 private:
  Status add(Normalizer::Step step, size_t growth);
  Status read_replace(const JsonView& node);
  Status read_map(const JsonView& node);
  Result<std::string> read_text(const JsonView& node, std::string_view key);

  TokenizerBuilder& builder_;
  std::vector<Normalizer::Step> steps_;
  size_t growth_ = 1;
};

Status NormalizerReader::add(Normalizer::Step step, size_t growth) {
  growth_ *= std::max<size_t>(growth, 1);
  if (steps_.size() == kStepsMax || growth_ > kGrowthMax) {
    return builder_.unsupported("the normalizer makes texts too much longer");
  }
  steps_.push_back(std::move(step));
  return Status::ok();
}

Result<std::string> NormalizerReader::read_text(const JsonView& node, std::string_view key) {
  CAIRN_ASSIGN_OR_RETURN(const std::string text, text_member(node, key));
  if (text.size() > kReplacementBytesMax) {
    return builder_.unsupported(
        fmt::format("a normalizer's \"{}\" has {} bytes, at most {} are "
                    "supported",
                    key,
                    text.size(),
                    kReplacementBytesMax));
  }
  builder_.fingerprint().text(text);
  return std::string(text);
}

Status NormalizerReader::read(const JsonView& node) {
  CAIRN_ASSIGN_OR_RETURN(const std::string type, text_member(node, "type"));
  if (type == "Sequence") {
    CAIRN_ASSIGN_OR_RETURN(const JsonView steps, array_member(node, "normalizers"));
    for (auto items = steps.items(); const auto step = items.next();) {
      CAIRN_RETURN_IF_ERROR(read(step->value));
    }
    return Status::ok();
  }
  builder_.fingerprint().text(type);
  constexpr std::pair<std::string_view, NormalForm> kForms[] = {{"NFC", NormalForm::kNfc},
                                                                {"NFD", NormalForm::kNfd},
                                                                {"NFKC", NormalForm::kNfkc},
                                                                {"NFKD", NormalForm::kNfkd}};
  for (const auto& [name, form] : kForms) {
    if (type == name) return add(form, 1);
  }
  if (type == "Prepend") {
    CAIRN_ASSIGN_OR_RETURN(std::string text, read_text(node, "prepend"));
    return add(PrependText{std::move(text)}, 1);
  }
  if (type == "Replace") return read_replace(node);
  if (type == "Precompiled") return read_map(node);
  if (type == "Strip") {
    StripSpace step;
    CAIRN_ASSIGN_OR_RETURN(step.strips_left, bool_member(node, "strip_left", true));
    CAIRN_ASSIGN_OR_RETURN(step.strips_right, bool_member(node, "strip_right", true));
    builder_.fingerprint().number((step.strips_left ? 1U : 0U) | (step.strips_right ? 2U : 0U));
    return add(step, 1);
  }
  return builder_.unsupported(
      fmt::format("normalizer of type {}; supported are NFC, NFD, NFKC, NFKD, Prepend, Replace, "
                  "Strip, Precompiled and sequences of them",
                  type));
}

Status NormalizerReader::read_replace(const JsonView& node) {
  CAIRN_ASSIGN_OR_RETURN(std::string to, read_text(node, "content"));
  const auto pattern = member(node, "pattern");
  if (!pattern) return builder_.damaged("a Replace has no pattern");
  const size_t growth = to.size();
  if (member(*pattern, "String")) {
    CAIRN_ASSIGN_OR_RETURN(std::string text, read_text(*pattern, "String"));
    if (text.empty()) return builder_.damaged("a Replace has an empty pattern");
    return add(ReplaceText{std::move(text), std::move(to)}, growth);
  }
  if (!member(*pattern, "Regex")) {
    return builder_.damaged(
        "a Replace's pattern is neither {\"Regex\": ...} nor {\"String\": ...}");
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string text, text_member(*pattern, "Regex"));
  auto regex = Regex::compile(text);
  if (!regex.is_ok()) return regex.status().with_prefix("tokenizer.json: normalizer");
  builder_.fingerprint().text(text);
  return add(ReplaceMatches{std::move(regex).value(), std::move(to)}, growth);
}

Status NormalizerReader::read_map(const JsonView& node) {
  CAIRN_ASSIGN_OR_RETURN(const std::string text, text_member(node, "precompiled_charsmap"));
  const auto blob = decode_base64(text);
  if (!blob) return builder_.damaged("\"precompiled_charsmap\" is not base64");
  auto map = CharsMap::parse(*blob);
  if (!map.is_ok()) return map.status().with_prefix("tokenizer.json");
  builder_.fingerprint().text(*blob);
  // The longest string of a real map makes one character eleven times as long.
  return add(MapGraphemes{std::move(map).value()}, 16);
}

class PreTokenizerReader {
 public:
  explicit PreTokenizerReader(TokenizerBuilder& builder) : builder_(builder) {}

  Status read(const JsonView& node);

  Cutting finish() { return std::move(cutting_); }

 private:
  Status read_byte_level(const JsonView& node);
  Status read_metaspace(const JsonView& node);
  Status read_split(const JsonView& node);
  Status add_split(std::string_view pattern, SplitBehavior behavior, bool is_inverted = false);

  TokenizerBuilder& builder_;
  Cutting cutting_;
};

Status PreTokenizerReader::read(const JsonView& node) {
  CAIRN_ASSIGN_OR_RETURN(const std::string type, text_member(node, "type"));
  if (type == "Sequence") {
    CAIRN_ASSIGN_OR_RETURN(const JsonView nodes, array_member(node, "pretokenizers"));
    for (auto items = nodes.items(); const auto step = items.next();) {
      CAIRN_RETURN_IF_ERROR(read(step->value));
    }
    return Status::ok();
  }
  if (cutting_.is_byte_level) {
    return builder_.unsupported(fmt::format("pre-tokenizer {} comes after ByteLevel", type));
  }
  builder_.fingerprint().text(type);
  if (type == "Split") return read_split(node);
  if (type == "Metaspace") return read_metaspace(node);
  if (type == "ByteLevel") return read_byte_level(node);
  if (type == "Digits") {
    CAIRN_ASSIGN_OR_RETURN(const bool one_by_one, bool_member(node, "individual_digits", false));
    return add_split("\\p{N}", one_by_one ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  }
  return builder_.unsupported(fmt::format(
      "pre-tokenizer of type {}; supported are Split, Digits, Metaspace and ByteLevel", type));
}

Status PreTokenizerReader::read_byte_level(const JsonView& node) {
  CAIRN_ASSIGN_OR_RETURN(const bool add_prefix_space, bool_member(node, "add_prefix_space", true));
  CAIRN_ASSIGN_OR_RETURN(const bool use_regex, bool_member(node, "use_regex", true));
  if (add_prefix_space && !cutting_.splits.empty()) {
    return builder_.unsupported("ByteLevel adds a prefix space to every piece of an earlier split");
  }
  cutting_.is_byte_level = true;
  if (add_prefix_space) cutting_.front = {FrontMark::When::kAlways, " ", false};
  builder_.fingerprint().text(add_prefix_space ? "prefix space" : "no prefix space");
  return use_regex ? add_split(kGpt2Pattern, SplitBehavior::kIsolated) : Status::ok();
}

Status PreTokenizerReader::read_metaspace(const JsonView& node) {
  if (!cutting_.splits.empty() || !cutting_.front.mark.empty()) {
    return builder_.unsupported("Metaspace comes after another pre-tokenizer");
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string mark, text_member(node, "replacement"));
  CAIRN_ASSIGN_OR_RETURN(const bool is_split, bool_member(node, "split", true));
  CAIRN_ASSIGN_OR_RETURN(const bool adds, bool_member(node, "add_prefix_space", true));
  std::string scheme = adds ? "always" : "never";
  if (member(node, "prepend_scheme")) {
    CAIRN_ASSIGN_OR_RETURN(scheme, text_member(node, "prepend_scheme"));
  }
  constexpr std::pair<std::string_view, FrontMark::When> kSchemes[] = {
      {"always", FrontMark::When::kAlways},
      {"first", FrontMark::When::kAtStart},
      {"never", FrontMark::When::kNever}};
  const auto* known = std::find_if(std::begin(kSchemes),
                                   std::end(kSchemes),
                                   [scheme](const auto& entry) { return entry.first == scheme; });
  if (known == std::end(kSchemes) || mark.empty() || mark.size() > 4) {
    return builder_.damaged(
        fmt::format("Metaspace with replacement \"{}\" and prepend_scheme \"{}\"", mark, scheme));
  }
  cutting_.front = {known->second, std::string(mark), true};
  builder_.fingerprint().text(mark);
  builder_.fingerprint().text(scheme);
  if (!is_split) return Status::ok();
  return add_split(quote_pattern(mark), SplitBehavior::kMergedWithNext);
}

Status PreTokenizerReader::read_split(const JsonView& node) {
  constexpr std::pair<std::string_view, SplitBehavior> kBehaviors[] = {
      {"Isolated", SplitBehavior::kIsolated},
      {"Removed", SplitBehavior::kRemoved},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  CAIRN_ASSIGN_OR_RETURN(const std::string name, text_member(node, "behavior"));
  CAIRN_ASSIGN_OR_RETURN(const bool is_inverted, bool_member(node, "invert", false));
  const auto* behavior = std::find_if(std::begin(kBehaviors),
                                      std::end(kBehaviors),
                                      [name](const auto& known) { return known.first == name; });
  if (behavior == std::end(kBehaviors)) {
    return builder_.damaged(fmt::format("a Split's behavior is \"{}\", which is none", name));
  }
  const auto pattern = member(node, "pattern");
  if (!pattern) return builder_.damaged("a Split has no pattern");
  if (member(*pattern, "Regex")) {
    CAIRN_ASSIGN_OR_RETURN(const std::string regex, text_member(*pattern, "Regex"));
    return add_split(regex, behavior->second, is_inverted);
  }
  if (!member(*pattern, "String")) {
    return builder_.damaged("a Split's pattern is neither {\"Regex\": ...} nor {\"String\": ...}");
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string text, text_member(*pattern, "String"));
  return add_split(quote_pattern(text), behavior->second, is_inverted);
}

Status PreTokenizerReader::add_split(std::string_view pattern,
                                     SplitBehavior behavior,
                                     bool is_inverted) {
  if (cutting_.splits.size() == kSplitsMax) {
    return builder_.unsupported(
        fmt::format("the pre-tokenizer cuts texts in more than {} ways", kSplitsMax));
  }
  auto regex = Regex::compile(pattern);
  if (!regex.is_ok()) return regex.status().with_prefix("tokenizer.json: pre-tokenizer");
  cutting_.splits.push_back({std::move(regex).value(), behavior, is_inverted});
  builder_.fingerprint().text(pattern);
  builder_.fingerprint().number(static_cast<uint64_t>(behavior) * 2 + (is_inverted ? 1 : 0));
  return Status::ok();
}

// Reads a chain of decoders. Only chains that are a mapping of each token by itself, and perhaps
// one thing done to the front of the text, are supported: only those can be streamed.
class DecoderReader {
 public:
  explicit DecoderReader(TokenizerBuilder& builder) : builder_(builder) {}

  Status read(const JsonView& node);

  Spelling finish() { return std::move(spelling_); }

 private:
  Status read_replace(const JsonView& node);
  Status read_strip(const JsonView& node);
  Status read_metaspace(const JsonView& node);

  TokenizerBuilder& builder_;
  Spelling spelling_;
  bool is_fused_ = false;
};

Status DecoderReader::read(const JsonView& node) {
  CAIRN_ASSIGN_OR_RETURN(const std::string type, text_member(node, "type"));
  if (type == "Sequence") {
    CAIRN_ASSIGN_OR_RETURN(const JsonView steps, array_member(node, "decoders"));
    for (auto items = steps.items(); const auto step = items.next();) {
      CAIRN_RETURN_IF_ERROR(read(step->value));
    }
    return Status::ok();
  }
  builder_.fingerprint().text(type);
  if (type == "ByteLevel" && spelling_.replacements.empty() && !spelling_.has_byte_tokens) {
    spelling_.is_byte_level = true;
    return Status::ok();
  }
  if (type == "Strip") return read_strip(node);
  if (!is_fused_ && !spelling_.is_byte_level) {
    if (type == "Replace") return read_replace(node);
    if (type == "Metaspace") return read_metaspace(node);
    if (type == "ByteFallback") {
      spelling_.has_byte_tokens = true;
      return Status::ok();
    }
  }
  if (type == "Fuse") {
    is_fused_ = true;
    return Status::ok();
  }
  return builder_.unsupported(
      fmt::format("decoder of type {} in this place; supported are ByteLevel, Metaspace, and "
                  "Replace, ByteFallback, Fuse and Strip in this order",
                  type));
}

Status DecoderReader::read_replace(const JsonView& node) {
  CAIRN_ASSIGN_OR_RETURN(const std::string to, text_member(node, "content"));
  const auto pattern = member(node, "pattern");
  const auto from_member = pattern ? member(*pattern, "String") : std::nullopt;
  const std::string from = from_member ? from_member->string().value_or("") : "";
  if (from.empty()) {
    return builder_.unsupported("a decoder replaces something else than a string");
  }
  if (spelling_.replacements.size() == kStepsMax || to.size() > from.size()) {
    return builder_.unsupported("a decoder makes tokens longer");
  }
  builder_.fingerprint().text(from);
  builder_.fingerprint().text(to);
  spelling_.replacements.emplace_back(from, to);
  return Status::ok();
}

Status DecoderReader::read_strip(const JsonView& node) {
  CAIRN_ASSIGN_OR_RETURN(const std::string what, text_member(node, "content"));
  const auto start = node.find("start").value_or(JsonView()).unsigned_integer();
  const auto stop = node.find("stop").value_or(JsonView()).unsigned_integer();
  if (!start || !stop) {
    return builder_.damaged("a Strip decoder without \"start\" and \"stop\"");
  }
  if (!is_fused_ || what != " " || *start > 1 || *stop != 0) {
    return builder_.unsupported(
        "a Strip decoder that does more than drop the first space of a text");
  }
  if (*start == 1) spelling_.front = FrontSpace::kFirstDropped;
  return Status::ok();
}

Status DecoderReader::read_metaspace(const JsonView& node) {
  CAIRN_ASSIGN_OR_RETURN(const std::string mark, text_member(node, "replacement"));
  CAIRN_ASSIGN_OR_RETURN(const bool adds, bool_member(node, "add_prefix_space", true));
  std::string scheme = adds ? "always" : "never";
  if (member(node, "prepend_scheme")) {
    CAIRN_ASSIGN_OR_RETURN(scheme, text_member(node, "prepend_scheme"));
  }
  if (mark.empty() || spelling_.replacements.size() == kStepsMax) {
    return builder_.damaged("a Metaspace decoder with an empty replacement, or one too many");
  }
  spelling_.replacements.emplace_back(mark, " ");
  if (scheme != "never") spelling_.front = FrontSpace::kFirstTokenDropped;
  builder_.fingerprint().text(mark);
  return Status::ok();
}

// A part of the file other than its vocabulary: none is large.
Result<std::optional<JsonView>> part_member(const Members& root, std::string_view key) {
  auto part = member(root, key);
  if (part && part->n_bytes() > kPartBytesMax) {
    return Status::unsupported(
        fmt::format("tokenizer.json: \"{}\" has {} bytes, at most {} are supported",
                    key,
                    part->n_bytes(),
                    kPartBytesMax));
  }
  return part;
}

Status read_template(const JsonView& node, TokenizerBuilder& builder) {
  CAIRN_ASSIGN_OR_RETURN(const JsonView pieces, array_member(node, "single"));
  std::vector<TokenId> before;
  std::vector<TokenId> after;
  bool has_text = false;
  for (auto items = pieces.items(); const auto item = items.next();) {
    const JsonView& piece = item->value;
    if (member(piece, "Sequence")) {
      if (has_text) return builder.unsupported("the post-processor repeats the text");
      has_text = true;
      continue;
    }
    const auto special = member(piece, "SpecialToken");
    if (!special)
      return builder.damaged("a post-processor piece is neither SpecialToken nor Sequence");
    CAIRN_ASSIGN_OR_RETURN(const std::string name, text_member(*special, "id"));
    const auto known = member(node, "special_tokens");
    const auto token = known ? member(*known, name) : std::nullopt;
    if (!token)
      return builder.damaged(fmt::format("post-processor token \"{}\" is not declared", name));
    CAIRN_ASSIGN_OR_RETURN(const JsonView ids, array_member(*token, "ids"));
    for (auto entries = ids.items(); const auto entry = entries.next();) {
      const auto id = entry->value.unsigned_integer();
      if (!id || !builder.is_known(*id)) {
        return builder.damaged(fmt::format("post-processor token \"{}\" has an unknown id", name));
      }
      (has_text ? after : before).push_back(static_cast<TokenId>(*id));
      if (before.size() + after.size() > kAffixIdsMax) {
        return builder.unsupported(
            fmt::format("the post-processor adds more than {} tokens", kAffixIdsMax));
      }
    }
  }
  if (!has_text) return builder.unsupported("the post-processor leaves the text out");
  auto& prefix = builder.parts().prefix;
  auto& suffix = builder.parts().suffix;
  prefix.insert(prefix.begin(), before.begin(), before.end());
  suffix.insert(suffix.end(), after.begin(), after.end());
  return Status::ok();
}

Status read_processor(const JsonView& node, TokenizerBuilder& builder) {
  CAIRN_ASSIGN_OR_RETURN(const std::string type, text_member(node, "type"));
  if (type == "ByteLevel") return Status::ok();  // moves offsets only
  if (type == "TemplateProcessing") return read_template(node, builder);
  if (type != "Sequence") {
    return builder.unsupported(fmt::format(
        "post-processor of type {}; supported are ByteLevel, TemplateProcessing and sequences",
        type));
  }
  CAIRN_ASSIGN_OR_RETURN(const JsonView steps, array_member(node, "processors"));
  for (auto items = steps.items(); const auto step = items.next();) {
    CAIRN_RETURN_IF_ERROR(read_processor(step->value, builder));
  }
  return Status::ok();
}

}  // namespace

std::string Spelling::bytes_of(std::string_view spelling) const {
  std::string bytes;
  // A special token may be spelt with characters outside the alphabet: it stands for itself.
  if (is_byte_level && append_byte_level(bytes, spelling)) return bytes;
  bytes = spelling;
  for (const auto& [from, to] : replacements) {
    size_t pos = 0;
    while ((pos = bytes.find(from, pos)) != std::string::npos) {
      bytes.replace(pos, from.size(), to);
      pos += to.size();
    }
  }
  if (!has_byte_tokens) return bytes;
  if (const auto byte = parse_byte_token(bytes)) bytes.assign(1, static_cast<char>(*byte));
  return bytes;
}

Result<Normalizer> read_normalizer(const Members& root, TokenizerBuilder& builder) {
  NormalizerReader reader(builder);
  CAIRN_ASSIGN_OR_RETURN(const auto node, part_member(root, "normalizer"));
  if (node) CAIRN_RETURN_IF_ERROR(reader.read(*node));
  return reader.finish();
}

Result<Cutting> read_pre_tokenizer(const Members& root, TokenizerBuilder& builder) {
  PreTokenizerReader reader(builder);
  CAIRN_ASSIGN_OR_RETURN(const auto node, part_member(root, "pre_tokenizer"));
  if (node) CAIRN_RETURN_IF_ERROR(reader.read(*node));
  return reader.finish();
}

Result<Spelling> read_decoder(const Members& root, TokenizerBuilder& builder) {
  CAIRN_ASSIGN_OR_RETURN(const auto node, part_member(root, "decoder"));
  if (!node) return builder.unsupported("no decoder: tokens cannot be joined to a text");
  DecoderReader reader(builder);
  CAIRN_RETURN_IF_ERROR(reader.read(*node));
  return reader.finish();
}

Status read_post_processor(const Members& root, TokenizerBuilder& builder) {
  CAIRN_ASSIGN_OR_RETURN(const auto node, part_member(root, "post_processor"));
  return node ? read_processor(*node, builder) : Status::ok();
}

}  // namespace cairn::tokenizer_json
