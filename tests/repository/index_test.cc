#include "repository/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::UnorderedElementsAre;

Id TestId(int number) { return Id::Of(absl::StrCat("id ", number)); }

IndexedPack TestPack(int number, int blobs) {
  IndexedPack pack = {.id = TestId(1'000'000 + number), .entries = {}};
  for (int i = 0; i < blobs; ++i) {
    pack.entries.push_back({.handle = {.type = i % 5 == 4 ? BlobType::kTree : BlobType::kData,
                                       .id = TestId(number * 1000 + i)},
                            .span = {.offset_bytes = static_cast<uint32_t>(i * 100),
                                     .sealed_bytes = 100,
                                     .uncompressed_bytes = i % 2 == 0 ? 0U : 500U}});
  }
  return pack;
}

absl::StatusOr<std::vector<IndexedPack>> Decode(absl::string_view text) {
  std::vector<IndexedPack> packs;
  const absl::Status status = DecodeIndex(text, [&](const IndexedPack& pack) {
    packs.push_back(pack);
    return absl::OkStatus();
  });
  if (!status.ok()) {
    return status;
  }
  return packs;
}

TEST(IndexFileTest, HasResticsForm) {
  IndexedPack pack = TestPack(1, 2);
  EXPECT_EQ(EncodeIndex({&pack, 1}),
            absl::StrCat("{\"packs\":[{\"id\":\"", pack.id.Hex(), "\",\"blobs\":[{\"id\":\"",
                         TestId(1000).Hex(),
                         "\",\"type\":\"data\",\"offset\":0,\"length\":100},{\"id\":\"",
                         TestId(1001).Hex(),
                         "\",\"type\":\"data\",\"offset\":100,\"length\":100,"
                         "\"uncompressed_length\":500}]}]}"));
  EXPECT_EQ(EncodeIndex({}), "{\"packs\":[]}");
}

TEST(IndexFileTest, ComesBack) {
  const std::vector<IndexedPack> packs = {TestPack(1, 7), TestPack(2, 1), TestPack(3, 100)};
  const absl::StatusOr<std::vector<IndexedPack>> read = Decode(EncodeIndex(packs));
  ASSERT_THAT(read, IsOk());
  ASSERT_EQ(read->size(), packs.size());
  for (std::size_t i = 0; i < packs.size(); ++i) {
    EXPECT_EQ((*read)[i].id, packs[i].id);
    EXPECT_EQ((*read)[i].entries, packs[i].entries);
  }
}

TEST(IndexFileTest, TakesWhatOthersWrite) {
  EXPECT_THAT(Decode("{\"supersedes\":[\"x\"],\"packs\":[],\"later\":{\"a\":[1]}}"), IsOk());
  EXPECT_THAT(Decode("{\"packs\":null}"), IsOk());
  EXPECT_THAT(Decode("{}"), IsOk());
}

TEST(IndexFileTest, RefusesWhatIsMalformed) {
  const IndexedPack pack = TestPack(1, 2);
  const std::string good = EncodeIndex({&pack, 1});
  const std::string zeros(64, '0');
  const std::vector<std::pair<std::string, std::string>> replacements = {
      {"\"data\"", "\"blob\""},
      {"\"type\":\"data\",", ""},
      {"\"offset\":0", "\"offset\":-1"},
      {"\"offset\":0", "\"offset\":4294967296"},
      {"\"offset\":0", "\"offset\":4294967295"},
      {"\"offset\":0", "\"offset\":\"0\""},
      {"\"length\":100", "\"length\":31"},
      {"\"length\":100", "\"length\":18446744073709551616"},
      {"\"uncompressed_length\":500", "\"uncompressed_length\":4294967296"},
      {pack.id.Hex(), zeros},
      {pack.id.Hex(), "abc"},
      {pack.entries[0].handle.id.Hex(), zeros},
      {"\"packs\":[",
       "\"packs\":["
       "{},"},
      {"]}]}", "]}"},
      {"]}]}", "]}]}}"},
      {"{\"packs\"", "[\"packs\""},
  };
  for (const auto& [from, to] : replacements) {
    const std::string text = absl::StrReplaceAll(good, {{from, to}});
    ASSERT_NE(text, good) << from;
    EXPECT_THAT(Decode(text), StatusIs(absl::StatusCode::kInvalidArgument)) << to;
  }
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(Decode(good.substr(0, length)).ok()) << length;
  }
}

TEST(IndexFileTest, AnErrorOfTheSinkEndsIt) {
  const std::vector<IndexedPack> packs = {TestPack(1, 1), TestPack(2, 1)};
  int calls = 0;
  EXPECT_THAT(DecodeIndex(EncodeIndex(packs),
                          [&](const IndexedPack&) {
                            ++calls;
                            return absl::CancelledError("enough");
                          }),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(calls, 1);
}

TEST(BlobIndexTest, FindsEveryBlob) {
  BlobIndex index;
  for (int number = 0; number < 100; ++number) {
    ASSERT_THAT(index.AddPack(TestPack(number, 97)), IsOk());
  }
  EXPECT_EQ(index.entry_count(), 9700);
  EXPECT_EQ(index.packs().size(), 100U);
  for (int number = 0; number < 100; ++number) {
    const IndexedPack pack = TestPack(number, 97);
    for (const PackEntry& entry : pack.entries) {
      const std::vector<BlobLocation> locations = index.Lookup(entry.handle);
      ASSERT_EQ(locations.size(), 1U);
      EXPECT_EQ(locations[0], (BlobLocation{.pack = pack.id, .span = entry.span}));
    }
  }
  EXPECT_FALSE(index.Contains({.type = BlobType::kData, .id = TestId(-1)}));
}

TEST(BlobIndexTest, TheTypeIsPartOfTheName) {
  BlobIndex index;
  ASSERT_THAT(index.AddPack(TestPack(1, 5)), IsOk());
  EXPECT_TRUE(index.Contains({.type = BlobType::kTree, .id = TestId(1004)}));
  EXPECT_FALSE(index.Contains({.type = BlobType::kData, .id = TestId(1004)}));
}

TEST(BlobIndexTest, FindsAllCopies) {
  BlobIndex index;
  IndexedPack first = TestPack(1, 1);
  IndexedPack second = TestPack(2, 1);
  second.entries[0].handle = first.entries[0].handle;
  ASSERT_THAT(index.AddPack(first), IsOk());
  ASSERT_THAT(index.AddPack(second), IsOk());
  EXPECT_THAT(index.Lookup(first.entries[0].handle),
              UnorderedElementsAre(BlobLocation{first.id, first.entries[0].span},
                                   BlobLocation{second.id, second.entries[0].span}));
}

TEST(BlobIndexTest, APackListedTwice) {
  BlobIndex index;
  ASSERT_THAT(index.AddPack(TestPack(1, 3)), IsOk());
  ASSERT_THAT(index.AddPack(TestPack(1, 3)), IsOk());
  EXPECT_EQ(index.entry_count(), 3);
  EXPECT_THAT(index.AddPack(TestPack(1, 4)), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_TRUE(index.Contains({.type = BlobType::kData, .id = TestId(1003)}));
}

TEST(BlobIndexTest, StaysCompact) {
  BlobIndex index;
  for (int number = 0; number < 1000; ++number) {
    ASSERT_THAT(index.AddPack(TestPack(number, 262)), IsOk());
  }
  EXPECT_LT(index.memory_bytes() / index.entry_count(), 64);
}

}  // namespace
}  // namespace csidelta::repository
