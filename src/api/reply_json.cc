#include "api/reply_json.h"

#include <fmt/format.h>

#include <utility>

#include "base/json.h"
#include "text/utf8.h"

namespace cairn {
namespace {

// Single tokens may be parts of characters, which dump_json replaces; the "bytes" field has them
// exactly.
Json token_text(const Tokenizer& tokenizer, TokenId id) {
  return std::string(tokenizer.token_bytes(id));
}

std::string legacy_token_text(const Tokenizer& tokenizer, TokenId id) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  if (utf8::is_valid(bytes)) return std::string(bytes);
  std::string out = "bytes:";
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

Json token_bytes_json(const Tokenizer& tokenizer, TokenId id) {
  Json bytes = Json::array();
  for (const char c : tokenizer.token_bytes(id))
    bytes.push_back(static_cast<unsigned>(static_cast<unsigned char>(c)));
  return bytes;
}

Json chat_entry(const Tokenizer& tokenizer, TokenId id, float logprob) {
  Json entry;
  entry["token"] = token_text(tokenizer, id);
  entry["logprob"] = json_float(logprob);
  entry["bytes"] = token_bytes_json(tokenizer, id);
  return entry;
}

Json milliseconds(double ms) {
  return json_float(static_cast<float>(ms));
}

Json cairn_usage(const UsageTotals& totals,
                 const ReuseReport& reuse,
                 uint64_t computed,
                 Json miss) {
  const RequestUsage& first = totals.per_choice.front();
  Json out;
  out["tokens"] = {{"device", reuse.device_tokens},
                   {"host", 0},
                   {"disk", reuse.disk_tokens},
                   {"remote", 0},
                   {"computed", computed}};
  out["anchored_tokens"] = totals.n_anchored;
  out["prompt_ids_hash"] = totals.prompt_ids_hash;
  out["ms"] = {{"queue", milliseconds(first.queue_ms)},
               {"prepare", milliseconds(totals.prepare_ms)},
               {"restore", milliseconds(first.restore_ms)},
               {"prefill", milliseconds(first.prefill_ms)},
               {"decode", milliseconds(first.decode_ms)}};
  out["miss"] = std::move(miss);
  out["proposals"] = Json::object();
  out["seed"] = first.seed;
  return out;
}

}  // namespace

Json chat_logprobs(const Tokenizer& tokenizer, std::span<const LoggedToken> tokens) {
  Json content = Json::array();
  for (const LoggedToken& logged : tokens) {
    Json entry = chat_entry(tokenizer, logged.token.id, logged.token.logprob);
    entry["top_logprobs"] = Json::array();
    for (const TokenLogprob& top : logged.token.top) {
      entry["top_logprobs"].push_back(chat_entry(tokenizer, top.id, top.logprob));
    }
    content.push_back(std::move(entry));
  }
  return Json{{"content", std::move(content)}, {"refusal", nullptr}};
}

Json legacy_logprobs(const Tokenizer& tokenizer, std::span<const LoggedToken> tokens) {
  Json out{{"tokens", Json::array()},
           {"token_logprobs", Json::array()},
           {"top_logprobs", Json::array()},
           {"text_offset", Json::array()}};
  for (const LoggedToken& logged : tokens) {
    const GeneratedToken& token = logged.token;
    std::string text = legacy_token_text(tokenizer, token.id);
    Json top = Json::object();
    for (const TokenLogprob& entry : token.top) {
      std::string name = legacy_token_text(tokenizer, entry.id);
      if (!top.contains(name)) top[std::move(name)] = json_float(entry.logprob);
    }
    if (!top.contains(text)) top[text] = json_float(token.logprob);
    out["tokens"].push_back(std::move(text));
    out["token_logprobs"].push_back(logged.has_logprob ? json_float(token.logprob) : Json(nullptr));
    out["top_logprobs"].push_back(logged.has_logprob ? std::move(top) : Json(nullptr));
    out["text_offset"].push_back(logged.text_offset);
  }
  return out;
}

Json usage_json(const UsageTotals& totals, Json miss) {
  ReuseReport reuse;
  uint64_t computed = 0;
  for (size_t i = 0; i < totals.per_choice.size(); i += totals.choices_per_prompt) {
    reuse.device_tokens += totals.per_choice[i].reuse.device_tokens;
    reuse.disk_tokens += totals.per_choice[i].reuse.disk_tokens;
    computed += totals.per_choice[i].computed_tokens;
  }
  Json usage;
  usage["prompt_tokens"] = totals.prompt_tokens;
  usage["completion_tokens"] = totals.completion_tokens;
  usage["total_tokens"] = totals.prompt_tokens + totals.completion_tokens;
  usage["prompt_tokens_details"] = {{"cached_tokens", reuse.device_tokens + reuse.disk_tokens}};
  usage["cairn"] = cairn_usage(totals, reuse, computed, std::move(miss));
  return usage;
}

}  // namespace cairn
