#include "datamover/worker/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "engine/check.h"
#include "engine/snapshot_choice.h"
#include "storage/forwarding_object_store.h"
#include "storage/location.h"
#include "storage/object_rules.h"
#include "tests/support/cheap_scrypt.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/impatient_clock.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

namespace csidelta::datamover::job_test {
namespace {

using support::IsOk;

constexpr std::size_t kImageBytes = std::size_t{1} << 20;

// Deletes nothing below a prefix, for an object lock.
class RetainingStore : public storage::OpenedStore, private storage::ForwardingObjectStore {
 public:
  RetainingStore(std::unique_ptr<storage::OpenedStore> opened, std::string prefix)
      : ForwardingObjectStore(opened->store()),
        opened_(std::move(opened)),
        prefix_(std::move(prefix)) {}

  storage::ObjectStore& store() override { return *this; }
  const storage::StoreMeter& meter() const override { return opened_->meter(); }

 private:
  absl::Status Delete(const CallContext& ctx, const std::string& key) override {
    return key.starts_with(prefix_)
               ? storage::AsRetained(absl::PermissionDeniedError("object lock"))
               : ForwardingObjectStore::Delete(ctx, key);
  }

  const std::unique_ptr<storage::OpenedStore> opened_;
  const std::string prefix_;
};

class JobTest : public testing::Test {
 protected:
  JobTest() {
    std::ofstream(Path("image"), std::ios::binary) << support::Noise(kImageBytes, 1);
    EXPECT_THAT(NewSession()->Init(ctx_), IsOk());
  }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::unique_ptr<engine::Session> NewSession() const {
    engine::SessionOptions options{
        .place = [this](const CallContext&,
                        engine::LockKind) -> absl::StatusOr<engine::RepositoryTarget> {
          return engine::RepositoryTarget{.location = {.directory = Path("repo")}, .settings = {}};
        },
        .keyring = []() -> absl::StatusOr<std::optional<repository::Keyring>> {
          return std::nullopt;
        },
        .keyring_name = [] { return ""; },
        .password = [](const CallContext&, const std::string&, bool) -> absl::StatusOr<Secret> {
          return Secret("secret");
        },
        .program_version = "test",
        .host = "here",
        .scratch_folder = folder_.path()};
    options.scrypt = support::kCheapScrypt;
    if (!retained_.empty()) {
      options.open_store =
          [this](const storage::Location& location, const storage::StoreSettings& settings,
                 Random& random) -> absl::StatusOr<std::unique_ptr<storage::OpenedStore>> {
        ASSIGN_OR_RETURN(std::unique_ptr<storage::OpenedStore> opened,
                         storage::OpenStore(location, settings, random));
        return std::make_unique<RetainingStore>(std::move(opened), retained_);
      };
    }
    return std::make_unique<engine::Session>(std::move(options));
  }
  absl::StatusOr<objects::Outcome> Do(objects::VolumeWork work) {
    return DoJob(ctx_, *NewSession(), {.work = std::move(work)}, {},
                 [this](const incremental::TransferProgress& now) {
                   stages_.emplace(now.stage);
                   done_bytes_ = now.done_bytes;
                   total_bytes_ = now.total_bytes;
                 });
  }
  // Its snapshot.
  std::string Backed() {
    const absl::StatusOr<objects::Outcome> outcome =
        Do(objects::UploadWork{.device = Path("image"), .path = "/app"});
    EXPECT_THAT(outcome, IsOk());
    return outcome.ok() && outcome->backup.has_value() ? outcome->backup->snapshot_id : "";
  }

  void ExpectRestores(const std::string& snapshot) {
    ASSERT_THAT(Do(objects::DownloadWork{.device = Path("restored"), .snapshot_id = snapshot}),
                IsOk());
    std::ifstream restored(Path("restored"), std::ios::binary);
    EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(restored), {}) ==
                support::Noise(kImageBytes, 1));
    std::filesystem::remove(Path("restored"));
  }

  // Each of them, in its length.
  void DamagePacks() const {
    for (const auto& file : std::filesystem::recursive_directory_iterator(Path("repo") + "/data")) {
      if (file.is_regular_file()) {
        std::filesystem::permissions(file.path(), std::filesystem::perms::owner_all);
        std::fstream pack(file.path(), std::ios::binary | std::ios::in | std::ios::out);
        pack.seekp(100);
        pack << "damage";
      }
    }
  }

  const support::ScratchFolder folder_;
  std::string retained_;  // prefix of keys that may not be deleted; "" for none
  support::ImpatientClock clock_;
  CallContext ctx_{.clock = &clock_};
  std::set<std::string> stages_;
  int64_t done_bytes_ = 0;
  int64_t total_bytes_ = 0;
};

TEST_F(JobTest, ARequestedFullBackupSaysSoAndANamedParentIsBuiltOn) {
  const std::string first = Backed();
  EXPECT_NE(Backed(), first);
  objects::UploadWork work{.device = Path("image"), .path = "/app", .is_full = true};
  const absl::StatusOr<objects::Outcome> full = Do(work);
  ASSERT_THAT(full, IsOk());
  EXPECT_EQ(full->backup->mode, "full");
  EXPECT_EQ(full->backup->reason, "requested");
  EXPECT_EQ(full->backup->read_bytes, static_cast<int64_t>(kImageBytes));
  work.is_full = false;
  work.parent = first;
  const absl::StatusOr<objects::Outcome> built = Do(work);
  ASSERT_THAT(built, IsOk());
  EXPECT_EQ(built->backup->base, first);
  work.parent = std::string(64, '0');
  EXPECT_FALSE(Do(work).ok());
}

// It is the remedy for a chain that cannot be built on.
TEST_F(JobTest, ARequestedFullBackupIsNoFallback) {
  Backed();
  for (const auto& file : std::filesystem::directory_iterator(Path("repo") + "/snapshots")) {
    std::filesystem::permissions(file.path(), std::filesystem::perms::owner_all);
    std::ofstream(file.path()) << "damage";
  }
  objects::UploadWork work{
      .device = Path("image"), .path = "/app", .on_fallback = objects::OnFallback::kFail};
  const absl::StatusOr<objects::Outcome> refused = Do(work);
  EXPECT_FALSE(refused.ok() && refused->code == objects::OutcomeCode::kDone);
  work.is_full = true;
  const absl::StatusOr<objects::Outcome> full = Do(work);
  ASSERT_THAT(full, IsOk());
  EXPECT_EQ(full->code, objects::OutcomeCode::kDone);
  ExpectRestores(full->backup->snapshot_id);
}

TEST_F(JobTest, ARestoreSaysWhoseBackupItIsAndTheNextUploadGoesOnFromThere) {
  objects::UploadWork work{
      .device = Path("image"), .host = "cluster", .path = "/shop/data", .pvc_uid = "a"};
  const absl::StatusOr<objects::Outcome> backup = Do(work);
  ASSERT_THAT(backup, IsOk());
  const std::string first = backup->backup->snapshot_id;
  const absl::StatusOr<objects::Outcome> restored =
      Do(objects::DownloadWork{.device = Path("restored"), .snapshot_id = first});
  ASSERT_THAT(restored, IsOk());
  EXPECT_EQ(restored->restore->host, "cluster");
  EXPECT_EQ(restored->restore->path, "/shop/data");
  work.pvc_uid = "b";
  work.restored_snapshot = first;
  const absl::StatusOr<objects::Outcome> went_on = Do(work);
  ASSERT_THAT(went_on, IsOk());
  EXPECT_EQ(went_on->backup->reason, "restored");
  EXPECT_EQ(went_on->backup->base, first);
  EXPECT_GE(went_on->backup->audit_bytes * 100, went_on->backup->logical_bytes);
  work = {.device = Path("image"), .path = "/new", .pvc_uid = "c", .why_no_parent = "so"};
  EXPECT_EQ(Do(work)->backup->reason_detail, "so");
}

TEST_F(JobTest, ABackupHasItsFigures) {
  const absl::StatusOr<objects::Outcome> outcome =
      Do(objects::UploadWork{.device = Path("image"), .path = "/app"});
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->code, objects::OutcomeCode::kDone);
  EXPECT_EQ(outcome->cause, objects::OutcomeCause::kNone);
  ASSERT_TRUE(outcome->backup.has_value());
  EXPECT_EQ(outcome->backup->mode, "full");
  EXPECT_EQ(outcome->backup->reason, "no-parent");
  EXPECT_EQ(outcome->backup->logical_bytes, kImageBytes);
  EXPECT_EQ(outcome->backup->snapshot_id.size(), 64U);
  EXPECT_EQ(outcome->restore, std::nullopt);
  EXPECT_GE(done_bytes_, kImageBytes) << "all of it is new";
  EXPECT_EQ(total_bytes_, done_bytes_);
}

// A list of changes that was not true is told beside a backup that is.
TEST(JobOutcomeTest, WhatWasWrongOnTheWayIsTheCauseOfABackupThatIsDone) {
  incremental::BackupResult result;
  result.list_refused = true;
  EXPECT_EQ(OutcomeOf(result).code, objects::OutcomeCode::kDone);
  EXPECT_EQ(OutcomeOf(result).cause, objects::OutcomeCause::kListRefused);
  result.audit_mismatch = true;
  EXPECT_EQ(OutcomeOf(result).cause, objects::OutcomeCause::kAuditMismatch);
}

TEST_F(JobTest, WhatTheJobSaysIsInTheSnapshot) {
  ASSERT_THAT(Do(objects::UploadWork{.device = Path("image"),
                                     .host = "cluster",
                                     .path = "/shop/data",
                                     .tags = {"du-1", "volume-group=shop/db"}}),
              IsOk());
  const auto session = NewSession();
  const auto opened = session->Open(ctx_, engine::LockKind::kRead);
  ASSERT_THAT(opened, IsOk());
  const auto found = engine::ChooseSnapshot(ctx_, {}, **opened, "latest", {.tags = {"du-1"}});
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->snapshot.hostname, "cluster");
  EXPECT_THAT(found->snapshot.paths, testing::ElementsAre("/shop/data"));
  EXPECT_THAT(found->snapshot.tags, testing::IsSupersetOf({"du-1", "volume-group=shop/db"}));
}

TEST_F(JobTest, ARestoreThatIsLateWritesNothing) {
  EXPECT_THAT(Do(objects::DownloadWork{.device = Path("restored"),
                                       .snapshot_id = Backed(),
                                       .start_before = absl::Now() - absl::Seconds(1)})
                  .status(),
              support::StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_FALSE(std::filesystem::exists(Path("restored")));
}

TEST_F(JobTest, ARestoreHasItsFigures) {
  const absl::StatusOr<objects::Outcome> outcome =
      Do(objects::DownloadWork{.device = Path("restored"), .snapshot_id = Backed()});
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->code, objects::OutcomeCode::kDone);
  ASSERT_TRUE(outcome->restore.has_value());
  EXPECT_EQ(outcome->restore->written_bytes, kImageBytes);
  EXPECT_EQ(outcome->backup, std::nullopt);
}

TEST_F(JobTest, WhatIsForgottenCountsNoBytes) {
  const std::string id = Backed();
  stages_.clear();
  EXPECT_THAT(Do(objects::ForgetWork{.items = {{.snapshot_id = id}}}),
              support::IsOkAndHolds(objects::Outcome{.code = objects::OutcomeCode::kDone}));
  EXPECT_GT(stages_.size(), 1U) << "of the removal and of the space";
  EXPECT_EQ(done_bytes_, 0);
  EXPECT_EQ(total_bytes_, 0);
  EXPECT_THAT(Do(objects::DownloadWork{.device = Path("restored"), .snapshot_id = id}).status(),
              support::StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(JobTest, WhatAnObjectLockRetainsIsNamedAndTriedAgain) {
  const objects::VolumeWork forget = objects::ForgetWork{.items = {{.snapshot_id = Backed()}}};
  retained_ = "data/";
  for (int i = 0; i < 2; ++i) {
    const absl::Status refused = Do(forget).status();
    EXPECT_TRUE(storage::IsRetained(refused)) << refused;
    EXPECT_THAT(refused.message(), testing::HasSubstr("refuses to delete"));
    EXPECT_THAT(refused.message(), testing::HasSubstr(": data/"));
  }
  retained_ = "";
  EXPECT_THAT(Do(forget), IsOk());
  for (const auto& file : std::filesystem::recursive_directory_iterator(Path("repo") + "/data")) {
    EXPECT_FALSE(file.is_regular_file()) << file.path();
  }
}

TEST(JobFiguresTest, AreThoseOfTheResult) {
  incremental::BackupResult result;
  result.snapshot = repository::Id::Of("x");
  result.mode_done = "full";
  result.why = {.reason = incremental::FullReason::kBaseSnapshotGone, .detail = "gone"};
  result.base = "b";
  result.logical_bytes = 1;
  result.changed_bytes = 2;
  result.read_bytes = 3;
  result.audit_bytes = 4;
  result.stored_bytes = 5;
  result.store.retries = 6;
  result.duration_ms = {{"total", 7}, {"audit", 8}};
  result.peak_memory_bytes = 9;
  result.repository = {.pack_bytes = 10, .snapshots = 11};
  EXPECT_EQ(FiguresOf(result), (objects::BackupFigures{.snapshot_id = result.snapshot.Hex(),
                                                       .mode = "full",
                                                       .reason = "base-snapshot-gone",
                                                       .reason_detail = "gone",
                                                       .base = "b",
                                                       .logical_bytes = 1,
                                                       .changed_bytes = 2,
                                                       .read_bytes = 3,
                                                       .audit_bytes = 4,
                                                       .stored_bytes = 5,
                                                       .retries = 6,
                                                       .duration_ms = 7,
                                                       .audit_ms = 8,
                                                       .peak_memory_bytes = 9,
                                                       .repository_bytes = 10,
                                                       .repository_snapshots = 11}));
  incremental::RestoreResult restore;
  restore.file_system = "ext4";
  restore.logical_bytes = 1;
  restore.compared_bytes = 2;
  restore.written_bytes = 3;
  restore.zero_bytes = 4;
  restore.kept_bytes = 5;
  EXPECT_EQ(FiguresOf(restore), (objects::RestoreFigures{.file_system = "ext4",
                                                         .logical_bytes = 1,
                                                         .compared_bytes = 2,
                                                         .written_bytes = 3,
                                                         .zero_bytes = 4,
                                                         .kept_bytes = 5}));
}

TEST_F(JobTest, ACheckReadsNewDataAndNamesWhatCannotBeRestored) {
  ASSERT_THAT(Do(objects::UploadWork{.device = Path("image"), .path = "/app", .tags = {"du-1"}}),
              IsOk());
  // No pack is in part 9,999 of 10,000, but for chance; all are newer than yesterday.
  const objects::CheckWork work{
      .part = 9999, .parts = 10'000, .read_newer_than = absl::Now() - absl::Hours(24)};
  const absl::StatusOr<objects::Outcome> good = Do(work);
  ASSERT_THAT(good, IsOk());
  ASSERT_TRUE(good->check.has_value());
  EXPECT_EQ(good->check->errors, 0);
  EXPECT_EQ(good->check->snapshots, 1);
  EXPECT_EQ(good->check->packs_read, good->check->packs);
  EXPECT_GT(good->check->read_bytes, static_cast<int64_t>(kImageBytes));
  DamagePacks();
  const absl::StatusOr<objects::Outcome> bad = Do(work);
  ASSERT_THAT(bad, IsOk());
  EXPECT_EQ(bad->check->damage.packs_found, bad->check->packs);
  EXPECT_EQ(bad->code, objects::OutcomeCode::kDone) << "it did its work";
  ASSERT_TRUE(bad->check.has_value());
  EXPECT_GT(bad->check->errors, 0);
  EXPECT_FALSE(bad->check->findings.empty());
  EXPECT_EQ(bad->check->broken_snapshots, 1);
  EXPECT_EQ(bad->check->broken_tags, std::vector<std::string>{"du-1"});
}

// What a check found damaged goes by the record into the job of the next upload.
TEST_F(JobTest, AnUploadAfterACheckThatFoundDamageIsGood) {
  const std::string first = Backed();
  DamagePacks();
  const absl::StatusOr<objects::Outcome> found = Do(objects::CheckWork());
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->check->broken_snapshots, 1);
  const objects::RepositoryDamage& damage = found->check->damage;
  EXPECT_EQ(std::ssize(damage.packs), damage.packs_found);
  EXPECT_EQ(damage.written_until, std::nullopt) << "all are named";
  const absl::StatusOr<objects::Outcome> upload =
      Do(objects::UploadWork{.device = Path("image"), .path = "/app", .damage = damage});
  ASSERT_THAT(upload, IsOk());
  EXPECT_EQ(upload->backup->reason, "parent-damaged");
  EXPECT_THAT(upload->backup->reason_detail, testing::HasSubstr("a check found damaged"));
  EXPECT_GE(upload->backup->stored_bytes, static_cast<int64_t>(kImageBytes));
  const absl::StatusOr<objects::Outcome> mended = Do(objects::CheckWork());
  ASSERT_THAT(mended, IsOk());
  EXPECT_GT(mended->check->errors, 0) << "the packs are there";
  EXPECT_EQ(mended->check->broken_snapshots, 0) << "what the volume has mends the first, too";
  ExpectRestores(upload->backup->snapshot_id);
  // Of what lies in two packs a deletion keeps the copies that are good.
  ASSERT_THAT(Do(objects::ForgetWork{.items = {{.snapshot_id = first}}, .damage = damage}), IsOk());
  const absl::StatusOr<objects::Outcome> clean = Do(objects::CheckWork());
  ASSERT_THAT(clean, IsOk());
  EXPECT_EQ(clean->check->errors, 0);
  ExpectRestores(upload->backup->snapshot_id);
}

TEST_F(JobTest, AfterMoreDamageThanACheckNamesNothingThatIsAsOldIsReliedOn) {
  Backed();
  DamagePacks();
  const auto check =
      engine::RunCheck(ctx_, *NewSession(), {.read_data = repository::ReadEverything{}},
                       [](absl::string_view, int64_t, int64_t) {});
  ASSERT_THAT(check, IsOk());
  const absl::Time until = check->report.damaged_until;
  EXPECT_GT(until, absl::Now() - absl::Hours(1));
  EXPECT_LE(until, absl::Now());
  const objects::RepositoryDamage damage{.packs_found = 100, .written_until = until};
  const absl::StatusOr<objects::Outcome> upload =
      Do(objects::UploadWork{.device = Path("image"), .path = "/app", .damage = damage});
  ASSERT_THAT(upload, IsOk());
  EXPECT_EQ(upload->backup->reason, "parent-damaged");
  EXPECT_THAT(upload->backup->reason_detail,
              testing::HasSubstr("no newer than those that a check found damaged"));
  EXPECT_EQ(Do(objects::CheckWork())->check->broken_snapshots, 0);
  ExpectRestores(upload->backup->snapshot_id);
}

TEST(JobFiguresTest, OfTooManyDamagedPacksTheNewestIsTold) {
  repository::CheckReport report;
  report.errors = 1;
  for (int i = 0; i < 70; ++i) {
    report.damaged_packs.push_back(repository::Id::Of(absl::StrCat(i)));
  }
  report.damaged_packs_found = 70;
  EXPECT_EQ(FiguresOf(report).damage.written_until, std::nullopt) << "of a store without times";
  report.damaged_until = absl::FromUnixSeconds(1'700'000'000);
  const objects::RepositoryDamage damage = FiguresOf(report).damage;
  EXPECT_EQ(damage.packs.size(), objects::kDamagedPacksMax);
  EXPECT_EQ(damage.packs[0], report.damaged_packs[0].Hex());
  EXPECT_EQ(damage.packs_found, 70);
  EXPECT_EQ(damage.written_until, report.damaged_until);
}

TEST_F(JobTest, ACheckReportsOldSnapshotsOfItsClusterThatItsJobDoesNotKnow) {
  const auto upload = [this](const std::string& host, std::vector<std::string> tags) {
    const absl::StatusOr<objects::Outcome> outcome = Do(objects::UploadWork{
        .device = Path("image"), .host = host, .path = "/app", .tags = std::move(tags)});
    EXPECT_THAT(outcome, IsOk());
    return outcome->backup->snapshot_id;
  };
  const std::string named = upload("cluster", {"du-1", "velero-backup=velero/nightly"});
  const std::string unnamed = upload("cluster", {"du-2"});
  upload("cluster", {"du-3", "velero-backup=velero/known"});
  upload("another", {"du-4", "velero-backup=velero/nightly"});
  upload("cluster", {"by-hand"});
  objects::CheckWork work{
      .host = "cluster", .known_tags = {"du-3"}, .orphans_before = absl::Now() + absl::Hours(1)};
  const absl::StatusOr<objects::Outcome> found = Do(work);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->check->orphans_found, 2);
  ASSERT_EQ(found->check->orphans.size(), 2U);
  const auto& orphans = found->check->orphans;
  const auto& first = orphans[0].id == named ? orphans[0] : orphans[1];
  const auto& second = orphans[0].id == named ? orphans[1] : orphans[0];
  EXPECT_EQ(first.id, named);
  EXPECT_EQ(first.upload_tag, "du-1");
  EXPECT_EQ(first.backup, "velero/nightly");
  EXPECT_FALSE(first.made_at.empty());
  EXPECT_EQ(second.id, unnamed);
  EXPECT_EQ(second.backup, "");
  work.orphans_before = absl::Now() - absl::Hours(48);
  EXPECT_EQ(Do(work)->check->orphans_found, 0) << "one in flight is never reported";
  EXPECT_EQ(Do(objects::CheckWork())->check->orphans_found, 0) << "a job that does not ask";
}

}  // namespace
}  // namespace csidelta::datamover::job_test
