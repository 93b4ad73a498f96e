#include "repository/lock_renewal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "repository/lock.h"
#include "repository/pruner.h"
#include "repository/repairer.h"
#include "repository/version_repair.h"
#include "tests/repository/repository_fixture.h"
#include "tests/repository/test_volume.h"
#include "tests/support/fake_locked_store.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::repository {
namespace {

using support::IsOk;
using support::StatusIs;

constexpr absl::Duration kDay = absl::Hours(24);
constexpr int kDays = 30;
constexpr int64_t kChunkBytes = kChunkBytesMin;

// A volume that is backed up each day into a bucket with object lock; each day one chunk changes.
class LockRenewalTest : public testing::Test {
 protected:
  LockRenewalTest() {
    clock_.SetAutoAdvance(true);
    ctx_.clock = &clock_;
    environment_.random = &random_;
    environment_.scrypt = support::kCheapScrypt;
    store_.LockPuts("COMPLIANCE", kDays * kDay);
    EXPECT_THAT(Repository::Init(ctx_, store_, kTestPassword, environment_), IsOk());
  }

  std::unique_ptr<Repository> Open() {
    auto repository = Repository::Open(ctx_, store_, kTestPassword, environment_);
    EXPECT_THAT(repository, IsOk());
    return *std::move(repository);
  }

  std::string Image() const {
    std::string image;
    for (int chunk = 0; chunk < 4; ++chunk) {
      image +=
          support::Noise(kChunkBytes, static_cast<uint64_t>(chunk == 3 ? 1000 + day_ % 10 : chunk));
    }
    return image;
  }

  void BackUp() {
    const std::unique_ptr<Repository> repository = Open();
    ASSERT_THAT(repository->LoadIndex(ctx_), IsOk());
    BlobWriterOptions options;
    options.pack_target_bytes = kChunkBytes;
    options.known = KnownIn(*repository);
    const absl::StatusOr<Id> id = BackUpImage(ctx_, *repository, Image(), kChunkBytes, options);
    ASSERT_THAT(id, IsOk());
    saved_[*id] = Image();
  }

  RenewLocksResult Renew(absl::Time renewed_at = absl::InfinitePast()) {
    const absl::StatusOr<RenewLocksResult> result =
        RenewLocks(ctx_, *Open(), {.mode = "COMPLIANCE", .days = kDays, .renewed_at = renewed_at});
    EXPECT_THAT(result, IsOk());
    return result.value_or(RenewLocksResult());
  }

  // A day of the mover: a backup, and the objects whose turn it is.
  void Day(int days = 1) {
    clock_.Advance(days * kDay);
    day_ += days;
    BackUp();
    const RenewLocksResult result = Renew(renewed_at_);
    EXPECT_EQ(result.failed, 0) << testing::PrintToString(result.failures);
    EXPECT_EQ(result.undecided, "");
    renewed_at_ = clock_.Now();
  }

  void ForgetAllBut(std::size_t newest) {
    const std::unique_ptr<Repository> repository = Open();
    const absl::StatusOr<std::vector<StoredSnapshot>> snapshots = repository->ListSnapshots(ctx_);
    ASSERT_THAT(snapshots, IsOk());
    for (std::size_t i = 0; i + newest < snapshots->size(); ++i) {
      const Id& id = (*snapshots)[i].id;
      ASSERT_THAT(repository->RemoveFile(ctx_, FileKind::kSnapshot, id), IsOk());
      saved_.erase(id);
    }
  }

  std::vector<storage::ObjectVersion> Versions() {
    std::vector<storage::ObjectVersion> versions;
    EXPECT_THAT(storage::ForEachVersion(ctx_, store_, "",
                                        [&](const storage::ObjectVersion& version) {
                                          versions.push_back(version);
                                          return absl::OkStatus();
                                        }),
                IsOk());
    return versions;
  }

  // Everything that the worker's credentials allow.
  void Attack() {
    store_.SetDefaultRetention("", absl::ZeroDuration());
    for (const storage::ObjectVersion& version : Versions()) {
      store_.DeleteVersion(ctx_, version.key, version.id).IgnoreError();
      store_
          .SetRetention(ctx_, version.key, version.id,
                        {.mode = "GOVERNANCE", .until = clock_.Now() + absl::Seconds(1)})
          .IgnoreError();
    }
    clock_.Advance(absl::Minutes(1));
    for (const storage::ObjectVersion& version : Versions()) {
      store_.DeleteVersion(ctx_, version.key, version.id).IgnoreError();
    }
    int turn = 0;
    for (const auto& [key, bytes] : store_.objects()) {
      if (++turn % 2 == 0) {
        ASSERT_THAT(store_.Put(ctx_, key, "junk", {}), IsOk());
      }
      if (turn % 3 != 0) {
        ASSERT_THAT(store_.Delete(ctx_, key), IsOk());
      }
    }
    for (const char* folder : {"index/", "snapshots/", "keys/"}) {
      const std::string junk = absl::StrCat("junk of ", folder);
      ASSERT_THAT(store_.Put(ctx_, absl::StrCat(folder, Id::Of(junk).Hex()), junk, {}), IsOk());
    }
    store_.ApplyLifecycle([](const std::string&) { return true; }, absl::ZeroDuration());
  }

  // What an attacker added reads as damage; `repair index`, `forget` and `key remove` remove it.
  void RemoveJunk() {
    const std::unique_ptr<Repository> repository = Open();
    LockOptions options;
    options.exclusive = true;
    options.wait_max = kLockWaitForStale;
    options.refresh_by_thread = false;
    const absl::StatusOr<std::unique_ptr<Lock>> lock = Lock::Acquire(ctx_, *repository, options);
    ASSERT_THAT(lock, IsOk());
    ASSERT_THAT(RepairIndex(ctx_, *repository, **lock, {}), IsOk());
    std::vector<Id> junk;
    ASSERT_THAT(repository->ListSnapshots(
                    ctx_, [&](const Id& id, const absl::Status&) { junk.push_back(id); }),
                IsOk());
    for (const Id& id : junk) {
      ASSERT_THAT(repository->RemoveFile(ctx_, FileKind::kSnapshot, id), IsOk());
    }
    const absl::StatusOr<std::vector<KeyInfo>> keys = repository->ListKeys(ctx_);
    ASSERT_THAT(keys, IsOk());
    for (const KeyInfo& key : *keys) {
      if (!key.file.ok()) {
        ASSERT_THAT(repository->RemoveKey(ctx_, **lock, key.id), IsOk());
      }
    }
  }

  absl::Time Seconds(absl::Time time) const {
    return absl::FromUnixSeconds(absl::ToUnixSeconds(time));
  }

  void ExpectRestoresAll() {
    const std::unique_ptr<Repository> repository = Open();
    ASSERT_THAT(repository->LoadIndex(ctx_), IsOk());
    for (const auto& [id, image] : saved_) {
      const absl::StatusOr<std::string> restored = RestoreImage(ctx_, *repository, id);
      ASSERT_THAT(restored, IsOk()) << "day " << day_;
      EXPECT_TRUE(*restored == image);
    }
  }

  support::FakeClock clock_;
  support::FakeSecureRandom random_;
  support::FakeLockedStore store_{clock_};
  CallContext ctx_;
  Environment environment_;
  int day_ = 0;
  absl::Time renewed_at_ = absl::InfinitePast();
  std::map<Id, std::string> saved_;
};

TEST_F(LockRenewalTest, EverythingNeededIsLockedAfterItsFirstRetention) {
  while (day_ < kDays + 10) {
    Day();
    ForgetAllBut(12);
  }
  std::set<std::string> needed = {"config"};
  const std::unique_ptr<Repository> repository = Open();
  ASSERT_THAT(repository->LoadIndex(ctx_), IsOk());
  const absl::StatusOr<PrunePlan> plan = PlanPrune(ctx_, *repository, {});
  ASSERT_THAT(plan, IsOk());
  std::set<std::string> unused;
  for (const uint32_t pack : plan->unused) {
    unused.insert(PackKey(repository->index().PackAt(pack)));
  }
  for (const auto& [key, bytes] : store_.objects()) {
    if (!unused.contains(key)) {
      needed.insert(key);
    }
  }
  EXPECT_GT(needed.size(), 40U);
  for (const storage::ObjectVersion& version : Versions()) {
    if (version.is_latest && needed.contains(version.key)) {
      const absl::StatusOr<storage::Retention> retention =
          store_.GetRetention(ctx_, version.key, version.id);
      ASSERT_THAT(retention, IsOk());
      EXPECT_GE(retention->until, Seconds(clock_.Now()) + kDays / 2 * kDay) << version.key;
      EXPECT_LE(retention->until, clock_.Now() + kDays * kDay) << version.key;
    }
  }
}

// The other half of the proof: what the attacker of the next test does to locks that ended.
TEST_F(LockRenewalTest, WithoutRenewalAnAttackerDestroysEverythingAfterTheRetention) {
  BackUp();
  clock_.Advance((kDays + 1) * kDay);
  ++day_;
  BackUp();
  const absl::Time before = clock_.Now();
  clock_.Advance(absl::Hours(1));
  Attack();
  ASSERT_THAT(RepairVersions(ctx_, store_, {.as_of = before, .hide_newer = true}), IsOk());
  EXPECT_FALSE(store_.objects().contains("config"));
  EXPECT_FALSE(Repository::Open(ctx_, store_, kTestPassword, environment_).ok());
}

// After the first month, with a backup every fortnight; with all sweeps, every day.
TEST_F(LockRenewalTest, AnAttackerWithTheWorkersRightsDestroysNoSnapshot) {
  const support::SweepSample sample;
  const int step = sample.is_everything() ? 1 : 14;
  for (const int day : {1, 29, 31, 200, 800}) {
    while (day_ < day) {
      Day(day_ < kDays + 1 ? 1 : std::min(step, day - day_));
      ForgetAllBut(12);
    }
    const absl::Time before = clock_.Now();
    clock_.Advance(absl::Hours(1));
    Attack();
    EXPECT_FALSE(store_.objects().contains("config"));
    clock_.Advance(absl::Hours(1));
    const absl::StatusOr<RepairVersionsResult> repaired =
        RepairVersions(ctx_, store_, {.as_of = before, .hide_newer = true});
    ASSERT_THAT(repaired, IsOk());
    EXPECT_THAT(repaired->lost, testing::IsEmpty());
    RemoveJunk();
    ExpectRestoresAll();
  }
}

TEST_F(LockRenewalTest, ARunAfterHalfOfTheTimeAsksTheStoreAndExtendsEachObjectOnce) {
  BackUp();
  const RenewLocksResult fresh = Renew();
  EXPECT_GT(fresh.objects, 5);
  EXPECT_EQ(fresh.extended, 0);
  EXPECT_EQ(fresh.skipped, fresh.objects);
  EXPECT_EQ(fresh.earliest, Seconds(clock_.Now()) + kDays * kDay);
  clock_.Advance(kDays / 2 * kDay);
  const RenewLocksResult later = Renew();
  EXPECT_EQ(later.extended, fresh.objects);
  EXPECT_EQ(later.earliest, Seconds(clock_.Now()) + kDays * kDay);
  EXPECT_EQ(Renew().skipped, fresh.objects);
  EXPECT_EQ(store_.retention_changes(), fresh.objects);
}

TEST_F(LockRenewalTest, DailyRunsExtendEachObjectOncePerHalfOfTheDays) {
  BackUp();
  renewed_at_ = clock_.Now();
  int64_t due = 0;
  int64_t objects = 0;
  for (int day = 0; day < kDays / 2; ++day) {
    clock_.Advance(kDay);
    const RenewLocksResult result = Renew(renewed_at_);
    renewed_at_ = clock_.Now();
    due += result.due;
    objects = result.objects;
  }
  EXPECT_EQ(due, objects);
  EXPECT_EQ(store_.retention_changes(), objects);
  // A mover that was off for a month makes up for it.
  clock_.Advance(kDays * kDay);
  EXPECT_EQ(Renew(renewed_at_).due, objects);
}

TEST_F(LockRenewalTest, TheFirstRunCaresForThoseWhoseTurnIsFarAway) {
  BackUp();
  clock_.Advance(13 * kDay);  // So 17 days are left, and the last turn is 15 days away.
  EXPECT_EQ(Renew().failed, 0);
  for (int day = 0; day < kDays; ++day) {
    renewed_at_ = clock_.Now();
    clock_.Advance(kDay);
    EXPECT_EQ(Renew(renewed_at_).failed, 0);
    for (const storage::ObjectVersion& version : Versions()) {
      const absl::StatusOr<storage::Retention> retention =
          store_.GetRetention(ctx_, version.key, version.id);
      ASSERT_THAT(retention, IsOk());
      EXPECT_GE(retention->until, clock_.Now() + (kDays / 2 - 1) * kDay) << version.key;
    }
  }
}

TEST_F(LockRenewalTest, MakesNoMoreRequestsThanItMay) {
  BackUp();
  const absl::Duration before = clock_.Uptime();
  const absl::StatusOr<RenewLocksResult> result =
      RenewLocks(ctx_, *Open(), {.days = kDays, .requests_per_second_max = 2});
  ASSERT_THAT(result, IsOk());
  EXPECT_GE(clock_.Uptime() - before, absl::Seconds(result->requests / 2 - 2));
}

TEST_F(LockRenewalTest, NamesObjectsThatItMayNotExtend) {
  BackUp();
  clock_.Advance((kDays - 1) * kDay);
  store_.MaySetRetention(false);
  const RenewLocksResult result = Renew();
  EXPECT_EQ(result.failed, result.objects);
  EXPECT_THAT(result.failures, testing::Contains(testing::HasSubstr("config: AccessDenied")));
  EXPECT_LT(result.earliest, clock_.Now() + 2 * kDay);
}

TEST_F(LockRenewalTest, ExtendsWhatIsHiddenAndSaysSo) {
  BackUp();
  clock_.Advance((kDays - 1) * kDay);
  std::string pack;
  for (const auto& [key, bytes] : store_.objects()) {
    pack = absl::StartsWith(key, "data/") ? key : pack;
  }
  ASSERT_THAT(store_.Put(ctx_, pack, "junk", {}), IsOk());
  ASSERT_THAT(store_.Delete(ctx_, "config"), IsOk());
  const absl::Time now = clock_.Now();
  // Config is gone, so it takes the repository that was opened before.
  ASSERT_THAT(RepairVersions(ctx_, store_, {.as_of = now - kDay, .dry_run = true}), IsOk());
  ASSERT_THAT(RepairVersions(ctx_, store_, {.as_of = now - kDay}), IsOk());
  const std::unique_ptr<Repository> repository = Open();
  ASSERT_THAT(store_.Delete(ctx_, "config"), IsOk());
  ASSERT_THAT(store_.Delete(ctx_, pack), IsOk());
  const absl::StatusOr<RenewLocksResult> result =
      RenewLocks(ctx_, *repository, {.mode = "COMPLIANCE", .days = kDays});
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->failures, testing::ElementsAre(testing::HasSubstr("config: is hidden")));
  EXPECT_THAT(result->undecided, testing::HasSubstr("missing or cut short"));
  for (const storage::ObjectVersion& version : Versions()) {
    if (version.key == pack && version.modified_at < now - kDay) {
      EXPECT_EQ(store_.GetRetention(ctx_, pack, version.id)->until, Seconds(now) + kDays * kDay);
    }
  }
}

TEST_F(LockRenewalTest, AnAbsurdlyLongRetentionIsLeftAsItIs) {
  BackUp();
  const absl::Time far = clock_.Now() + 36'500 * kDay;
  for (const storage::ObjectVersion& version : Versions()) {
    ASSERT_THAT(
        store_.SetRetention(ctx_, version.key, version.id, {.mode = "COMPLIANCE", .until = far}),
        IsOk());
  }
  clock_.Advance(40 * kDay);
  const RenewLocksResult asked = Renew();
  EXPECT_EQ(asked.skipped, asked.objects);
  EXPECT_EQ(asked.earliest, far);
  EXPECT_EQ(Renew(clock_.Now() - 30 * kDay).skipped, asked.objects);
}

TEST_F(LockRenewalTest, UnusedPacksAreNotExtended) {
  BackUp();
  const auto before = Renew().objects;
  ++day_;
  BackUp();
  const std::unique_ptr<Repository> repository = Open();
  ASSERT_THAT(repository->RemoveFile(ctx_, FileKind::kSnapshot, saved_.begin()->first), IsOk());
  const RenewLocksResult result = Renew();
  EXPECT_EQ(result.failed, 0) << testing::PrintToString(result.failures);
  // The first snapshot's own chunk, tree packs and snapshot are not needed any more.
  EXPECT_LT(result.objects, before + 2);
}

TEST_F(LockRenewalTest, RefusesDaysAndModesThatDoNotExist) {
  const std::unique_ptr<Repository> repository = Open();
  EXPECT_THAT(RenewLocks(ctx_, *repository, {.mode = "compliance"}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(RenewLocks(ctx_, *repository, {.days = 1}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace csidelta::repository
