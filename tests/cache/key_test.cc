// Golden values: SHA-256 by Python's hashlib over the fields as cache/key.h states them, numbers
// packed by struct ("<I", "<Q"); see the field order in hash_group() and root_key().
#include "cache/key.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "cache/fake_backend.h"

namespace cairn {
namespace {

constexpr const char* kGoldenRoot =
    "9f59a8a6a24d426907f237965f85c10f4826ae89d4fdfc52e6bdfe9de1389b6f";
constexpr const char* kGoldenPage =
    "808f13be477cc2a11f88af5f9692f653a01748479d3180ef45bed3ddb5f21cf6";
constexpr const char* kGoldenLeaf =
    "fc1778442be465d1ad349dc62948f515c0ff60de91fe96f5b7038334bcad37ee";
constexpr const char* kGoldenIds =
    "c831ea37561f35c860de34069f93c7230c008c58779c10bfdb629ad5829f1b2d";

TEST(Key, MatchesGoldenValues) {
  const RootKey root = root_key(testing::fake_root(64));
  EXPECT_EQ(to_hex(root), kGoldenRoot);
  std::vector<TokenId> ids(64);
  std::iota(ids.begin(), ids.end(), TokenId{0});
  const PageKey page = chain_key(root, ids);
  EXPECT_EQ(to_hex(page), kGoldenPage);
  const std::vector<TokenId> rest = {5, 0xffffffffU};
  EXPECT_EQ(to_hex(chain_key(page, rest)), kGoldenLeaf);
  const std::vector<TokenId> prompt = {1, 2, 300};
  EXPECT_EQ(prompt_ids_hash(prompt), kGoldenIds);
}

TEST(Key, EveryFieldOfARootCountsButTheLabel) {
  std::vector<RootSpec> specs(10, testing::fake_root(64));
  specs[1].model_identity.bytes[31] = std::byte{1};
  specs[2].geometry.page_tokens = 32;
  specs[3].geometry.groups[0].layers = {0, 2};
  specs[4].geometry.groups[0].layout.encoding = RowEncoding::kF32;
  specs[5].geometry.groups[0].layout.n_kv_heads = 1;
  specs[6].geometry.groups[0].layout.head_dim = 10;
  specs[7].geometry.groups.push_back(specs[7].geometry.groups[0]);
  specs[8].numerics_version = "fake-r2";
  specs[9].key_namespace = "tenant";
  std::set<RootKey> keys;
  for (const RootSpec& spec : specs) keys.insert(root_key(spec));
  EXPECT_EQ(keys.size(), specs.size());

  RootSpec relabelled = testing::fake_root(64);
  relabelled.model_label = "another name";
  EXPECT_EQ(root_key(relabelled), root_key(testing::fake_root(64)));
}

TEST(Key, NeighbouringFieldsCannotBeConfused) {
  RootSpec a = testing::fake_root();
  RootSpec b = testing::fake_root();
  a.numerics_version = "r1x";
  a.key_namespace = "";
  b.numerics_version = "r1";
  b.key_namespace = "x";
  EXPECT_NE(root_key(a), root_key(b));
}

}  // namespace
}  // namespace cairn
