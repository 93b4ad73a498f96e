// A repository that has lost packs: what a backup relies on is there, or is stored again.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "repository/index_rewriter.h"
#include "repository/lock.h"
#include "tests/incremental/volume_fixture.h"
#include "tests/support/fake_clock.h"

namespace csidelta::incremental::lost_packs_test {
namespace {

using repository::PackId;
using support::FakeBlockDevice;
using support::IsOk;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int64_t kChunk = VolumeFixture::kChunk;
constexpr int64_t kSize = 70 * kChunk;  // Of which each holds noise: five packs of data.

class LostPacksTest : public testing::Test {
 protected:
  LostPacksTest() : device_(kSize) {
    device_.Store(0, RandomBytes(kSize, 1));
    const auto full = volume_.FullBackup(device_);
    EXPECT_THAT(full, IsOk());
    first_ = full->snapshot;
    volume_.Reopen();
  }

  std::vector<PackId> DataPacks() {
    EXPECT_THAT(volume_.repository().LoadIndex(volume_.ctx()), IsOk());
    std::vector<PackId> packs = volume_.DataPacksWithoutManifest(first_);
    volume_.Reopen();
    return packs;
  }

  PackId Lose(std::size_t which = 1) {
    const PackId pack = DataPacks().at(which);
    volume_.store().RemoveObject(repository::PackKey(pack));
    return pack;
  }

  // As `repair index` of any restic leaves it.
  void DropFromIndex(const PackId& pack) {
    support::FakeClock clock;
    clock.SetAutoAdvance(true);
    CallContext ctx;
    ctx.clock = &clock;
    repository::LockOptions options;
    options.exclusive = true;
    options.refresh_by_thread = false;
    auto lock = repository::Lock::Acquire(ctx, volume_.repository(), options);
    ASSERT_THAT(lock, IsOk());
    ASSERT_THAT(repository::DropFromIndex(ctx, volume_.repository(), **lock,
                                          [&](const PackId& listed) { return listed == pack; }, {}),
                IsOk());
    ASSERT_THAT((*lock)->Release(ctx), IsOk());
    volume_.Reopen();
  }

  absl::StatusOr<BackupResult> Force(const repository::Id& parent) {
    FullScanSource source;
    UploadOptions options = volume_.OptionsOn(parent);
    options.incremental_asked = false;
    return volume_.Backup(device_, source, options);
  }

  absl::StatusOr<BackupResult> Nothing(const repository::Id& parent) {
    return volume_.IncrementalBackup(device_, parent, {});
  }

  int64_t Gets(const std::string& prefix) {
    int64_t count = 0;
    for (const support::StoreCall& call : volume_.store().calls()) {
      count += absl::StartsWith(call.key, prefix) &&
                       call.operation != support::StoreOperation::kPut &&
                       call.operation != support::StoreOperation::kList
                   ? 1
                   : 0;
    }
    return count;
  }

  void ExpectGood(const repository::Id& id) {
    volume_.ExpectRestores(id, device_.Load(0, kSize));
    volume_.Reopen();
  }

  VolumeFixture volume_;
  FakeBlockDevice device_;
  repository::Id first_;
};

TEST_F(LostPacksTest, AForcedBackupStoresWhatTheStoreHasLost) {
  Lose();
  const auto forced = Force(first_);
  ASSERT_THAT(forced, IsOk());
  EXPECT_EQ(Why(*forced), "forced-by-user");
  EXPECT_GT(forced->new_bytes, 10 * kChunk);
  EXPECT_LT(forced->new_bytes, 30 * kChunk);  // And nothing else.
  ExpectGood(forced->snapshot);
  ExpectGood(first_);
  // What was lost is no reason any more.
  const auto again = Nothing(forced->snapshot);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->mode_done, "incremental") << Why(*again);
}

TEST_F(LostPacksTest, AForcedBackupStoresWhatTheIndexLacks) {
  DropFromIndex(Lose());
  const auto forced = Force(first_);
  ASSERT_THAT(forced, IsOk());
  ExpectGood(forced->snapshot);
  ExpectGood(first_);
}

TEST_F(LostPacksTest, AForcedBackupOfASoundRepositoryStoresNoChunk) {
  const auto forced = Force(first_);
  ASSERT_THAT(forced, IsOk());
  EXPECT_EQ(forced->data_blobs, 1);
  EXPECT_EQ(forced->tree_blobs, 1);
}

TEST_F(LostPacksTest, AnIncrementOfALostPackIsAFullThatBringsItBack) {
  for (const bool dropped : {false, true}) {
    const PackId pack = Lose();
    if (dropped) {
      DropFromIndex(pack);
    }
    const auto increment = Nothing(first_);
    ASSERT_THAT(increment, IsOk());
    EXPECT_EQ(increment->mode_done, "full");
    EXPECT_THAT(Why(*increment), HasSubstr("parent-damaged"));
    EXPECT_EQ(increment->base, "");
    ExpectGood(increment->snapshot);
    first_ = increment->snapshot;
    DropFromIndex(pack);
  }
}

TEST_F(LostPacksTest, ALostPackIsAnErrorIfAFullIsNotAllowed) {
  Lose();
  ExtentListSource source({.base = first_.Hex(), .extents = {}});
  UploadOptions options = volume_.OptionsOn(first_);
  options.fail_on_fallback = true;
  EXPECT_TRUE(IsFallbackRefused(volume_.Backup(device_, source, options).status()));
}

// Also trees: the pack of all of them.
TEST_F(LostPacksTest, LostTreesAreStoredAgain) {
  EXPECT_THAT(volume_.repository().LoadIndex(volume_.ctx()), IsOk());
  const repository::BlobIndex& index = volume_.repository().index();
  std::vector<PackId> trees;
  for (uint32_t i = 0; i < index.pack_count(); ++i) {
    if (index.info(i).has_tree) {
      trees.push_back(index.PackAt(i));
    }
  }
  ASSERT_THAT(trees, Not(IsEmpty()));
  for (const PackId& pack : trees) {
    volume_.store().RemoveObject(repository::PackKey(pack));
  }
  volume_.Reopen();
  for (const bool forced : {true, false}) {
    const auto backup = forced ? Force(first_) : Nothing(first_);
    ASSERT_THAT(backup, IsOk());
    EXPECT_EQ(backup->mode_done, "full");
    ExpectGood(backup->snapshot);
  }
}

// A pack that only older snapshots need makes a backup look once, and is no reason for a full.
TEST_F(LostPacksTest, APackThatTheParentDoesNotNeedIsNoReason) {
  const std::vector<PackId> old_packs = DataPacks();
  device_.Store(0, RandomBytes(kSize, 2));
  const auto second = volume_.IncrementalBackup(device_, first_, {{.extent = {0, kSize}}});
  ASSERT_THAT(second, IsOk());
  volume_.store().RemoveObject(repository::PackKey(old_packs.at(1)));
  volume_.Reopen();
  repository::Id last = second->snapshot;
  for (const bool looks : {true, false}) {
    volume_.store().Restart();
    const auto next = Nothing(last);
    ASSERT_THAT(next, IsOk());
    EXPECT_EQ(next->mode_done, "incremental") << Why(*next);
    EXPECT_EQ(Gets("index/") > 0, looks);
    last = next->snapshot;
    volume_.Reopen();
  }
}

TEST_F(LostPacksTest, AnUnchangedImageIsComparedByTheIndex) {
  // Reads all there is, and compares with nothing.
  class WhatThereIs : public FullScanSource {
   public:
    absl::string_view name() const override { return "image-extents"; }
  };
  Lose();
  WhatThereIs source;
  UploadOptions options = volume_.OptionsOn(first_);
  const auto backup = volume_.Backup(device_, source, options);
  ASSERT_THAT(backup, IsOk());
  EXPECT_EQ(backup->mode_done, "incremental");
  ExpectGood(backup->snapshot);
}

TEST_F(LostPacksTest, ANewChainStoresWhatTheIndexOnlyLists) {
  Lose();
  EXPECT_THAT(volume_.repository().LoadIndex(volume_.ctx()), IsOk());
  FullScanSource source;
  UploadOptions options = VolumeFixture::Options();
  options.known = &volume_.repository().index();
  const auto backup = volume_.Backup(device_, source, options);
  ASSERT_THAT(backup, IsOk());
  ExpectGood(backup->snapshot);
}

TEST_F(LostPacksTest, WithoutAReadableIndexAFullStoresEverythingAgain) {
  for (const auto& [key, bytes] : volume_.store().objects()) {
    if (absl::StartsWith(key, "index/")) {
      volume_.store().SetObject(key, "x");
    }
  }
  EXPECT_THAT(Nothing(first_), IsOk());
  const auto forced = Force(first_);
  ASSERT_THAT(forced, IsOk());
  ExpectGood(forced->snapshot);
}

TEST_F(LostPacksTest, AParentThatIsNotKnownMakesAFullOfAListOfChanges) {
  ExtentListSource source({.base = first_.Hex(), .extents = {}});
  UploadOptions options = VolumeFixture::Options();
  options.parent_damage = absl::DataLossError("the file snapshots/x does not read");
  const auto backup = volume_.Backup(device_, source, options);
  ASSERT_THAT(backup, IsOk());
  EXPECT_EQ(backup->mode_done, "full");
  EXPECT_THAT(Why(*backup), HasSubstr("parent-damaged"));
  EXPECT_EQ(backup->data_blobs, 1);  // By the index all chunks are there.
  ExpectGood(backup->snapshot);
}

// What a look at the packs costs beside what an increment cost before: a listing of them and one of
// the index, and one request for each of the two packs that it puts.
TEST_F(LostPacksTest, LookingCostsAFewRequestsAndNoIndex) {
  volume_.store().Restart();
  const storage::StoreUsage before = volume_.Usage();
  const auto increment = Nothing(first_);
  ASSERT_THAT(increment, IsOk());
  EXPECT_EQ(Gets("index/"), 0);
  EXPECT_LE(increment->audit_requests, 4);
  EXPECT_LE(volume_.Usage().requests() - before.requests(), 19);  // 13 before.
}

}  // namespace
}  // namespace csidelta::incremental::lost_packs_test
