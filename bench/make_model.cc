// cairn-make-model: writes a Hugging Face folder of a real shape with random bf16 weights, for
// benchmarks and tests that need the cost of a model and not its words.
//
//   cairn-make-model --shape 1b|0.6b|tiny --out DIR [--seed N]
//
// A weight is a pure function of (seed, tensor name, element index), made with integers and one
// multiplication, so the same command line writes the same bytes everywhere. Scales are chosen so
// that the model behaves: branches grow the residual stream to about unit size, attention is
// neither flat nor one-hot, logits have a standard deviation of about 3. Memory: a few MiB,
// whatever the shape.
#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/coding.h"
#include "base/file_system.h"
#include "base/json.h"
#include "formats/safetensors.h"

namespace cairn {
namespace {

struct Shape {
  std::string_view name;
  bool is_qwen3;  // else llama
  int64_t hidden;
  int64_t n_layers;
  int64_t n_heads;
  int64_t n_kv_heads;
  int64_t head_dim;
  int64_t ffn;
  int64_t vocab;
  int64_t context;
  double rope_theta;
  double eps;
};

// Tied embeddings in all: 1b has the shape of Llama-3.2-1B, 0.6b that of Qwen3-0.6B.
constexpr Shape kShapes[] = {
    {"1b", false, 2048, 16, 32, 8, 64, 8192, 128256, 131072, 500000.0, 1e-5},
    {"0.6b", true, 1024, 28, 16, 8, 128, 3072, 151936, 40960, 1000000.0, 1e-6},
    {"tiny", false, 64, 2, 4, 2, 16, 128, 512, 2048, 500000.0, 1e-5},
};

// A tensor and how its values are spread: mean, and the standard deviation around it.
struct Plan {
  TensorInfo info;
  double mean = 0.0;
  double deviation = 0.0;
};

// Bits that depend on every bit of `x` (the finaliser of splitmix64, Steele et al. 2014).
uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

uint64_t stream_of(uint64_t seed, std::string_view name) {
  uint64_t hash = mix64(seed + 0x9e3779b97f4a7c15ULL);
  for (const char c : name) hash = mix64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

// The sum of four uniform 16-bit integers (Irwin-Hall), scaled to unit variance: close to normal
// and never beyond 3.5 deviations, so no freak weight spoils a small model.
float near_normal(uint64_t stream, uint64_t idx) {
  const uint64_t bits = mix64(stream + idx * 0x9e3779b97f4a7c15ULL);
  const auto sum = static_cast<int32_t>((bits & 0xffff) + ((bits >> 16) & 0xffff) +
                                        ((bits >> 32) & 0xffff) + (bits >> 48));
  constexpr float kInverseDeviation = 2.6429e-5F;  // 1 / (65536 * sqrt(4 / 12))
  return static_cast<float>(sum - 131070) * kInverseDeviation;
}

void add(std::vector<Plan>* plans,
         std::string name,
         std::vector<int64_t> shape,
         double mean,
         double deviation) {
  Plan plan;
  plan.info.name = std::move(name);
  plan.info.dtype = DType::kBf16;
  plan.info.shape = std::move(shape);
  plan.mean = mean;
  plan.deviation = deviation;
  plans->push_back(std::move(plan));
}

void add_layer(const Shape& shape, int64_t layer_idx, std::vector<Plan>* plans) {
  const std::string prefix = fmt::format("model.layers.{}.", layer_idx);
  const auto hidden = static_cast<double>(shape.hidden);
  const int64_t q_dim = shape.n_heads * shape.head_dim;
  const int64_t kv_dim = shape.n_kv_heads * shape.head_dim;
  // Every branch adds 1 / (2 n_layers) of variance, so the last residual has about unit size.
  const double branch = 1.0 / std::sqrt(2.0 * static_cast<double>(shape.n_layers));
  const double from_norm = 1.0 / std::sqrt(hidden);  // unit outputs from a normed input
  // Queries a little larger than keys: scores get a deviation of 1.5 after the division by sqrt(d).
  constexpr double kQueryGain = 1.5;
  constexpr double kNormJitter = 0.05;
  constexpr double kGateRms = 0.6;  // of silu(a) * b for unit normal a and b
  add(plans, prefix + "input_layernorm.weight", {shape.hidden}, 1.0, kNormJitter);
  add(plans, prefix + "self_attn.q_proj.weight", {q_dim, shape.hidden}, 0, kQueryGain * from_norm);
  add(plans, prefix + "self_attn.k_proj.weight", {kv_dim, shape.hidden}, 0, from_norm);
  add(plans, prefix + "self_attn.v_proj.weight", {kv_dim, shape.hidden}, 0, from_norm);
  add(plans,
      prefix + "self_attn.o_proj.weight",
      {shape.hidden, q_dim},
      0,
      branch / std::sqrt(static_cast<double>(q_dim)));
  if (shape.is_qwen3) {
    // The head norms undo the projection's gain, so the gain sits in their weights.
    add(plans, prefix + "self_attn.q_norm.weight", {shape.head_dim}, kQueryGain, kNormJitter);
    add(plans, prefix + "self_attn.k_norm.weight", {shape.head_dim}, 1.0, kNormJitter);
  }
  add(plans, prefix + "post_attention_layernorm.weight", {shape.hidden}, 1.0, kNormJitter);
  add(plans, prefix + "mlp.gate_proj.weight", {shape.ffn, shape.hidden}, 0, from_norm);
  add(plans, prefix + "mlp.up_proj.weight", {shape.ffn, shape.hidden}, 0, from_norm);
  add(plans,
      prefix + "mlp.down_proj.weight",
      {shape.hidden, shape.ffn},
      0,
      branch / (kGateRms * std::sqrt(static_cast<double>(shape.ffn))));
}

std::vector<Plan> plan_tensors(const Shape& shape) {
  // logits = E x with x of unit size: a deviation of 3 wants entries of 3 / sqrt(hidden).
  const double embedding = 3.0 / std::sqrt(static_cast<double>(shape.hidden));
  std::vector<Plan> plans;
  add(&plans, "model.embed_tokens.weight", {shape.vocab, shape.hidden}, 0, embedding);
  for (int64_t i = 0; i < shape.n_layers; ++i) add_layer(shape, i, &plans);
  add(&plans, "model.norm.weight", {shape.hidden}, 1.0, 0.05);
  return plans;
}

Status write_weights(const Shape& shape, uint64_t seed, const std::string& path) {
  constexpr uint64_t kBlock = 1 << 20;
  const std::vector<Plan> plans = plan_tensors(shape);
  std::vector<TensorInfo> tensors;
  for (const Plan& plan : plans) tensors.push_back(plan.info);
  CAIRN_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                         SafetensorsWriter::create(path, std::move(tensors), {{"format", "pt"}}));
  std::vector<Bf16> block(kBlock);
  for (const Plan& plan : plans) {
    CAIRN_ASSIGN_OR_RETURN(const uint64_t n_bytes, tensor_bytes(plan.info.dtype, plan.info.shape));
    const uint64_t n = n_bytes / sizeof(Bf16);
    const uint64_t stream = stream_of(seed, plan.info.name);
    const auto mean = static_cast<float>(plan.mean);
    const auto deviation = static_cast<float>(plan.deviation);
    for (uint64_t begin = 0; begin < n; begin += kBlock) {
      const uint64_t count = std::min(kBlock, n - begin);
      for (uint64_t i = 0; i < count; ++i) {
        block[i] = f32_to_bf16(mean + deviation * near_normal(stream, begin + i));
      }
      CAIRN_RETURN_IF_ERROR(writer.write(std::as_bytes(std::span(block.data(), count))));
    }
  }
  return writer.finish();
}

// Ids of the tokens that are no bytes; the 256 bytes come first.
constexpr uint32_t kEndOfText = 256;
constexpr uint32_t kStart = 257;
constexpr uint32_t kEnd = 258;

Json config_json(const Shape& shape) {
  Json config;
  config["architectures"] = {shape.is_qwen3 ? "Qwen3ForCausalLM" : "LlamaForCausalLM"};
  config["model_type"] = shape.is_qwen3 ? "qwen3" : "llama";
  config["attention_bias"] = false;
  config["eos_token_id"] = kEnd;
  config["head_dim"] = shape.head_dim;
  config["hidden_act"] = "silu";
  config["hidden_size"] = shape.hidden;
  config["intermediate_size"] = shape.ffn;
  config["max_position_embeddings"] = shape.context;
  config["num_attention_heads"] = shape.n_heads;
  config["num_hidden_layers"] = shape.n_layers;
  config["num_key_value_heads"] = shape.n_kv_heads;
  config["rms_norm_eps"] = shape.eps;
  config["rope_theta"] = shape.rope_theta;
  config["rope_scaling"] = nullptr;
  if (!shape.is_qwen3) {
    config["mlp_bias"] = false;
    config["rope_scaling"] = {{"factor", 32.0},
                              {"high_freq_factor", 4.0},
                              {"low_freq_factor", 1.0},
                              {"original_max_position_embeddings", 8192},
                              {"rope_type", "llama3"}};
  }
  config["tie_word_embeddings"] = true;
  config["torch_dtype"] = "bfloat16";
  config["vocab_size"] = shape.vocab;
  return config;
}

std::string utf8(uint32_t code_point) {  // below U+0800
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xc0 | (code_point >> 6)),
          static_cast<char>(0x80 | (code_point & 0x3f))};
}

// The printable stand-in of a byte in byte-level vocabularies: bytes that print stand for
// themselves, the others take the code points from U+0100 on, in order. Source: GPT-2's
// bytes_to_unicode.
std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    tokens.push_back(utf8(prints ? byte : next++));
  }
  return tokens;
}

Json added_token(std::string_view content) {
  return {{"content", content},
          {"single_word", false},
          {"lstrip", false},
          {"rstrip", false},
          {"normalized", false},
          {"special", true}};
}

constexpr std::pair<uint32_t, std::string_view> kSpecials[] = {
    {kEndOfText, "<|endoftext|>"}, {kStart, "<|im_start|>"}, {kEnd, "<|im_end|>"}};

Json tokenizer_json() {
  Json vocab = Json::object();
  const std::vector<std::string> tokens = byte_tokens();
  for (size_t byte = 0; byte < tokens.size(); ++byte) vocab[tokens[byte]] = byte;
  Json added = Json::array();
  for (const auto& [id, content] : kSpecials) {
    Json token = {{"id", id}};
    token.update(added_token(content));
    added.push_back(token);
  }
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", vocab},
            {"merges", Json::array()}}}};
}

Json tokenizer_config_json(const Shape& shape) {
  Json decoder = Json::object();
  for (const auto& [id, content] : kSpecials) decoder[std::to_string(id)] = added_token(content);
  const std::string turn =
      "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}";
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"added_tokens_decoder", decoder},
          {"bos_token", nullptr},
          {"eos_token", "<|im_end|>"},
          {"pad_token", "<|endoftext|>"},
          {"clean_up_tokenization_spaces", false},
          {"model_max_length", shape.context},
          {"chat_template",
           "{% for message in messages %}" + turn +
               "{% endfor %}{% if add_generation_prompt %}"
               "{{ '<|im_start|>assistant\n' }}{% endif %}"}};
}

Status write_json(const std::filesystem::path& folder, std::string_view name, const Json& value) {
  const std::string text = dump_json(value) + "\n";
  return write_file_atomically(posix_file_system(), (folder / name).string(), as_bytes(text));
}

Status make_model(const Shape& shape, uint64_t seed, const std::string& out) {
  const std::filesystem::path folder(out);
  CAIRN_RETURN_IF_ERROR(posix_file_system().make_directories(out, 0755));
  CAIRN_RETURN_IF_ERROR(write_json(folder, "config.json", config_json(shape)));
  CAIRN_RETURN_IF_ERROR(write_json(
      folder, "generation_config.json", {{"eos_token_id", kEnd}, {"pad_token_id", kEndOfText}}));
  CAIRN_RETURN_IF_ERROR(write_json(folder, "tokenizer.json", tokenizer_json()));
  CAIRN_RETURN_IF_ERROR(write_json(folder, "tokenizer_config.json", tokenizer_config_json(shape)));
  return write_weights(shape, seed, (folder / "model.safetensors").string());
}

struct Options {
  const Shape* shape = nullptr;
  std::string out;
  uint64_t seed = 1;
};

std::optional<Options> parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    const std::string_view value = argv[i + 1];
    if (flag == "--shape") {
      for (const Shape& shape : kShapes) {
        if (shape.name == value) options.shape = &shape;
      }
    } else if (flag == "--out") {
      options.out = value;
    } else if (flag == "--seed") {
      const auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), options.seed);
      if (error != std::errc() || end != value.data() + value.size()) return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  if (argc % 2 == 0 || options.shape == nullptr || options.out.empty()) return std::nullopt;
  return options;
}

int run(int argc, char** argv) {
  const std::optional<Options> options = parse_options(argc, argv);
  if (!options) {
    fmt::print(stderr, "usage: cairn-make-model --shape 1b|0.6b|tiny --out DIR [--seed N]\n");
    return 2;
  }
  const auto begin = std::chrono::steady_clock::now();
  const Status status = make_model(*options->shape, options->seed, options->out);
  if (!status.is_ok()) {
    fmt::print(stderr, "cairn-make-model: {}\n", status.to_string());
    return 1;
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  fmt::print(stderr, "wrote {} in {:.1f} s\n", options->out, elapsed.count());
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  return cairn::run(argc, argv);
}
