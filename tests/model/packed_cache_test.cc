// A second start from packed weights: the same bits, from the file and from nothing else.
#include "model/packed_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "base/coding.h"
#include "base/file_system.h"
#include "base/json.h"
#include "formats/packed_file.h"
#include "model/model_fixture.h"

namespace cairn {
namespace {

using namespace ::cairn::testing;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;

constexpr size_t kKeyOffset = 24;  // docs/formats/packed.md

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;  // a folder that was never made holds nothing
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    paths.push_back(entry.path().string());
  }
  return paths;
}

std::vector<std::byte> bytes_of(const std::string& path) {
  const std::string text = read_text_file(posix_file_system(), path, 1 << 30).value();
  return {as_bytes(text).begin(), as_bytes(text).end()};
}

// Starts of an oracle with folders of their own to keep packed weights in.
class PackedStart : public ::testing::TestWithParam<const char*> {
 protected:
  PackedStart() {
    options_.identity_cache_dir = root_.path() + "/identity";
    options_.packed.folders = {root_.path() + "/first", root_.path() + "/second"};
    options_.packed.min_bytes = 0;
  }

  std::vector<float> start() const {
    const auto backend = make_backend(supported_isas().back(), Precision::kFast, 2);
    const auto model = Model::load(oracle_dir(GetParam()), *backend, options_).value();
    const CacheGeometry geometry = model->spec().cache_geometry(RowEncoding::kF32);
    const std::vector<TokenId> ids = {1, 2, 3, 4, 5, 6, 7};
    return score_ids(*model, geometry, ids, ids.size());
  }

  std::string kept_file() const {
    const std::vector<std::string> files = files_in(options_.packed.folders[0]);
    return files.size() == 1 ? files[0] : "";
  }

  // Writes the kept file anew, under its key, with other contents.
  static void rewrite(const std::string& path,
                      const std::function<void(std::vector<std::vector<std::byte>>&)>& edit) {
    const std::vector<std::byte> whole = bytes_of(path);
    Digest key;
    std::memcpy(key.bytes.data(), whole.data() + kKeyOffset, key.bytes.size());
    const auto parsed = parse_packed_file(whole, key, 1).value();
    std::vector<std::vector<std::byte>> blobs;
    for (const auto blob : parsed) blobs.emplace_back(blob.begin(), blob.end());
    edit(blobs);
    const std::vector<std::span<const std::byte>> spans(blobs.begin(), blobs.end());
    CAIRN_CHECK(write_packed_file(path, key, spans, 1).is_ok());
  }

  TempDir root_;
  LoadOptions options_;
};

TEST_P(PackedStart, GivesTheSameBitsFromTheFileAlone) {
  const std::vector<float> packed = start();
  ASSERT_NE(kept_file(), "");
  EXPECT_EQ(start(), packed);
  EXPECT_TRUE(files_in(options_.packed.folders[1]).empty());
  // Other contents show, so it is the file that is used.
  rewrite(kept_file(), [](auto& blobs) {
    for (size_t i = 0; i < 256; ++i) blobs[1][i] ^= std::byte{0x80};
  });
  EXPECT_NE(start(), packed);
}

TEST_P(PackedStart, ADamagedFileIsMadeAgain) {
  const std::vector<float> packed = start();
  const std::string path = kept_file();
  const std::vector<std::byte> whole = bytes_of(path);
  std::vector<std::byte> damaged = whole;
  damaged[4096 + 17] ^= std::byte{4};
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(damaged.data()),
             static_cast<std::streamsize>(damaged.size()));
  EXPECT_EQ(start(), packed);
  EXPECT_EQ(bytes_of(path), whole);
}

TEST_P(PackedStart, WeightsOfAnotherShapeAreNotAdopted) {
  const std::vector<float> packed = start();
  rewrite(kept_file(), [](auto& blobs) { blobs[2].resize(blobs[2].size() - 4); });
  EXPECT_EQ(start(), packed);
  rewrite(kept_file(), [](auto& blobs) { blobs.pop_back(); });
  EXPECT_EQ(start(), packed);
  rewrite(kept_file(), [](auto& blobs) { blobs.emplace_back(64); });
  EXPECT_EQ(start(), packed);
}

TEST_P(PackedStart, TheNextFolderIsUsedWhenTheFirstCannotBe) {
  std::ofstream(options_.packed.folders[0]) << "a file where the folder should be";
  const std::vector<float> packed = start();
  EXPECT_EQ(files_in(options_.packed.folders[1]).size(), 1U);
  EXPECT_EQ(start(), packed);
}

TEST_P(PackedStart, SmallModelsAndNoFoldersKeepNothing) {
  options_.packed.min_bytes = uint64_t{1} << 30;
  const std::vector<float> packed = start();
  EXPECT_TRUE(files_in(options_.packed.folders[0]).empty());
  options_.packed = {};
  EXPECT_EQ(start(), packed);
}

// With biases and stacked parts; untied with rotary scaling; tied with norms of q and k.
INSTANTIATE_TEST_SUITE_P(Oracles, PackedStart, ::testing::Values("qwen2", "llama-yarn", "qwen3"));

TEST(PackedCache, ANewKeyReplacesTheFileOfTheSameWeightsOnly) {
  const TempDir root;
  PackedCacheOptions options;
  options.folders = {root.path() + "/kept"};
  options.min_bytes = 0;
  const std::vector<std::byte> bytes(100, std::byte{7});
  const std::vector<std::span<const std::byte>> blobs = {bytes};
  const Digest first = sha256(as_bytes("first"));
  const Digest second = sha256(as_bytes("second"));
  PackedCache(options, root.path() + "/a/model.gguf", first).keep(blobs);
  PackedCache(options, root.path() + "/b/model.gguf", first).keep(blobs);
  ASSERT_EQ(files_in(options.folders[0]).size(), 2U);
  // What a killed process was writing for the same weights.
  for (const std::string& path : files_in(options.folders[0])) {
    std::ofstream(path + ".tmp-0123") << "torn";
  }
  PackedCache(options, root.path() + "/a/model.gguf", second).keep(blobs);
  EXPECT_EQ(files_in(options.folders[0]).size(), 3U);
  EXPECT_FALSE(PackedCache(options, root.path() + "/a/model.gguf", first).find());
  EXPECT_TRUE(PackedCache(options, root.path() + "/a/model.gguf", second).find());
  EXPECT_TRUE(PackedCache(options, root.path() + "/b/model.gguf", first).find());
}

}  // namespace
}  // namespace cairn
