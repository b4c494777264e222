#include "store/disk_store.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "base/log.h"
#include "base/mailbox.h"
#include "store/store_fixture.h"
#include "support/recording_file_system.h"

namespace cairn {
namespace {

using test::aligned_layout;
using test::layouts_of;
using test::make_leaf;
using test::make_root;
using test::make_run;
using test::odd_layout;
using test::open_store;
using test::TestObject;

// Memory that a restore goes to, compared when its reply is there.
struct Restore {
  std::vector<AlignedBytes> memory;
  std::vector<PageTarget> targets;
};

class DiskStoreTest : public ::testing::Test {
 protected:
  DiskStoreTest() {
    set_log_level(LogLevel::kError);
    root_ = make_root(1, {aligned_layout(), odd_layout()});
    layouts_ = layouts_of(root_);
    PageKey parent = root_key(root_);
    for (uint64_t i = 0; i < 12; ++i) {
      objects_.push_back(i % 4 == 3 ? make_leaf(root_, parent, 20, i)
                                    : make_run(root_, parent, 1 + i % 3, i));
      if (i % 4 != 3) parent = objects_.back().key();
    }
    start();
  }

  ~DiskStoreTest() override { set_log_level(LogLevel::kInfo); }

  void start() {
    store_ = std::make_unique<DiskStore>(
        open_store(fs_, clock_, &report_),
        [this](StoreReply reply) { replies_.push_reply(std::move(reply)); });
  }

  template <typename Reply>
  Reply wait_for_reply() {
    std::optional<StoreReply> reply = replies_.pop();
    EXPECT_TRUE(reply && std::holds_alternative<Reply>(*reply));
    return std::get<Reply>(*reply);
  }

  Restore& start_restore(uint64_t ticket, const TestObject& object) {
    Restore& restore = restores_[ticket];
    for (uint32_t p = 0; p < object.entry.pages.size(); ++p) {
      restore.targets.push_back({p, {}});
      for (const PageLayout& layout : layouts_) {
        restore.memory.emplace_back(layout.page_bytes());
        restore.targets.back().bytes.push_back(restore.memory.back().data());
      }
    }
    store_->read(ticket, object.entry, layouts_, restore.targets);
    return restore;
  }

  bool is_right(uint64_t ticket, const TestObject& object) {
    size_t i = 0;
    for (const PageRecord& page : object.entry.pages) {
      for (size_t g = 0; g < layouts_.size(); ++g, ++i) {
        const auto n_tokens = static_cast<uint32_t>(page.tokens.size());
        const AlignedBytes want = test::make_page(layouts_[g], page.key, n_tokens, g);
        if (std::memcmp(
                want.data(), restores_[ticket].memory[i].data(), layouts_[g].page_bytes()) != 0)
          return false;
      }
    }
    return true;
  }

  RecordingFileSystem fs_;
  FakeClock clock_;
  RootSpec root_;
  std::vector<PageLayout> layouts_;
  std::vector<TestObject> objects_;
  OpenReport report_;
  Mailbox<StoreReply> replies_{0};
  std::map<uint64_t, Restore> restores_;
  std::unique_ptr<DiskStore> store_;
};

TEST_F(DiskStoreTest, RepliesToWritesInOrderAndSyncCoversThem) {
  store_->describe_root(root_);
  for (size_t i = 0; i < objects_.size(); ++i) store_->write(i, objects_[i].source);
  store_->sync(100);
  for (size_t i = 0; i < objects_.size(); ++i) {
    const auto reply = wait_for_reply<WriteReply>();
    EXPECT_EQ(reply.ticket, i);
    EXPECT_TRUE(reply.status.is_ok());
    EXPECT_EQ(reply.file_bytes, objects_[i].entry.file_bytes);
  }
  const auto synced = wait_for_reply<SyncReply>();
  EXPECT_EQ(synced.ticket, 100U);
  EXPECT_TRUE(synced.status.is_ok());
  store_.reset();
  const auto disk = fs_.crash_state(fs_.n_operations(), CrashMode::kDropUnsynced, 0);
  const auto files = open_store(*disk, clock_, &report_);
  EXPECT_EQ(report_.objects.size(), objects_.size());
}

TEST_F(DiskStoreTest, ManyRestoresAtOnceBesideWrites) {
  for (size_t i = 0; i < 8; ++i) store_->write(i, objects_[i].source);
  for (size_t i = 0; i < 8; ++i) EXPECT_TRUE(wait_for_reply<WriteReply>().status.is_ok());
  for (size_t i = 0; i < 8; ++i) start_restore(1000 + i, objects_[i]);
  for (size_t i = 8; i < objects_.size(); ++i) store_->write(i, objects_[i].source);
  size_t n_reads = 0;
  for (size_t i = 0; i < 8 + objects_.size() - 8; ++i) {
    const std::optional<StoreReply> reply = replies_.pop();
    const auto* read = std::get_if<ReadReply>(&*reply);
    if (read == nullptr) continue;
    ++n_reads;
    EXPECT_TRUE(read->status.is_ok()) << read->status.to_string();
    EXPECT_GT(read->n_bytes, 0U);
    EXPECT_TRUE(is_right(read->ticket, objects_[read->ticket - 1000]));
  }
  EXPECT_EQ(n_reads, 8U);
}

TEST_F(DiskStoreTest, FaultsComeBackAsReplies) {
  fs_.inject({.kind = OperationKind::kWrite, .error_number = ENOSPC});
  store_->write(1, objects_[0].source);
  EXPECT_EQ(wait_for_reply<WriteReply>().status.code(), StatusCode::kNoSpace);
  start_restore(2, objects_[0]);
  const auto missing = wait_for_reply<ReadReply>();
  EXPECT_EQ(missing.ticket, 2U);
  EXPECT_EQ(missing.status.code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.n_bytes, 0U);
  store_->write(3, objects_[0].source);
  ASSERT_TRUE(wait_for_reply<WriteReply>().status.is_ok());
  fs_.inject({.kind = OperationKind::kSyncFile});
  store_->sync(4);
  EXPECT_EQ(wait_for_reply<SyncReply>().status.code(), StatusCode::kIo);
}

TEST_F(DiskStoreTest, DamageIsQuarantinedOnRequest) {
  store_->write(1, objects_[0].source);
  ASSERT_TRUE(wait_for_reply<WriteReply>().status.is_ok());
  const ObjectEntry& entry = objects_[0].entry;
  const std::string path = fmt::format("{}/{}/{}/{}.run",
                                       test::kStore,
                                       to_hex(entry.root),
                                       to_hex(entry.key()).substr(0, 2),
                                       to_hex(entry.key()));
  fs_.live().flip_bits(path, entry.file_bytes - 1);
  start_restore(2, objects_[0]);
  EXPECT_EQ(wait_for_reply<ReadReply>().status.code(), StatusCode::kCorruption);
  store_->quarantine(entry, "damaged");
  store_->sync(3);
  EXPECT_TRUE(wait_for_reply<SyncReply>().status.is_ok());
  EXPECT_FALSE(fs_.live().exists(path));
}

TEST_F(DiskStoreTest, DestructionFinishesWhatIsQueued) {
  for (size_t i = 0; i < objects_.size(); ++i) store_->write(i, objects_[i].source);
  store_->record_use({objects_[0].key()}, 2'000'000'000);
  store_->remove(objects_[1].entry);
  store_->compact({});
  store_.reset();
  EXPECT_EQ(replies_.size(), objects_.size());
  const auto files = open_store(fs_, clock_, &report_);
  EXPECT_EQ(report_.objects.size(), objects_.size() - 1);
  EXPECT_EQ(report_.objects[0].last_use_unix, 2'000'000'000);
}

}  // namespace
}  // namespace cairn
