#include "repository/blob_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "repository/pack_reader.h"
#include "repository/request_window.h"
#include "repository/stored_packs.h"
#include "tests/repository/repository_fixture.h"
#include "tests/repository/test_volume.h"
#include "tests/repository/verify_pack.h"
#include "tests/support/await.h"
#include "tests/support/fake_clock.h"
#include "tests/support/index_lookup.h"
#include "tests/support/pack_meeting.h"
#include "tests/support/watched_store.h"

namespace csidelta::repository::blob_writer_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::Noise;
using support::Prose;
using support::StatusIs;
using support::StoreOperation;
using testing::SizeIs;

class BlobWriterTest : public RepositoryFixture {
 protected:
  BlobWriterTest() : repository_(Init()) { options_.pack_target_bytes = 100'000; }

  std::string Blob(int number) const {
    return number % 2 == 0 ? Noise(9'000, static_cast<uint64_t>(number))
                           : Prose(20'000, static_cast<uint64_t>(number));
  }

  absl::StatusOr<bool> Add(BlobWriter& writer, const std::string& blob,
                           BlobType type = BlobType::kData) {
    return writer.AddBlob(type, Id::Of(blob), blob);
  }

  void ExpectAllReadable(int count) {
    std::unique_ptr<Repository> reader = Open();
    ASSERT_THAT(reader->LoadIndex(ctx_), IsOk());
    for (int i = 0; i < count; ++i) {
      EXPECT_THAT(reader->LoadBlob(ctx_, {BlobType::kData, Id::Of(Blob(i))}),
                  IsOkAndHolds(Blob(i)));
    }
  }

  // Eight threads add blobs until they are told of this error.
  void AddUntil(BlobWriter& writer, absl::StatusCode code) {
    const support::AwaitEnd await_end("all callers to be told of the error");
    std::vector<std::jthread> callers;
    for (int caller = 0; caller < 8; ++caller) {
      callers.emplace_back([&, caller] {
        absl::Status status;
        for (int i = 0; status.ok(); ++i) {
          status = Add(writer, absl::StrCat(caller, " ", i)).status();
        }
        EXPECT_THAT(status, StatusIs(code));
      });
    }
    callers.clear();
  }

  std::unique_ptr<Repository> repository_;
  BlobWriterOptions options_;
};

// The header of a pack has a limit too, and blobs may shrink to next to nothing.
TEST_F(BlobWriterTest, ManySmallBlobsCloseAPack) {
  options_.pack_entries_target = 4;
  BlobWriter writer(ctx_, *repository_, options_);
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(Add(writer, absl::StrCat(i, std::string(1'000, ' '))), IsOkAndHolds(true));
  }
  ASSERT_THAT(writer.Flush(), IsOk());
  EXPECT_EQ(writer.counts().packs, 3);
}

// A store that takes packs and does not keep one of them, or not all of it.
class ForgetfulStore : public support::FakeObjectStore {
 public:
  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const storage::PutOptions& options) override {
    RETURN_IF_ERROR(FakeObjectStore::Put(ctx, key, bytes, options));
    if (key.starts_with("data/") && ++packs_ == forgets_) {
      keeps_a_part_ ? SetObject(key, "part") : RemoveObject(key);
    }
    return absl::OkStatus();
  }

  std::atomic<int> packs_ = 0;
  int forgets_ = 0;
  bool keeps_a_part_ = false;
};

TEST_F(BlobWriterTest, APackThatTheStoreDoesNotHaveIsNotedBeforeAnythingNamesIt) {
  for (const int packs : {3, 80}) {
    for (const bool keeps_a_part : {false, true}) {
      SCOPED_TRACE(absl::StrCat(packs, " packs"));
      ForgetfulStore store;
      store.SetObjects(store_.objects());
      store.forgets_ = 2;
      store.keeps_a_part_ = keeps_a_part;
      auto repository = Repository::Open(ctx_, store, kTestPassword, environment_);
      ASSERT_THAT(repository, IsOk());
      options_.pack_target_bytes = 1;
      BlobWriter writer(ctx_, **repository, options_);
      for (int i = 0; i < packs; ++i) {
        ASSERT_THAT(Add(writer, absl::StrCat("blob ", i)), IsOkAndHolds(true));
      }
      EXPECT_THAT(writer.Flush(), StatusIs(absl::StatusCode::kDataLoss));
      EXPECT_THAT(writer.Checkpoint(ctx_), IsOk());
      for (const auto& [key, bytes] : store.objects()) {
        EXPECT_FALSE(key.starts_with("index/"));
      }
    }
  }
}

TEST_F(BlobWriterTest, BlobsOfMissingPacksAreWrittenAgain) {
  BlobWriter first(ctx_, *repository_, options_);
  ASSERT_THAT(Add(first, Blob(0)), IsOkAndHolds(true));
  ASSERT_THAT(first.Flush(), IsOk());
  ASSERT_THAT(repository_->LoadIndex(ctx_), IsOk());
  const std::string pack = KeysBelow("data/").front();
  for (const bool is_there : {true, false}) {
    if (!is_there) {
      store_.RemoveObject(pack);
    }
    BlobWriter second(ctx_, *repository_, options_);
    auto absent = FindAbsentPacks(ctx_, *repository_, repository_->index());
    ASSERT_THAT(absent, IsOk());
    second.UseKnown(std::make_shared<StoredBlobs>(repository_->index(), *std::move(absent)));
    EXPECT_THAT(Add(second, Blob(0)), IsOkAndHolds(!is_there));
    ASSERT_THAT(second.Flush(), IsOk());
  }
  ExpectAllReadable(1);
}

TEST_F(BlobWriterTest, ManyThreadsWriteAndEverythingComesBack) {
  BlobWriter writer(ctx_, *repository_, options_);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = thread; i < 100; i += 4) {
          EXPECT_THAT(Add(writer, Blob(i)), IsOkAndHolds(true));
        }
      });
    }
  }
  ASSERT_THAT(writer.Flush(), IsOk());
  const BlobWriterCounts counts = writer.counts();
  EXPECT_EQ(counts.data_blobs, 100);
  EXPECT_EQ(counts.plaintext_bytes, 50 * 9'000 + 50 * 20'000);
  EXPECT_EQ(counts.packs, static_cast<int64_t>(KeysBelow("data/").size()));
  EXPECT_EQ(counts.index_files, 1);
  int64_t stored = 0;
  for (const char* prefix : {"data/", "index/"}) {
    for (const std::string& key : KeysBelow(prefix)) {
      stored += static_cast<int64_t>(store_.objects().at(key).size());
    }
  }
  EXPECT_EQ(counts.stored_bytes, stored);
  ExpectAllReadable(100);
}

// However many callers there are: a pack for each of them would leave no memory for uploads.
TEST_F(BlobWriterTest, ManyCallersShareFewPacksAndAllUploadsTravel) {
  constexpr int kCallers = 24;
  options_.open_packs_max = 2;
  options_.uploads_in_flight_max = 7;
  support::WatchedStore watched(store_);
  const support::PackMeeting meeting(watched, options_.uploads_in_flight_max);
  auto repository = Repository::Open(ctx_, watched, kTestPassword, environment_);
  ASSERT_THAT(repository, IsOk());
  BlobWriter writer(ctx_, **repository, options_);
  constexpr int kBlobs = 400;
  {
    std::vector<std::jthread> callers;
    for (int caller = 0; caller < kCallers; ++caller) {
      callers.emplace_back([&, caller] {
        for (int i = caller; i < kBlobs; i += kCallers) {
          EXPECT_THAT(Add(writer, Blob(i)), IsOkAndHolds(true));
          EXPECT_THAT(Add(writer, absl::StrCat("tree ", i), BlobType::kTree), IsOkAndHolds(true));
        }
      });
    }
  }
  ASSERT_THAT(writer.Flush(), IsOk());
  EXPECT_EQ(meeting.most(), 7);
  EXPECT_LE(writer.counts().packs_held_max, 2 + 1 + 7);
  EXPECT_GE(writer.counts().packs_held_max, 7);
  // Filled one after the other: few are small at the end.
  EXPECT_LE(writer.counts().packs, writer.counts().packed_bytes / options_.pack_target_bytes + 3);
  ExpectAllReadable(kBlobs);
}

// On a slow line more puts only make each other late.
TEST_F(BlobWriterTest, FewPacksTravelUntilTheFirstAreStored) {
  constexpr int kPutsFirst = RequestWindow::kRequestsFirst;
  options_.uploads_in_flight_max = 2 * kPutsFirst;
  options_.pack_target_bytes = 1;
  support::WatchedStore watched(store_);
  std::mutex mutex;
  std::condition_variable changed;
  int travelling = 0;
  bool is_held = true;
  watched.before_put = [&](const std::string& /*key*/) {
    std::unique_lock lock(mutex);
    ++travelling;
    changed.notify_all();
    support::AwaitOn(changed, lock, "the test to let it pass", [&] { return !is_held; });
  };
  auto repository = Repository::Open(ctx_, watched, kTestPassword, environment_);
  ASSERT_THAT(repository, IsOk());
  BlobWriter writer(ctx_, **repository, options_);
  for (int i = 0; i < options_.uploads_in_flight_max; ++i) {
    ASSERT_THAT(Add(writer, Blob(i)), IsOkAndHolds(true));
  }
  {
    std::unique_lock lock(mutex);
    support::AwaitOn(changed, lock, "the first packs", [&] { return travelling >= kPutsFirst; });
    EXPECT_EQ(travelling, kPutsFirst);
    is_held = false;
    changed.notify_all();
  }
  ASSERT_THAT(writer.Flush(), IsOk());
}

TEST_F(BlobWriterTest, AnErrorEndsCallersThatWaitForAPack) {
  options_.open_packs_max = 1;
  options_.uploads_in_flight_max = 1;
  options_.pack_target_bytes = 1;
  store_.AddFault({.operation = StoreOperation::kPut,
                   .key_prefix = "data/",
                   .first_call = 3,
                   .last_call = 1'000,
                   .status = absl::ResourceExhaustedError("disk full")});
  BlobWriter writer(ctx_, *repository_, options_);
  AddUntil(writer, absl::StatusCode::kResourceExhausted);
}

TEST_F(BlobWriterTest, StoppingEndsCallersThatWaitForAPack) {
  options_.open_packs_max = 1;
  options_.uploads_in_flight_max = 1;
  options_.pack_target_bytes = 1;
  std::stop_source stop;
  CallContext ctx = ctx_;
  ctx.stop = stop.get_token();
  support::WatchedStore watched(store_);
  std::atomic<int> puts = 0;
  watched.before_put = [&](const std::string&) {
    if (++puts == 2) {
      stop.request_stop();
    }
  };
  auto repository = Repository::Open(ctx_, watched, kTestPassword, environment_);
  ASSERT_THAT(repository, IsOk());
  BlobWriter writer(ctx, **repository, options_);
  AddUntil(writer, absl::StatusCode::kCancelled);
}

TEST_F(BlobWriterTest, EveryPackProvesItselfAndHoldsOneType) {
  BlobWriter writer(ctx_, *repository_, options_);
  for (int i = 0; i < 40; ++i) {
    ASSERT_THAT(Add(writer, Blob(i), i % 3 == 0 ? BlobType::kTree : BlobType::kData), IsOk());
  }
  ASSERT_THAT(writer.Flush(), IsOk());
  std::unique_ptr<BlobCodec> codec = repository_->MakeCodec();
  std::size_t blobs = 0;
  for (const std::string& key : KeysBelow("data/")) {
    const PackId id = *Id::Parse(key.substr(8));
    const std::string bytes = store_.objects().at(key);
    const auto entries =
        VerifyPack(id, bytes, *codec, [](const PackEntry&, const absl::Status&) {});
    ASSERT_THAT(entries, IsOk());
    blobs += entries->size();
    for (const PackEntry& entry : *entries) {
      EXPECT_EQ(entry.handle.type, entries->front().handle.type);
    }
  }
  EXPECT_EQ(blobs, 40u);
}

TEST_F(BlobWriterTest, NothingIsWrittenTwice) {
  BlobWriter writer(ctx_, *repository_, options_);
  EXPECT_THAT(Add(writer, "blob"), IsOkAndHolds(true));
  EXPECT_THAT(Add(writer, "blob"), IsOkAndHolds(false));
  EXPECT_TRUE(writer.IsKnown({BlobType::kData, Id::Of("blob")}));
  EXPECT_FALSE(writer.IsKnown({BlobType::kTree, Id::Of("blob")}));
  EXPECT_THAT(Add(writer, "blob", BlobType::kTree), IsOkAndHolds(true));
  ASSERT_THAT(writer.Flush(), IsOk());
  EXPECT_EQ(writer.counts().data_blobs, 1);
  EXPECT_EQ(writer.counts().tree_blobs, 1);

  ASSERT_THAT(repository_->LoadIndex(ctx_), IsOk());
  options_.known = KnownIn(*repository_);
  BlobWriter second(ctx_, *repository_, options_);
  EXPECT_THAT(Add(second, "blob"), IsOkAndHolds(false));
  ASSERT_THAT(second.Flush(), IsOk());
  EXPECT_EQ(second.counts().stored_bytes, 0);
}

TEST_F(BlobWriterTest, BeyondItsMemoryItWritesAgain) {
  options_.remembered_blobs_max = 1;
  BlobWriter writer(ctx_, *repository_, options_);
  EXPECT_THAT(Add(writer, "a"), IsOkAndHolds(true));
  EXPECT_THAT(Add(writer, "b"), IsOkAndHolds(true));
  EXPECT_THAT(Add(writer, "b"), IsOkAndHolds(true));
  EXPECT_THAT(Add(writer, "a"), IsOkAndHolds(false));
  ASSERT_THAT(writer.Flush(), IsOk());
}

TEST_F(BlobWriterTest, AFewBlobsMakeOnePackOfEachType) {
  BlobWriter writer(ctx_, *repository_, options_);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] { EXPECT_THAT(Add(writer, Blob(i)), IsOk()); });
    }
  }
  ASSERT_THAT(Add(writer, "tree", BlobType::kTree), IsOk());
  ASSERT_THAT(writer.Flush(), IsOk());
  EXPECT_EQ(writer.counts().packs, 2);
  ExpectAllReadable(4);
}

TEST_F(BlobWriterTest, IndexesListOnlyWhatIsStored) {
  options_.index_blobs_target = 10;
  BlobWriter writer(ctx_, *repository_, options_);
  for (int i = 0; i < 60; ++i) {
    ASSERT_THAT(Add(writer, Blob(i)), IsOk());
  }
  ASSERT_THAT(writer.Flush(), IsOk());
  EXPECT_GT(writer.counts().index_files, 2);
  std::set<std::string> stored;
  std::set<PackId> listed;
  for (const support::StoreCall& call : store_.calls()) {
    if (call.operation == StoreOperation::kPut) {
      stored.insert(call.key);
    }
    if (call.operation == StoreOperation::kPut && call.key.starts_with("index/")) {
      const auto text =
          repository_->LoadFile(ctx_, FileKind::kIndex, *Id::Parse(call.key.substr(6)));
      ASSERT_THAT(text, IsOk());
      ASSERT_THAT(support::DecodeIndexText(*text,
                                           [&](const IndexedPack& pack) {
                                             EXPECT_TRUE(stored.contains(PackKey(pack.id)));
                                             EXPECT_TRUE(listed.insert(pack.id).second);
                                             return absl::OkStatus();
                                           }),
                  IsOk());
    }
  }
  ExpectAllReadable(60);
}

TEST_F(BlobWriterTest, TellsWhereTreesWentAndBlobsThatWereNamed) {
  BlobWriter writer(ctx_, *repository_, options_);
  writer.RememberLocation(Id::Of("manifest"));
  ASSERT_THAT(Add(writer, "data"), IsOk());
  ASSERT_THAT(Add(writer, "manifest"), IsOk());
  ASSERT_THAT(Add(writer, "tree", BlobType::kTree), IsOk());
  ASSERT_THAT(writer.Flush(), IsOk());
  ASSERT_THAT(writer.tree_locations(), SizeIs(2));
  for (const TreeLocation& place : writer.tree_locations()) {
    const BlobType type = place.tree == Id::Of("tree") ? BlobType::kTree : BlobType::kData;
    EXPECT_THAT(repository_->LoadBlobAt(ctx_, {type, place.tree}, place.location),
                IsOkAndHolds(type == BlobType::kTree ? "tree" : "manifest"));
  }
}

TEST_F(BlobWriterTest, TheFirstErrorEndsIt) {
  store_.AddFault({.operation = StoreOperation::kPut,
                   .key_prefix = "data/",
                   .last_call = 1'000,
                   .status = absl::ResourceExhaustedError("disk full")});
  BlobWriter writer(ctx_, *repository_, options_);
  absl::Status status;
  for (int i = 0; i < 1'000 && status.ok(); ++i) {
    status = Add(writer, Blob(i)).status();
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(Add(writer, "more"), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(writer.Flush(), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(KeysBelow("index/"), SizeIs(0));
}

TEST_F(BlobWriterTest, AWrongIdNeverLeaves) {
  BlobWriter writer(ctx_, *repository_, options_);
  EXPECT_THAT(writer.AddBlob(BlobType::kData, Id::Of("a"), "b"),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(writer.Flush(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(KeysBelow("data/"), SizeIs(0));
}

TEST_F(BlobWriterTest, StoppingEndsTheWait) {
  std::stop_source stop;
  CallContext ctx = ctx_;
  ctx.stop = stop.get_token();
  BlobWriter writer(ctx, *repository_, options_);
  ASSERT_THAT(Add(writer, "blob"), IsOk());
  stop.request_stop();
  EXPECT_THAT(writer.Flush(), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(BlobWriterTest, AFaultAtAnyCallLosesNothingSilently) {
  for (int64_t call = 1; call < 12; ++call) {
    store_.AddFault({.first_call = call,
                     .last_call = call,
                     .status = absl::UnavailableError("flaky"),
                     .after_effect = call % 2 == 0});
    BlobWriter writer(ctx_, *repository_, options_);
    absl::Status status;
    for (int i = 0; i < 60 && status.ok(); ++i) {
      status = Add(writer, Blob(i)).status();
    }
    status.Update(writer.Flush());
    store_.ClearFaults();
    if (status.ok()) {
      ExpectAllReadable(60);
    } else {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable));
    }
  }
}

TEST_F(BlobWriterTest, PacksOfADeadRunAreAdopted) {
  {
    BlobWriter writer(ctx_, *repository_, options_);
    for (int i = 0; i < 60; ++i) {
      ASSERT_THAT(Add(writer, Blob(i)), IsOk());
    }
    ASSERT_THAT(writer.Flush(), IsOk());
  }
  for (const std::string& key : KeysBelow("index/")) {
    store_.RemoveObject(key);  // As if it had died before.
  }
  const std::size_t packs = KeysBelow("data/").size();
  store_.SetObject(PackKey(Id::Of("broken")), "this is no pack");
  std::unique_ptr<Repository> next = Open();
  ASSERT_THAT(next->LoadIndex(ctx_), IsOk());
  EXPECT_THAT(AdoptOrphanPacks(ctx_, *next, nullptr), IsOkAndHolds(static_cast<int64_t>(packs)));
  EXPECT_THAT(AdoptOrphanPacks(ctx_, *next, nullptr), IsOkAndHolds(0));
  options_.known = KnownIn(*next);
  BlobWriter writer(ctx_, *next, options_);
  EXPECT_THAT(Add(writer, Blob(7)), IsOkAndHolds(false));
  ExpectAllReadable(60);
}

TEST_F(BlobWriterTest, StoredPacksAreIndexedAfterTenMinutes) {
  support::FakeClock clock;
  CallContext ctx = ctx_;
  ctx.clock = &clock;
  options_.uploads_in_flight_max =
      1;  // So that every pack but the last is listed when Add() returns.
  options_.pack_target_bytes = 1;
  BlobWriter writer(ctx, *repository_, options_);
  ASSERT_THAT(Add(writer, Blob(0)), IsOk());
  ASSERT_THAT(Add(writer, Blob(1)), IsOk());
  clock.Advance(kIndexAgeMax);
  ASSERT_THAT(Add(writer, Blob(2)), IsOk());
  ASSERT_THAT(Add(writer, Blob(3)), IsOk());
  EXPECT_EQ(writer.counts().index_files, 1);
  ASSERT_THAT(writer.Flush(), IsOk());
  EXPECT_EQ(writer.counts().index_files, 2);
  ExpectAllReadable(4);
}

TEST_F(BlobWriterTest, ACheckpointListsWhatIsStored) {
  options_.uploads_in_flight_max =
      1;  // So that every pack but the last is stored when Add() returns.
  BlobWriter writer(ctx_, *repository_, options_);
  for (int i = 0; i < 60; ++i) {
    ASSERT_THAT(Add(writer, Blob(i)), IsOk());
  }
  ASSERT_THAT(writer.Checkpoint(ctx_), IsOk());
  std::unique_ptr<Repository> next = Open();
  ASSERT_THAT(next->LoadIndex(ctx_), IsOk());
  EXPECT_THAT(support::Contains(next->index(), {BlobType::kData, Id::Of(Blob(0))}),
              support::IsOkAndHolds(true));
  ASSERT_THAT(writer.Flush(), IsOk());
  ExpectAllReadable(60);
}

}  // namespace
}  // namespace csidelta::repository::blob_writer_test
