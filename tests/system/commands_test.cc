// The program's contract: commands, flags, exit statuses, what goes to which stream, and answers
// equal to reference implementations' (tests/data/oracles, the demo's golden conversations).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "formats/safetensors.h"
#include "system/program.h"

namespace cairn {
namespace {

using namespace ::cairn::testing;  // NOLINT(google-build-using-namespace)
using ::testing::AnyOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

std::string ids_file(const TempFolder& folder, const Json& lists, const std::string& name = "ids") {
  const std::string path = folder.file(name + ".json");
  write_file(path,
             dump_json(lists.is_array() && lists[0].is_array() ? lists : Json{{"ids", lists}}));
  return path;
}

// A model folder as it was published, for tests that then break one thing.
void copy_folder(const std::string& from, const std::string& to) {
  fs::create_directories(to);
  for (const auto& entry : fs::directory_iterator(from)) {
    fs::copy(entry.path(), fs::path(to) / entry.path().filename(), fs::copy_options::recursive);
    fs::permissions(fs::path(to) / entry.path().filename(), fs::perms::owner_all);
  }
}

TEST(Commands, EachPrintsItsHelp) {
  for (const char* command : {"serve",
                              "run",
                              "chat",
                              "score",
                              "generate-ids",
                              "bench",
                              "tokenize",
                              "template",
                              "inspect",
                              "convert",
                              "cache"}) {
    const Outcome outcome = run_cairn({command, "--help"});
    EXPECT_EQ(outcome.status, 0) << command;
    EXPECT_THAT(outcome.out, HasSubstr(std::string("cairn ") + command)) << command;
    EXPECT_EQ(outcome.err, "") << command;
  }
  EXPECT_THAT(run_cairn({"--help"}).out, HasSubstr("generate-ids"));
  EXPECT_THAT(run_cairn({"--version"}).out, HasSubstr("cairn "));
}

struct Mistake {
  Words words;
  int status;
  Words said;  // each must be on standard error
};

void expect_mistakes(const std::vector<Mistake>& mistakes) {
  for (const Mistake& mistake : mistakes) {
    std::string shown;
    for (const std::string& word : mistake.words) shown += word + " ";
    const Outcome outcome = run_cairn(mistake.words);
    EXPECT_EQ(outcome.status, mistake.status) << shown << outcome.err;
    EXPECT_EQ(outcome.out, "") << shown;
    for (const std::string& part : mistake.said) EXPECT_THAT(outcome.err, HasSubstr(part)) << shown;
  }
}

TEST(Commands, UsageErrorsExitWith2AndNameTheWayOut) {
  expect_mistakes({
      {{}, 2, {"Usage"}},
      {{"explode"}, 2, {"explode", "serve"}},
      {{"serve"}, 2, {"--model", "demo"}},
      {{"serve", "--model", "demo", "--draft-model", "x"}, 2, {"--draft-model", "--help"}},
      {{"serve", "--model", "demo", "--anchors=maybe"}, 2, {"--anchors", "maybe", "on|off"}},
      {{"serve", "--model", "demo", "extra"}, 2, {"extra"}},
      {{"serve", "--model", "demo", "--kv", "q8"}, 2, {"--kv", "q8", "f32|bf16"}},
      {{"serve", "--model", "demo", "--kv", ""}, 2, {"--kv", "f32|bf16"}},
      {{"serve", "--model", "demo", "--isa", "sse"}, 2, {"sse", "auto|avx2|avx512|avx512bf16"}},
      {{"serve", "--model", "demo", "--precision", "bf16"}, 2, {"bf16", "fast|f32"}},
      {{"serve", "--model", "demo", "--port", "65536"}, 2, {"--port", "65536", "65535"}},
      {{"serve", "--model", "demo", "--ctx", "many"}, 2, {"--ctx", "many"}},
      {{"serve", "--model", "demo", "--store-max", "12XB"}, 2, {"--store-max", "12XB", "GiB"}},
      {{"serve", "--model", "demo", "--leaf-delay", "soon"}, 2, {"--leaf-delay", "soon", "ms"}},
      {{"serve", "--model", "demo", "--restore", "maybe"}, 2, {"maybe", "auto|always|never"}},
      {{"score", "--model", "demo"}, 2, {"--ids"}},
      {{"score", "--model", "demo", "--ids", "x", "--out"}, 2, {"--out", "value"}},
      {{"run", "--model", "demo"}, 2, {"--prompt", "--messages"}},
      {{"tokenize", "--model", "demo"}, 2, {"--text", "--jsonl"}},
      {{"template", "--model", "demo"}, 2, {"--messages", "--jsonl"}},
      {{"bench", "--model", "demo", "--prefill", "1,x"}, 2, {"--prefill", "x"}},
      {{"inspect"}, 2, {"PATH"}},
      {{"cache"}, 2, {"a verb is missing", "ls, stat or verify"}},
      {{"cache", "shake"}, 2, {"shake", "ls, stat or verify"}},
  });
}

TEST(Commands, FailuresExitWith1AndNameThingAndWayOut) {
  const TempFolder folder;
  const std::string out = folder.file("out.safetensors");
  write_file(folder.file("model.gguf"), "GGUF");
  write_file(folder.file("bad.json"), "{\"ids\": [1, -2]}");
  write_file(folder.file("broken.json"), "{\"ids\": [1, ");
  write_file(folder.file("mixed.json"), "[[1], 2]");
  write_file(folder.file("large.json"), "{\"ids\": [1, 4096]}");
  write_file(folder.file("good.json"), "{\"ids\": [1, 2]}");
  const auto score = [&](const std::string& ids) {
    return Words{"score", "--model", "demo", "--ids", folder.file(ids), "--out", out};
  };
  expect_mistakes({
      {{"serve", "--model", "/no/such/model"}, 1, {"/no/such/model", "demo"}},
      {{"inspect", "/no/such/model"}, 1, {"/no/such/model"}},
      {{"serve", "--model", folder.file("model.gguf")}, 1, {"GGUF"}},
      {{"serve", "--model", "demo", "--ctx", "9000"}, 1, {"9000", "8192"}},
      {{"serve", "--model", "demo", "--model", "demo"}, 1, {"demo", "NAME=PATH"}},
      {{"serve", "--model", "demo", "--store", "none", "--host", "nowhere"}, 1, {"nowhere", "127"}},
      {{"serve", "--model", "demo", "--api-key-file", "/no/keys"}, 1, {"/no/keys"}},
      {score("absent.json"), 1, {"absent.json", "\"ids\""}},
      {score("bad.json"), 1, {"bad.json", "-2"}},
      {score("broken.json"), 1, {"broken.json", "line"}},
      {score("mixed.json"), 1, {"mixed.json"}},
      {score("large.json"), 1, {"4096"}},
      {{"score", "--model", "demo", "--ids", folder.file("good.json"), "--out", "/no/such/out"},
       1,
       {"/no/such"}},
      {{"run", "--model", oracle_folder("llama"), "--store", "none", "--prompt", "x"},
       1,
       {"tokenizer.json", "generate-ids"}},
      {{"template", "--model", "demo", "--messages", folder.file("good.json"), "--now", "noon"},
       1,
       {"--now", "noon"}},
      {{"cache", "stat", "--store", "/no/such/store"}, 1, {"/no/such/store", "--store"}},
  });
  EXPECT_FALSE(fs::exists(out));
}

TEST(Commands, OutputThatCannotBeWrittenIsAFailure) {
  const auto onto_full_device = [] { ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO); };
  for (const Words& arguments :
       {Words{"inspect", "demo"}, Words{"tokenize", "--model", "demo", "--text", "hello"}}) {
    const Outcome outcome = run_cairn(arguments, {.in_child = onto_full_device});
    EXPECT_EQ(outcome.status, 1) << arguments.front();
    EXPECT_NE(outcome.err.find("standard output"), std::string::npos) << outcome.err;
  }
}

TEST(Commands, BrokenCheckpointsAreNamedNotRun) {
  const TempFolder folder;
  const std::string model = folder.file("model");
  copy_folder(oracle_folder("llama"), model);
  const std::string weights = model + "/model.safetensors";
  const std::string config = read_file(model + "/config.json");
  const std::string bytes = read_file(weights);
  const std::string ids = ids_file(folder, Json{1, 2});
  const auto expect_refused = [&](const std::string& said) {
    const Outcome outcome =
        run_cairn({"score", "--model", model, "--ids", ids, "--out", folder.file("o.safetensors")});
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(said));
  };
  write_file(weights, bytes.substr(0, bytes.size() / 2));
  expect_refused("model.safetensors");
  write_file(weights, std::string(8, '\xff') + bytes.substr(8));  // a header of 2^64 - 1 bytes
  expect_refused("model.safetensors");
  write_file(weights, "");
  expect_refused("model.safetensors");
  fs::remove(weights);
  expect_refused("safetensors");
  write_file(weights, bytes);
  Json changed = *parse_json(config, "config");
  changed["num_attention_heads"] = 3;
  write_file(model + "/config.json", dump_json(changed));
  expect_refused("");
  changed = *parse_json(config, "config");
  changed["architectures"] = Json{"SpaceshipForCausalLM"};
  changed["model_type"] = "spaceship";
  write_file(model + "/config.json", dump_json(changed));
  expect_refused("paceship");
  write_file(model + "/config.json", config.substr(0, 40));
  expect_refused("config.json");
}

// ---- Text -----------------------------------------------------------------------------------

TEST(Commands, TokenizeGivesTheReferenceIdsLineByLine) {
  const Json cases = read_json_file(oracle_folder("_tokenizer") + "/cases.json");
  RunOptions options;
  for (const Json& row : cases.at("cases"))
    options.input += dump_json(Json{{"text", row.at("text")}}) + "\n";
  const Outcome outcome =
      run_cairn({"tokenize", "--model", oracle_folder("_tokenizer"), "--jsonl", "-"}, options);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::string wanted;
  for (const Json& row : cases.at("cases"))
    wanted += dump_json(Json{{"ids", row.at("ids")}, {"decoded", row.at("decoded")}}) + "\n";
  EXPECT_GT(cases.at("cases").size(), 4U);
  EXPECT_EQ(outcome.out, wanted);
}

TEST(Commands, TemplateRendersTheDemosConversationsWithoutWeightsOrTokenizer) {
  const TempFolder folder;
  const std::string model = folder.file("model");
  copy_folder(demo_folder(), model);
  fs::remove(model + "/model.safetensors");
  fs::remove(model + "/tokenizer.json");
  const Json goldens = read_json_file(demo_folder() + "/demo_goldens.json");
  std::string lines, wanted;
  for (const Json& c : goldens.at("conversations")) {
    lines += dump_json(Json{{"messages", c.at("messages")},
                            {"tools", c.at("tools")},
                            {"add_generation_prompt", true}}) +
             "\n";
    wanted += dump_json(Json{{"rendered", c.at("prompt")}}) + "\n";
  }
  write_file(folder.file("rows.jsonl"), lines);
  const Outcome outcome =
      run_cairn({"template", "--model", model, "--jsonl", folder.file("rows.jsonl")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, wanted);

  write_file(folder.file("raises.jinja"), "{{ raise_exception('only users may speak') }}");
  const Json refused = run_json(
      {"template", "--model", model, "--template", folder.file("raises.jinja"), "--jsonl", "-"},
      {.input = "{\"messages\": []}\n"});
  EXPECT_EQ(refused.at("error"), "only users may speak");
  EXPECT_EQ(refused.at("raised"), true);
}

// ---- Models ---------------------------------------------------------------------------------

constexpr double kF32Tolerance = 2e-3;  // the oracles' README
constexpr size_t kTop = 16;

template <typename T>
std::vector<T> values(const SafetensorsFile& file, const std::string& name) {
  const auto view = file.tensor(name);
  EXPECT_TRUE(view.is_ok()) << name;
  if (!view.is_ok()) return {};
  std::vector<T> out(view->bytes.size() / sizeof(T));
  std::memcpy(out.data(), view->bytes.data(), view->bytes.size());
  return out;
}

double log_sum_exp(std::span<const float> row) {
  const double max = static_cast<double>(*std::max_element(row.begin(), row.end()));
  double sum = 0;
  for (const float v : row) sum += std::exp(static_cast<double>(v) - max);
  return max + std::log(sum);
}

void expect_reference_rows(const SafetensorsFile& reference,
                           const Json& prompt,
                           const std::vector<float>& logits,
                           size_t vocab_size) {
  const auto name = prompt.at("name").get<std::string>();
  const auto top_ids = values<int16_t>(reference, name + ".top_ids");
  const auto top = values<float>(reference, name + ".top_logits");
  const auto lse = values<float>(reference, name + ".logsumexp");
  const auto last = values<float>(reference, name + ".last_logits");
  const size_t n_rows = prompt.at("ids").size();
  ASSERT_EQ(logits.size(), n_rows * vocab_size) << name;
  double worst = 0;
  const auto compare = [&worst](double a, float b) {
    worst = std::max(worst, std::abs(a - static_cast<double>(b)));
  };
  for (size_t r = 0; r < n_rows; ++r) {
    const auto row = std::span(logits).subspan(r * vocab_size, vocab_size);
    for (size_t k = r * kTop; k < (r + 1) * kTop; ++k)
      compare(static_cast<double>(row[static_cast<size_t>(top_ids[k])]), top[k]);
    compare(log_sum_exp(row), lse[r]);
    EXPECT_EQ(std::max_element(row.begin(), row.end()) - row.begin(),
              prompt.at("argmax")[r].get<ptrdiff_t>())
        << name << " row " << r;
  }
  for (size_t id = 0; id < vocab_size; ++id)
    compare(static_cast<double>(logits[(n_rows - 1) * vocab_size + id]), last[id]);
  EXPECT_LE(worst, kF32Tolerance) << name;
}

class OracleCommands : public ::testing::TestWithParam<const char*> {};

TEST_P(OracleCommands, ScoreAndGreedyIdsAreTheReferencesInBothSpellings) {
  const std::string published = oracle_folder(GetParam());
  const TempFolder folder;
  const std::string other = folder.file("v5");
  copy_folder(published, other);
  fs::copy_file(
      other + "/config.v5.json", other + "/config.json", fs::copy_options::overwrite_existing);
  const Json reference = read_json_file(published + "/ref.json");
  const auto tensors = SafetensorsFile::open(published + "/ref.safetensors");
  ASSERT_TRUE(tensors.is_ok());
  Json lists = Json::array();
  for (const Json& prompt : reference.at("prompts")) lists.push_back(prompt.at("ids"));
  ASSERT_EQ(lists.size(), 3U);
  const std::string ids = ids_file(folder, lists);
  const std::string out = folder.file("out.safetensors");
  for (const std::string& model : {published, other}) {
    SCOPED_TRACE(model);
    const Outcome outcome =
        run_cairn({"score", "--model", model, "--precision", "f32", "--ids", ids, "--out", out});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const auto scored = SafetensorsFile::open(out);
    ASSERT_TRUE(scored.is_ok());
    const size_t n_greedy = reference.at("prompts")[0].at("greedy").size();
    const Json generated = run_json({"generate-ids",
                                     "--model",
                                     model,
                                     "--precision",
                                     "f32",
                                     "--ids",
                                     ids,
                                     "--ignore-eos",
                                     "--max-tokens",
                                     std::to_string(n_greedy)});
    for (size_t p = 0; p < lists.size(); ++p) {
      const Json& prompt = reference.at("prompts")[p];
      const std::string suffix = "." + std::to_string(p);
      EXPECT_EQ(scored->metadata().at("first_row" + suffix), "0");
      expect_reference_rows(*tensors,
                            prompt,
                            values<float>(*scored, "logits" + suffix),
                            reference.at("vocab").get<size_t>());
      EXPECT_EQ(generated.at("ids")[p], prompt.at("greedy"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models,
    OracleCommands,
    ::testing::Values("llama", "llama-linear", "llama-yarn", "mistral", "qwen2", "qwen3"),
    [](const auto& param) {
      std::string name = param.param;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(Commands, DemoGoldensTokenForToken) {
  const Json goldens = read_json_file(demo_folder() + "/demo_goldens.json");
  Json prompts = Json::array();
  for (const Json& c : goldens.at("conversations")) prompts.push_back(c.at("prompt_ids"));
  ASSERT_EQ(prompts.size(), 20U);
  const TempFolder folder;
  const Json generated = run_json({"generate-ids",
                                   "--model",
                                   "demo",
                                   "--precision",
                                   "f32",
                                   "--ids",
                                   ids_file(folder, prompts),
                                   "--max-tokens",
                                   "64",
                                   "--ignore-eos"});
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Json& c = goldens.at("conversations")[i];
    const Json& ids = generated.at("ids")[i];
    ASSERT_EQ(ids.size(), 64U);
    // Past the end token the model loops, where two ids may be equally good to the last bit of f32.
    size_t n_firm = 0;
    while (n_firm < 64 && c.at("margin")[n_firm].get<double>() >= 1e-3) ++n_firm;
    ASSERT_GT(static_cast<int64_t>(n_firm), c.at("stop_index").get<int64_t>());
    for (size_t t = 0; t < n_firm; ++t)
      ASSERT_EQ(ids[t], c.at("ids")[t]) << "conversation " << i << " token " << t;
  }
}

TEST(Commands, ScoreRowsAndMetadataKeepTheContract) {
  const TempFolder folder;
  Json list = Json::array();
  for (int i = 0; i < 70; ++i) list.push_back((i * 37 + 5) % 320);
  const std::string ids = ids_file(folder, list);
  const std::string out = folder.file("o.safetensors");
  const std::string store = folder.file("store");
  const auto score = [&](const Words& more) {
    Words words = {"score", "--model", oracle_folder("qwen3"), "--ids", ids, "--out", out};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_cairn(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    auto file = SafetensorsFile::open(out);
    EXPECT_TRUE(file.is_ok());
    return std::pair(file->metadata().at("first_row"), file->tensors().at(0).shape);
  };
  using Shape = std::vector<int64_t>;
  EXPECT_EQ(score({}), std::pair(std::string("0"), Shape{70, 320}));
  EXPECT_EQ(score({"--rows", "last"}), std::pair(std::string("69"), Shape{1, 320}));
  EXPECT_EQ(score({"--store", store}), std::pair(std::string("0"), Shape{70, 320}));
  EXPECT_EQ(score({"--store", store, "--reuse-at", "33"}),
            std::pair(std::string("33"), Shape{37, 320}));
  EXPECT_EQ(score({"--store", store}), std::pair(std::string("69"), Shape{1, 320}));
  const Json perplexity =
      run_json({"score", "--model", oracle_folder("qwen3"), "--ids", ids, "--out", out, "--ppl"});
  EXPECT_EQ(perplexity.at("tokens"), 69);
  EXPECT_NEAR(
      std::log(perplexity.at("ppl").get<double>()), perplexity.at("nll").get<double>(), 1e-9);
}

TEST(Commands, RunAnswersAndChatFindsItsCacheAgain) {
  const TempFolder folder;
  const Json goldens = read_json_file(demo_folder() + "/demo_goldens.json");
  write_file(folder.file("m.json"), dump_json(goldens.at("conversations")[0].at("messages")));
  const RunOptions options{.environment = {{"XDG_CACHE_HOME", folder.path()}}};
  const Words run = {
      "run", "--model", "demo", "--messages", folder.file("m.json"), "--temperature", "0"};
  const Outcome streamed = run_cairn(run, options);
  EXPECT_EQ(streamed.status, 0) << streamed.err;
  EXPECT_EQ(streamed.out, goldens.at("conversations")[0].at("expected").get<std::string>() + "\n");
  EXPECT_THAT(streamed.err, HasSubstr("cache store: " + folder.path() + "/cairn"));
  const Words asked = {"run", "--model", "demo", "--store", "none", "--temperature", "0"};
  const auto said = [&](Words question) {
    question.insert(question.begin(), asked.begin(), asked.end());
    return run_cairn(question).out;
  };
  EXPECT_THAT(said({"Hi there!"}),
              ::testing::AllOf(::testing::Not(""), said({"--prompt", "Hi there!"})));

  Words again = run;
  again.insert(again.end(), {"--json", "--restore", "always"});
  const Json answer = run_json(again, options);
  EXPECT_EQ(answer.at("text"), goldens.at("conversations")[0].at("expected"));
  EXPECT_EQ(answer.at("finish_reason"), "stop");
  EXPECT_EQ(answer.at("cached_tokens").get<int>(), answer.at("prompt_tokens").get<int>() - 1);

  const Outcome chat =
      run_cairn({"chat", "--model", "demo", "--temperature", "0"},
                {.input = "Hi there!\nCool, thanks.\n", .environment = options.environment});
  EXPECT_EQ(chat.status, 0) << chat.err;
  EXPECT_EQ(count_of(chat.out, "\n"), 2U) << chat.out;
}

TEST(Commands, ConvertedThroughGgufAndBackTheDemoIsTheSame) {
  const TempFolder folder;
  const std::string gguf = folder.file("demo.gguf");
  const std::string back = folder.file("back");
  ASSERT_EQ(run_cairn({"convert", "demo", gguf}).status, 0);
  const Outcome converted = run_cairn({"convert", gguf, back});
  ASSERT_EQ(converted.status, 0) << converted.err;
  EXPECT_EQ(count_of(converted.out, "note"), 0U) << converted.out;
  const Json goldens = read_json_file(demo_folder() + "/demo_goldens.json");
  std::string prompts, wanted;
  for (const Json& c : goldens.at("conversations")) {
    prompts += dump_json({{"text", c.at("prompt")}, {"add_special_tokens", true}}) + "\n";
    wanted += dump_json({{"ids", c.at("prompt_ids")}, {"decoded", c.at("prompt")}}) + "\n";
  }
  write_file(folder.file("prompts"), prompts);
  for (const std::string& model : {gguf, back}) {
    const Json& first = goldens.at("conversations")[0];
    write_file(folder.file("m.json"), dump_json(first.at("messages")));
    const Words chat = {"--model", model, "--messages", folder.file("m.json")};
    Words words = {"run", "--store", "none"};  // greedy, as the demo's own settings say
    words.insert(words.end(), chat.begin(), chat.end());
    EXPECT_EQ(run_cairn(words).out, first.at("expected").get<std::string>() + "\n") << model;
    words = {"template"};
    words.insert(words.end(), chat.begin(), chat.end());
    EXPECT_EQ(run_cairn(words).out, first.at("prompt").get<std::string>()) << model;
    words = {"tokenize", "--model", model, "--jsonl", folder.file("prompts")};
    EXPECT_EQ(run_cairn(words).out, wanted) << model;
  }
}

TEST(Commands, InspectAndBenchPrintJson) {
  const Json demo = run_json({"inspect", "demo", "--json"});
  EXPECT_EQ(demo.at("runs"), true);
  EXPECT_EQ(demo.at("config").at("layers"), 8);
  const Json bench = run_json({"bench",
                               "--model",
                               "demo",
                               "--prefill",
                               "16,32",
                               "--decode",
                               "2",
                               "--context",
                               "0,64",
                               "--batch",
                               "1,2",
                               "--reps",
                               "1",
                               "--json"});
  ASSERT_EQ(bench.at("prefill").size(), 2U);
  EXPECT_EQ(bench.at("prefill")[1].at("n"), 32);
  EXPECT_GT(bench.at("prefill")[0].at("tok_s").at("median").get<double>(), 0);
  EXPECT_GT(bench.at("prefill")[0].at("peak_share").get<double>(), 0);
  ASSERT_EQ(bench.at("decode").size(), 4U);
  EXPECT_EQ(bench.at("decode")[3].at("context"), 64);
  EXPECT_EQ(bench.at("decode")[3].at("batch"), 2);
  EXPECT_GT(bench.at("decode")[3].at("bandwidth_share").get<double>(), 0);
  EXPECT_GT(bench.at("limits").at("gflops").get<double>(), 0);
}

TEST(Commands, DemoIsFoundFromAnyFolderAndWhenInstalled) {
  const TempFolder folder;
  EXPECT_EQ(run_cairn({"inspect", "demo"}, {.folder = "/"}).status, 0);
  const std::string prefix = folder.file("prefix");
  const std::string install = std::string(CAIRN_CMAKE) + " --install " + CAIRN_BINARY_DIR +
                              " --prefix " + prefix + " > " + folder.file("log") + " 2>&1";
  ASSERT_EQ(std::system(install.c_str()), 0) << read_file(folder.file("log"));
  const RunOptions installed{.folder = folder.path(), .program = prefix + "/bin/cairn"};
  const Json report = run_json({"inspect", "demo", "--json"}, installed);
  EXPECT_EQ(report.at("path"), prefix + "/share/cairn/models/cairn-demo");
  const Json tokens =
      run_json({"tokenize", "--model", "demo", "--text", "hi", "--json"}, installed);
  EXPECT_EQ(tokens.at("decoded"), "hi");
}

}  // namespace
}  // namespace cairn
