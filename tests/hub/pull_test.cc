#include "hub/pull.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "base/file_system.h"
#include "hub/hub_fixture.h"
#include "hub/model_folders.h"

namespace cairn {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using testing::FakeHub;
using ::testing::HasSubstr;
using testing::HubReply;
using testing::HubRequest;
using ::testing::IsEmpty;
using testing::RecordingObserver;
using testing::test_bytes;

constexpr size_t kWeightBytes = 300'000;
constexpr size_t kCut = 100'000;

// A hub with a small safetensors model, and an empty folder for models.
class PullTest : public ::testing::Test {
 protected:
  PullTest() : settings_(testing::settings_for(hub_)) {
    places_.models_dir = folder_.file("models");
    places_.hub_cache_dir = folder_.file("hub");
    hub_.put("README.md", "read me");
    hub_.put("config.json", "{}");
    hub_.put("tokenizer.json", "{\"a\":1}");
    hub_.put("model.safetensors", weights_, true);
  }

  Result<PullReport> pull(const std::string& name = "org/repo") {
    observer_ = std::make_unique<RecordingObserver>();
    return pull_model(*parse_model_name(name), settings_, places_, *observer_);
  }

  // That must succeed.
  PullReport pulled(const std::string& name = "org/repo") {
    auto report = pull(name);
    EXPECT_TRUE(report.is_ok()) << report.status().to_string();
    return report.is_ok() ? *report : PullReport();
  }

  Status refused(const std::string& name = "org/repo") { return pull(name).status(); }

  std::string at(const std::string& name) const { return places_.models_dir + "/org/repo/" + name; }

  bool is_there(const std::string& name) const { return std::filesystem::exists(at(name)); }

  // Answers for `name` alone, through `change` of the usual one.
  void change(const std::string& name, std::function<void(HubReply*)> edit) {
    hub_.intercept([this, name, edit](const HubRequest& request) -> std::optional<HubReply> {
      if (request.target.find("/resolve/") == std::string::npos) return std::nullopt;
      if (request.target.find(name) == std::string::npos) return std::nullopt;
      HubReply reply = hub_.usual(request);
      edit(&reply);
      return reply;
    });
  }

  // The first transfer of the weights breaks after kCut bytes, and the pull gives up there.
  void leave_a_part() {
    change("model.safetensors", [](HubReply* reply) { reply->cut_after = kCut; });
    settings_.retry.n_attempts = 1;
    EXPECT_EQ(refused().code(), StatusCode::kIo);
    EXPECT_EQ(bytes_of(at("model.safetensors.part")), weights_.substr(0, kCut));
    settings_.retry.n_attempts = 6;
    hub_.intercept(nullptr);
    hub_.forget_requests();
  }

  TempFolder folder_;
  FakeHub hub_;
  std::string weights_ = test_bytes(kWeightBytes);
  HubSettings settings_;
  ModelPlaces places_;
  std::unique_ptr<RecordingObserver> observer_;
};

TEST_F(PullTest, BringsWhatMakesAModelAndSaysSo) {
  const PullReport report = pulled();
  EXPECT_EQ(report.folder, places_.models_dir + "/org/repo");
  EXPECT_EQ(report.path, report.folder);
  EXPECT_EQ(report.commit, hub_.commit());
  EXPECT_EQ(report.n_received, kWeightBytes + 2 + 7);
  EXPECT_EQ(report.n_bytes, report.n_received);
  ASSERT_EQ(report.files.size(), 3U);
  EXPECT_EQ(report.files[2].content, "sha256:" + testing::sha256_hex(weights_));
  EXPECT_EQ(report.files[0].content, "git:" + testing::git_blob_hex("{}"));
  EXPECT_EQ(bytes_of(at("model.safetensors")), weights_);
  EXPECT_EQ(bytes_of(at("config.json")), "{}");
  EXPECT_FALSE(is_there("README.md"));
  EXPECT_FALSE(is_there("model.safetensors.part"));
  EXPECT_FALSE(is_there("model.safetensors.part.json"));
  EXPECT_EQ(observer_->plan.n_bytes, report.n_bytes);
  EXPECT_THAT(observer_->notes, IsEmpty());
  for (const HubRequest& request : hub_.file_requests()) {
    EXPECT_THAT(request.target, HasSubstr("/org/repo/resolve/" + hub_.commit() + "/"));
  }
}

TEST_F(PullTest, ASecondPullFetchesOnlyWhatChanged) {
  pulled();
  hub_.forget_requests();
  const PullReport same = pulled();
  EXPECT_EQ(same.n_received, 0U);
  EXPECT_EQ(observer_->plan.n_unchanged, 3U);
  EXPECT_EQ(hub_.requests().size(), 1U);
  hub_.put("config.json", "{\"b\": 2}");
  EXPECT_EQ(pulled().n_received, 8U);
  EXPECT_EQ(bytes_of(at("config.json")), "{\"b\": 2}");
}

TEST_F(PullTest, FilesThatWereTouchedAreReadAndFetchedWhenWrong) {
  pulled();
  testing::write_bytes(at("config.json"), "[]");  // of the same length
  EXPECT_EQ(pulled().n_received, 2U);
  EXPECT_EQ(bytes_of(at("config.json")), "{}");
  // Without the record all are read once, and found right.
  std::filesystem::remove(at(".cairn-pull.json"));
  EXPECT_EQ(pulled().n_received, 0U);
  EXPECT_TRUE(is_there(".cairn-pull.json"));
}

TEST_F(PullTest, ABrokenTransferGoesOnWhereItStopped) {
  int n_cuts = 0;
  change("model.safetensors", [&](HubReply* reply) {
    if (++n_cuts <= 2) reply->cut_after = kCut;
  });
  pulled();
  EXPECT_EQ(bytes_of(at("model.safetensors")), weights_);
  EXPECT_EQ(observer_->retries.size(), 2U);
  const auto requests = hub_.file_requests();
  EXPECT_EQ(requests.back().headers.at("range"), "bytes=200000-");
  EXPECT_EQ(requests.back().headers.at("if-range"), "\"" + testing::sha256_hex(weights_) + "\"");
}

TEST_F(PullTest, TheNextPullUsesWhatTheLastOneLeft) {
  leave_a_part();
  const PullReport report = pulled();
  EXPECT_EQ(report.n_received, kWeightBytes - kCut);
  EXPECT_EQ(observer_->resumed_at, std::vector<uint64_t>{kCut});
  EXPECT_EQ(observer_->plan.n_bytes, kWeightBytes - kCut);
  EXPECT_EQ(bytes_of(at("model.safetensors")), weights_);
}

TEST_F(PullTest, AWholePartIsNotFetchedAgain) {
  leave_a_part();
  testing::write_bytes(at("model.safetensors.part"), weights_);
  EXPECT_EQ(pulled().n_received, 0U);
  EXPECT_EQ(bytes_of(at("model.safetensors")), weights_);
}

TEST_F(PullTest, APartOfAnotherFileIsThrownAway) {
  leave_a_part();
  const std::string other = test_bytes(kWeightBytes, 2);
  hub_.put("model.safetensors", other, true);
  EXPECT_EQ(pulled().n_received, kWeightBytes);
  EXPECT_EQ(bytes_of(at("model.safetensors")), other);
  EXPECT_FALSE(hub_.file_requests().back().has("range"));
}

TEST_F(PullTest, APartWithoutItsNoteIsThrownAway) {
  leave_a_part();
  std::filesystem::remove(at("model.safetensors.part.json"));
  testing::write_bytes(at("model.safetensors.part"), std::string(kCut, 'x'));
  EXPECT_EQ(pulled().n_received, kWeightBytes);
  EXPECT_EQ(bytes_of(at("model.safetensors")), weights_);
}

TEST_F(PullTest, AServerWithoutRangesSendsAllOfItAgain) {
  leave_a_part();
  change("model.safetensors", [this](HubReply* reply) {
    reply->status = 200;
    reply->body = weights_;
  });
  EXPECT_EQ(pulled().n_received, kWeightBytes);
  EXPECT_EQ(bytes_of(at("model.safetensors")), weights_);
}

TEST_F(PullTest, AServerThatSendsAnotherRangeIsNotBelieved) {
  leave_a_part();
  change("model.safetensors",
         [](HubReply* reply) { reply->headers.back().second = "bytes 99999-299999/300000"; });
  EXPECT_EQ(refused().code(), StatusCode::kCorruption);
  EXPECT_FALSE(is_there("model.safetensors"));
}

// Mirrors that list names alone: the entity tag of the answers is all there is.
TEST_F(PullTest, AMirrorWithoutIdsIsCheckedByItsTags) {
  hub_.list_names_only();
  leave_a_part();
  EXPECT_EQ(pulled().n_received, kWeightBytes - kCut);
  EXPECT_EQ(bytes_of(at("model.safetensors")), weights_);
  EXPECT_EQ(pulled().n_received, 0U);  // the same commit
  hub_.put("config.json", "{ }");
  EXPECT_GT(pulled().n_received, 0U);
  EXPECT_EQ(bytes_of(at("config.json")), "{ }");
}

TEST_F(PullTest, AMirrorsChangedFileStartsAnew) {
  hub_.list_names_only();
  leave_a_part();
  const std::string other = test_bytes(kWeightBytes, 2);
  hub_.put("model.safetensors", other, true);
  EXPECT_EQ(pulled().n_received, kWeightBytes + 9);  // the commit is another, so all are asked for
  EXPECT_EQ(bytes_of(at("model.safetensors")), other);
  EXPECT_TRUE(hub_.file_requests().back().has("if-range"));
}

TEST_F(PullTest, WrongBytesAreRemovedAndNamed) {
  change("model.safetensors", [](HubReply* reply) { reply->body[7] ^= 1; });
  const Status status = refused();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(status.message(), HasSubstr("model.safetensors"));
  EXPECT_THAT(status.message(), HasSubstr(testing::sha256_hex(weights_)));
  EXPECT_FALSE(is_there("model.safetensors"));
  EXPECT_FALSE(is_there("model.safetensors.part"));
  change("config.json", [](HubReply* reply) { reply->body = "[]"; });
  std::filesystem::remove(at("config.json"));
  EXPECT_THAT(refused().message(), HasSubstr(testing::git_blob_hex("{}")));
  EXPECT_FALSE(is_there("config.json"));
}

TEST_F(PullTest, ABodyLongerThanAnnouncedIsCutOff) {
  change("model.safetensors", [](HubReply* reply) {
    reply->is_chunked = true;
    reply->body += "more";
  });
  EXPECT_THAT(refused().message(), HasSubstr("more than the 300000 bytes"));
  EXPECT_FALSE(is_there("model.safetensors.part"));
  change("model.safetensors", [](HubReply* reply) { reply->body += "more"; });
  EXPECT_THAT(refused().message(), HasSubstr("300004"));
  EXPECT_FALSE(is_there("model.safetensors"));
}

TEST_F(PullTest, AFileThatNobodySizesIsBounded) {
  hub_.list_names_only();
  change("config.json", [](HubReply* reply) { reply->is_chunked = true; });
  pulled();
  EXPECT_EQ(bytes_of(at("config.json")), "{}");
  std::filesystem::remove(at("config.json"));
  change("config.json", [](HubReply* reply) {
    reply->is_chunked = true;
    reply->body = std::string((size_t{64} << 20) + 1, ' ');
  });
  EXPECT_THAT(refused().message(), HasSubstr("without saying how many"));
  EXPECT_FALSE(is_there("config.json.part"));
}

TEST_F(PullTest, ABodyShorterThanAnnouncedIsAskedForAgainAndThenGivenUp) {
  change("model.safetensors", [](HubReply* reply) {
    reply->is_chunked = true;
    reply->body.resize(std::min<size_t>(reply->body.size(), 1000));
  });
  settings_.retry.n_attempts = 3;
  // Each attempt brings something, so attempts would count anew: the rest runs out first.
  hub_.put("model.safetensors", test_bytes(2500), true);
  EXPECT_EQ(pulled().n_received, 2U + 7U + 2500U);
}

TEST_F(PullTest, ErrorsOfTheHubAreSaidInWords) {
  const auto answer = [&](int status, const std::string& code) {
    hub_.intercept([=](const HubRequest&) {
      return HubReply{.status = status, .headers = {{"X-Error-Code", code}}, .body = "because"};
    });
    return refused();
  };
  EXPECT_THAT(answer(401, "RepoNotFound").message(), HasSubstr("HF_TOKEN"));
  EXPECT_THAT(answer(403, "GatedRepo").message(), HasSubstr("conditions"));
  EXPECT_EQ(answer(404, "RepoNotFound").code(), StatusCode::kNotFound);
  EXPECT_THAT(answer(404, "RevisionNotFound").message(), HasSubstr("no such revision"));
  EXPECT_THAT(answer(418, "").message(), HasSubstr("418: because"));
  EXPECT_THAT(observer_->retries, IsEmpty());
  settings_.http.token = "hf_x";
  const Status with_token = answer(401, "");
  EXPECT_THAT(with_token.message(), HasSubstr("not accepted"));
  EXPECT_THAT(with_token.message(), ::testing::Not(HasSubstr("hf_x")));
  EXPECT_FALSE(std::filesystem::exists(places_.models_dir)) << "nothing came, nothing is left";
}

TEST_F(PullTest, BusyServersAreAskedAgainWithGrowingPauses) {
  int n = 0;
  hub_.intercept([&](const HubRequest&) -> std::optional<HubReply> {
    if (++n > 4) return std::nullopt;
    return n == 4 ? HubReply{.status = 429, .headers = {{"Retry-After", "9"}}}
                  : HubReply{.status = 500 + n};
  });
  pulled();
  using std::chrono::milliseconds;
  EXPECT_THAT(
      observer_->pauses,
      ElementsAre(milliseconds(500), milliseconds(1000), milliseconds(2000), milliseconds(9000)));
  hub_.intercept([](const HubRequest&) { return HubReply{.status = 503}; });
  EXPECT_THAT(refused().message(), HasSubstr("gave up after 6 attempts"));
  EXPECT_EQ(observer_->pauses.size(), 5U);
  hub_.intercept([](const HubRequest&) {
    return HubReply{.status = 429, .headers = {{"Retry-After", "3600"}}};
  });
  EXPECT_THAT(refused().message(), HasSubstr("3600 s"));
  settings_.retry.pause = [](milliseconds) { return false; };
  hub_.intercept([](const HubRequest&) { return HubReply{.status = 503}; });
  EXPECT_EQ(refused().code(), StatusCode::kCancelled);
}

TEST_F(PullTest, LargeFilesComeFromElsewhereWithoutTheToken) {
  FakeHub store;
  store.put("model.safetensors", weights_, true);
  hub_.redirect_lfs_to(store.url());
  settings_ = testing::settings_for(hub_, "hf_secret");
  pulled();
  EXPECT_EQ(bytes_of(at("model.safetensors")), weights_);
  ASSERT_EQ(store.requests().size(), 1U);
  EXPECT_FALSE(store.requests().front().has("authorization"));
  for (const HubRequest& request : hub_.requests()) EXPECT_TRUE(request.has("authorization"));
}

TEST_F(PullTest, AnAnswerThatContradictsTheListIsRefusedBeforeItsBytes) {
  change("model.safetensors", [](HubReply* reply) {
    reply->headers.emplace_back("X-Linked-Etag", "\"" + std::string(64, 'a') + "\"");
  });
  EXPECT_THAT(refused().message(), HasSubstr(std::string(64, 'a')));
  EXPECT_EQ(observer_->n_last, 7U);  // tokenizer.json was the last to bring bytes
}

// Some lists give a large file the blob id of its pointer and no SHA-256.
TEST_F(PullTest, TheAnswersOwnSha256GoesBeforeABlobIdOfTheList) {
  hub_.intercept([this](const HubRequest& request) -> std::optional<HubReply> {
    HubReply reply = hub_.usual(request);
    if (request.target.starts_with("/api/")) {
      reply.body = R"({"sha":")" + hub_.commit() +
                   R"(","siblings":[{"rfilename":"m.gguf","size":null,"blobId":")" +
                   std::string(40, '1') + "\"}]}";
    } else {
      reply.headers.emplace_back("X-Linked-Etag", "\"" + testing::sha256_hex(weights_) + "\"");
    }
    return reply;
  });
  hub_.put("m.gguf", weights_, true);
  EXPECT_EQ(pulled().files[0].content, "sha256:" + testing::sha256_hex(weights_));
  EXPECT_EQ(pulled().n_received, 0U);
}

TEST_F(PullTest, HostileNamesWriteNothing) {
  hub_.put("../../escaped.json", "x");
  EXPECT_EQ(refused().code(), StatusCode::kCorruption);
  EXPECT_TRUE(hub_.file_requests().empty());
  EXPECT_FALSE(std::filesystem::exists(folder_.file("models/escaped.json")));
}

TEST_F(PullTest, AnEndlessListIsCutOff) {
  hub_.intercept([](const HubRequest&) {
    return HubReply{.body = std::string((size_t{16} << 20) + 1, ' '), .is_chunked = true};
  });
  EXPECT_EQ(refused().code(), StatusCode::kCorruption);
}

TEST_F(PullTest, AFullDiskIsSaidBeforehand) {
  hub_.intercept([](const HubRequest& request) -> std::optional<HubReply> {
    if (!request.target.starts_with("/api/")) return std::nullopt;
    return HubReply{.body = R"({"siblings":[{"rfilename":"m.gguf","size":200000000000000}]})"};
  });
  const Status status = refused();
  EXPECT_EQ(status.code(), StatusCode::kNoSpace);
  EXPECT_THAT(status.message(), HasSubstr("181.9 TiB"));
  EXPECT_TRUE(hub_.file_requests().empty());
}

TEST_F(PullTest, TwoAtOnceDoNotMix) {
  std::unique_ptr<PullReport> inner;
  change("config.json", [&](HubReply*) {
    RecordingObserver observer;
    const auto second = pull_model(*parse_model_name("org/repo"), settings_, places_, observer);
    EXPECT_EQ(second.status().code(), StatusCode::kOverloaded);
    EXPECT_THAT(second.status().message(), HasSubstr("being pulled by another process"));
  });
  pulled();
}

TEST_F(PullTest, AModelThatIsSplitAnotherWayLeavesNoOldWeights) {
  pulled();
  testing::write_bytes(at("mine.txt"), "mine");
  hub_.erase("model.safetensors");
  hub_.put("model.safetensors.index.json", "{}");
  hub_.put("model-00001-of-00002.safetensors", test_bytes(100), true);
  hub_.put("model-00002-of-00002.safetensors", test_bytes(101), true);
  EXPECT_THAT(pulled().removed, ElementsAre("model.safetensors"));
  EXPECT_FALSE(is_there("model.safetensors"));
  EXPECT_TRUE(is_there("model-00002-of-00002.safetensors"));
  EXPECT_TRUE(is_there("mine.txt"));
}

TEST_F(PullTest, GgufsLieBesideEachOther) {
  hub_.put("x-Q8_0.gguf", test_bytes(500, 3), true);
  hub_.put("Q4/x-Q4_0-00001-of-00002.gguf", test_bytes(600, 4), true);
  hub_.put("Q4/x-Q4_0-00002-of-00002.gguf", test_bytes(601, 5), true);
  EXPECT_EQ(pulled("org/repo:Q8_0").path, at("x-Q8_0.gguf"));
  const PullReport parts = pulled("org/repo:Q4_0");
  EXPECT_EQ(parts.path, at("Q4/x-Q4_0-00001-of-00002.gguf"));
  EXPECT_EQ(parts.files.size(), 2U);
  EXPECT_TRUE(is_there("x-Q8_0.gguf"));
  EXPECT_FALSE(is_there("config.json"));
  EXPECT_EQ(*find_model(*parse_model_name("org/repo:Q8_0"), places_), at("x-Q8_0.gguf"));
  EXPECT_EQ(*find_model(*parse_model_name("org/repo/Q4/x-Q4_0-00001-of-00002.gguf"), places_),
            at("Q4/x-Q4_0-00001-of-00002.gguf"));
}

TEST_F(PullTest, ARevisionIsAskedForAndRemembered) {
  pulled("org/repo@refs/pr/1");
  EXPECT_THAT(hub_.requests().front().target,
              HasSubstr("/api/models/org/repo/revision/refs%2Fpr%2F1?blobs=true"));
  EXPECT_TRUE(find_model(*parse_model_name("org/repo@refs/pr/1"), places_).is_ok());
  EXPECT_TRUE(find_model(*parse_model_name("org/repo@" + hub_.commit()), places_).is_ok());
  EXPECT_FALSE(find_model(*parse_model_name("org/repo@v2"), places_).is_ok());
}

TEST_F(PullTest, AModelThatIsHalfHereIsNotOpened) {
  leave_a_part();
  const auto found = find_model(*parse_model_name("org/repo"), places_);
  EXPECT_EQ(found.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(found.status().message(), HasSubstr("cairn pull org/repo"));
  EXPECT_FALSE(list_models(places_).at(0).is_complete);
  pulled();
  EXPECT_EQ(*find_model(*parse_model_name("org/repo"), places_), places_.models_dir + "/org/repo");
  EXPECT_TRUE(list_models(places_).at(0).is_complete);
}

TEST_F(PullTest, AGgufThatIsHalfHereIsShownAndNotOpened) {
  hub_.put("x-Q8_0.gguf", weights_, true);
  hub_.put("x-Q4_0.gguf", test_bytes(100), true);
  pulled("org/repo:Q4_0");
  change("x-Q8_0.gguf", [](HubReply* reply) { reply->cut_after = kCut; });
  settings_.retry.n_attempts = 1;
  EXPECT_EQ(refused("org/repo:Q8_0").code(), StatusCode::kIo);
  EXPECT_TRUE(find_model(*parse_model_name("org/repo:Q4_0"), places_).is_ok());
  EXPECT_THAT(find_model(*parse_model_name("org/repo:Q8_0"), places_).status().message(),
              HasSubstr("only partly here"));
  const auto models = list_models(places_);
  ASSERT_EQ(models.size(), 2U);
  EXPECT_TRUE(models[0].is_complete);
  EXPECT_FALSE(models[1].is_complete);
  EXPECT_EQ(models[1].size_bytes, kCut);
}

}  // namespace
}  // namespace cairn
