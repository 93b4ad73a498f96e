#include "repository/tree_locator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository::tree_locator_test {
namespace {

using support::IsOk;
using support::StatusIs;

BlobLocation Place(int number, int packs) {
  return {.pack = Id::Of(absl::StrCat("pack ", number % packs)),
          .span = {.offset_bytes = static_cast<uint32_t>(number),
                   .sealed_bytes = 100,
                   .uncompressed_bytes = static_cast<uint32_t>(number % 2)}};
}

LocatorShard TestShard(int count, int packs) {
  LocatorShard shard;
  for (int i = 0; i < count; ++i) {
    shard.places[static_cast<std::size_t>(i)] = Place(i, packs);
  }
  return shard;
}

SnapshotNeeds TestNeeds() {
  return {.packs = {.base = {{.file = Id::Of("base"), .count = 65'536}},
                    .additions = {{.file = Id::Of("more"), .count = 7}},
                    .recent = {Id::Of("pack")}},
          .index_files = {.base = {}, .additions = {}, .recent = {Id::Of("a"), Id::Of("b")}},
          .listed_at = absl::FromUnixSeconds(int64_t{1} << 33),
          .packs_listed = 70'000};
}

TreeLocator TestLocator() {
  return {.is_bound = true,
          .volume = Id::Of("volume"),
          .root = Place(1, 3),
          .manifest = Place(2, 3),
          .files = {Id::Of("one"), Id::Of("two")},
          .level1_shards = {{.file = 1, .sealed_bytes = 500, .offset_bytes = 7}},
          .leaf_shards = {{.file = 2, .sealed_bytes = 600, .offset_bytes = 70'000}, {}},
          .needs = TestNeeds()};
}

TEST(LocatorShardTest, ComesBack) {
  for (const int count : {0, 1, 31, 32}) {
    for (const int packs : {1, 3, 32}) {
      const LocatorShard shard = TestShard(count, packs);
      const std::string text = shard.Encode();
      EXPECT_LE(text.size(), 1473u);
      const absl::StatusOr<LocatorShard> read = LocatorShard::Decode(text);
      ASSERT_THAT(read, IsOk());
      EXPECT_EQ(*read, shard);
    }
  }
}

TEST(LocatorShardTest, RefusesWhatIsMalformed) {
  const std::string good = TestShard(2, 1).Encode();
  const auto malformed = StatusIs(absl::StatusCode::kInvalidArgument);
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_THAT(LocatorShard::Decode(good.substr(0, length)), malformed) << length;
  }
  EXPECT_THAT(LocatorShard::Decode(good + "x"), malformed);
  std::string other_pack = good;
  other_pack[33] = 2;
  EXPECT_THAT(LocatorShard::Decode(other_pack), malformed);
  std::string too_short = good;
  too_short[33 + 1 + 4] = 31;
  EXPECT_THAT(LocatorShard::Decode(too_short), malformed);
  std::string many_packs(1 + 33 * 32 + 32 * 13, '\0');
  many_packs[0] = 33;
  EXPECT_THAT(LocatorShard::Decode(many_packs), malformed);
}

TEST(TreeLocatorTest, ComesBack) {
  for (const TreeLocator& locator : {TreeLocator{.is_bound = true}, TestLocator()}) {
    const absl::StatusOr<TreeLocator> read = TreeLocator::Decode(locator.Encode());
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(*read, locator);
  }
}

// Version 2 ends before any packs; version 3 has a sample of them, and no sample is all.
TEST(TreeLocatorTest, OlderVersionsDoNotTellWhatIsNeeded) {
  TreeLocator locator = TestLocator();
  locator.needs = std::nullopt;
  std::string without = locator.Encode();
  without.resize(without.size() - 4);
  without.erase(20, Id::kBytes);
  std::string with_sample = without;
  with_sample += std::string("\2\0\0\0\1\0\0\0", 8) + std::string(32, 'p');
  without[4] = 2;
  with_sample[4] = 3;
  locator.is_bound = false;
  locator.volume = {};
  for (const std::string& text : {without, with_sample}) {
    const absl::StatusOr<TreeLocator> read = TreeLocator::Decode(text);
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(*read, locator);
  }
}

TEST(TreeLocatorTest, NamesEveryFileThatItIsMadeOf) {
  absl::flat_hash_set<Id> files;
  TestLocator().AddFilesTo(files);
  EXPECT_EQ(files, (absl::flat_hash_set<Id>{Id::Of("one"), Id::Of("two"), Id::Of("base"),
                                            Id::Of("more")}));
}

TEST(TreeLocatorTest, KnowsTheShardOfATree) {
  const TreeLocator locator = TestLocator();
  EXPECT_EQ(locator.ShardOf({.is_leaf = false, .number = 31}), &locator.level1_shards[0]);
  EXPECT_EQ(locator.ShardOf({.is_leaf = false, .number = 32}), nullptr);
  EXPECT_EQ(locator.ShardOf({.is_leaf = true, .number = 0}), &locator.leaf_shards[0]);
  EXPECT_EQ(locator.ShardOf({.is_leaf = true, .number = 32}), nullptr);  // None.
  EXPECT_EQ(locator.ShardOf({.is_leaf = true, .number = 64}), nullptr);
}

TEST(TreeLocatorTest, RefusesWhatIsMalformed) {
  const std::string good = TestLocator().Encode();
  const auto malformed = StatusIs(absl::StatusCode::kInvalidArgument);
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_THAT(TreeLocator::Decode(good.substr(0, length)), malformed) << length;
  }
  EXPECT_THAT(TreeLocator::Decode(good + "x"), malformed);
  // Magic, version, counts; the length of the root; file and length of the first shard.
  const std::size_t root_length = 20 + 32 + 32 + 4;
  const std::size_t shards = 20 + 32 + 3 * 44 + 2 * 32;
  for (const std::size_t at : {std::size_t{0}, std::size_t{4}, std::size_t{8}, std::size_t{11},
                               std::size_t{12}, std::size_t{16}, std::size_t{19}, shards}) {
    std::string text = good;
    text[at] = static_cast<char>(0x7F);
    EXPECT_THAT(TreeLocator::Decode(text), malformed) << at;
  }
  std::string short_root = good;
  short_root[root_length] = 31;
  EXPECT_THAT(TreeLocator::Decode(short_root), malformed);
  std::string short_shard = good;
  short_shard[shards + 2] = 31;
  short_shard[shards + 3] = 0;
  EXPECT_THAT(TreeLocator::Decode(short_shard), malformed);
}

}  // namespace
}  // namespace csidelta::repository::tree_locator_test
