#include "formats/gguf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "formats/gguf_vocabulary.h"
#include "formats/inspect.h"
#include "formats/model_config.h"
#include "formats/test_files.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file without tensors in memory, for its metadata.
class Metadata {
 public:
  explicit Metadata(const GgufMetadataBuilder& builder) {
    ByteWriter out;
    out.u32(0x46554747);
    out.u32(3);
    out.u64(0);
    out.u64(builder.n_entries());
    out.bytes(builder.bytes());
    bytes_ = out.take();
    layout_ = parse_gguf(bytes_).value();
  }

  const GgufMetadata& operator*() const { return layout_.metadata; }

 private:
  std::vector<std::byte> bytes_;
  GgufLayout layout_;
};

GgufMetadataBuilder basic(const std::string& architecture) {
  GgufMetadataBuilder b;
  b.add_string("general.architecture", architecture);
  b.add_u32(architecture + ".block_count", 3);
  b.add_u32(architecture + ".context_length", 4096);
  b.add_u32(architecture + ".embedding_length", 64);
  b.add_u32(architecture + ".feed_forward_length", 96);
  b.add_u32(architecture + ".attention.head_count", 4);
  b.add_u32(architecture + ".attention.head_count_kv", 2);
  b.add_f32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5F);
  return b;
}

Result<HfConfig> config_of(const GgufMetadataBuilder& builder, GgufTensorFacts facts = {}) {
  if (facts.n_vocab_rows == 0) facts.n_vocab_rows = 320;
  return parse_gguf_config(*Metadata(builder), facts);
}

TEST(GgufConfig, ReadsWhatAConfigJsonWouldSay) {
  GgufMetadataBuilder b = basic("qwen3");
  b.add_u32("qwen3.attention.key_length", 32);
  b.add_f32("qwen3.rope.freq_base", 1e6F);
  const HfConfig c = config_of(b).value();
  EXPECT_EQ(c.architecture, "Qwen3ForCausalLM");
  EXPECT_EQ(c.num_hidden_layers, 3);
  EXPECT_EQ(c.hidden_size, 64);
  EXPECT_EQ(c.intermediate_size, 96);
  EXPECT_EQ(c.num_key_value_heads, 2);
  EXPECT_EQ(c.head_dim, 32);
  EXPECT_EQ(c.vocab_size, 320);
  EXPECT_EQ(c.max_position_embeddings, 4096);
  EXPECT_EQ(c.rms_norm_eps, 1e-5);  // not the f32's own 9.99999974e-06
  EXPECT_EQ(c.rope.theta, 1e6);
  EXPECT_EQ(c.rope.partial_rotary_factor, 1.0);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_FALSE(c.sliding_window.has_value());
  EXPECT_EQ(config_of(basic("llama")).value().head_dim, 16);
}

TEST(GgufConfig, TensorsTellWhatMetadataDoesNot) {
  GgufTensorFacts facts;
  facts.n_vocab_rows = 7;
  facts.has_output = true;
  facts.has_attention_bias = true;
  facts.rope_divisors = {1, 1, 1, 1, 2, 4, 8, 8};
  const HfConfig c = config_of(basic("llama"), facts).value();
  EXPECT_FALSE(c.tie_word_embeddings);
  EXPECT_TRUE(c.attention_bias);
  EXPECT_EQ(c.vocab_size, 7);
  EXPECT_EQ(c.rope.frequency_divisors, facts.rope_divisors);
  facts.rope_divisors.pop_back();
  EXPECT_EQ(config_of(basic("llama"), facts).status().code(), StatusCode::kInvalidArgument);
  facts.rope_divisors.push_back(0);
  EXPECT_EQ(config_of(basic("llama"), facts).status().code(), StatusCode::kInvalidArgument);
}

TEST(GgufConfig, WindowsMakeALlamaFileAMistral) {
  GgufMetadataBuilder b = basic("llama");
  b.add_u32("llama.attention.sliding_window", 32);
  const HfConfig mistral = config_of(b).value();
  EXPECT_EQ(mistral.architecture, "MistralForCausalLM");
  EXPECT_EQ(mistral.sliding_window, 32);
  EXPECT_EQ(mistral.layer_types, std::vector<std::string>(3, std::string(kSlidingAttention)));
  GgufMetadataBuilder q = basic("qwen2");
  q.add_u32("qwen2.attention.sliding_window", 32);
  EXPECT_FALSE(config_of(q).value().sliding_window.has_value());
  q.add_bools("qwen2.attention.sliding_window_pattern", {false, true, true});
  EXPECT_THAT(config_of(q).value().layer_types,
              ElementsAre(kFullAttention, kSlidingAttention, kSlidingAttention));
  GgufMetadataBuilder wrong = basic("qwen2");
  wrong.add_bools("qwen2.attention.sliding_window_pattern", {true});
  EXPECT_THAT(config_of(wrong).status().message(), HasSubstr("one a layer, 3"));
}

TEST(GgufConfig, RopeScalingByType) {
  const auto scaled = [](const char* type, float factor) {
    GgufMetadataBuilder b = basic("llama");
    if (type != nullptr) b.add_string("llama.rope.scaling.type", type);
    b.add_f32("llama.rope.scaling.factor", factor);
    b.add_u32("llama.rope.scaling.original_context_length", 64);
    return config_of(b);
  };
  EXPECT_EQ(scaled("linear", 4.0F).value().rope.type, RopeConfig::Type::kLinear);
  EXPECT_EQ(scaled(nullptr, 4.0F).value().rope.type, RopeConfig::Type::kLinear);
  EXPECT_EQ(scaled("none", 4.0F).value().rope.type, RopeConfig::Type::kDefault);
  EXPECT_EQ(scaled("linear", 0.0F).value().rope.type, RopeConfig::Type::kDefault);
  const RopeConfig yarn = scaled("yarn", 4.0F).value().rope;
  EXPECT_EQ(yarn.type, RopeConfig::Type::kYarn);
  EXPECT_EQ(yarn.factor, 4.0);
  EXPECT_EQ(yarn.original_max_position, 64);
  EXPECT_FALSE(yarn.attention_factor.has_value());
  EXPECT_THAT(scaled("longrope", 4.0F).status().message(), HasSubstr("longrope"));
}

TEST(GgufConfig, ErrorsNameTheKeyOrTheArchitecture) {
  EXPECT_EQ(config_of(basic("mamba")).status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(config_of(basic("mamba")).status().message(), HasSubstr("\"mamba\""));
  EXPECT_THAT(config_of({}).status().message(), HasSubstr("general.architecture"));
  GgufMetadataBuilder few;
  few.add_string("general.architecture", "qwen2");
  EXPECT_THAT(config_of(few).status().message(), HasSubstr("qwen2.embedding_length"));
  GgufMetadataBuilder experts = basic("llama");
  experts.add_u32("llama.expert_count", 8);
  EXPECT_THAT(config_of(experts).status().message(), HasSubstr("8 experts"));
  GgufMetadataBuilder heads = basic("qwen3");
  heads.add_u32("qwen3.attention.key_length", 16);
  heads.add_u32("qwen3.attention.value_length", 32);
  EXPECT_EQ(config_of(heads).status().code(), StatusCode::kUnsupported);
}

GgufMetadataBuilder small_vocabulary() {
  GgufMetadataBuilder b;
  const std::vector<std::string> tokens = {"<unk>", "a", "<|im_end|>", "<|eot_id|>"};
  b.add_string("tokenizer.ggml.model", "llama");
  b.add_strings("tokenizer.ggml.tokens", tokens);
  b.add_f32s("tokenizer.ggml.scores", std::vector<float>{0, -1, 0, 0});
  b.add_i32s("tokenizer.ggml.token_type", std::vector<int32_t>{2, 1, 3, 1});
  b.add_u32("tokenizer.ggml.eos_token_id", 1);
  b.add_u32("tokenizer.ggml.unknown_token_id", 0);
  b.add_u32("tokenizer.ggml.padding_token_id", UINT32_MAX);  // "none", as some converters write it
  b.add_bool("tokenizer.ggml.add_bos_token", true);
  b.add_f32("general.sampling.temp", 0.5F);
  return b;
}

TEST(GgufTokenizer, ReadsTheFields) {
  const Metadata metadata(small_vocabulary());
  const GgufVocabulary fields = parse_gguf_vocabulary(*metadata).value();
  EXPECT_EQ(fields.model, "llama");
  EXPECT_THAT(fields.tokens, ElementsAre("<unk>", "a", "<|im_end|>", "<|eot_id|>"));
  EXPECT_THAT(fields.scores, ElementsAre(0, -1, 0, 0));
  EXPECT_THAT(fields.token_types, ElementsAre(2, 1, 3, 1));
  EXPECT_EQ(fields.unknown_token_id, 0U);
  EXPECT_FALSE(fields.padding_token_id.has_value());
  EXPECT_EQ(fields.add_bos_token, true);
  EXPECT_FALSE(fields.add_eos_token.has_value());
  EXPECT_EQ(fields.chat_template, "");
}

TEST(GgufTokenizer, RefusesArraysThatDoNotFit) {
  const auto with = [](auto add) {
    GgufMetadataBuilder b = small_vocabulary();
    add(b);
    return parse_gguf_vocabulary(*Metadata(b)).status().message();
  };
  EXPECT_THAT(with([](auto& b) { b.add_u32("tokenizer.ggml.bos_token_id", 4); }),
              HasSubstr("bos_token_id is 4; the vocabulary has 4 tokens"));
  EXPECT_THAT(with([](auto& b) { b.add_u32("tokenizer.ggml.merges", 4); }), HasSubstr("merges"));
  GgufMetadataBuilder types;
  const std::vector<std::string> one = {"a"};
  types.add_strings("tokenizer.ggml.tokens", one);
  types.add_i32s("tokenizer.ggml.token_type", std::vector<int32_t>{7});
  EXPECT_THAT(parse_gguf_vocabulary(*Metadata(types)).status().message(), HasSubstr("1 to 6"));
  EXPECT_EQ(parse_gguf_vocabulary(*Metadata({})).status().code(), StatusCode::kNotFound);
}

TEST(GgufTokenizer, ControlTokensThatEndATurnStopAReply) {
  const Metadata metadata(small_vocabulary());
  const GenerationConfig generation = parse_gguf_generation_config(*metadata).value();
  // Named; then by its text. <|eot_id|> is an ordinary token here.
  EXPECT_THAT(generation.eos_token_ids, ElementsAre(1, 2));
  EXPECT_EQ(generation.temperature, 0.5F);
}

// One f32 tensor [2] in a file that says it is part `number` of `count`.
void write_part(const std::string& path, const std::string& name, uint32_t number, uint32_t count) {
  GgufMetadataBuilder metadata;
  metadata.add_string("general.architecture", "llama");
  if (count > 1) {
    metadata.add_u32("split.no", number);
    metadata.add_u32("split.count", count);
  }
  auto writer = GgufWriter::create(path, {declare(name, DType::kF32, {2})}, metadata);
  ASSERT_TRUE(writer.is_ok()) << writer.status().message();
  ASSERT_TRUE(writer->write(as_bytes("12345678")).is_ok());
  ASSERT_TRUE(writer->finish().is_ok());
}

TEST(GgufCheckpoint, NamesAreThoseOfPublishedCheckpoints) {
  for (const auto& [gguf, published] : std::map<std::string, std::string>{
           {"token_embd.weight", "model.embed_tokens.weight"},
           {"output_norm.weight", "model.norm.weight"},
           {"output.weight", "lm_head.weight"},
           {"blk.12.attn_q.bias", "model.layers.12.self_attn.q_proj.bias"},
           {"blk.0.attn_q_norm.weight", "model.layers.0.self_attn.q_norm.weight"},
           {"blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj.weight"},
           {"blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"},
           {"blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight"},
           {"blk.0.strange.weight", "model.layers.0.strange.weight"},
           {"rope_freqs.weight", "rope_freqs.weight"},
           {"blk.", "model.layers."}}) {
    EXPECT_EQ(published_name(gguf), published);
    EXPECT_EQ(gguf_name(published), gguf);
  }
}

TEST(GgufCheckpoint, OpensAFileAFolderAndASet) {
  const TempFolder folder;
  write_part(folder / "m.gguf", "output_norm.weight", 0, 1);
  write_text(folder / "mmproj-m.gguf", "not looked at");
  for (const std::string& path : {folder / "m.gguf", folder.path()}) {
    const auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.is_ok()) << checkpoint.status().message();
    EXPECT_EQ((*checkpoint)->format(), WeightFormat::kGguf);
    EXPECT_TRUE((*checkpoint)->has_interleaved_heads());
    EXPECT_EQ(to_text((*checkpoint)->find("model.norm.weight").value()), "12345678");
  }
  const TempFolder set;
  write_part(set / "m-00001-of-00002.gguf", "a", 0, 2);
  write_part(set / "m-00002-of-00002.gguf", "b", 1, 2);
  for (const std::string& path : {set / "m-00002-of-00002.gguf", set.path()}) {
    const auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.is_ok()) << checkpoint.status().message();
    EXPECT_EQ((*checkpoint)->n_tensors(), 2U);
    EXPECT_EQ((*checkpoint)->files().size(), 2U);
  }
}

TEST(GgufCheckpoint, SetsThatDoNotFitTogetherAreRefused) {
  const auto message = [](const std::string& path) {
    return Checkpoint::open(path).status().message();
  };
  const TempFolder folder;
  write_part(folder / "m-00001-of-00002.gguf", "a", 0, 2);
  EXPECT_THAT(message(folder.path()), HasSubstr("m-00002-of-00002.gguf is missing"));
  write_part(folder / "m-00002-of-00002.gguf", "b", 0, 2);
  EXPECT_THAT(message(folder.path()), HasSubstr("says it is part 1 of 2"));
  write_part(folder / "m-00002-of-00002.gguf", "a", 1, 2);
  EXPECT_THAT(message(folder.path()), HasSubstr("both in"));
  const TempFolder renamed;
  write_part(renamed / "m.gguf", "a", 0, 2);
  EXPECT_THAT(message(renamed.path()), HasSubstr("keep the names"));
  write_part(renamed / "n.gguf", "a", 0, 1);
  EXPECT_THAT(message(renamed.path()), HasSubstr("2 GGUF models (m.gguf, n.gguf"));
  EXPECT_THAT(message(renamed / "x-00000-of-00000.gguf"), HasSubstr("x-00000-of-00000.gguf"));
}

TEST(GgufCheckpoint, InspectTellsFormatTokenizerAndWhyItDoesNotRun) {
  const TempFolder folder;
  GgufMetadataBuilder metadata = small_vocabulary();
  metadata.add_string("general.architecture", "mamba");
  auto writer =
      GgufWriter::create(folder / "m.gguf", {declare("a", DType::kQ4K, {2, 256})}, metadata);
  ASSERT_TRUE(writer.is_ok());
  ASSERT_TRUE(writer->write(as_bytes(std::string(288, 'x'))).is_ok());
  ASSERT_TRUE(writer->finish().is_ok());
  const InspectReport report = inspect_checkpoint(folder / "m.gguf").value();
  EXPECT_EQ(report.format, "GGUF version 3");
  EXPECT_EQ(report.n_parameters, 512U);
  EXPECT_EQ(report.dtypes.at("q4_k").n_bytes, 288U);
  EXPECT_THAT(report.config_error, HasSubstr("mamba"));
  ASSERT_TRUE(report.tokenizer.has_value());
  EXPECT_EQ(report.tokenizer->n_tokens, 4U);
  EXPECT_EQ(report.files[0].metadata.at("tokenizer.ggml.tokens"), "4 x string");
}

}  // namespace
}  // namespace cairn
