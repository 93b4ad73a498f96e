// A repository in which a check found packs damaged that are stored in their whole length: a backup
// that is told of them does not rely on them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "repository/checker.h"
#include "repository/lock.h"
#include "repository/repairer.h"
#include "repository/stored_packs.h"
#include "tests/incremental/volume_fixture.h"
#include "tests/support/fake_clock.h"

namespace csidelta::incremental::damaged_packs_test {
namespace {

using repository::PackId;
using support::FakeBlockDevice;
using support::IsOk;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int64_t kChunk = VolumeFixture::kChunk;
constexpr int64_t kSize = 70 * kChunk;  // Of which each holds noise: five packs of data.

class DamagedPacksTest : public testing::Test {
 protected:
  DamagedPacksTest() : device_(kSize) {
    device_.Store(0, RandomBytes(kSize, 1));
    const auto full = volume_.FullBackup(device_);
    EXPECT_THAT(full, IsOk());
    first_ = full->snapshot;
    volume_.Reopen();
  }

  // Those of data without volume.json, or those of trees.
  std::vector<PackId> Packs(bool of_trees = false) {
    EXPECT_THAT(volume_.repository().LoadIndex(volume_.ctx()), IsOk());
    const repository::BlobIndex& index = volume_.repository().index();
    std::vector<PackId> packs;
    for (uint32_t i = 0; of_trees && i < index.pack_count(); ++i) {
      if (index.info(i).has_tree) {
        packs.push_back(index.PackAt(i));
      }
    }
    if (!of_trees) {
      packs = volume_.DataPacksWithoutManifest(first_);
    }
    volume_.Reopen();
    return packs;
  }

  // Bits that no listing shows.
  void Damage(const PackId& pack) {
    const std::string key = repository::PackKey(pack);
    std::string bytes = volume_.store().objects().at(key);
    for (std::size_t at = 0; at < bytes.size(); at += 1000) {
      bytes[at] = static_cast<char>(bytes[at] ^ 1);
    }
    volume_.store().SetObject(key, bytes);
  }

  static UploadOptions Told(std::vector<PackId> packs) {
    UploadOptions options = VolumeFixture::Options();
    options.damage = repository::DistrustedPacks{.packs = {packs.begin(), packs.end()}};
    return options;
  }
  // An increment of nothing, or another backup that asks for all.
  absl::StatusOr<BackupResult> Next(UploadOptions options, const repository::Id& parent,
                                    bool forced = false) {
    volume_.Reopen();
    options.parent = volume_.Stored(parent);
    options.incremental_asked = !forced;
    ExtentListSource source({.base = parent.Hex(), .extents = {}});
    return volume_.Backup(device_, source, options);
  }

  repository::CheckReport Check() {
    volume_.Reopen();
    const auto report = repository::CheckRepository(volume_.ctx(), volume_.repository(),
                                                    {.read_data = repository::ReadEverything{}});
    EXPECT_THAT(report, IsOk());
    return report.value_or(repository::CheckReport());
  }
  void ExpectGood(const repository::Id& id) {
    EXPECT_THAT(Check().unrestorable, Not(Contains(id)));
    volume_.ExpectRestores(id, device_.Load(0, kSize));
    volume_.Reopen();
  }

  VolumeFixture volume_;
  FakeBlockDevice device_;
  repository::Id first_;
};

// Why backups have to be told.
TEST_F(DamagedPacksTest, PacksNotReportedAsDamagedAreReliedOn) {
  const PackId pack = Packs().at(1);
  Damage(pack);
  for (const bool forced : {false, true}) {
    const auto next = Next(VolumeFixture::Options(), first_, forced);
    ASSERT_THAT(next, IsOk());
    EXPECT_THAT(Check().unrestorable, Contains(next->snapshot));
  }
  EXPECT_THAT(Check().damaged_packs, ElementsAre(pack));
}

TEST_F(DamagedPacksTest, AnIncrementThatNeedsADamagedPackIsAFullThatStoresItAgain) {
  const PackId pack = Packs().at(1);
  Damage(pack);
  EXPECT_THAT(Check().damaged_packs, ElementsAre(pack));
  const auto next = Next(Told({pack}), first_);
  ASSERT_THAT(next, IsOk());
  EXPECT_EQ(next->mode_done, "full");
  EXPECT_EQ(next->base, "");
  EXPECT_THAT(Why(*next),
              AllOf(HasSubstr("parent-damaged: data blob "),
                    HasSubstr("pack " + pack.ShortHex() + ", which a check found damaged")));
  EXPECT_GT(next->new_bytes, 10 * kChunk);
  EXPECT_LT(next->new_bytes, 30 * kChunk) << "and nothing else";
  ExpectGood(next->snapshot);
  ExpectGood(first_);  // What the volume still has mends it.
}

// As the runbook has it: after the backup, a repair loses nothing that the volume still has.
TEST_F(DamagedPacksTest, ARepairAfterTheBackupLosesNothing) {
  const PackId pack = Packs().at(1);
  Damage(pack);
  const auto next = Next(Told({pack}), first_);
  ASSERT_THAT(next, IsOk());
  support::FakeClock clock;
  clock.SetAutoAdvance(true);
  CallContext ctx;
  ctx.clock = &clock;
  volume_.Reopen();
  repository::LockOptions options;
  options.exclusive = true;
  options.refresh_by_thread = false;
  const auto lock = repository::Lock::Acquire(ctx, volume_.repository(), options);
  ASSERT_THAT(lock, IsOk());
  ASSERT_THAT(volume_.repository().LoadIndex(ctx), IsOk());
  const auto repaired = repository::RepairPacks(ctx, volume_.repository(), **lock, {{pack}}, {});
  ASSERT_THAT(repaired, IsOk());
  EXPECT_EQ(repaired->lost(), 0);
  ASSERT_THAT((*lock)->Release(ctx), IsOk());
  EXPECT_TRUE(Check().ok());
  ExpectGood(first_);
  // The list may still have it.
  const auto last = Next(Told({pack}), next->snapshot);
  ASSERT_THAT(last, IsOk());
  EXPECT_EQ(last->mode_done, "incremental") << Why(*last);
}

TEST_F(DamagedPacksTest, AForcedBackupStoresItAgain) {
  const PackId pack = Packs().at(1);
  Damage(pack);
  UploadOptions options = Told({pack});
  options.fail_on_fallback = true;
  const auto next = Next(options, first_, /*forced=*/true);
  ASSERT_THAT(next, IsOk());
  EXPECT_EQ(Why(*next), "forced-by-user");
  EXPECT_GT(next->new_bytes, 10 * kChunk);
  EXPECT_LT(next->new_bytes, 30 * kChunk);
  ExpectGood(next->snapshot);
}

// The finding stays until a person repairs; what is built on the backup after it need not.
TEST_F(DamagedPacksTest, LaterBackupsAreIncrementalThoughTheListStays) {
  const PackId pack = Packs().at(1);
  Damage(pack);
  auto last = Next(Told({pack}), first_);
  for (int i = 0; i < 2; ++i) {
    ASSERT_THAT(last, IsOk());
    last = Next(Told({pack}), last->snapshot);
    ASSERT_THAT(last, IsOk());
    EXPECT_EQ(last->mode_done, "incremental") << Why(*last);
    ExpectGood(last->snapshot);
  }
}

TEST_F(DamagedPacksTest, APackThatTheParentDoesNotNeedIsNoReason) {
  const PackId pack = Packs().at(1);
  device_.Store(0, RandomBytes(kSize, 2));
  const auto second = volume_.IncrementalBackup(device_, first_, {{.extent = {0, kSize}}});
  ASSERT_THAT(second, IsOk());
  Damage(pack);
  const auto next = Next(Told({pack}), second->snapshot);
  ASSERT_THAT(next, IsOk());
  EXPECT_EQ(next->mode_done, "incremental") << Why(*next);
  ExpectGood(next->snapshot);
}

TEST_F(DamagedPacksTest, PacksThatNoIndexListsAreIgnored) {
  const auto next = Next(Told({repository::Id::Of("repaired")}), first_);
  ASSERT_THAT(next, IsOk());
  EXPECT_EQ(next->mode_done, "incremental") << Why(*next);
  EXPECT_EQ(next->data_blobs, 1);
}

TEST_F(DamagedPacksTest, DamagedTreesAreStoredAgain) {
  const std::vector<PackId> packs = Packs(/*of_trees=*/true);
  ASSERT_THAT(packs, Not(IsEmpty()));
  for (const PackId& pack : packs) {
    Damage(pack);
  }
  const repository::CheckReport report = Check();
  EXPECT_FALSE(report.ok());
  for (const PackId& pack : packs) {
    EXPECT_THAT(report.damaged_packs, Contains(pack));
  }
  const auto next = Next(Told(report.damaged_packs), first_);
  ASSERT_THAT(next, IsOk());
  EXPECT_THAT(Why(*next), HasSubstr("parent-damaged"));
  ExpectGood(next->snapshot);
}

// A tree of a pack that a check did not read names its pack all the same.
TEST_F(DamagedPacksTest, ATreeThatDoesNotReadNamesItsPack) {
  const PackId pack = Packs(/*of_trees=*/true).at(0);
  Damage(pack);
  volume_.Reopen();
  const auto report = repository::CheckRepository(volume_.ctx(), volume_.repository(), {});
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(report->damaged_packs, ElementsAre(pack));
  EXPECT_EQ(report->damaged_packs_found, 1);
}

// What an earlier run has stored is not read again, but for what is damaged.
TEST_F(DamagedPacksTest, ARunThatGoesOnDoesNotTakeWhatIsDamaged) {
  const PackId pack = Packs().at(1);
  Damage(pack);
  ASSERT_THAT(volume_.repository().LoadIndex(volume_.ctx()), IsOk());
  UploadOptions options = Told({pack});
  options.known = &volume_.repository().index();
  FullScanSource source;
  const auto next = volume_.Backup(device_, source, options);
  ASSERT_THAT(next, IsOk());
  EXPECT_GT(next->new_bytes, 10 * kChunk);
  EXPECT_LT(next->new_bytes, 30 * kChunk);
  ExpectGood(next->snapshot);
}

// Damage that is not a pack: what no index lists. Nothing is named then.
TEST_F(DamagedPacksTest, AParentWithBlobsThatNoIndexListsIsNotBuiltOn) {
  std::map<std::string, std::string> objects = volume_.store().objects();
  // Stays in the folder, so that only the index tells.
  std::erase_if(objects,
                [](const auto& object) { return absl::StartsWith(object.first, "index/"); });
  volume_.store().SetObjects(objects);
  const auto next = Next(Told({}), first_);
  ASSERT_THAT(next, IsOk());
  EXPECT_THAT(Why(*next), HasSubstr("is in no index"));
  ExpectGood(next->snapshot);
}

TEST_F(DamagedPacksTest, DamageIsAnErrorIfAFullIsNotAllowed) {
  const PackId pack = Packs().at(1);
  Damage(pack);
  UploadOptions options = Told({pack});
  options.fail_on_fallback = true;
  EXPECT_TRUE(IsFallbackRefused(Next(options, first_).status()));
}

TEST_F(DamagedPacksTest, AnIndexThatDoesNotReadIsNotBuiltOnByABackupThatHasToKnowIt) {
  const PackId pack = Packs().at(1);
  for (const auto& [key, bytes] : volume_.store().objects()) {
    if (absl::StartsWith(key, "index/")) {
      volume_.store().SetObject(key, "x");
    }
  }
  const auto next = Next(Told({}), first_);
  ASSERT_THAT(next, IsOk());
  EXPECT_EQ(next->mode_done, "incremental") << Why(*next);
  const auto told = Next(Told({pack}), first_);
  ASSERT_THAT(told, IsOk());
  EXPECT_EQ(told->mode_done, "full");
  volume_.ExpectRestores(told->snapshot, device_);
}

TEST(DistrustedPacksTest, ContainsWhatIsNamedAndWhatIsAsOld) {
  const absl::Time until = absl::FromUnixSeconds(1'700'000'000);
  const repository::FileInfo named{.id = repository::Id::Of("a"),
                                   .modified_at = until + absl::Hours(1)};
  const repository::FileInfo old{.id = repository::Id::Of("b"), .modified_at = until};
  const repository::FileInfo young{.id = repository::Id::Of("c"),
                                   .modified_at = until + absl::Seconds(1)};
  const repository::DistrustedPacks listed{.packs = {named.id}};
  EXPECT_TRUE(listed.Contains(named));
  EXPECT_FALSE(listed.Contains(old));
  EXPECT_FALSE(listed.empty());
  const repository::DistrustedPacks both{.packs = {named.id}, .written_until = until};
  EXPECT_TRUE(both.Contains(named));
  EXPECT_TRUE(both.Contains(old));
  EXPECT_FALSE(both.Contains(young));
  EXPECT_TRUE(repository::DistrustedPacks().empty());
  EXPECT_FALSE(repository::DistrustedPacks().Contains({.id = old.id})) << "of no known time";
}

}  // namespace
}  // namespace csidelta::incremental::damaged_packs_test
