// Converted models run to the numbers of their sources.
#include "formats/convert.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "base/json.h"
#include "formats/gguf_vocabulary.h"
#include "formats/model_config.h"
#include "model/model_fixture.h"

namespace cairn {
namespace {

using namespace ::cairn::testing;  // NOLINT(google-build-using-namespace)

constexpr TokenId kIds[] = {5,  9,  200, 31, 77, 2,  300, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
                            21, 22, 23,  24, 25, 26, 27,  28, 29, 30, 32, 33, 34, 35, 36, 37, 38};

std::vector<float> logits_of(const std::string& path) {
  const auto backend = make_backend(supported_isas().back(), Precision::kF32);
  auto model = Model::load(path, *backend, {});
  CAIRN_CHECK(model.is_ok(), model.status().message());
  return score_ids(
      **model, (*model)->spec().cache_geometry(RowEncoding::kF32), kIds, std::size(kIds));
}

ConvertSummary to_gguf(const std::string& from, const std::string& to, DType dtype) {
  const auto checkpoint = Checkpoint::open(from).value();
  auto summary = convert_to_gguf(*checkpoint, to, {.dtype = dtype, .pure = false, .progress = {}});
  CAIRN_CHECK(summary.is_ok(), summary.status().message());
  return *summary;
}

ConvertSummary to_folder(const std::string& from, const std::string& to, DType dtype) {
  const auto checkpoint = Checkpoint::open(from).value();
  auto summary =
      convert_to_safetensors(*checkpoint, to, {.dtype = dtype, .pure = false, .progress = {}});
  CAIRN_CHECK(summary.is_ok(), summary.status().message());
  return *summary;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  CAIRN_CHECK(a.size() == b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return worst;
}

double mean_difference(const std::vector<float>& a, const std::vector<float>& b) {
  CAIRN_CHECK(a.size() == b.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
  }
  return sum / static_cast<double>(a.size());
}

// Every tensor of `wanted` is in `found` with the same type, shape and bytes.
void expect_same_tensors(const Checkpoint& found, const Checkpoint& wanted) {
  for (const std::string& name : wanted.names()) {
    const auto view = found.find(name);
    ASSERT_TRUE(view.is_ok()) << view.status().message();
    const TensorView original = wanted.find(name).value();
    EXPECT_EQ(view->dtype, original.dtype) << name;
    EXPECT_EQ(view->shape, original.shape) << name;
    ASSERT_EQ(view->bytes.size(), original.bytes.size()) << name;
    EXPECT_EQ(std::memcmp(view->bytes.data(), original.bytes.data(), original.bytes.size()), 0)
        << name;
  }
}

class Convert : public ::testing::TestWithParam<const char*> {};

TEST_P(Convert, ToGgufAndBackIsTheSameModel) {
  const std::string source = oracle_dir(GetParam());
  const TempDir dir;
  const std::string gguf = dir.path() + "/model.gguf";
  const std::string folder = dir.path() + "/back";
  to_gguf(source, gguf, DType::kBf16);
  const std::vector<float> wanted = logits_of(source);
  if (std::string(GetParam()) == "llama") {
    // llama3 scaling travels as f32 divisors, which round the frequencies.
    EXPECT_LE(largest_difference(logits_of(gguf), wanted), 1e-3);
  } else {
    EXPECT_EQ(logits_of(gguf), wanted);
  }
  to_folder(gguf, folder, DType::kBf16);
  EXPECT_EQ(logits_of(folder), wanted);
  expect_same_tensors(*Checkpoint::open(folder).value(), *Checkpoint::open(source).value());
}

INSTANTIATE_TEST_SUITE_P(
    Models,
    Convert,
    ::testing::Values("llama", "llama-linear", "llama-yarn", "mistral", "qwen2", "qwen3"),
    [](const auto& param) {
      std::string name = param.param;
      for (char& c : name) c = c == '-' ? '_' : c;
      return name;
    });

// Rows of 64 are no whole number of 256-blocks, so K-quants fall back to blocks of 32.
TEST(ConvertTypes, EveryTypeLoadsAndStaysNearTheSource) {
  const std::vector<float> wanted = logits_of(oracle_dir("qwen3"));

  struct Case {
    DType dtype;
    double bound;
  };

  for (const auto& [dtype, bound] : {Case{DType::kF32, 0.0},
                                     Case{DType::kQ8_0, 0.12},
                                     Case{DType::kQ6K, 0.12},
                                     Case{DType::kQ5_1, 0.7},
                                     Case{DType::kQ5_0, 0.8},
                                     Case{DType::kQ5K, 0.7},
                                     Case{DType::kQ4_1, 1.5},
                                     Case{DType::kQ4_0, 1.4},
                                     Case{DType::kQ4K, 0.8},
                                     Case{DType::kIq4Nl, 1.5},
                                     Case{DType::kMxfp4, 2.2}}) {
    const TempDir dir;
    const std::string gguf = dir.path() + "/model.gguf";
    to_gguf(oracle_dir("qwen3"), gguf, dtype);
    const double difference = mean_difference(logits_of(gguf), wanted);
    EXPECT_LE(difference, bound) << to_string(dtype);
    EXPECT_EQ(difference == 0.0, dtype == DType::kF32) << to_string(dtype);
  }
}

TEST(ConvertMlx, DequantisedWeightsGiveTheSameNumbers) {
  const std::string source = mlx_dir("qwen3/mlx-mixed");
  if (source.empty()) GTEST_SKIP() << "CAIRN_ORACLES is unset";
  const TempDir dir;
  to_gguf(source, dir.path() + "/model.gguf", DType::kF32);
  to_folder(source, dir.path() + "/folder", DType::kF32);
  const std::vector<float> wanted = logits_of(source);
  // The packed form sums scale * code and bias apart, the plain one their rounded sum.
  EXPECT_LE(largest_difference(logits_of(dir.path() + "/model.gguf"), wanted), 1e-3);
  EXPECT_EQ(logits_of(dir.path() + "/model.gguf"), logits_of(dir.path() + "/folder"));
}

// Two independent writers of the same format: ours, from the f32 file, and make_gguf.mjs.
TEST(ConvertTypes, BlocksAreThoseOfAnIndependentWriter) {
  if (std::system("command -v node > /dev/null 2>&1") != 0) GTEST_SKIP() << "node is not installed";
  const TempDir dir;
  const auto make = [&](const std::string& type) {
    const std::string path = dir.path() + "/" + type + ".gguf";
    const std::string command = "node '" + std::string(CAIRN_SOURCE_DIR) +
                                "/bench/peers/make_gguf.mjs' --shape tiny-llama --type " + type +
                                " --out '" + path + "' > /dev/null";
    CAIRN_CHECK(std::system(command.c_str()) == 0, command);
    return path;
  };
  const std::string source = make("f32");
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ4K, DType::kQ6K}) {
    SCOPED_TRACE(to_string(dtype));
    const std::string wanted = make(std::string(to_string(dtype)));
    const std::string found = dir.path() + "/found.gguf";
    to_gguf(source, found, dtype);
    expect_same_tensors(*Checkpoint::open(found).value(), *Checkpoint::open(wanted).value());
  }
}

TEST(ConvertTokenizer, TheDemosVocabularyIsCarriedOver) {
  const TempDir dir;
  const std::string gguf = dir.path() + "/demo.gguf";
  const ConvertSummary summary = to_gguf(demo_dir(), gguf, DType::kQ4K);
  EXPECT_TRUE(summary.notes.empty());
  EXPECT_GT(summary.n_tensors.at("q6_k"), 0U);  // of the mix
  const auto checkpoint = Checkpoint::open(gguf).value();
  const GgufVocabulary vocabulary = parse_gguf_vocabulary(*checkpoint->gguf_metadata()).value();
  EXPECT_EQ(vocabulary.model, "gpt2");
  EXPECT_EQ(vocabulary.pre, "qwen2");
  ASSERT_EQ(vocabulary.tokens.size(), 4096U);
  EXPECT_EQ(vocabulary.tokens[4090], "<|im_start|>");
  EXPECT_EQ(vocabulary.token_types[4090], GgufVocabulary::kControl);
  EXPECT_EQ(vocabulary.token_types[0], GgufVocabulary::kNormal);
  EXPECT_EQ(vocabulary.merges.front(), "e r");
  EXPECT_EQ(vocabulary.eos_token_id, 4091U);
  EXPECT_EQ(vocabulary.add_bos_token, false);
  EXPECT_NE(vocabulary.chat_template.find("<|im_start|>"), std::string::npos);
  const GenerationConfig generation = load_model_generation_config(*checkpoint).value();
  EXPECT_EQ(generation.eos_token_ids, (std::vector<uint32_t>{4091, 4089}));
  EXPECT_EQ(generation.temperature, 0.0F);  // the demo's "do_sample": false
}

TEST(ConvertText, SamplingSettingsComeBackFromGguf) {
  const TempDir dir;
  const std::string source = dir.path() + "/source";
  std::filesystem::create_directory(source);
  copy_model(oracle_dir("llama"), source, {});
  const Json settings = {{"do_sample", true},
                         {"temperature", 0.7},
                         {"top_p", 0.95},
                         {"min_p", 0.05},
                         {"repetition_penalty", 1.1},
                         {"top_k", 20}};
  write_json(source + "/generation_config.json", settings);
  to_gguf(source, dir.path() + "/model.gguf", DType::kF32);
  const ConvertSummary summary =
      to_folder(dir.path() + "/model.gguf", dir.path() + "/back", DType::kF32);
  EXPECT_EQ(read_json(dir.path() + "/back/generation_config.json"), settings);
  ASSERT_EQ(summary.notes.size(), 1U);
  EXPECT_NE(summary.notes[0].find("no tokenizer.ggml.tokens"), std::string::npos);
}

TEST(ConvertErrors, NameWhatCannotBeWritten) {
  const auto checkpoint = Checkpoint::open(oracle_dir("llama")).value();
  const TempDir dir;
  const auto integers =
      convert_to_gguf(*checkpoint, dir.path() + "/x.gguf", {DType::kI8, false, {}});
  EXPECT_EQ(integers.status().code(), StatusCode::kUnsupported);
  const auto blocks = convert_to_safetensors(*checkpoint, dir.path(), {DType::kQ8_0, false, {}});
  EXPECT_EQ(blocks.status().code(), StatusCode::kUnsupported);
  const auto itself =
      convert_to_safetensors(*checkpoint, oracle_dir("llama"), {DType::kF32, false, {}});
  EXPECT_EQ(itself.status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn
