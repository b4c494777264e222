// P2 through the program: one prompt's logits are the same bits whatever the chunks, the threads,
// the company and the place its first rows came from. Every run is a process of its own, so each
// reuse is a restart. The full product in one process is in tests/engine and tests/model.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "formats/safetensors.h"
#include "support/weight_kinds.h"
#include "system/program.h"

namespace cairn {
namespace {

using namespace ::cairn::testing;  // NOLINT(google-build-using-namespace)

struct Subject {
  std::string model;  // "demo", an oracle's name, or a path of a model with 320 tokens
  std::string isa;
  std::string precision;
};

// One way to compute the same rows.
struct Way {
  std::string chunk;
  std::string threads;
  bool with_company;
};

std::vector<std::string> isas_of_this_machine() {
  const TempFolder folder;
  write_file(folder.file("ids.json"), "[[1]]");
  std::vector<std::string> isas;
  for (const char* isa : {"avx512bf16", "avx512", "avx2"}) {
    const Outcome outcome = run_cairn({"score",
                                       "--model",
                                       oracle_folder("llama"),
                                       "--isa",
                                       isa,
                                       "--ids",
                                       folder.file("ids.json"),
                                       "--out",
                                       folder.file("o")});
    if (outcome.status == 0) isas.emplace_back(isa);
  }
  EXPECT_FALSE(isas.empty());
  return isas;
}

Json some_ids(size_t n, uint32_t salt, uint32_t vocab_size) {
  std::mt19937 random(salt);
  Json ids = Json::array();
  for (size_t i = 0; i < n; ++i) ids.push_back(random() % vocab_size);
  return ids;
}

class Scorer {
 public:
  Scorer(Subject subject, size_t n_ids) : subject_(std::move(subject)), n_ids_(n_ids) {
    const uint32_t vocab_size = subject_.model == "demo" ? 4096 : 320;
    row_bytes_ = vocab_size * sizeof(float);
    write_file(folder_.file("ids.json"), dump_json(Json{{"ids", some_ids(n_ids, 11, vocab_size)}}));
    Json others = Json::array();
    for (const size_t n : {n_ids, n_ids / 2 + 1, n_ids / 5 + 3})
      others.push_back(some_ids(n, static_cast<uint32_t>(n), vocab_size));
    write_file(folder_.file("others.json"), dump_json(others));
  }

  // Rows [first_row, n_ids) of the prompt, as bytes.
  std::string rows(const Words& more, size_t* first_row = nullptr) const {
    const std::string out = folder_.file("out.safetensors");
    Words words = {"score",
                   "--model",
                   model_path(),
                   "--isa",
                   subject_.isa,
                   "--precision",
                   subject_.precision,
                   "--ids",
                   folder_.file("ids.json"),
                   "--out",
                   out};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_cairn(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const auto file = SafetensorsFile::open(out);
    EXPECT_TRUE(file.is_ok());
    if (outcome.status != 0 || !file.is_ok()) return "";
    if (first_row != nullptr) *first_row = std::stoul(file->metadata().at("first_row"));
    const auto bytes = file->tensor("logits").value().bytes;
    std::string text(bytes.size(), '\0');
    std::memcpy(text.data(), bytes.data(), bytes.size());
    return text;
  }

  void compute_base() {
    base_ = rows({"--threads", "1"});
    ASSERT_EQ(base_.size(), n_ids_ * row_bytes_);
  }

  void expect_same(const Way& way) const {
    Words words = {"--chunk", way.chunk, "--threads", way.threads};
    if (way.with_company) words.insert(words.end(), {"--batch-with", folder_.file("others.json")});
    EXPECT_TRUE(rows(words) == base_) << name() << " chunk " << way.chunk << ", threads "
                                      << way.threads << (way.with_company ? ", in company" : "");
  }

  // Publishes the prompt's pages in one process and starts others from `cuts`.
  void expect_same_from_disk(const std::vector<size_t>& cuts) const {
    const std::string store = folder_.file("store");
    EXPECT_TRUE(rows({"--store", store}) == base_) << name();
    for (const size_t cut : cuts) {
      size_t first_row = 0;
      const std::string got =
          rows({"--store", store, "--reuse-at", std::to_string(cut)}, &first_row);
      EXPECT_EQ(first_row, cut) << name();
      EXPECT_TRUE(got == base_.substr(first_row * row_bytes_)) << name() << " cut " << cut;
    }
  }

  std::string name() const {
    return subject_.model + " " + subject_.isa + " " + subject_.precision;
  }

 private:
  std::string model_path() const {
    if (subject_.model == "demo" || subject_.model.starts_with("/")) return subject_.model;
    return oracle_folder(subject_.model);
  }

  Subject subject_;
  size_t n_ids_;
  size_t row_bytes_ = 0;
  TempFolder folder_;
  std::string base_;
};

std::vector<size_t> every_cut(size_t n_ids, size_t begin, size_t stride) {
  std::vector<size_t> cuts;
  for (size_t cut = begin; cut < n_ids; cut += stride) cuts.push_back(cut);
  return cuts;
}

std::vector<Way> all_ways() {
  std::vector<Way> ways;
  for (const char* chunk : {"1", "7", "64", "0"}) {
    for (const char* threads : {"1", "2"}) {
      for (const bool with_company : {false, true}) ways.push_back({chunk, threads, with_company});
    }
  }
  return ways;
}

class SameBits : public ::testing::TestWithParam<const char*> {};

TEST_P(SameBits, ChunksThreadsAndCompany) {
  // Every chunk size, with each pair of thread count and company at least once.
  const std::vector<Way> ways = {
      {"1", "2", true}, {"7", "1", true}, {"64", "2", false}, {"0", "2", true}};
  for (const std::string& isa : isas_of_this_machine()) {
    for (const char* precision : {"fast", "f32"}) {
      Scorer scorer({GetParam(), isa, precision}, 150);
      scorer.compute_base();
      for (const Way& way : ways) scorer.expect_same(way);
    }
  }
}

TEST_P(SameBits, RestoredFromDiskAfterARestart) {
  // 40 cuts on the widest class; around the page edges and inside pages on the others.
  bool is_first = true;
  for (const std::string& isa : isas_of_this_machine()) {
    for (const char* precision : {"fast", "f32"}) {
      Scorer scorer({GetParam(), isa, precision}, 150);
      scorer.compute_base();
      scorer.expect_same_from_disk(is_first && std::string(GetParam()) == "demo"
                                       ? every_cut(150, 0, 149 / 39)
                                       : std::vector<size_t>{63, 64, 101, 149});
      is_first = false;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SameBits, ::testing::Values("demo", "llama", "qwen3"));

TEST(SameBitsLong, ThreeThousandTokensOfTheDemo) {
  Scorer scorer({"demo", "auto", "fast"}, 3000);
  scorer.compute_base();
  scorer.expect_same({"1", "2", false});
  scorer.expect_same({"64", "2", true});
  scorer.expect_same_from_disk({1000, 2048, 2999});
}

// `make soak`: every way, every cut, on every class and in both precisions.
class SoakSameBits : public ::testing::TestWithParam<const char*> {};

TEST_P(SoakSameBits, EveryWayAndEveryCut) {
  for (const std::string& isa : isas_of_this_machine()) {
    for (const char* precision : {"fast", "f32"}) {
      Scorer scorer({GetParam(), isa, precision}, 150);
      scorer.compute_base();
      for (const Way& way : all_ways()) scorer.expect_same(way);
      scorer.expect_same_from_disk(every_cut(150, 0, 1));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SoakSameBits, ::testing::Values("demo", "llama", "qwen3"));

TEST(SoakSameBitsLong, ThreeThousandTokensOfTheDemoEveryWay) {
  for (const std::string& isa : isas_of_this_machine()) {
    for (const char* precision : {"fast", "f32"}) {
      Scorer scorer({"demo", isa, precision}, 3000);
      scorer.compute_base();
      for (const Way& way : all_ways()) scorer.expect_same(way);
      scorer.expect_same_from_disk(every_cut(3000, 16, 73));
    }
  }
}

// Every way to keep weights, in a small model.
class WeightKindSameBits : public ::testing::TestWithParam<std::string> {
 protected:
  std::string model() const { return make_small_demo(demo_folder(), GetParam(), folder_.path()); }

 private:
  const TempFolder folder_;
};

TEST_P(WeightKindSameBits, OneWayAndOneRestart) {
  Scorer scorer({model(), "auto", "fast"}, 150);
  scorer.compute_base();
  scorer.expect_same({"7", "2", true});
  scorer.expect_same_from_disk({101});
}

// One of each shape of packed weights; all of them are for `make soak`, and in tests/engine.
INSTANTIATE_TEST_SUITE_P(Kinds,
                         WeightKindSameBits,
                         ::testing::Values("f16",
                                           "q8_0",
                                           "q4_0",
                                           "q4_k_mix",
                                           "q6_k",
                                           "q3_k",
                                           "iq4_xs",
                                           "mxfp4",
                                           "mlx_4_g64",
                                           "mlx_3_g32"),
                         [](const auto& param) { return param.param; });

class SoakWeightKindSameBits : public WeightKindSameBits {};

TEST_P(SoakWeightKindSameBits, EveryWayAndEveryCut) {
  const std::string path = model();
  for (const std::string& isa : isas_of_this_machine()) {
    for (const char* precision : {"fast", "f32"}) {
      Scorer scorer({path, isa, precision}, 150);
      scorer.compute_base();
      for (const Way& way : all_ways()) scorer.expect_same(way);
      scorer.expect_same_from_disk(every_cut(150, 0, 1));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         SoakWeightKindSameBits,
                         ::testing::ValuesIn(weight_kinds()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace cairn
