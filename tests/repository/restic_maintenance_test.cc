// Our maintenance judged by stock restic.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "repository/checker.h"
#include "repository/forget.h"
#include "repository/pruner.h"
#include "repository/repairer.h"
#include "repository/verified_packs.h"
#include "repository/version_repair.h"
#include "tests/repository/restic_fixture.h"
#include "tests/repository/test_volume.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_locked_store.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/index_lookup.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository::restic_maintenance_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::Noise;
using support::Prose;
using testing::HasSubstr;
using testing::SizeIs;

class ResticMaintenanceTest : public ResticFixture {
 protected:
  // Generations of a volume: the last one is returned, all others are forgotten.
  Id MakeGenerations(std::string& image) {
    EXPECT_THAT(Repository::Init(ctx_, *store_, kInteropPassword, {}), IsOk());
    image = Noise(6'000'000, 1) + std::string(4'000'000, '\0') + Prose(5'000'000, 2);
    std::vector<Id> old;
    for (uint64_t generation = 0; generation < 3; ++generation) {
      old.push_back(BackUp(image));
      image.replace(generation * 2'000'000, 1'500'000, Noise(1'500'000, 10 + generation));
    }
    const Id newest = BackUp(image);
    std::unique_ptr<Repository> repository = Open();
    const std::unique_ptr<Lock> lock = TakeLock(*repository);
    EXPECT_THAT(RemoveSnapshots(ctx_, *repository, *lock, old), IsOk());
    return newest;
  }
};

INSTANTIATE_TEST_SUITE_P(Releases, ResticMaintenanceTest, EveryRestic(), NameOfRelease);

TEST_P(ResticMaintenanceTest, ResticApprovesOurPrune) {
  std::string image;
  const Id newest = MakeGenerations(image);
  {
    std::unique_ptr<Repository> repository = Open();
    const std::unique_ptr<Lock> lock = TakeLock(*repository);
    PruneOptions options;
    options.unused_max = {.percent = 0};
    const absl::StatusOr<PrunePlan> plan = PlanPrune(ctx_, *repository, options);
    ASSERT_THAT(plan, IsOk());
    EXPECT_GT(plan->figures.packs_repacked, 0);
    EXPECT_GT(plan->figures.bytes_freed, 0);
    ASSERT_THAT(RunPrune(ctx_, *repository, *lock, *plan, options), IsOk());
  }
  ExpectResticFindsNothingWrong();
  ExpectOursFindsNothingWrong();
  ExpectRestores(newest, image);
  // Nothing is left for restic's own prune.
  const Outcome prune = RunRestic("prune --max-unused 0 --dry-run");
  EXPECT_THAT(prune.output, testing::ContainsRegex("total prune: +0 blobs"));
  EXPECT_THAT(prune.output, HasSubstr("unused size after prune: 0 B"));
}

TEST_P(ResticMaintenanceTest, ResticDoesNotSeeWhatChecksRecord) {
  std::string image;
  const Id newest = MakeGenerations(image);
  const auto verified = [this] {
    std::unique_ptr<Repository> repository = Open();
    const auto snapshots = repository->ListSnapshots(ctx_);
    return ReadVerifiedSnapshots(ctx_, *repository, *snapshots)->size();
  };
  const auto record = [this] {
    std::set<std::string> files;
    for (const auto& file : std::filesystem::directory_iterator(Path("repo/aux/v1/verified"))) {
      files.insert(file.path().filename());
    }
    return files;
  };
  ExpectOursFindsNothingWrong();
  EXPECT_EQ(verified(), 1);
  const std::set<std::string> files = record();
  EXPECT_THAT(files, SizeIs(2));
  ExpectResticFindsNothingWrong();
  EXPECT_THAT(RunRestic("snapshots").output, HasSubstr(newest.ShortHex()));
  const std::string copy = absl::StrCat("export RESTIC_FROM_PASSWORD=", kInteropPassword,
                                        "; restic init -r ", Path("other"), " && restic copy -r ",
                                        Path("other"), " --from-repo ", Path("repo"));
  EXPECT_EQ(
      restic_.Run(absl::StrCat("export RESTIC_PASSWORD=", kInteropPassword, "; ", copy)).exit_code,
      0);
  EXPECT_FALSE(std::filesystem::exists(Path("other/aux")));
  EXPECT_EQ(verified(), 1);
  ExpectRestic("prune --max-unused 0");
  EXPECT_EQ(record(), files);
  EXPECT_EQ(verified(), 0) << "what it repacked was not read since";
  ExpectOursFindsNothingWrong();
  EXPECT_EQ(verified(), 1);
  ExpectResticFindsNothingWrong();
}

TEST_P(ResticMaintenanceTest, ResticAcceptsAConfigThatWasMadeAgain) {
  std::string image;
  const Id newest = MakeGenerations(image);
  ASSERT_TRUE(std::filesystem::remove(Path("repo/config")));
  ASSERT_THAT(Repository::RepairConfig(ctx_, *store_, kInteropPassword, {}), IsOk());
  ExpectResticFindsNothingWrong();
  ExpectRestic("backup /etc/hostname");
  ExpectOursFindsNothingWrong();
  ExpectRestores(newest, image);
}

TEST_P(ResticMaintenanceTest, WePruneWhatResticWrote) {
  ExpectRestic("init --repository-version 2");
  const std::filesystem::path file = Path("file");
  std::ofstream(file, std::ios::binary) << Noise(6'000'000, 7) << Prose(9'000'000, 8);
  ExpectRestic("backup " + file.string());
  std::ofstream(file, std::ios::binary) << Noise(4'000'000, 7) << Prose(3'000'000, 9);
  ExpectRestic("backup " + file.string());
  ExpectRestic("forget --keep-last 1");
  ExpectOursFindsNothingWrong();
  {
    std::unique_ptr<Repository> repository = Open();
    const std::unique_ptr<Lock> lock = TakeLock(*repository);
    PruneOptions options;
    options.unused_max = {.percent = 0};
    const absl::StatusOr<PrunePlan> plan = PlanPrune(ctx_, *repository, options);
    ASSERT_THAT(plan, IsOk());
    EXPECT_GT(plan->figures.blobs_unused, 0);
    ASSERT_THAT(RunPrune(ctx_, *repository, *lock, *plan, options), IsOk());
  }
  ExpectResticFindsNothingWrong();
  ExpectRestic("restore latest --target " + folder_.path() + "/restored");
}

// What an attacker deleted and overwrote in a bucket with object lock, stock restic reads again.
TEST_P(ResticMaintenanceTest, ResticReadsWhatRepairVersionsBroughtBack) {
  support::FakeClock clock(absl::Now());
  support::FakeLockedStore bucket(clock);
  bucket.LockPuts("COMPLIANCE", absl::Hours(24 * 30));
  ASSERT_THAT(Repository::Init(ctx_, bucket, kInteropPassword, {}), IsOk());
  const std::string image = Noise(4'000'000, 3);
  {
    const auto repository = Repository::Open(ctx_, bucket, kInteropPassword, {});
    ASSERT_THAT(repository, IsOk());
    ASSERT_THAT(BackUpImage(ctx_, **repository, image, kInteropChunkBytes), IsOk());
  }
  const absl::Time before = clock.Now();
  clock.Advance(absl::Hours(1));
  int turn = 0;
  for (const auto& [key, bytes] : bucket.objects()) {
    if (++turn % 2 == 0) {
      ASSERT_THAT(bucket.Put(ctx_, key, "junk", {}), IsOk());
    }
    if (turn % 3 != 0) {
      ASSERT_THAT(bucket.Delete(ctx_, key), IsOk());
    }
  }
  const std::string junk = "junk";
  ASSERT_THAT(bucket.Put(ctx_, absl::StrCat("index/", Id::Of(junk).Hex()), junk, {}), IsOk());
  const absl::StatusOr<RepairVersionsResult> repaired =
      RepairVersions(ctx_, bucket, {.as_of = before, .hide_newer = true});
  ASSERT_THAT(repaired, IsOk());
  EXPECT_GT(repaired->shown, 0);
  EXPECT_GT(repaired->restored, 0);
  EXPECT_EQ(repaired->hidden, 1);
  for (const auto& [key, bytes] : bucket.objects()) {
    ASSERT_THAT(store_->Put(ctx_, key, bytes, {}), IsOk());
  }
  ExpectResticFindsNothingWrong();
  ExpectOursFindsNothingWrong();
}

TEST_P(ResticMaintenanceTest, ResticApprovesOurRepairs) {
  std::string image;
  const Id newest = MakeGenerations(image);
  for (const auto& entry : std::filesystem::directory_iterator(Path("repo/index"))) {
    std::filesystem::remove(entry.path());
  }
  {
    std::unique_ptr<Repository> repository = Open();
    const std::unique_ptr<Lock> lock = TakeLock(*repository);
    ASSERT_THAT(RepairIndex(ctx_, *repository, *lock, {}), IsOk());
  }
  ExpectResticFindsNothingWrong();
  // A pack of data goes; the volume is at hand.
  {
    std::unique_ptr<Repository> repository = Open();
    ASSERT_THAT(repository->LoadIndex(ctx_), IsOk());
    BlobLocation location;
    ASSERT_THAT(
        support::FindAny(repository->index(),
                         {BlobType::kData, Id::Of(image.substr(0, kInteropChunkBytes))}, location),
        IsOkAndHolds(true));
    ASSERT_THAT(store_->Delete(ctx_, PackKey(location.pack)), IsOk());
    EXPECT_NE(RunRestic("check").exit_code, 0);
    const std::unique_ptr<Lock> lock = TakeLock(*repository);
    RepairPacksOptions options;
    options.drops_lost = [](const PackId&) { return true; };  // Chunks of forgotten generations.
    options.repair_source = [&](const CallContext&,
                                const BlobHandle& blob) -> absl::StatusOr<std::string> {
      for (std::size_t at = 0; at < image.size(); at += kInteropChunkBytes) {
        if (Id::Of(image.substr(at, kInteropChunkBytes)) == blob.id) {
          return image.substr(at, kInteropChunkBytes);
        }
      }
      return absl::NotFoundError("not of this volume");
    };
    const absl::StatusOr<RepairPacksResult> repairs =
        RepairPacks(ctx_, *repository, *lock, absl::MakeConstSpan(&location.pack, 1), options);
    ASSERT_THAT(repairs, IsOk());
    ASSERT_THAT(repairs->packs, SizeIs(1));
    EXPECT_GT(repairs->packs.front().blobs_filled_in, 0);
  }
  ExpectResticFindsNothingWrong();
  ExpectRestores(newest, image);
}

}  // namespace
}  // namespace csidelta::repository::restic_maintenance_test
