#include "repository/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/support/index_lookup.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository::index_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNull;
using testing::Optional;
using testing::UnorderedElementsAreArray;

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
  const absl::Status status = support::DecodeIndexText(text, [&](const IndexedPack& pack) {
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
  const IndexedPack pack = TestPack(1, 2);
  const std::string usual = EncodeIndex({&pack, 1});
  const std::string packs = usual.substr(1, usual.size() - 2);  // "packs":[…]
  for (const std::string& text :
       {absl::StrCat("{\"supersedes\":[\"x\"],", packs, ",\"later\":{\"a\":[1]}}"),
        absl::StrCat("{\"later\":{\"packs\":[{}]},", packs, "}"),
        absl::StrCat("{", packs, ",\"supersedes\":null}")}) {
    const absl::StatusOr<std::vector<IndexedPack>> read = Decode(text);
    ASSERT_THAT(read, IsOk()) << text;
    ASSERT_EQ(read->size(), 1U) << text;
    EXPECT_EQ(read->front().id, pack.id) << text;
    EXPECT_EQ(read->front().entries, pack.entries) << text;
  }
  for (const char* text :
       {"{\"supersedes\":[\"x\"],\"packs\":[],\"later\":{\"a\":[1]}}", "{\"packs\":null}", "{}"}) {
    EXPECT_THAT(Decode(text), IsOkAndHolds(testing::IsEmpty())) << text;
  }
}

TEST(IndexFileTest, TakesEntriesInAnyForm) {
  const IndexedPack pack = TestPack(1, 10);
  const std::string usual = EncodeIndex({&pack, 1});
  const std::string spaced = absl::StrReplaceAll(usual, {{",", " ,\n"}, {":", " : "}, {"{", "{ "}});
  const std::string longer =
      absl::StrReplaceAll(usual, {{"\"length\"", "\"later\":[1],\"length\""}});
  const std::string escaped = absl::StrReplaceAll(usual, {{"\"data\"", "\"d\\u0061ta\""}});
  const std::string with_null = absl::StrReplaceAll(
      usual, {{"\"length\":100}", "\"length\":100,\"uncompressed_length\":null}"}});  // rustic's
  ASSERT_NE(with_null, usual);
  for (const std::string& text : {usual, spaced, longer, escaped, with_null}) {
    const absl::StatusOr<std::vector<IndexedPack>> read = Decode(text);
    ASSERT_THAT(read, IsOk()) << text;
    ASSERT_EQ(read->size(), 1U);
    EXPECT_EQ(read->front().entries, pack.entries);
  }
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
  EXPECT_THAT(support::DecodeIndexText(EncodeIndex(packs),
                                       [&](const IndexedPack&) {
                                         ++calls;
                                         return absl::CancelledError("enough");
                                       }),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(calls, 1);
}

// With all in memory, and with tables so small that most lies in a scratch file.
class BlobIndexTest : public testing::TestWithParam<int64_t> {
 protected:
  BlobIndexTest()
      : scratch_({.folder = testing::TempDir(), .table_memory_bytes_max = GetParam()}) {}

  BlobIndex Build(const std::vector<IndexedPack>& packs) {
    BlobIndexBuilder builder(scratch_);
    for (const IndexedPack& pack : packs) {
      EXPECT_THAT(builder.AddPack(pack), IsOk());
    }
    return BuildFrom(builder);
  }

  static BlobIndex BuildFrom(BlobIndexBuilder& builder) {
    absl::StatusOr<BlobIndex> index = builder.Build();
    EXPECT_THAT(index, IsOk());
    return index.ok() ? *std::move(index) : BlobIndex();
  }

  static std::vector<IndexedPack> ManyPacks() {
    std::vector<IndexedPack> packs;
    for (int number = 0; number < 40; ++number) {
      packs.push_back(TestPack(number, 97));
    }
    return packs;
  }

  ScratchSpace scratch_;
};

INSTANTIATE_TEST_SUITE_P(Memory, BlobIndexTest,
                         testing::Values(kTableMemoryBytesMax, 100'000, 1000, 48));

TEST_P(BlobIndexTest, FindsEveryBlob) {
  const std::vector<IndexedPack> packs = ManyPacks();
  const BlobIndex index = Build(packs);
  EXPECT_EQ(index.entry_count(), 3880);
  EXPECT_EQ(index.pack_count(), 40U);
  EXPECT_EQ(scratch_.peak_bytes() > 0, GetParam() != kTableMemoryBytesMax);
  for (const IndexedPack& pack : packs) {
    EXPECT_EQ(index.info(*index.FindPack(pack.id)).blobs, pack.entries.size());
    for (const PackEntry& entry : pack.entries) {
      EXPECT_THAT(index.Lookup(entry.handle),
                  IsOkAndHolds(ElementsAre(BlobLocation{.pack = pack.id, .span = entry.span})));
    }
  }
  EXPECT_THAT(support::Contains(index, {.type = BlobType::kData, .id = TestId(-1)}),
              IsOkAndHolds(false));
}

TEST_P(BlobIndexTest, AnEmptyOneHasNothing) {
  const BlobIndex index = Build({});
  EXPECT_THAT(support::Contains(index, {.type = BlobType::kData, .id = TestId(1)}),
              IsOkAndHolds(false));
  BlobIndex::Cursor cursor(index);
  EXPECT_THAT(cursor.Find({.type = BlobType::kData, .id = TestId(1)}), IsOkAndHolds(IsNull()));
}

TEST_P(BlobIndexTest, TheTypeIsPartOfTheName) {
  const BlobIndex index = Build({TestPack(1, 5)});
  EXPECT_THAT(support::Contains(index, {.type = BlobType::kTree, .id = TestId(1004)}),
              IsOkAndHolds(true));
  EXPECT_THAT(support::Contains(index, {.type = BlobType::kData, .id = TestId(1004)}),
              IsOkAndHolds(false));
}

TEST_P(BlobIndexTest, FindsAllCopiesHoweverMany) {
  std::vector<IndexedPack> packs = ManyPacks();
  std::vector<BlobLocation> locations;
  const BlobHandle handle = packs[0].entries[0].handle;
  locations.push_back({packs[0].id, packs[0].entries[0].span});
  for (int i = 0; i < 700; ++i) {
    packs.push_back(TestPack(1000 + i, 1));
    packs.back().entries[0].handle = handle;
    locations.push_back({packs.back().id, packs.back().entries[0].span});
  }
  const BlobIndex index = Build(packs);
  EXPECT_THAT(index.Lookup(handle), IsOkAndHolds(UnorderedElementsAreArray(locations)));
  const absl::StatusOr<std::optional<IndexedCopy>> found = index.Find(handle);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ((*found)->number, (*found)->first);
}

TEST_P(BlobIndexTest, IdsThatAreMadeToLookAlike) {
  IndexedPack pack = TestPack(1, 1000);
  for (uint32_t i = 0; i < pack.entries.size(); ++i) {
    std::array<uint8_t, Id::kBytes> bytes{1};
    bytes[30] = static_cast<uint8_t>(i >> 8);
    bytes[31] = static_cast<uint8_t>(i);
    pack.entries[i].handle.id = Id(bytes);
  }
  const BlobIndex index = Build({pack, TestPack(2, 500)});
  for (const PackEntry& entry : pack.entries) {
    EXPECT_THAT(index.Lookup(entry.handle),
                IsOkAndHolds(ElementsAre(BlobLocation{.pack = pack.id, .span = entry.span})));
  }
}

TEST_P(BlobIndexTest, GivesAllCopiesInOrderOfTheirNumbers) {
  std::vector<IndexedPack> packs = ManyPacks();
  packs.push_back(TestPack(1000, 1));
  packs.back().entries[0].handle = packs[3].entries[50].handle;
  const BlobIndex index = Build(packs);
  uint32_t number = 0;
  std::map<uint32_t, std::size_t> blobs_in_pack;
  std::set<BlobHandle> blobs;
  ASSERT_THAT(index.ForEach([&](const IndexedCopy& copy) {
    EXPECT_EQ(copy.number, number++);
    EXPECT_EQ(copy.first == copy.number, blobs.insert(copy.entry.handle).second);
    EXPECT_THAT(index.EntryOf(copy.number), IsOkAndHolds(copy.entry));
    ++blobs_in_pack[copy.pack_ordinal];
  }),
              IsOk());
  EXPECT_EQ(number, 3881U);
  EXPECT_EQ(blobs.size(), 3880U);
  EXPECT_EQ(blobs_in_pack.size(), 41U);
  EXPECT_EQ(blobs_in_pack[7], 97U);
}

TEST_P(BlobIndexTest, ACursorFindsWhatIsAskedForInOrder) {
  const std::vector<IndexedPack> packs = ManyPacks();
  const BlobIndex index = Build(packs);
  for (const int step : {1, 3, 1000}) {
    std::vector<BlobId> ids;
    for (int i = 0; i < 40'000; i += step) {
      ids.push_back(TestId(i));
    }
    std::sort(ids.begin(), ids.end());
    BlobIndex::Cursor cursor(index);
    for (const BlobId& id : ids) {
      const BlobHandle handle = {.type = BlobType::kData, .id = id};
      const absl::StatusOr<std::optional<IndexedCopy>> expected = index.Find(handle);
      for (int again = 0; again < 2; ++again) {
        const absl::StatusOr<const IndexedCopy*> found = cursor.Find(handle);
        ASSERT_THAT(found, IsOk());
        ASSERT_EQ(*found != nullptr, expected->has_value());
        if (*found != nullptr) {
          EXPECT_EQ((*found)->number, (*expected)->number);
          EXPECT_EQ((*found)->entry, (*expected)->entry);
        }
      }
    }
  }
}

TEST_P(BlobIndexTest, APackListedTwice) {
  BlobIndexBuilder builder(scratch_);
  EXPECT_THAT(builder.AddPack(TestPack(1, 3)), IsOk());
  EXPECT_THAT(builder.AddPack(TestPack(1, 3)), IsOk());
  IndexedPack backwards = TestPack(1, 3);
  std::reverse(backwards.entries.begin(), backwards.entries.end());
  EXPECT_THAT(builder.AddPack(backwards), IsOk());
  EXPECT_THAT(builder.AddPack(TestPack(1, 4)), IsOk());
  std::vector<PackId> listed_differently;
  const absl::StatusOr<BlobIndex> built = builder.Build(&listed_differently);
  ASSERT_THAT(built, IsOk());
  const BlobIndex& index = *built;
  EXPECT_THAT(listed_differently, ElementsAre(TestPack(1, 3).id));
  EXPECT_EQ(index.entry_count(), 7);
  EXPECT_EQ(index.pack_count(), 2U);
  EXPECT_THAT(index.FindPack(TestPack(1, 3).id), Optional(0U));
  EXPECT_THAT(support::Contains(index, {.type = BlobType::kData, .id = TestId(1003)}),
              IsOkAndHolds(true));
}

TEST_P(BlobIndexTest, IsMadeByManyThreads) {
  const std::vector<IndexedPack> packs = ManyPacks();
  BlobIndexBuilder builder(scratch_);
  std::atomic<std::size_t> next = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (std::size_t at = next++; at < packs.size(); at = next++) {
          EXPECT_THAT(builder.AddPack(packs[at]), IsOk());
        }
      });
    }
  }
  const BlobIndex index = BuildFrom(builder);
  EXPECT_EQ(index.entry_count(), 3880);
  EXPECT_THAT(index.Lookup(packs[30].entries[9].handle),
              IsOkAndHolds(ElementsAre(
                  BlobLocation{.pack = packs[30].id, .span = packs[30].entries[9].span})));
}

TEST(BlobIndexMemoryTest, StaysCompact) {
  ScratchSpace scratch({.folder = testing::TempDir(), .table_memory_bytes_max = int64_t{1} << 18});
  for (const bool small : {true, false}) {
    BlobIndexBuilder builder(scratch);
    for (int number = 0; number < (small ? 20 : 300); ++number) {
      ASSERT_THAT(builder.AddPack(TestPack(number, 262)), IsOk());
    }
    const absl::StatusOr<BlobIndex> index = builder.Build();
    ASSERT_THAT(index, IsOk());
    EXPECT_EQ(scratch.peak_bytes() > 0, !small);
    EXPECT_LT(index->memory_bytes() / index->entry_count(), small ? 52 : 7);
  }
  // Runs are given back while they are merged.
  EXPECT_LT(scratch.peak_bytes(), 300 * 262 * 48 * 5 / 4);
}

// Packs of one blob, as many as would take three times what tables may.
TEST(BlobIndexMemoryTest, DoesNotGrowWithItsPacks) {
  ScratchSpace scratch({.folder = testing::TempDir(), .table_memory_bytes_max = int64_t{1} << 18});
  constexpr int kPacks = 15'000;
  BlobIndexBuilder builder(scratch);
  for (int number = 0; number < kPacks; ++number) {
    ASSERT_THAT(builder.AddPack(TestPack(number, 1)), IsOk());
  }
  const absl::StatusOr<BlobIndex> index = builder.Build();
  ASSERT_THAT(index, IsOk());
  EXPECT_EQ(index->pack_count(), static_cast<uint32_t>(kPacks));
  EXPECT_LT(index->memory_bytes(), (int64_t{1} << 18) + 8 * kPacks);
  for (int number = 0; number < kPacks; number += 100) {
    const PackId id = TestPack(number, 1).id;
    const std::optional<uint32_t> ordinal = index->FindPack(id);
    ASSERT_TRUE(ordinal.has_value());
    EXPECT_EQ(index->PackAt(*ordinal), id);
    EXPECT_EQ(index->info(*ordinal).blobs, 1U);
  }
  EXPECT_FALSE(index->FindPack(TestPack(kPacks, 1).id).has_value());
}

TEST(BlobIndexMemoryTest, AFolderThatIsNotThereIsSaid) {
  ScratchSpace scratch({.folder = "/nonexistent", .table_memory_bytes_max = 1000});
  BlobIndexBuilder builder(scratch);
  absl::Status status;
  for (int number = 0; number < 100 && status.ok(); ++number) {
    status = builder.AddPack(TestPack(number, 10));
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--scratch-dir"));
}

// Of all files of this process, while it lasts; as a full disk, but for the signal.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  sighandler_t handler_ = SIG_DFL;
};

TEST(BlobIndexMemoryTest, AFullDiskIsSaidWhereverItIsFull) {
  ScratchSpace scratch({.folder = testing::TempDir(), .table_memory_bytes_max = 10'000});
  for (const rlim_t room : {4'000, 20'000, 40'000, 100'000}) {
    FileSizeLimit limit(room);
    BlobIndexBuilder builder(scratch);
    absl::Status status;
    for (int number = 0; number < 30 && status.ok(); ++number) {
      status = builder.AddPack(TestPack(number, 100));
    }
    status.Update(builder.Build().status());
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted)) << room;
    EXPECT_THAT(std::string(status.message()), HasSubstr(testing::TempDir()));
  }
}

}  // namespace
}  // namespace csidelta::repository::index_test
