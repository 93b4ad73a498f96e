#include "incremental/mover/block_uploader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "incremental/mover/backup_result.h"
#include "incremental/sources/listing_failure.h"
#include "repository/volume_layout.h"
#include "tests/incremental/volume_fixture.h"

namespace csidelta::incremental::block_uploader_test {
namespace {

using repository::kLevel1Chunks;
using support::FakeBlockDevice;
using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kChunk = VolumeFixture::kChunk;

ListedExtent Data(int64_t offset, int64_t length) { return {.extent = {offset, length}}; }
ListedExtent Zero(int64_t offset, int64_t length) {
  return {.extent = {offset, length}, .kind = ExtentKind::kZero};
}

// A sparse volume over three level-1 trees, listed as allocated.
TEST(BlockUploaderTest, AVolumeOfManyLevel1TreesComesBack) {
  const int64_t level1_bytes = kLevel1Chunks * kChunk;
  const int64_t size = 2 * level1_bytes + 12345;
  VolumeFixture volume;
  FakeBlockDevice device(size);
  std::vector<ListedExtent> extents;
  for (const int64_t at : {int64_t{0}, level1_bytes - 100, level1_bytes + 5 * kChunk, size - 50}) {
    device.Store(at, RandomBytes(50, static_cast<uint64_t>(at)));
    extents.push_back(Data(at, 50));
  }
  ExtentListSource source = AllocatedList(extents);
  UploadOptions options = VolumeFixture::Options();
  options.audit_first_chunks = 0;  // Of holes, of which there are gigabytes.
  const auto full = volume.Backup(device, source, options);
  ASSERT_THAT(full, IsOk());
  EXPECT_EQ(Why(*full), "no-parent");
  EXPECT_EQ(full->read_bytes, 3 * kChunk + 12345);
  EXPECT_EQ(full->allocated_bytes, 3 * kChunk + 12345);
  ASSERT_EQ(full->audit.size(), 1u);
  EXPECT_EQ(full->audit[0].kind, "unlisted");

  FakeBlockDevice target(size, 512);
  target.Store(level1_bytes, RandomBytes(70'000, 9));
  target.Store(size - 100'000, RandomBytes(99'000, 10));
  ASSERT_THAT(volume.Restore(full->snapshot, target), IsOk());
  std::vector<Extent> touched = target.WrittenExtents();
  for (const Extent& extent : device.WrittenExtents()) {
    touched.push_back(extent);
  }
  EXPECT_LE(TotalBytes(MergeExtents(touched)), 4 * kChunk + KeptBackBytes(kChunk));
  for (const Extent& extent : touched) {
    EXPECT_EQ(target.Load(extent.offset_bytes, extent.length_bytes),
              device.Load(extent.offset_bytes, extent.length_bytes));
  }
}

// --- Increments ---

constexpr int64_t kSmall = 260 * kChunk + 777;  // Two leaves, a short tail.

struct SmallVolume {
  explicit SmallVolume(int64_t size_bytes = kSmall) : device(size_bytes) {
    for (int64_t at = 0; at < size_bytes; at += 7 * kChunk) {
      device.Store(
          at, RandomBytes(std::min<int64_t>(3000, size_bytes - at), static_cast<uint64_t>(at)));
    }
    first = volume.FullBackup(device);
    EXPECT_THAT(first, IsOk());
  }

  VolumeFixture volume;
  FakeBlockDevice device;
  absl::StatusOr<BackupResult> first = absl::UnknownError("not yet");
};

TEST(BlockUploaderTest, NothingChangedWritesNoTreeBelowTheRoot) {
  SmallVolume v;
  const auto again = v.volume.IncrementalBackup(v.device, v.first->snapshot, {});
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->mode_done, "incremental");
  EXPECT_EQ(Why(*again), "");
  EXPECT_EQ(again->base, v.first->snapshot.Hex());
  EXPECT_EQ(again->image_tree, v.first->image_tree);
  EXPECT_EQ(again->read_bytes, 0);
  EXPECT_EQ(again->changed_bytes, 0);
  EXPECT_EQ(again->tree_blobs, 1);
  EXPECT_EQ(again->data_blobs, 1);  // volume.json
  EXPECT_EQ(again->allocated_bytes, v.first->allocated_bytes);
  EXPECT_GT(again->audit_bytes, 0);
  EXPECT_FALSE(again->audit_mismatch);
}

TEST(BlockUploaderTest, AnIncrementReadsWhatIsListedAndNoIndex) {
  SmallVolume v;
  v.device.Store(257 * kChunk + 5, "changed");
  v.volume.Reopen();
  v.volume.store().Restart();
  const auto second =
      v.volume.IncrementalBackup(v.device, v.first->snapshot, {Data(257 * kChunk + 5, 7)});
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->read_bytes, kChunk);
  EXPECT_EQ(second->changed_bytes, kChunk);
  EXPECT_EQ(second->leaves_touched, 1);
  EXPECT_EQ(second->level1_touched, 1);
  EXPECT_EQ(second->data_blobs, 2);
  EXPECT_EQ(second->tree_blobs, 4);
  EXPECT_FALSE(v.volume.store().calls().empty());
  for (const support::StoreCall& call : v.volume.store().calls()) {
    EXPECT_FALSE(call.operation == support::StoreOperation::kGet &&
                 call.key.rfind("index/", 0) == 0)
        << call.key;
  }
  v.volume.ExpectRestores(second->snapshot, v.device.Load(0, kSmall));
}

TEST(BlockUploaderTest, WorksWithoutTheSidecar) {
  SmallVolume v;
  v.volume.store().RemoveObject(repository::SidecarKey(v.first->snapshot));
  v.volume.Reopen();
  v.device.Store(5, "changed");
  const auto second = v.volume.IncrementalBackup(v.device, v.first->snapshot, {Data(5, 7)});
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->mode_done, "incremental");
  v.volume.ExpectRestores(second->snapshot, v.device.Load(0, kSmall));
}

TEST(BlockUploaderTest, AListedChunkThatDidNotChangeIsNotWritten) {
  SmallVolume v;
  const auto second = v.volume.IncrementalBackup(v.device, v.first->snapshot, {Data(0, kSmall)});
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->read_bytes, kSmall);
  EXPECT_EQ(second->data_blobs, 1);
  EXPECT_EQ(second->image_tree, v.first->image_tree);
}

TEST(BlockUploaderTest, ARescanWithoutAListFindsTheSameTree) {
  SmallVolume v;
  v.device.Store(123'456, "changed");
  FullScanSource source;
  UploadOptions options = v.volume.OptionsOn(v.first->snapshot);
  const auto scan = v.volume.Backup(v.device, source, options);
  ASSERT_THAT(scan, IsOk());
  EXPECT_EQ(scan->mode_done, "full");
  EXPECT_EQ(Why(*scan), "no-changed-block-list");
  EXPECT_EQ(scan->data_blobs, 2);
  const auto list = v.volume.IncrementalBackup(v.device, v.first->snapshot, {Data(123'456, 7)});
  ASSERT_THAT(list, IsOk());
  EXPECT_EQ(list->image_tree, scan->image_tree);
}

// --- What a list is of ---

TEST(BlockUploaderTest, ChangesSinceNoParentAreNotWhatIsAllocated) {
  const std::string bytes = RandomBytes(kSmall, 6);
  VolumeFixture volume;
  FakeBlockDevice device(kSmall);
  device.Store(0, bytes);
  ExtentListSource nothing_changed({.base = std::string(64, 'a'), .extents = {}});
  const auto full = volume.Backup(device, nothing_changed, VolumeFixture::Options());
  ASSERT_THAT(full, IsOk());
  EXPECT_EQ(full->mode_done, "full");
  EXPECT_THAT(Why(*full), testing::StartsWith("list-base-mismatch: "));
  EXPECT_EQ(full->read_bytes, kSmall);
  EXPECT_FALSE(full->audit_mismatch) << "it is not left to the audit to find that out";
  volume.ExpectRestores(full->snapshot, bytes);
  UploadOptions options = VolumeFixture::Options();
  options.fail_on_fallback = true;
  EXPECT_TRUE(IsFallbackRefused(volume.Backup(device, nothing_changed, options).status()));
}

TEST(BlockUploaderTest, ChangesSinceAnotherBackupAreNoneSinceTheParent) {
  SmallVolume v;
  v.device.Store(17, "changed");
  const auto second = v.volume.IncrementalBackup(v.device, v.first->snapshot, {Data(17, 7)});
  ASSERT_THAT(second, IsOk());
  ExtentListSource since_first({.base = v.first->snapshot.Hex(), .extents = {}});
  v.device.Store(17, "altered");
  UploadOptions options = v.volume.OptionsOn(second->snapshot);
  const auto third = v.volume.Backup(v.device, since_first, options);
  ASSERT_THAT(third, IsOk());
  EXPECT_THAT(Why(*third), testing::StartsWith("list-base-mismatch: "));
  EXPECT_EQ(third->base, second->snapshot.Hex()) << "what did not change is not stored again";
  v.volume.ExpectRestores(third->snapshot, v.device.Load(0, kSmall));
}

TEST(BlockUploaderTest, BesideAParentAListOfWhatIsAllocatedLeavesOutZeros) {
  SmallVolume v;
  v.device.Store(0, std::string(kSmall, '\0'));
  v.device.Store(5 * kChunk, "data");
  ExtentListSource source = AllocatedList({Data(5 * kChunk, 4)});
  UploadOptions options = v.volume.OptionsOn(v.first->snapshot);
  const auto full = v.volume.Backup(v.device, source, options);
  ASSERT_THAT(full, IsOk());
  EXPECT_EQ(full->mode_done, "full");
  EXPECT_THAT(Why(*full), testing::StartsWith("no-changed-block-list: "));
  EXPECT_FALSE(full->audit_mismatch);
  v.volume.ExpectRestores(full->snapshot, v.device.Load(0, kSmall));
}

TEST(BlockUploaderTest, AFullThatWasAskedForReadsWhatAListLeavesOut) {
  VolumeFixture volume;
  FakeBlockDevice device(kSmall);
  device.Store(kSmall - 5, "end");
  ExtentListSource source = AllocatedList({});
  UploadOptions options = VolumeFixture::Options();
  options.incremental_asked = false;
  const auto full = volume.Backup(device, source, options);
  ASSERT_THAT(full, IsOk());
  EXPECT_EQ(full->read_bytes, kSmall);
  EXPECT_EQ(Why(*full), "forced-by-user");
}

// --- Audit ---

// A single chunk of data in two thousand, which the list leaves out: all are read, since they are
// fewer than would be drawn. An eighth of them would meet it once in eight times.
TEST(BlockUploaderTest, NearlyNothingInAFirstBackupIsLookedAtClosely) {
  constexpr int64_t kChunks = 2000;
  for (const bool listed_as_zero : {true, false}) {
    VolumeFixture volume;
    FakeBlockDevice device(kChunks * kChunk);
    device.Store(1234 * kChunk + 99, "data");
    ExtentListSource source =
        AllocatedList(listed_as_zero ? std::vector<ListedExtent>{Zero(0, kChunks * kChunk)}
                                     : std::vector<ListedExtent>{});
    const auto full = volume.Backup(device, source, VolumeFixture::Options());
    ASSERT_THAT(full, IsOk());
    EXPECT_TRUE(full->audit_mismatch);
    EXPECT_EQ(full->audit[0].chunks, kChunks);
    volume.ExpectRestores(full->snapshot, device);
  }
}

TEST(BlockUploaderTest, AnOmittedChangeThatTheAuditMeetsMakesAFullScan) {
  SmallVolume v;
  // Every chunk changed and none is listed: any sample meets it.
  const std::string other = RandomBytes(kSmall, 5);
  v.device.Store(0, other);
  const auto second = v.volume.IncrementalBackup(v.device, v.first->snapshot, {});
  ASSERT_THAT(second, IsOk());
  EXPECT_TRUE(second->audit_mismatch);
  EXPECT_EQ(second->mode_done, "full");
  EXPECT_EQ(Why(*second), "audit-mismatch");
  EXPECT_EQ(second->read_bytes, kSmall);
  v.volume.ExpectRestores(second->snapshot, other);
}

TEST(BlockUploaderTest, LiesAboutZerosAndAllocationAreMet) {
  const std::string bytes = RandomBytes(kSmall, 6);
  for (const bool listed_as_zero : {true, false}) {
    VolumeFixture volume;
    FakeBlockDevice device(kSmall);
    device.Store(0, bytes);
    ExtentListSource source = AllocatedList(
        listed_as_zero ? std::vector<ListedExtent>{Zero(0, kSmall)} : std::vector<ListedExtent>{});
    const auto full = volume.Backup(device, source, VolumeFixture::Options());
    ASSERT_THAT(full, IsOk());
    EXPECT_TRUE(full->audit_mismatch);
    EXPECT_EQ(full->audit[0].kind, listed_as_zero ? "zeroed" : "unlisted");
    volume.ExpectRestores(full->snapshot, bytes);
  }
}

TEST(BlockUploaderTest, AFullThatIsNotAllowedIsRefusedAndNothingIsCommitted) {
  SmallVolume v;
  v.device.Store(0, RandomBytes(kSmall, 5));
  ExtentListSource source({.base = v.first->snapshot.Hex(), .extents = {}});
  UploadOptions options = v.volume.OptionsOn(v.first->snapshot);
  options.fail_on_fallback = true;
  const auto refused = v.volume.Backup(v.device, source, options);
  EXPECT_THAT(refused,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("audit-mismatch")));
  EXPECT_TRUE(IsFallbackRefused(refused.status()));
  const auto snapshots = v.volume.repository().ListSnapshots(v.volume.ctx());
  ASSERT_THAT(snapshots, IsOk());
  EXPECT_EQ(snapshots->size(), 1u);
}

// --- Sources and parents that cannot be used ---

TEST(BlockUploaderTest, AListThatBreaksTheContractIsNotBelieved) {
  SmallVolume v;
  v.device.Store(17, "changed");
  const auto second =
      v.volume.IncrementalBackup(v.device, v.first->snapshot, {Data(17, 7), Data(kSmall - 1, 2)});
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->mode_done, "full");
  EXPECT_THAT(Why(*second), HasSubstr("list-refused: "));
  EXPECT_THAT(Why(*second), HasSubstr("ends past the end of the volume"));
  v.volume.ExpectRestores(second->snapshot, v.device.Load(0, kSmall));
}

// Lists a part, then fails.
class FailingSource : public ChangedBlockSource {
 public:
  explicit FailingSource(absl::Status status) : status_(std::move(status)) {}
  absl::string_view name() const override { return "failing"; }
  absl::Status ListExtents(const CallContext&, const DiffRequest&, ExtentSink sink) override {
    const absl::Status taken = sink(Data(0, 4096));
    return taken.ok() ? status_ : taken;
  }

 private:
  const absl::Status status_;
};

TEST(BlockUploaderTest, ASourceSaysWhetherReadingEverythingHelps) {
  SmallVolume v;
  v.device.Store(kSmall - 20, "changed");
  UploadOptions options = v.volume.OptionsOn(v.first->snapshot);
  FailingSource broken(
      WithFailure(absl::UnavailableError("no driver"), ListingFailure::kMetadataUnavailable));
  const auto full = v.volume.Backup(v.device, broken, options);
  ASSERT_THAT(full, IsOk());
  EXPECT_EQ(full->mode_done, "full");
  EXPECT_EQ(ToString(*full->why), "metadata-unavailable: no driver");
  v.volume.ExpectRestores(full->snapshot, v.device.Load(0, kSmall));
  FailingSource forbidden(
      WithFailure(absl::NotFoundError("no target"), ListingFailure::kPermanent));
  EXPECT_THAT(v.volume.Backup(v.device, forbidden, options),
              StatusIs(absl::StatusCode::kNotFound, "no target"));
}

// Asks a service that knows both what changed and what is allocated.
class TwoListsSource : public ChangedBlockSource {
 public:
  absl::string_view name() const override { return "two-lists"; }
  bool lists_allocated() const override { return true; }
  absl::Status ListExtents(const CallContext&, const DiffRequest& request,
                           ExtentSink sink) override {
    asked_.push_back(request.base.empty() ? "allocated" : "changed");
    for (const ListedExtent& extent : request.base.empty() ? allocated : changed) {
      RETURN_IF_ERROR(sink(extent));
    }
    return request.base.empty() ? of_allocated : of_changed;
  }

  const std::vector<std::string>& asked() const { return asked_; }

  std::vector<ListedExtent> changed;
  std::vector<ListedExtent> allocated;
  absl::Status of_changed;  // after its extents
  absl::Status of_allocated;

 private:
  std::vector<std::string> asked_;
};

// A volume with a hole in its middle, a parent of it, and a change.
struct VolumeWithHole {
  VolumeWithHole() : device(kSmall) {
    device.Store(0, RandomBytes(2 * kChunk, 8));
    device.Store(kSmall - kChunk, RandomBytes(kChunk, 9));
    FullScanSource everything;
    const auto first = volume.Backup(device, everything, VolumeFixture::Options());
    EXPECT_THAT(first, IsOk());
    options = VolumeFixture::Options();
    options.parent = volume.Stored(first->snapshot);
    device.Store(17, "changed");
    source.changed = {Data(17, 7)};
    source.allocated = {Data(0, 2 * kChunk), Data(kSmall - kChunk, kChunk)};
  }

  BackupResult Backup() {
    const auto result = volume.Backup(device, source, options);
    EXPECT_THAT(result, IsOk());
    volume.ExpectRestores(result->snapshot, device.Load(0, kSmall));
    return *result;
  }

  VolumeFixture volume;
  FakeBlockDevice device;
  TwoListsSource source;
  UploadOptions options;
};

TEST(BlockUploaderTest, ABaseThatIsGoneCostsTheReadingOfWhatIsAllocated) {
  for (const ListingFailure failure : {ListingFailure::kBaseGone, ListingFailure::kNotComparable}) {
    VolumeWithHole v;
    v.source.of_changed = WithFailure(absl::NotFoundError("no such base"), failure);
    const BackupResult full = v.Backup();
    EXPECT_THAT(v.source.asked(), ElementsAre("changed", "allocated"));
    EXPECT_EQ(full.mode_done, "full");
    EXPECT_EQ(Why(full), "base-snapshot-gone: no such base");
    EXPECT_EQ(full.source, "two-lists");
    EXPECT_NE(full.base, "");
    EXPECT_EQ(full.data_blobs, 2);  // The chunk that changed, and the manifest.
    // The first pass had read one chunk when the answer came.
    EXPECT_LE(full.read_bytes, 4 * kChunk);
  }
}

TEST(BlockUploaderTest, AnIncomparableParentCostsTheReadingOfWhatIsAllocated) {
  VolumeWithHole v;
  v.options.base_known = false;
  v.options.fail_on_fallback = true;
  const BackupResult full = v.Backup();
  EXPECT_THAT(v.source.asked(), ElementsAre("allocated"));
  EXPECT_THAT(Why(full), HasSubstr("no-changed-block-list"));
  EXPECT_NE(full.base, "") << "what is the same is not stored again";
  EXPECT_LE(full.read_bytes, 4 * kChunk);
  EXPECT_EQ(full.data_blobs, 2);
}

TEST(BlockUploaderTest, AParentThatWasOpenedIsNotOpenedAgain) {
  VolumeWithHole v;
  v.options.parent_record = absl::DataLossError("as the caller saw");
  const BackupResult full = v.Backup();
  EXPECT_EQ(Why(full), "parent-damaged: as the caller saw");
  EXPECT_THAT(v.source.asked(), ElementsAre("allocated"));
}

TEST(BlockUploaderTest, UnlistedChunksAreZeroIfAllocatedOnesAreListedBesideAParent) {
  VolumeWithHole v;
  v.source.of_changed = WithFailure(absl::NotFoundError("gone"), ListingFailure::kBaseGone);
  v.device.Store(kSmall - kChunk, std::string(kChunk, '\0'));
  v.source.allocated = {Data(0, 2 * kChunk)};
  v.options.audit_one_in = 1;
  EXPECT_FALSE(v.Backup().audit_mismatch);
}

TEST(BlockUploaderTest, ABaseThatWentWithItsVolumeGroupIsAReasonOfItsOwn) {
  VolumeWithHole v;
  v.options.parent->snapshot.tags = {"volume-group=shop/db", "volume-group-snapshot=velero-db"};
  v.source.of_changed = WithFailure(absl::NotFoundError("gone"), ListingFailure::kBaseGone);
  const BackupResult full = v.Backup();
  EXPECT_EQ(Why(full), "group-base-released: gone");
  EXPECT_THAT(v.source.asked(), ElementsAre("changed", "allocated"));
}

TEST(BlockUploaderTest, WithoutAnAnswerEverythingIsReadForTheReasonThatCameFirst) {
  const std::vector<std::pair<ListingFailure, std::string>> reasons = {
      {ListingFailure::kDriverHasNoService, "driver-has-no-metadata-service"},
      {ListingFailure::kMetadataUnavailable, "metadata-unavailable"},
      {ListingFailure::kMetadataVersion, "metadata-version"},
      {ListingFailure::kMalformedList, "list-refused"}};
  for (const auto& [failure, reason] : reasons) {
    VolumeWithHole v;
    v.source.of_changed = WithFailure(absl::UnavailableError("as it was"), failure);
    const BackupResult full = v.Backup();
    EXPECT_EQ(full.mode_done, "full");
    EXPECT_EQ(Why(full), absl::StrCat(reason, ": as it was"));
    EXPECT_EQ(full.source, "full-scan");
    v.options.fail_on_fallback = true;
    EXPECT_TRUE(IsFallbackRefused(v.volume.Backup(v.device, v.source, v.options).status()));
  }
  VolumeWithHole v;
  v.source.of_changed = WithFailure(absl::NotFoundError("gone"), ListingFailure::kBaseGone);
  v.source.of_allocated =
      WithFailure(absl::UnavailableError("no server there"), ListingFailure::kMetadataUnavailable);
  const BackupResult full = v.Backup();
  EXPECT_EQ(Why(full), "base-snapshot-gone: no server there");
  EXPECT_EQ(full.source, "full-scan");
}

TEST(BlockUploaderTest, AResizedVolumeIsListedAgain) {
  VolumeWithHole v;
  FakeBlockDevice larger(kSmall + kChunk);
  larger.Store(0, v.device.Load(0, kSmall));
  const auto full = v.volume.Backup(larger, v.source, v.options);
  ASSERT_THAT(full, IsOk());
  EXPECT_THAT(v.source.asked(), ElementsAre("allocated"));
  EXPECT_EQ(full->why->reason, FullReason::kVolumeResized);
  v.volume.ExpectRestores(full->snapshot, larger.Load(0, kSmall + kChunk));
  v.options.fail_on_fallback = true;
  EXPECT_TRUE(IsFallbackRefused(v.volume.Backup(larger, v.source, v.options).status()));
}

TEST(BlockUploaderTest, AParentWhoseTreesAreGoneMakesAFull) {
  SmallVolume v;
  v.volume.store().RemoveObject(repository::SidecarKey(v.first->snapshot));
  for (const auto& [key, bytes] : v.volume.store().objects()) {
    if (key.rfind("index/", 0) == 0) {
      v.volume.store().RemoveObject(key);
    }
  }
  v.volume.Reopen();
  v.device.Store(17, "changed");
  const auto second = v.volume.IncrementalBackup(v.device, v.first->snapshot, {Data(17, 7)});
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->mode_done, "full");
  EXPECT_EQ(second->base, "");
  EXPECT_THAT(Why(*second), HasSubstr("parent-damaged: "));
  v.volume.ExpectRestores(second->snapshot, v.device.Load(0, kSmall));
}

TEST(BlockUploaderTest, TheChunkSizeIsTheChains) {
  SmallVolume v;
  ExtentListSource source({.base = v.first->snapshot.Hex(), .extents = {}});
  UploadOptions options = v.volume.OptionsOn(v.first->snapshot);
  options.chunk_bytes = 0;
  const auto kept = v.volume.Backup(v.device, source, options);
  ASSERT_THAT(kept, IsOk());
  EXPECT_EQ(kept->chunk_bytes, kChunk);
  options.chunk_bytes = 2 * kChunk;
  EXPECT_THAT(v.volume.Backup(v.device, source, options),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--new-chain")));
  options.chunk_bytes = 100;  // Of no chain.
  EXPECT_THAT(v.volume.Backup(v.device, source, options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("power of two")));
  options.chunk_bytes = 2 * kChunk;
  options.new_chain = true;
  FullScanSource everything;
  const auto full = v.volume.Backup(v.device, everything, options);
  ASSERT_THAT(full, IsOk());
  EXPECT_EQ(Why(*full), "chunk-size-changed");
  EXPECT_EQ(full->chunk_bytes, 2 * kChunk);
  v.volume.ExpectRestores(full->snapshot, v.device.Load(0, kSmall));
}

TEST(BlockUploaderTest, ANewChainKeepsTheChunkSizeUnlessAnotherIsAskedFor) {
  // By its size alone this volume would have another.
  ASSERT_NE(repository::DefaultChunkBytes(kSmall), kChunk);
  SmallVolume v;
  ExtentListSource source({.base = v.first->snapshot.Hex(), .extents = {}});
  UploadOptions options = v.volume.OptionsOn(v.first->snapshot);
  options.chunk_bytes = 0;
  options.new_chain = true;
  const auto kept = v.volume.Backup(v.device, source, options);
  ASSERT_THAT(kept, IsOk());
  EXPECT_EQ(kept->chunk_bytes, kChunk);
  EXPECT_EQ(kept->mode_done, "incremental");
}

// Of an increment that finds half of what is listed unchanged.
TEST(BlockUploaderTest, ProgressIsOfWhatTheListNamesAndTheAuditOfItsSample) {
  SmallVolume v;
  v.device.Store(0, RandomBytes(4 * kChunk, 7));
  ExtentListSource source(
      {.base = v.first->snapshot.Hex(), .extents = {{{0, 8 * kChunk}, ExtentKind::kData}}});
  UploadOptions options = v.volume.OptionsOn(v.first->snapshot);
  std::vector<TransferProgress> told;
  options.on_progress = [&](const TransferProgress& progress) { told.push_back(progress); };
  const auto result = v.volume.Backup(v.device, source, options);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(told.front().total_bytes, v.device.info().size_bytes) << "no list was read yet";
  EXPECT_TRUE(told.front().is_at_most);
  const auto planned = std::find_if(told.begin(), told.end(), [](const TransferProgress& now) {
    return now.total_bytes <= 8 * kChunk;
  });
  ASSERT_NE(planned, told.end());
  EXPECT_EQ(planned->total_bytes, 8 * kChunk);
  EXPECT_TRUE(planned->is_at_most);
  const TransferProgress& last = told.back();
  EXPECT_EQ(last.stage, "commit");
  EXPECT_FALSE(last.is_at_most);
  EXPECT_EQ(last.done_bytes, last.total_bytes);
  EXPECT_GE(last.done_bytes, 4 * kChunk);
  EXPECT_LT(last.done_bytes, 5 * kChunk);
  EXPECT_EQ(last.sampled_bytes, last.to_sample_bytes);
  EXPECT_LT(last.sampled_bytes - result->audit_bytes, kChunk);
}

TEST(BlockUploaderTest, ARunThatFailsListsWhatItStoredForTheNext) {
  VolumeFixture volume;
  FakeBlockDevice device(kSmall);
  device.Store(0, RandomBytes(100 * kChunk, 1));
  // Packs have 4 MiB and three travel at a time: when the fifth fails, two are stored.
  volume.store().AddFault({.operation = support::StoreOperation::kPut,
                           .key_prefix = "data/",
                           .first_call = 5,
                           .last_call = 1000,
                           .status = absl::PermissionDeniedError("no more")});
  EXPECT_THAT(volume.FullBackup(device), StatusIs(absl::StatusCode::kPermissionDenied));
  volume.store().Restart();
  volume.Reopen();
  ASSERT_THAT(volume.repository().LoadIndex(volume.ctx()), IsOk());
  EXPECT_GE(volume.repository().index().pack_count(), 2u);
}

TEST(BlockUploaderTest, ABadSectorEndsTheBackupWithItsOffset) {
  VolumeFixture volume;
  FakeBlockDevice device(kSmall);
  device.BreakByte(10 * kChunk + 1);
  EXPECT_THAT(volume.FullBackup(device),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(std::to_string(10 * kChunk))));
}

TEST(BlockUploaderTest, AFenceThatFailsCommitsNothingOrTakesTheSnapshotBack) {
  for (const int failing : {1, 2}) {
    VolumeFixture volume;
    FakeBlockDevice device(kChunk);
    FullScanSource source;
    UploadOptions options = VolumeFixture::Options();
    int looks = 0;
    options.fence = [&](const CallContext&) {
      return ++looks < failing ? absl::OkStatus() : absl::AbortedError("lock lost");
    };
    EXPECT_THAT(
        volume.Backup(device, source, options),
        StatusIs(absl::StatusCode::kAborted, HasSubstr(failing == 2 ? "was removed again" : "")));
    const auto snapshots = volume.repository().ListSnapshots(volume.ctx());
    ASSERT_THAT(snapshots, IsOk());
    EXPECT_TRUE(snapshots->empty());
  }
}

TEST(BlockUploaderTest, AStopBehindTheSnapshotDoesNotTakeItBack) {
  VolumeFixture volume;
  FakeBlockDevice device(kChunk);
  FullScanSource source;
  std::stop_source stop;
  CallContext ctx = volume.ctx();
  ctx.stop = stop.get_token();
  UploadOptions options = VolumeFixture::Options();
  int looks = 0;
  options.fence = [&](const CallContext& fence_ctx) {
    if (++looks == 2) {
      stop.request_stop();
    }
    return fence_ctx.Check();
  };
  SeededRandom random(1);
  EXPECT_THAT(UploadBlocks(ctx, volume.repository(), device, source, random, options), IsOk());
  EXPECT_EQ(looks, 3);
}

TEST(BlockUploaderTest, AnEmptyVolumeIsRefused) {
  VolumeFixture volume;
  FakeBlockDevice device(0);
  EXPECT_THAT(volume.FullBackup(device), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(BlockUploaderTest, AStopEndsTheBackup) {
  VolumeFixture volume;
  FakeBlockDevice device(kSmall);
  std::stop_source stop;
  stop.request_stop();
  CallContext ctx;
  ctx.stop = stop.get_token();
  FullScanSource source;
  SeededRandom random(1);
  EXPECT_THAT(
      UploadBlocks(ctx, volume.repository(), device, source, random, VolumeFixture::Options()),
      StatusIs(absl::StatusCode::kCancelled));
}

TEST(BackupResultTest, HasTheFieldsThatAreContracts) {
  SmallVolume v;
  const Json json = ToJson(*v.first);
  for (const char* field :
       {"mode_asked", "mode_done", "reason", "reason_detail", "base", "logical_bytes",
        "allocated_bytes", "changed_bytes", "read_bytes", "audit_bytes", "new_bytes",
        "stored_bytes", "requests", "duration_ms", "peak_memory_bytes"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }
  EXPECT_EQ(GetInt(json, {"logical_bytes"}), kSmall);
  EXPECT_GT(GetInt(json, {"stored_bytes"}), 0);
  EXPECT_GT(GetInt(json, {"peak_memory_bytes"}), 0);
}

// --- Every call to the store fails once ---

TEST(BlockUploaderTest, AnyFailureOfTheStoreLeavesARepositoryThatTheNextRunUses) {
  constexpr int64_t kSize = 20 * kChunk + 1;
  SmallVolume v(kSize);
  v.device.Store(17, "changed");
  const auto objects = v.volume.store().objects();
  const std::string image = v.device.Load(0, kSize);
  for (int64_t call = 1;; ++call) {
    v.volume.store().SetObjects(objects);
    v.volume.Reopen();
    UploadOptions options = v.volume.OptionsOn(v.first->snapshot);
    ExtentListSource source({.base = v.first->snapshot.Hex(), .extents = {Data(17, 7)}});
    v.volume.store().Restart();
    v.volume.store().AddFault(
        {.first_call = call, .last_call = call, .status = absl::UnavailableError("fault")});
    const auto failed = v.volume.Backup(v.device, source, options);
    const bool reached = v.volume.store().call_count() >= call;
    v.volume.store().Restart();
    const auto second = v.volume.IncrementalBackup(v.device, v.first->snapshot, {Data(17, 7)});
    ASSERT_THAT(second, IsOk()) << "call " << call;
    v.volume.ExpectRestores(second->snapshot, image);
    if (failed.ok()) {
      v.volume.ExpectRestores(failed->snapshot, image);
    }
    if (!reached) {
      EXPECT_THAT(failed, IsOk());
      EXPECT_GT(call, 5);
      break;
    }
  }
}

// --- Parents that are of another volume ---

UploadOptions Restored(VolumeFixture& volume, const repository::Id& parent) {
  UploadOptions options = volume.OptionsOn(parent);
  options.incremental_asked = false;
  options.full_reason = FullReason::kRestored;
  return options;
}

TEST(BlockUploaderTest, ARestoredVolumeIsReadOnceAndStoresWhatDiffers) {
  SmallVolume v;
  v.device.Store(100 * kChunk, RandomBytes(3000, 99));
  v.volume.Reopen();
  ExtentListSource lies({.base = v.first->snapshot.Hex(), .extents = {}});  // Not asked.
  const auto result = v.volume.Backup(v.device, lies, Restored(v.volume, v.first->snapshot));
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(Why(*result), "restored");
  EXPECT_EQ(result->mode_asked, "incremental");
  EXPECT_EQ(result->mode_done, "full");
  EXPECT_EQ(result->base, v.first->snapshot.Hex());
  EXPECT_EQ(result->read_bytes, kSmall);
  EXPECT_EQ(result->data_blobs, 2) << "the chunk and volume.json";
  EXPECT_EQ(v.volume.Stored(result->snapshot).snapshot.parent, v.first->snapshot);
  v.volume.ExpectRestores(result->snapshot, v.device.Load(0, kSmall));
  const auto next = v.volume.IncrementalBackup(v.device, result->snapshot, {});
  ASSERT_THAT(next, IsOk());
  EXPECT_EQ(next->mode_done, "incremental");
  EXPECT_EQ(next->image_tree, result->image_tree);
}

TEST(BlockUploaderTest, OfARestoredVolumeAtLeastOnePercentIsReadAgain) {
  for (const int64_t chunks : {1, 3, 49, 50, 99, 100, 149, 260}) {
    SCOPED_TRACE(chunks);
    SmallVolume v(chunks * kChunk - 77);
    FullScanSource source;
    const auto result = v.volume.Backup(v.device, source, Restored(v.volume, v.first->snapshot));
    ASSERT_THAT(result, IsOk());
    ASSERT_EQ(result->audit.size(), 1U);
    EXPECT_EQ(result->audit[0].kind, "reread");
    EXPECT_GE(result->audit[0].chunks * 100, chunks);
    EXPECT_GT(result->audit_bytes, 0);
    EXPECT_EQ(result->image_tree, v.first->image_tree);
  }
}

// Other bytes from the second reader on.
class RestlessDevice : public FakeBlockDevice {
 public:
  using FakeBlockDevice::FakeBlockDevice;
  absl::StatusOr<std::unique_ptr<IoQueue>> OpenQueue(int depth) override {
    if (++queues_ > 1) {
      Store(5, "another");
    }
    return FakeBlockDevice::OpenQueue(depth);
  }

 private:
  int queues_ = 0;
};

TEST(BlockUploaderTest, ARestoredVolumeThatReadsOtherwiseTheSecondTimeIsNoBackup) {
  SmallVolume v(kChunk);
  RestlessDevice device(kChunk);
  FullScanSource source;
  EXPECT_THAT(
      v.volume.Backup(device, source, Restored(v.volume, v.first->snapshot)).status(),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("second reading of the volume differs")));
}

}  // namespace
}  // namespace csidelta::incremental::block_uploader_test
