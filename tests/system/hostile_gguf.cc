#include <algorithm>

#include "system/hostile_files.h"
#include "system/hostile_writer.h"

namespace cairn::testing {
namespace {

// Types of metadata values.
constexpr uint32_t kU32 = 4;
constexpr uint32_t kI32 = 5;
constexpr uint32_t kF32 = 6;
constexpr uint32_t kString = 8;
constexpr uint32_t kArray = 9;

constexpr uint64_t kTensorCountAt = 8;
constexpr uint64_t kEntryCountAt = 16;

class GgufBuilder {
 public:
  explicit GgufBuilder(const std::string& folder) : file_(folder + "/model.gguf") {
    file_.text("GGUF").number<uint32_t>(3).number<uint64_t>(0).number<uint64_t>(0);
  }

  ~GgufBuilder() {
    file_.patch(kTensorCountAt, n_tensors_);
    file_.patch(kEntryCountAt, n_entries_);
  }

  GgufBuilder(const GgufBuilder&) = delete;
  GgufBuilder& operator=(const GgufBuilder&) = delete;
  GgufBuilder(GgufBuilder&&) = delete;
  GgufBuilder& operator=(GgufBuilder&&) = delete;

  HostileWriter& file() { return file_; }

  void string(std::string_view text) { file_.number<uint64_t>(text.size()).text(text); }

  void key(std::string_view name, uint32_t type) {
    string(name);
    file_.number(type);
    ++n_entries_;
  }

  void setting(std::string_view name, std::string_view value) {
    key(name, kString);
    string(value);
  }

  void array(std::string_view name, uint32_t type, uint64_t count) {
    key(name, kArray);
    file_.number(type).number(count);
  }

  void tensor(std::string_view name, uint64_t extent, uint64_t offset) {
    string(name);
    file_.number<uint32_t>(1).number(extent).number<uint32_t>(0).number(offset);
    ++n_tensors_;
  }

 private:
  HostileWriter file_;
  uint64_t n_tensors_ = 0;
  uint64_t n_entries_ = 0;
};

void write_empty_strings(const std::string& folder, uint64_t n_bytes) {
  GgufBuilder gguf(folder);
  gguf.setting("general.architecture", "llama");
  gguf.array("tokenizer.ggml.tokens", kString, n_bytes / 8);
  gguf.file().fill('\0', n_bytes / 8 * 8);
}

void write_nested_arrays(const std::string& folder, uint64_t n_bytes) {
  GgufBuilder gguf(folder);
  gguf.array("general.tags", kArray, n_bytes / 12);
  for (uint64_t i = 0; i < n_bytes / 12; ++i) gguf.file().number(kU32).number<uint64_t>(0);
}

// As many keys as a file may have, and as long as the size wants.
void write_keys(const std::string& folder, uint64_t n_bytes) {
  GgufBuilder gguf(folder);
  const uint64_t n_keys = 60'000;
  const std::string padding(n_bytes / n_keys, 'k');
  for (uint64_t i = 0; i < n_keys; ++i) {
    gguf.key(padding + letters(i), kU32);
    gguf.file().number<uint32_t>(1);
  }
}

void write_long_template(const std::string& folder, uint64_t n_bytes) {
  GgufBuilder gguf(folder);
  gguf.setting("general.architecture", "llama");
  gguf.setting("tokenizer.ggml.model", "gpt2");
  gguf.setting("tokenizer.ggml.pre", "gpt-2");
  gguf.array("tokenizer.ggml.tokens", kString, 2);
  gguf.string("a");
  gguf.string("b");
  gguf.key("tokenizer.chat_template", kString);
  gguf.file().number(n_bytes).fill('t', n_bytes);
}

void write_tensors(const std::string& folder, uint64_t n_bytes, uint64_t n_max) {
  GgufBuilder gguf(folder);
  gguf.setting("general.architecture", "llama");
  constexpr uint64_t kBytesEach = 8 + 60 + 24 + 32;
  const uint64_t n = std::min(n_bytes / kBytesEach, n_max);
  for (uint64_t i = 0; i < n; ++i) {
    gguf.tensor("blk." + std::to_string(i) + "." + std::string(50, 'w'), 1, i * 32);
  }
  gguf.file().fill('\0', 31 + n * 32);
}

// Two letters and more, so that merges of single letters exist.
void write_byte_level(const std::string& folder, uint64_t n_bytes, uint64_t n_max) {
  GgufBuilder gguf(folder);
  gguf.setting("general.architecture", "llama");
  gguf.setting("tokenizer.ggml.model", "gpt2");
  gguf.setting("tokenizer.ggml.pre", "gpt-2");
  const uint64_t n = std::min(n_bytes / (8 + 4 + 4 + 8 + 3), n_max);
  gguf.array("tokenizer.ggml.tokens", kString, n);
  for (uint64_t i = 0; i < n; ++i) gguf.string(letters(i));
  gguf.array("tokenizer.ggml.token_type", kI32, n);
  for (uint64_t i = 0; i < n; ++i) gguf.file().number<int32_t>(1);
  gguf.array("tokenizer.ggml.merges", kString, n);
  for (uint64_t i = 0; i < n; ++i) gguf.string("a b");
}

void write_scored(const std::string& folder, uint64_t n_bytes, uint64_t n_max, int32_t type) {
  GgufBuilder gguf(folder);
  gguf.setting("general.architecture", "llama");
  gguf.setting("tokenizer.ggml.model", "llama");
  const uint64_t n = std::min(n_bytes / (8 + 4 + 4 + 4), n_max);
  gguf.array("tokenizer.ggml.tokens", kString, n);
  for (uint64_t i = 0; i < n; ++i) gguf.string(letters(i));
  gguf.array("tokenizer.ggml.scores", kF32, n);
  for (uint64_t i = 0; i < n; ++i) gguf.file().number(-static_cast<float>(i));
  gguf.array("tokenizer.ggml.token_type", kI32, n);
  for (uint64_t i = 0; i < n; ++i) gguf.file().number<int32_t>(i < 30 ? 1 : type);
}

void write_long_token(const std::string& folder, uint64_t n_bytes) {
  GgufBuilder gguf(folder);
  gguf.setting("tokenizer.ggml.model", "gpt2");
  gguf.setting("tokenizer.ggml.pre", "gpt-2");
  gguf.array("tokenizer.ggml.tokens", kString, 2);
  gguf.string("a");
  gguf.file().number(n_bytes).fill('b', n_bytes);
}

}  // namespace

std::vector<HostileCase> hostile_gguf_files() {
  const Words inspect = {"inspect", "@/model.gguf", "--json"};
  const Words tokenize = {"tokenize", "--model", "@/model.gguf", "--text", "abab ab", "--json"};
  const Words render = {"template", "--model", "@/model.gguf", "--messages", "@/messages.json"};
  const Words generate = {"generate-ids", "--model", "@/model.gguf", "--ids", "@/ids.json"};
  constexpr uint64_t kAll = ~uint64_t{0};
  constexpr uint64_t kMostTensors = 1 << 16;
  constexpr uint64_t kMostTokens = 1 << 20;
  return {
      {"empty strings", write_empty_strings, {inspect, tokenize, generate}},
      {"nested arrays", write_nested_arrays, {inspect}},
      {"keys", write_keys, {inspect}},
      {"long template", write_long_template, {inspect, render, tokenize}},
      {"tensors", [](auto& at, uint64_t n) { write_tensors(at, n, kAll); }, {inspect}},
      {"most tensors",
       [](auto& at, uint64_t n) { write_tensors(at, n, kMostTensors); },
       {inspect, generate}},
      {"tokens", [](auto& at, uint64_t n) { write_byte_level(at, n, kAll); }, {inspect, tokenize}},
      {"most tokens",
       [](auto& at, uint64_t n) { write_byte_level(at, n, kMostTokens); },
       {inspect, tokenize}},
      {"most scored tokens",
       [](auto& at, uint64_t n) { write_scored(at, n, kMostTokens, 1); },
       {inspect, tokenize}},
      {"most control tokens",
       [](auto& at, uint64_t n) { write_scored(at, n, kMostTokens, 3); },
       {inspect, tokenize}},
      {"long token", write_long_token, {inspect, tokenize}},
  };
}

}  // namespace cairn::testing
