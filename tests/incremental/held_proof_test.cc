// What a new backup relies on is proven, however little is known of it: without a sidecar, without
// an index file, in a copy, of a volume or a repository that is too large to be looked at as a
// whole each time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "incremental/mover/copy_note.h"
#include "repository/compression.h"
#include "repository/copier.h"
#include "repository/lock.h"
#include "repository/pruner.h"
#include "repository/repairer.h"
#include "repository/sealer.h"
#include "tests/incremental/volume_fixture.h"
#include "tests/support/fake_clock.h"

namespace csidelta::incremental::held_proof_test {
namespace {

using repository::Id;
using repository::Repository;
using support::FakeBlockDevice;
using support::IsOk;
using support::StatusIs;
using support::StoreOperation;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kChunk = VolumeFixture::kChunk;
constexpr int64_t kSize = 70 * kChunk;  // Of which each holds noise: five packs of data.

class HeldProofTest : public testing::Test {
 protected:
  HeldProofTest() : device_(kSize) {
    clock_.SetAutoAdvance(true);
    volume_.UseClock(clock_);
    device_.Store(0, RandomBytes(kSize, 1));
    const auto full = volume_.FullBackup(device_);
    EXPECT_THAT(full, IsOk());
    last_ = full->snapshot;
    volume_.Reopen();
  }

  static std::vector<std::string> Keys(VolumeFixture& volume, const std::string& prefix) {
    std::vector<std::string> keys;
    for (const auto& [key, bytes] : volume.store().objects()) {
      if (absl::StartsWith(key, prefix)) {
        keys.push_back(key);
      }
    }
    return keys;
  }

  // What a lost pack is called; the second where it has volume.json as well.
  static constexpr char kLost[] = "is not stored|no such object";

  // A full pack: of chunks, and perhaps of volume.json.
  static void LosePack(VolumeFixture& volume, std::size_t which = 1) {
    std::vector<std::string> packs;
    for (const auto& [key, bytes] : volume.store().objects()) {
      if (absl::StartsWith(key, "data/") && std::ssize(bytes) > 15 * kChunk) {
        packs.push_back(key);
      }
    }
    volume.store().RemoveObject(packs.at(which));
  }
  void LosePack() { LosePack(volume_); }

  // Writes the sidecar again as a version had it that does not tell what is needed.
  void MakeSidecarOld(int version) {
    auto locator = volume_.repository().LoadLocator(volume_.ctx(), last_);
    ASSERT_THAT(locator, IsOk());
    locator->needs.reset();
    std::string text = locator->Encode();
    text.resize(text.size() - 4);
    text[4] = static_cast<char>(version);
    text.erase(20, Id::kBytes);  // The volume, which only a bound one has.
    if (version == 3) {
      text += std::string(8, '\0');
    }
    repository::Sealer sealer(volume_.repository().master_key(),
                              *volume_.repository().environment().random);
    volume_.store().SetObject(
        repository::SidecarKey(last_),
        sealer.Seal(absl::StrCat("\2", repository::Compressor(1).Compress(text))));
  }

  absl::StatusOr<BackupResult> Next(std::vector<ListedExtent> extents = {}) {
    volume_.Reopen();
    volume_.store().Restart();
    ExtentListSource source({.base = last_.Hex(), .extents = std::move(extents)});
    UploadOptions options = volume_.OptionsOn(last_);
    options.proof_limits = limits_;
    auto result = volume_.Backup(device_, source, options);
    if (result.ok()) {
      last_ = result->snapshot;
    }
    return result;
  }

  // Changes a chunk as well.
  absl::StatusOr<BackupResult> Change(int64_t chunk) {
    device_.Store(chunk * kChunk, RandomBytes(kChunk, ++seed_));
    return Next({{.extent = {chunk * kChunk, kChunk}}});
  }

  void ExpectIncremental(const absl::StatusOr<BackupResult>& result) {
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->mode_done, "incremental") << Why(*result);
    EXPECT_THAT(result->warnings, IsEmpty());
  }
  void ExpectFull(const absl::StatusOr<BackupResult>& result, const std::string& detail) {
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->mode_done, "full");
    EXPECT_THAT(Why(*result),
                testing::AllOf(HasSubstr("parent-damaged"), testing::ContainsRegex(detail)));
    volume_.ExpectRestores(result->snapshot, device_.Load(0, kSize));
    ExpectIncremental(Next());
    EXPECT_FALSE(LoadedIndex());
  }

  bool LoadedIndex() {
    const std::vector<support::StoreCall> calls = volume_.store().calls();
    return std::any_of(calls.begin(), calls.end(), [](const support::StoreCall& call) {
      return call.operation == StoreOperation::kGet && absl::StartsWith(call.key, "index/");
    });
  }
  // Listings of one folder of data/, or of all of it.
  int64_t Listings(bool of_folders) {
    const std::vector<support::StoreCall> calls = volume_.store().calls();
    return std::count_if(calls.begin(), calls.end(), [&](const support::StoreCall& call) {
      return call.operation == StoreOperation::kList && absl::StartsWith(call.key, "data/") &&
             (call.key != "data/") == of_folders;
    });
  }

  template <typename Work>
  void WithLock(VolumeFixture& volume, bool exclusive, Work work) {
    volume.Reopen();
    repository::LockOptions options;
    options.exclusive = exclusive;
    options.refresh_by_thread = false;
    CallContext ctx;
    ctx.clock = &clock_;
    const auto lock = repository::Lock::Acquire(ctx, volume.repository(), options);
    ASSERT_THAT(lock, IsOk());
    work(ctx, **lock);
    EXPECT_THAT((*lock)->Release(ctx), IsOk());
    volume.Reopen();
  }

  repository::SnapshotNeeds Needs() {
    const auto locator = volume_.repository().LoadLocator(volume_.ctx(), last_);
    EXPECT_THAT(locator, IsOk());
    return locator.ok() ? locator->needs.value_or(repository::SnapshotNeeds())
                        : repository::SnapshotNeeds();
  }

  support::FakeClock clock_;
  VolumeFixture volume_;
  FakeBlockDevice device_;
  Id last_;
  repository::ProofLimits limits_;
  uint64_t seed_ = 100;
};

TEST_F(HeldProofTest, WithoutASidecarEverythingIsLookedUp) {
  volume_.store().RemoveObject(repository::SidecarKey(last_));
  LosePack();
  ExpectFull(Change(60), kLost);
}

TEST_F(HeldProofTest, ASidecarOfAnOlderVersionDoesNotTellWhatIsNeeded) {
  for (const int version : {2, 3}) {
    MakeSidecarOld(version);
    LosePack();
    ExpectFull(Change(60), kLost);
  }
}

TEST_F(HeldProofTest, AnUnknownHolderIsLookedUpOnce) {
  for (const int version : {2, 3, 0}) {
    if (version == 0) {
      volume_.store().RemoveObject(repository::SidecarKey(last_));
    } else {
      MakeSidecarOld(version);
    }
    ExpectIncremental(Next());
    EXPECT_TRUE(LoadedIndex());
    ExpectIncremental(Next());  // May read the index for where trees lie.
    EXPECT_TRUE(Needs().packs.count() > 0);
  }
  LosePack();
  ExpectFull(Change(60), kLost);
}

TEST_F(HeldProofTest, ASidecarThatIsNotStoredIsAWarning) {
  volume_.store().Restart();
  volume_.Reopen();
  ExtentListSource source({.base = last_.Hex(), .extents = {}});
  UploadOptions options = volume_.OptionsOn(last_);
  volume_.store().AddFault({.operation = StoreOperation::kPut,
                            .key_prefix = "aux/",
                            .last_call = 100,
                            .status = absl::PermissionDeniedError("no")});
  const auto result = volume_.Backup(device_, source, options);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->mode_done, "incremental");
  EXPECT_THAT(result->warnings, Contains(HasSubstr("sidecar of this backup could not be stored")));
  last_ = result->snapshot;
  LosePack();
  ExpectFull(Change(60), kLost);
}

TEST_F(HeldProofTest, APackThatNoIndexFileListsIsMissing) {
  ExpectIncremental(Change(5));
  for (const std::string& file : Keys(volume_, "index/")) {
    const std::string bytes = volume_.store().objects().at(file);
    volume_.store().RemoveObject(file);
    ExpectFull(Change(60), "is in no index");
  }
}

TEST_F(HeldProofTest, AnIndexThatWasRepairedIsGoodAgain) {
  volume_.store().RemoveObject(Keys(volume_, "index/").front());
  WithLock(volume_, true, [&](const CallContext& ctx, repository::Lock& lock) {
    EXPECT_THAT(repository::RepairIndex(ctx, volume_.repository(), lock, {}), IsOk());
  });
  ExpectIncremental(Change(60));
  EXPECT_TRUE(LoadedIndex());
  ExpectIncremental(Next());
  EXPECT_FALSE(LoadedIndex());
  volume_.ExpectRestores(last_, device_.Load(0, kSize));
}

TEST_F(HeldProofTest, ARestoreOfWhatNoIndexListsSaysWhatToRun) {
  volume_.store().RemoveObject(Keys(volume_, "index/").front());
  FakeBlockDevice target(kSize);
  EXPECT_THAT(volume_.Restore(last_, target).status(),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("is in no index; run csi-delta repair index")));
}

// It replaces packs and index files, and loses nothing.
TEST_F(HeldProofTest, APruneIsNoReasonForAFullBackup) {
  for (const int64_t chunk : {1, 2, 3, 17, 18, 40}) {
    ExpectIncremental(Change(chunk));
  }
  WithLock(volume_, true, [&](const CallContext& ctx, repository::Lock& lock) {
    Repository& repository = volume_.repository();
    const auto all = repository.ListSnapshots(ctx);
    ASSERT_THAT(all, IsOk());
    for (const repository::StoredSnapshot& stored : *all) {
      if (stored.id != last_) {
        ASSERT_THAT(repository.RemoveFile(ctx, repository::FileKind::kSnapshot, stored.id), IsOk());
      }
    }
    const repository::PruneOptions options = {.unused_max = {.percent = 0},
                                              .pack_target_bytes = int64_t{4} << 20};
    const auto plan = repository::PlanPrune(ctx, repository, options);
    ASSERT_THAT(plan, IsOk());
    EXPECT_THAT(plan->repack, testing::Not(IsEmpty()));
    EXPECT_THAT(repository::RunPrune(ctx, repository, lock, *plan, options), IsOk());
  });
  ExpectIncremental(Change(60));
  EXPECT_TRUE(LoadedIndex());
  ExpectIncremental(Change(61));
  EXPECT_FALSE(LoadedIndex());
  volume_.ExpectRestores(last_, device_.Load(0, kSize));
  LosePack();
  ExpectFull(Change(60), kLost);
}

// A pack leaves the needs only when the trees have shown that it is not needed. The volume has more
// than 4096 leaves, beyond which an earlier version looked at what its audit drew.
TEST_F(HeldProofTest, EveryLeafOfALargeVolumeIsCheckedEachTime) {
  constexpr int64_t kApart = 1025 * repository::kLeafChunks * kChunk;
  FakeBlockDevice large(4 * kApart);
  std::vector<ListedExtent> data;
  for (int64_t offset = 0; offset < 4 * kApart; offset += kApart) {
    large.Store(offset, RandomBytes(20 * kChunk, static_cast<uint64_t>(offset) + 1));
    data.push_back({.extent = {offset, 20 * kChunk}});
  }
  VolumeFixture volume;
  UploadOptions options = VolumeFixture::Options();
  options.audit_one_in = int64_t{1} << 40;  // What else might notice it.
  options.audit_first_chunks = 0;
  ExtentListSource allocated = AllocatedList(data);
  const auto full = volume.Backup(large, allocated, options);
  ASSERT_THAT(full, IsOk());
  LosePack(volume, 4);
  options.fail_on_fallback = true;  // A full one would read all of it.
  for (int run = 0; run < 2; ++run) {
    volume.Reopen();
    options.parent = volume.Stored(full->snapshot);
    ExtentListSource changed({.base = full->snapshot.Hex(), .extents = {}});
    const absl::Status refused = volume.Backup(large, changed, options).status();
    EXPECT_TRUE(IsFallbackRefused(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), testing::ContainsRegex(kLost));
  }
}

TEST_F(HeldProofTest, AboveALimitPacksAreListedOnceADay) {
  limits_.packs_listed_at_once = 3;
  ExpectIncremental(Next());
  EXPECT_EQ(Listings(false), 1) << "never listed before";
  LosePack();
  ExpectIncremental(Change(60));
  EXPECT_EQ(Listings(true) + Listings(false), 0) << "this is the day in which a loss may go unseen";
  clock_.Advance(absl::Hours(25));
  ExpectFull(Change(61), kLost);
}

TEST_F(HeldProofTest, ATimeThatIsYetToComeIsNoListing) {
  limits_.packs_listed_at_once = 3;
  clock_.Advance(absl::Hours(100));
  ExpectIncremental(Next());
  clock_.Advance(-absl::Hours(50));
  LosePack();
  ExpectFull(Change(61), kLost);
}

// Others' packs make a repository large.
TEST_F(HeldProofTest, ARepositoryThatGrowsBeyondTheLimitIsListedOnceADay) {
  limits_.packs_listed_at_once = 20;
  ExpectIncremental(Next());
  EXPECT_EQ(Listings(false), 1);
  EXPECT_EQ(Listings(true), 0);
  for (int i = 0; i < 50; ++i) {
    volume_.store().SetObject(repository::PackKey(Id::Of(absl::StrCat(i))), "");
  }
  ExpectIncremental(Next());
  EXPECT_EQ(Listings(false), 1) << "the last listing is not old";
  clock_.Advance(absl::Hours(25));
  ExpectIncremental(Next());
  EXPECT_EQ(Listings(false), 1);
  LosePack();
  clock_.Advance(absl::Hours(25));
  ExpectFull(Change(61), kLost);
}

TEST_F(HeldProofTest, NeedsOfManyPacksLieInParts) {
  limits_.recent_ids_max = 4;
  for (int64_t chunk = 0; chunk < 12; ++chunk) {
    ExpectIncremental(Change(chunk));
    EXPECT_FALSE(LoadedIndex());
    const repository::SnapshotNeeds needs = Needs();
    EXPECT_LE(needs.packs.recent.size(), 4u);
    EXPECT_GE(needs.packs.count(), 7 + 2 * chunk);
  }
  EXPECT_THAT(Needs().packs.base, SizeIs(1));
  EXPECT_THAT(Needs().index_files.base, SizeIs(1));
  LosePack();
  ExpectFull(Change(60), kLost);
}

TEST_F(HeldProofTest, PartsThatAreGoneAreNotKnown) {
  limits_.recent_ids_max = 4;
  ExpectIncremental(Change(1));
  for (const std::string& key : Keys(volume_, repository::kIdSetFolder)) {
    volume_.store().RemoveObject(key);
  }
  ExpectIncremental(Change(2));
  EXPECT_TRUE(LoadedIndex());
  ExpectIncremental(Change(3));
  EXPECT_FALSE(LoadedIndex());
  for (const std::string& key : Keys(volume_, repository::kIdSetFolder)) {
    volume_.store().RemoveObject(key);
  }
  LosePack();
  ExpectFull(Change(60), kLost);
}

// A backup of all, and one that is resumed, rely on packs of before.
TEST_F(HeldProofTest, APackThatIsLostWhileABackupRunsEndsIt) {
  volume_.Reopen();
  FullScanSource source;
  UploadOptions options = volume_.OptionsOn(last_);
  options.incremental_asked = false;
  options.on_progress = [&, is_lost = false](const TransferProgress& progress) mutable {
    if (progress.stage == "audit" && !std::exchange(is_lost, true)) {
      LosePack();
    }
  };
  EXPECT_THAT(volume_.Backup(device_, source, options),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("gone since it began")));
  EXPECT_THAT(Keys(volume_, "snapshots/"), SizeIs(1));
}

TEST_F(HeldProofTest, AResumedBackupStoresWhatWasLostMeanwhile) {
  VolumeFixture volume;
  UploadOptions options = VolumeFixture::Options();
  options.immutable_identity = "the snapshot";
  FullScanSource source;
  volume.store().AddFault({.operation = StoreOperation::kPut,
                           .key_prefix = "snapshots/",
                           .last_call = 100,
                           .status = absl::PermissionDeniedError("no")});
  EXPECT_FALSE(volume.Backup(device_, source, options).ok());
  volume.store().Restart();
  LosePack(volume);
  volume.Reopen();
  ASSERT_THAT(volume.repository().LoadIndex(volume.ctx()), IsOk());
  options.known = &volume.repository().index();
  const auto again = volume.Backup(device_, source, options);
  ASSERT_THAT(again, IsOk());
  EXPECT_GT(again->resumed_bytes, 0);
  EXPECT_GT(again->new_bytes, 10 * kChunk);
  volume.ExpectRestores(again->snapshot, device_.Load(0, kSize));
}

class CopiedVolumeTest : public HeldProofTest {
 protected:
  CopiedVolumeTest() { EmptyCopy(); }

  // Another repository, without any snapshot.
  void EmptyCopy() {
    support::FakeObjectStore store;
    repository::Environment environment;
    environment.scrypt = support::kCheapScrypt;
    EXPECT_THAT(Repository::Init(CallContext(), store, "password", environment), IsOk());
    copy_.store().SetObjects(store.objects());
    copy_.Reopen();
  }

  // The newest snapshot of volume_, and all before it.
  std::vector<repository::CopiedSnapshot> Copy(bool with_sidecars = true) {
    std::vector<repository::CopiedSnapshot> copied;
    volume_.Reopen();
    WithLock(copy_, false, [&](const CallContext& ctx, repository::Lock& lock) {
      repository::CopyOptions options;
      options.writer.pack_target_bytes = int64_t{4} << 20;
      if (with_sidecars) {
        options.note = [&](const CallContext& note_ctx, const repository::CopyToNote& note) {
          return RecordCopy(note_ctx, volume_.repository(), copy_.repository(), note);
        };
      }
      auto done = repository::CopySnapshots(ctx, volume_.repository(), copy_.repository(), lock, {},
                                            options);
      EXPECT_THAT(done, IsOk());
      copied = done.ok() ? *std::move(done) : copied;
    });
    for (const repository::CopiedSnapshot& one : copied) {
      EXPECT_THAT(one.not_noted, IsOk());
    }
    return copied;
  }

  absl::StatusOr<BackupResult> NextInCopy(const Id& parent, int64_t chunk) {
    copy_.store().Restart();
    copy_.Reopen();
    device_.Store(chunk * kChunk, RandomBytes(kChunk, ++seed_));
    ExtentListSource source(
        {.base = parent.Hex(), .extents = {{.extent = {chunk * kChunk, kChunk}}}});
    UploadOptions options = copy_.OptionsOn(parent);
    return copy_.Backup(device_, source, options);
  }

  bool CopyLoadedIndex() {
    const std::vector<support::StoreCall> calls = copy_.store().calls();
    return std::any_of(calls.begin(), calls.end(), [](const support::StoreCall& call) {
      return call.operation == StoreOperation::kGet && absl::StartsWith(call.key, "index/");
    });
  }

  VolumeFixture copy_{2};
};

TEST_F(CopiedVolumeTest, AnIncrementOfACopyThatLostAPackIsAFull) {
  for (const bool with_sidecars : {true, false}) {
    EmptyCopy();
    const Id copy = Copy(with_sidecars).back().copy;
    LosePack(copy_);
    const auto next = NextInCopy(copy, 60);
    ASSERT_THAT(next, IsOk());
    EXPECT_EQ(next->mode_done, "full");
    EXPECT_THAT(Why(*next), HasSubstr("parent-damaged"));
    copy_.ExpectRestores(next->snapshot, device_.Load(0, kSize));
    device_.Store(60 * kChunk, RandomBytes(kChunk, 1));  // For the next round.
    ASSERT_THAT(Next({{.extent = {60 * kChunk, kChunk}}}), IsOk());
  }
}

TEST_F(CopiedVolumeTest, AnIncrementOfACopyNeedsNoIndex) {
  ExpectIncremental(Change(3));
  ExpectIncremental(Change(30));
  Id parent = Copy().back().copy;
  for (const int64_t chunk : {3, 60}) {
    const auto next = NextInCopy(parent, chunk);
    ASSERT_THAT(next, IsOk());
    EXPECT_EQ(next->mode_done, "incremental") << Why(*next);
    EXPECT_FALSE(CopyLoadedIndex());
    parent = next->snapshot;
  }
  copy_.ExpectRestores(parent, device_.Load(0, kSize));
}

TEST_F(CopiedVolumeTest, ASidecarOfACopyThatIsMissingIsMadeByTheNextRun) {
  const Id copy = Copy(/*with_sidecars=*/false).back().copy;
  EXPECT_THAT(Keys(copy_, repository::SidecarKey(copy)), IsEmpty());
  EXPECT_TRUE(Copy().back().was_there);
  ASSERT_THAT(NextInCopy(copy, 9), IsOk());
  EXPECT_FALSE(CopyLoadedIndex());
}

TEST_F(CopiedVolumeTest, ACopyRunsOnWhatTheTargetStores) {
  Copy();
  LosePack(copy_);
  ExpectIncremental(Change(60));
  const auto copied = Copy();
  ASSERT_THAT(copied, SizeIs(2));
  EXPECT_THAT(copied.front().was_damaged, StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(copied.front().not_mended, IsOk());
  copy_.ExpectRestores(copied.front().copy, RandomBytes(kSize, 1));
  copy_.ExpectRestores(copied.back().copy, device_.Load(0, kSize));
  for (const auto& again : Copy()) {
    EXPECT_TRUE(again.was_there);
    EXPECT_THAT(again.was_damaged, IsOk());
  }
}

}  // namespace
}  // namespace csidelta::incremental::held_proof_test
