#include "tests/contract/object_store_contract.h"

#include <gmock/gmock.h>

#include <atomic>
#include <limits>
#include <stop_token>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "tests/support/status_matchers.h"

namespace csidelta::contract {

using storage::ByteRange;
using storage::ObjectInfo;
using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

namespace {

constexpr int64_t kPlenty = int64_t{64} << 20;

// Bytes that differ from their neighbours, so that a shifted range shows.
std::string Pattern(std::size_t size_bytes) {
  std::string bytes(size_bytes, '\0');
  for (std::size_t i = 0; i < size_bytes; ++i) {
    bytes[i] = static_cast<char>((i * 2654435761u) >> 13);
  }
  return bytes;
}

}  // namespace

void ObjectStoreContract::MustPut(const std::string& key, const std::string& bytes) {
  ASSERT_THAT(store_.Put(ctx_, key, bytes, {}), IsOk());
}

std::map<std::string, int64_t> ObjectStoreContract::MustList(const std::string& prefix,
                                                             bool of_folder) {
  std::map<std::string, int64_t> found;
  const auto add = [&](const ObjectInfo& object) {
    EXPECT_TRUE(found.emplace(object.key, object.size_bytes).second) << object.key;
    return absl::OkStatus();
  };
  EXPECT_THAT(of_folder ? store_.ListFolder(ctx_, prefix, add) : store_.List(ctx_, prefix, add),
              IsOk());
  return found;
}

std::map<std::string, int64_t> ObjectStoreContract::MustListFolder(const std::string& prefix) {
  return MustList(prefix, /*of_folder=*/true);
}

std::map<std::string, absl::Status> ObjectStoreContract::DeleteMany(
    const CallContext& ctx, const std::vector<std::string>& keys) {
  std::map<std::string, absl::Status> told;
  EXPECT_THAT(DeleteObjects(ctx, store_, keys,
                            [&](std::size_t number, const absl::Status& deleted) {
                              EXPECT_TRUE(told.emplace(keys[number], deleted).second);
                              return absl::OkStatus();
                            }),
              IsOk());
  EXPECT_EQ(told.size(), keys.size());
  return told;
}

TEST_P(ObjectStoreContract, APutObjectIsRead) {
  MustPut("data/ab/one", "some bytes");
  EXPECT_THAT(store_.Get(ctx_, "data/ab/one", 10), IsOkAndHolds("some bytes"));
  const auto info = store_.Stat(ctx_, "data/ab/one");
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(info->key, "data/ab/one");
  EXPECT_EQ(info->size_bytes, 10);
}

TEST_P(ObjectStoreContract, EverySizeComesBack) {
  const std::size_t sizes[] = {0, 1, 4095, 4096, 4097, (1 << 20) - 1, 1 << 20, (5 << 20) + 123};
  for (const std::size_t size_bytes : sizes) {
    const std::string bytes = Pattern(size_bytes);
    const std::string key = absl::StrCat("data/", size_bytes);
    ASSERT_THAT(store_.Put(ctx_, key, bytes, {.sha256_hex = Sha256Hex(bytes)}), IsOk());
    const auto got = store_.Get(ctx_, key, kPlenty);
    ASSERT_THAT(got, IsOk());
    EXPECT_TRUE(*got == bytes) << size_bytes;
  }
}

TEST_P(ObjectStoreContract, UnalignedMemoryIsStoredAsWell) {
  const std::string bytes = Pattern((3 << 20) + 8);
  for (std::size_t shift = 0; shift < 4; ++shift) {
    const absl::string_view part = absl::string_view(bytes).substr(shift);
    ASSERT_THAT(store_.Put(ctx_, "data/shifted", part, {}), IsOk());
    const auto got = store_.Get(ctx_, "data/shifted", kPlenty);
    ASSERT_THAT(got, IsOk());
    EXPECT_TRUE(*got == part) << shift;
  }
}

TEST_P(ObjectStoreContract, AMissingObjectIsNotFound) {
  MustPut("data/one", "x");
  for (const char* key : {"none", "data/none", "data/none/deep", "data"}) {
    EXPECT_THAT(store_.Get(ctx_, key, 10), StatusIs(absl::StatusCode::kNotFound)) << key;
    EXPECT_THAT(store_.GetRange(ctx_, key, {0, 1}), StatusIs(absl::StatusCode::kNotFound)) << key;
    EXPECT_THAT(store_.Stat(ctx_, key), StatusIs(absl::StatusCode::kNotFound)) << key;
    EXPECT_THAT(store_.Delete(ctx_, key), IsOk()) << key;
  }
  EXPECT_THAT(MustList(""), ElementsAre(Pair("data/one", 1)));
}

TEST_P(ObjectStoreContract, AnEmptyStoreIsEmpty) {
  EXPECT_THAT(MustList(""), IsEmpty());
  EXPECT_THAT(MustList("data/"), IsEmpty());
  EXPECT_THAT(store_.Stat(ctx_, "config"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store_.Delete(ctx_, "config"), IsOk());
}

TEST_P(ObjectStoreContract, RangesAreExact) {
  const std::string bytes = Pattern(1000);
  MustPut("pack", bytes);
  const ByteRange good[] = {{0, 1}, {0, 1000}, {999, 1}, {1, 998}, {500, 37}};
  for (const ByteRange& range : good) {
    EXPECT_THAT(store_.GetRange(ctx_, "pack", range),
                IsOkAndHolds(bytes.substr(static_cast<std::size_t>(range.offset_bytes),
                                          static_cast<std::size_t>(range.length_bytes))));
  }
  const ByteRange beyond[] = {{1000, 1}, {999, 2}, {0, 1001}, {5000, 10}};
  for (const ByteRange& range : beyond) {
    EXPECT_THAT(store_.GetRange(ctx_, "pack", range), StatusIs(absl::StatusCode::kOutOfRange))
        << range.offset_bytes;
  }
}

TEST_P(ObjectStoreContract, LargeRangesAreExact) {
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  constexpr int64_t kSize = 5 * kMebibyte + 123;
  const std::string bytes = Pattern(kSize);
  MustPut("pack", bytes);
  const ByteRange good[] = {{0, kMebibyte},
                            {1, 3 * kMebibyte + 7},
                            {4095, 2 * kMebibyte},
                            {4096, kMebibyte + 1},
                            {123, 5 * kMebibyte},
                            {kSize - kMebibyte - 1, kMebibyte + 1},
                            {0, kSize}};
  for (const ByteRange& range : good) {
    const absl::StatusOr<std::string> read = store_.GetRange(ctx_, "pack", range);
    ASSERT_THAT(read, IsOk());
    EXPECT_TRUE(*read == bytes.substr(static_cast<std::size_t>(range.offset_bytes),
                                      static_cast<std::size_t>(range.length_bytes)))
        << range.offset_bytes << " " << range.length_bytes;
  }
  EXPECT_THAT(store_.GetRange(ctx_, "pack", {kMebibyte, kSize}),
              StatusIs(absl::StatusCode::kOutOfRange));
}

TEST_P(ObjectStoreContract, RefusesRangesThatAreNone) {
  MustPut("pack", "bytes");
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const ByteRange bad[] = {{0, 0}, {-1, 1}, {0, -1}, {1, kMax}, {kMax, 1}};
  for (const ByteRange& range : bad) {
    EXPECT_THAT(store_.GetRange(ctx_, "pack", range), StatusIs(absl::StatusCode::kInvalidArgument))
        << range.offset_bytes << " " << range.length_bytes;
  }
}

TEST_P(ObjectStoreContract, GetHoldsItsLimit) {
  MustPut("key", "0123456789");
  EXPECT_THAT(store_.Get(ctx_, "key", 10), IsOk());
  EXPECT_THAT(store_.Get(ctx_, "key", 9), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(store_.Get(ctx_, "key", 0), StatusIs(absl::StatusCode::kResourceExhausted));
  MustPut("large", Pattern(1 << 20));
  EXPECT_THAT(store_.Get(ctx_, "large", 1000), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_P(ObjectStoreContract, RefusesKeysThatLeadAstray) {
  const std::string bad[] = {"",
                             "/",
                             "/a",
                             "a/",
                             "a//b",
                             "..",
                             "../a",
                             "a/..",
                             "a/../b",
                             ".",
                             "a/./b",
                             "a b",
                             "a\nb",
                             "a%2f",
                             "a\\b",
                             "\xc3\xa4",
                             "a?b",
                             "x-tmp-1",
                             "a/b-tmp-c",
                             std::string("a\0b", 3),
                             std::string(300, 'k')};
  for (const std::string& key : bad) {
    const auto refused = StatusIs(absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(store_.Put(ctx_, key, "x", {}), refused) << key;
    EXPECT_THAT(store_.Get(ctx_, key, 10), refused) << key;
    EXPECT_THAT(store_.GetRange(ctx_, key, {0, 1}), refused) << key;
    EXPECT_THAT(store_.Stat(ctx_, key), refused) << key;
    EXPECT_THAT(store_.Delete(ctx_, key), refused) << key;
  }
  EXPECT_THAT(MustList(""), IsEmpty());
}

TEST_P(ObjectStoreContract, RefusesPrefixesThatLeadAstray) {
  const auto ignore = [](const ObjectInfo&) { return absl::OkStatus(); };
  for (const char* prefix : {"/", "a", "../", "a/../", "a//", "./"}) {
    EXPECT_THAT(store_.List(ctx_, prefix, ignore), StatusIs(absl::StatusCode::kInvalidArgument))
        << prefix;
    EXPECT_THAT(store_.ListFolder(ctx_, prefix, ignore),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << prefix;
  }
}

TEST_P(ObjectStoreContract, RefusesAHashThatIsNone) {
  for (const char* hash : {"abc", "ZZ"}) {
    EXPECT_THAT(store_.Put(ctx_, "key", "x", {.sha256_hex = hash}),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST_P(ObjectStoreContract, ListsWhatIsBelowAPrefix) {
  MustPut("config", "c");
  MustPut("data/00/a", "12");
  MustPut("data/01/b", "123");
  MustPut("database", "1");
  MustPut("index/x", "1234");
  EXPECT_THAT(MustList(""),
              ElementsAre(Pair("config", 1), Pair("data/00/a", 2), Pair("data/01/b", 3),
                          Pair("database", 1), Pair("index/x", 4)));
  EXPECT_THAT(MustList("data/"), ElementsAre(Pair("data/00/a", 2), Pair("data/01/b", 3)));
  EXPECT_THAT(MustList("data/01/"), ElementsAre(Pair("data/01/b", 3)));
  EXPECT_THAT(MustList("snapshots/"), IsEmpty());
  EXPECT_THAT(MustList("config/"), IsEmpty());
}

TEST_P(ObjectStoreContract, ListsMoreThanOnePage) {
  std::map<std::string, int64_t> expected;
  for (int i = 0; i < 25; ++i) {
    const std::string key = absl::StrCat("data/", i % 3, "/", i);
    MustPut(key, std::string(static_cast<std::size_t>(i), 'x'));
    expected[key] = i;
  }
  EXPECT_EQ(MustList("data/"), expected);
}

TEST_P(ObjectStoreContract, AFolderShowsWhatLiesDirectlyInIt) {
  MustPut("config", "c");
  MustPut("data/00/a", "12");
  MustPut("data/00/b", "12");
  MustPut("data/01/b", "123");
  MustPut("data/readme", "1234");
  MustPut("database", "1");
  EXPECT_THAT(MustListFolder(""),
              ElementsAre(Pair("config", 1), Pair("data/", 0), Pair("database", 1)));
  EXPECT_THAT(MustListFolder("data/"),
              ElementsAre(Pair("data/00/", 0), Pair("data/01/", 0), Pair("data/readme", 4)));
  EXPECT_THAT(MustListFolder("data/01/"), ElementsAre(Pair("data/01/b", 3)));
  EXPECT_THAT(MustListFolder("snapshots/"), IsEmpty());
  EXPECT_THAT(MustListFolder("config/"), IsEmpty());
}

TEST_P(ObjectStoreContract, AFolderShowsMoreThanOnePage) {
  std::map<std::string, int64_t> expected;
  for (int i = 0; i < 12; ++i) {
    MustPut(absl::StrCat("a/", i, "/x"), "1");
    MustPut(absl::StrCat("a/", i, "/y"), "1");
    MustPut(absl::StrCat("a/", i, "-file"), "1");
    expected[absl::StrCat("a/", i, "/")] = 0;
    expected[absl::StrCat("a/", i, "-file")] = 1;
  }
  EXPECT_EQ(MustListFolder("a/"), expected);
}

TEST_P(ObjectStoreContract, TheSinkEndsAListing) {
  MustPut("a", "x");
  MustPut("b", "x");
  int seen = 0;
  const auto end = [&](const ObjectInfo&) {
    ++seen;
    return absl::UnavailableError("enough");
  };
  EXPECT_THAT(store_.List(ctx_, "", end), StatusIs(absl::StatusCode::kUnavailable, "enough"));
  EXPECT_EQ(seen, 1);
  EXPECT_THAT(store_.ListFolder(ctx_, "", end), StatusIs(absl::StatusCode::kUnavailable, "enough"));
  EXPECT_EQ(seen, 2);
}

TEST_P(ObjectStoreContract, TheSinkMayCallTheStore) {
  for (const char* key : {"a", "b", "c"}) {
    MustPut(key, "x");
  }
  EXPECT_THAT(
      store_.List(ctx_, "",
                  [&](const ObjectInfo& object) { return store_.Delete(ctx_, object.key); }),
      IsOk());
  EXPECT_THAT(MustList(""), IsEmpty());
}

TEST_P(ObjectStoreContract, TheSameKeyMayBePutAgain) {
  MustPut("locks/one", "bytes");
  MustPut("locks/one", "bytes");
  EXPECT_THAT(MustList(""), ElementsAre(Pair("locks/one", 5)));
}

TEST_P(ObjectStoreContract, IfAbsentNeverReplaces) {
  const absl::Status first = store_.Put(ctx_, "config", "first", {.if_absent = true});
  if (absl::IsUnimplemented(first)) {
    EXPECT_THAT(MustList(""), IsEmpty());
    return;
  }
  ASSERT_THAT(first, IsOk());
  if (!GetParam().if_absent_is_heeded) {
    return;
  }
  EXPECT_THAT(store_.Put(ctx_, "config", "second", {.if_absent = true}),
              StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(store_.Get(ctx_, "config", 10), IsOkAndHolds("first"));
  ASSERT_THAT(store_.Delete(ctx_, "config"), IsOk());
  EXPECT_THAT(store_.Put(ctx_, "config", "third", {.if_absent = true}), IsOk());
  EXPECT_THAT(MustList(""), ElementsAre(Pair("config", 5)));
}

TEST_P(ObjectStoreContract, IfAbsentOneOfManyWritersWins) {
  constexpr int kWriters = 8;
  std::atomic<int> winners = 0, losers = 0, unable = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < kWriters; ++i) {
    threads.emplace_back([&, i] {
      absl::Status status = absl::UnavailableError("not tried yet");
      // A store may answer concurrent writers that they are to try again.
      for (int tries = 0; tries < 100 && absl::IsUnavailable(status); ++tries) {
        status = store_.Put(ctx_, "new/config", std::to_string(i), {.if_absent = true});
      }
      winners += status.ok() ? 1 : 0;
      losers += absl::IsAlreadyExists(status) ? 1 : 0;
      unable += absl::IsUnimplemented(status) ? 1 : 0;
      EXPECT_TRUE(status.ok() || absl::IsAlreadyExists(status) || absl::IsUnimplemented(status))
          << status;
    });
  }
  threads.clear();
  if (unable > 0) {
    EXPECT_EQ(unable, kWriters) << "a store knows conditions or does not";
    EXPECT_THAT(MustList(""), IsEmpty());
    return;
  }
  EXPECT_EQ(winners + losers, kWriters);
  EXPECT_GE(winners, 1);
  if (GetParam().if_absent_excludes) {
    EXPECT_EQ(winners, 1);
  }
  EXPECT_THAT(MustList(""), ElementsAre(Pair("new/config", 1)));
}

TEST_P(ObjectStoreContract, DeletedObjectsAreGone) {
  MustPut("data/ab/one", "x");
  MustPut("data/ab/two", "x");
  EXPECT_THAT(store_.Delete(ctx_, "data/ab/one"), IsOk());
  EXPECT_THAT(store_.Delete(ctx_, "data/ab/one"), IsOk());
  EXPECT_THAT(store_.Get(ctx_, "data/ab/one", 10), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(MustList(""), ElementsAre(Pair("data/ab/two", 1)));
}

TEST_P(ObjectStoreContract, ManyObjectsAreGoneOnceAllAreToldSo) {
  std::vector<std::string> keys = {"data/ab/missing", "missing"};
  for (int i = 0; i < 12; ++i) {
    keys.push_back(absl::StrCat("data/", i, "/x"));
    MustPut(keys.back(), "x");
  }
  MustPut("data/stays", "x");
  for (const auto& [key, deleted] : DeleteMany(ctx_, keys)) {
    EXPECT_THAT(deleted, IsOk()) << key;
  }
  EXPECT_THAT(MustList(""), ElementsAre(Pair("data/stays", 1)));
  EXPECT_THAT(DeleteMany(ctx_, {}), IsEmpty());
  EXPECT_THAT(DeleteMany(ctx_, {"data/stays"}), ElementsAre(Pair("data/stays", IsOk())));
}

TEST_P(ObjectStoreContract, OfManyObjectsTheOneThatIsRefusedIsNamed) {
  for (const char* key : {"a", "b", "c", "d"}) {
    MustPut(key, "x");
  }
  const bool is_refused = subject_->Refuse("b");
  const std::map<std::string, absl::Status> told = DeleteMany(ctx_, {"a", "b", "c", "d"});
  EXPECT_THAT(told.at("a"), IsOk());
  EXPECT_THAT(told.at("d"), IsOk());
  if (is_refused) {
    EXPECT_THAT(told.at("b"),
                StatusIs(absl::StatusCode::kPermissionDenied, testing::HasSubstr("delete b")));
    EXPECT_THAT(MustList(""), ElementsAre(Pair("b", 1)));
  }
}

TEST_P(ObjectStoreContract, ManyObjectsWithAKeyThatLeadsAstrayAreNotToldAsGone) {
  const std::map<std::string, absl::Status> told = DeleteMany(ctx_, {"a", "../b", "c"});
  EXPECT_THAT(told.at("../b"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_P(ObjectStoreContract, ServesThreadsAtOnce) {
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 8; ++i) {
        const std::string key = absl::StrCat("data/", i, "/", thread);
        EXPECT_THAT(store_.Put(ctx_, key, key, {}), IsOk());
        EXPECT_THAT(store_.Get(ctx_, key, 100), IsOkAndHolds(key));
      }
    });
  }
  threads.clear();
  EXPECT_EQ(MustList("data/").size(), 48u);
}

TEST_P(ObjectStoreContract, DoesNothingWhenStoppedOrTooLate) {
  MustPut("there", "x");
  std::stop_source stop;
  stop.request_stop();
  CallContext stopped = ctx_;
  stopped.stop = stop.get_token();
  CallContext late = ctx_;
  late.deadline = -absl::InfiniteDuration();
  const auto ignore = [](const ObjectInfo&) { return absl::OkStatus(); };
  for (const auto& [ctx, code] : {std::pair(stopped, absl::StatusCode::kCancelled),
                                  std::pair(late, absl::StatusCode::kDeadlineExceeded)}) {
    EXPECT_THAT(store_.Put(ctx, "new", "x", {}), StatusIs(code));
    EXPECT_THAT(store_.Get(ctx, "there", 10), StatusIs(code));
    EXPECT_THAT(store_.GetRange(ctx, "there", {0, 1}), StatusIs(code));
    EXPECT_THAT(store_.Stat(ctx, "there"), StatusIs(code));
    EXPECT_THAT(store_.List(ctx, "", ignore), StatusIs(code));
    EXPECT_THAT(store_.ListFolder(ctx, "", ignore), StatusIs(code));
    EXPECT_THAT(store_.Delete(ctx, "there"), StatusIs(code));
    EXPECT_THAT(DeleteMany(ctx, {"there", "elsewhere"}),
                ElementsAre(Pair("elsewhere", StatusIs(code)), Pair("there", StatusIs(code))));
  }
  EXPECT_THAT(MustList(""), ElementsAre(Pair("there", 1)));
}

}  // namespace csidelta::contract
