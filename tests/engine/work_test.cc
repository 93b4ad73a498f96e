// Backup, restore, check and the removal of snapshots, from the job to the outcome, on a repository
// in a folder and without the program around them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backup.h"
#include "engine/check.h"
#include "engine/forget.h"
#include "engine/prune.h"
#include "engine/restore.h"
#include "incremental/mover/block_uploader.h"
#include "incremental/mover/full_reason.h"
#include "tests/support/cheap_scrypt.h"
#include "tests/support/fake_locked_store.h"
#include "tests/support/fake_object_store.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/impatient_clock.h"
#include "tests/support/lent_store.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

namespace csidelta::engine::work_test {
namespace {

using incremental::BackupResult;
using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr std::size_t kImageBytes = std::size_t{2} << 20;

class WorkTest : public testing::Test {
 protected:
  WorkTest() {
    Write("image", support::Noise(kImageBytes, 1));
    EXPECT_THAT(NewSession()->Init(ctx_), IsOk());
  }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  SessionOptions Options() {
    SessionOptions options = OptionsOfFolder();
    if (store_ != nullptr) {
      options.open_store = [this](
                               const storage::Location&, const storage::StoreSettings&,
                               Random&) -> absl::StatusOr<std::unique_ptr<storage::OpenedStore>> {
        return std::make_unique<support::LentStore>(*store_);
      };
    }
    return options;
  }
  SessionOptions OptionsOfFolder() {
    return {.place = [this](const CallContext&, LockKind) -> absl::StatusOr<RepositoryTarget> {
              ++opened_;
              return RepositoryTarget{.location = {.directory = Path("repo")}, .settings = {}};
            },
            .keyring = []() -> absl::StatusOr<std::optional<repository::Keyring>> {
              return std::nullopt;
            },
            .keyring_name = [] { return "the ring"; },
            .password = [this](const CallContext&, const std::string&,
                               bool) -> absl::StatusOr<Secret> { return Secret(password_); },
            .program_version = "csi-delta test",
            .host = "here",
            .user = "another client",
            .scratch_folder = folder_.path(),
            .memory_budget_bytes = memory_budget_bytes_,
            .no_lock = no_lock_,
            .retry_lock = absl::ZeroDuration(),
            .scrypt = support::kCheapScrypt,
            .listener = {.note = [this](absl::string_view text) { notes_.emplace_back(text); },
                         .warn = [this](absl::string_view text) { warnings_.emplace_back(text); }}};
  }
  std::unique_ptr<Session> NewSession() { return std::make_unique<Session>(Options()); }

  // Of bytes or of objects.
  static auto Ignored() {
    return [](const auto&...) {};
  }
  static RestoreConsent Yes() {
    return [](const RestorePlan&) { return absl::OkStatus(); };
  }

  absl::StatusOr<BackupResult> Backup(const BackupJob& job) {
    return RunBackup(ctx_, *NewSession(), job, Ignored());
  }
  // Whose snapshot is there.
  BackupResult Backed(const std::string& path = "/app") {
    const absl::StatusOr<BackupResult> result = Backup({.device = Path("image"), .path = path});
    EXPECT_THAT(result, IsOk());
    return result.value_or(BackupResult());
  }
  absl::StatusOr<RestoreOutcome> Restore(const RestoreJob& job) {
    return RunRestore(ctx_, *NewSession(), job, Yes(), Ignored());
  }

  const support::ScratchFolder folder_;
  support::ImpatientClock clock_;
  CallContext ctx_{.clock = &clock_};
  std::string password_ = "secret";
  bool no_lock_ = false;
  int64_t memory_budget_bytes_ = incremental::kMemoryBudgetBytes;
  support::FakeLockedStore locked_{Clock::Real()};
  storage::ObjectStore* store_ = nullptr;  // The repository is there, not in the folder.
  int opened_ = 0;
  std::vector<std::string> notes_;
  std::vector<std::string> warnings_;
};

// A driver that reports the bytes in use as restoreSize, and cuts off what it makes of a snapshot.
TEST_F(WorkTest, AVolumeThatEndsBeforeItsFileSystemIsNotBackedUp) {
  const auto back_up = [&](char blocks) {  // of 4 KiB, beside 512
    std::string image(kImageBytes, '\0');
    image.replace(0, 16, std::string("XFSB\0\0\x10\0\0\0\0\0\0\0\x02\0", 16));
    image[15] = blocks;
    Write("image", image);
    return Backup(
        {.device = Path("image"), .cluster = {.volume_snapshot = "mover/du-1"}, .path = "/app"});
  };
  EXPECT_THAT(back_up(1), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("but its xfs has 2101248: the end is missing")));
  EXPECT_EQ(opened_, 1) << "the repository is not even opened";
  EXPECT_THAT(back_up(0).status().message(), testing::Not(HasSubstr("missing")));
}

TEST_F(WorkTest, ABackupSaysWhatItDid) {
  std::vector<std::string> stages;
  int64_t done_bytes = 0;
  const std::unique_ptr<Session> session = NewSession();
  const absl::StatusOr<BackupResult> result =
      RunBackup(ctx_, *session,
                {.device = Path("image"), .measure = true, .tags = {"a", "b"}, .path = "/app"},
                [&](const incremental::TransferProgress& now) {
                  if (stages.empty() || stages.back() != now.stage) {
                    stages.emplace_back(now.stage);
                  }
                  done_bytes = now.done_bytes;
                });
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->mode_done, "full");
  EXPECT_EQ(result->logical_bytes, kImageBytes);
  EXPECT_GE(done_bytes, kImageBytes);
  EXPECT_LT(done_bytes, kImageBytes + (kImageBytes >> 4));
  EXPECT_EQ(stages, (std::vector<std::string>{"transfer", "audit", "uploads", "commit"}));
  ASSERT_TRUE(result->repository.has_value());
  EXPECT_EQ(result->repository->snapshots, 1);
  const auto stored = session->repository()->FindSnapshot(ctx_, result->snapshot.Hex());
  ASSERT_THAT(stored, IsOk());
  EXPECT_EQ(stored->snapshot.hostname, "here");
  EXPECT_EQ(stored->snapshot.username, "another client");
  EXPECT_EQ(stored->snapshot.program_version, "csi-delta test");
  EXPECT_THAT(stored->snapshot.paths, testing::ElementsAre("/app"));
  EXPECT_THAT(stored->snapshot.tags, testing::IsSupersetOf({"a", "b"}));
}

TEST_F(WorkTest, ABackupThatMustNotReadEverythingFails) {
  Backed();
  Write("list", "{\"base\":\"another\"}\n{\"end\":true}\n");
  BackupJob job{.device = Path("image"), .extents = Path("list"), .path = "/app"};
  job.on_fallback = objects::OnFallback::kFail;
  EXPECT_TRUE(incremental::IsFallbackRefused(Backup(job).status()));
  EXPECT_THAT(warnings_, IsEmpty());
  job.on_fallback = objects::OnFallback::kProceed;
  EXPECT_THAT(Backup(job), IsOk());
  EXPECT_THAT(warnings_, IsEmpty());
  job.on_fallback = objects::OnFallback::kWarn;
  const absl::StatusOr<BackupResult> result = Backup(job);
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(result->list_refused);
  EXPECT_THAT(warnings_, testing::SizeIs(1));
}

TEST_F(WorkTest, ABackupThatIsStoppedIsCancelledAndTheNextOneGoesOn) {
  std::stop_source stop;
  CallContext ctx = ctx_;
  ctx.stop = stop.get_token();
  EXPECT_THAT(RunBackup(ctx, *NewSession(), {.device = Path("image"), .path = "/app"},
                        [&](const incremental::TransferProgress&) { stop.request_stop(); })
                  .status(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("run it again")));
  Backed();
}

TEST_F(WorkTest, AJobThatContradictsItselfOpensNothing) {
  BackupJob backup{.device = Path("image"), .extents = Path("list")};
  backup.cluster.volume_snapshot = "a/b";
  opened_ = 0;
  EXPECT_THAT(Backup(backup).status(), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Restore({.snapshot = "latest",
                       .target = Path("restored"),
                       .target_is_zero = true,
                       .only_differing = true})
                  .status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(opened_, 0);
}

TEST_F(WorkTest, ARestoreSaysWhatItWroteOverWhat) {
  const BackupResult backup = Backed();
  const absl::StatusOr<RestoreOutcome> outcome =
      Restore({.snapshot = "latest", .target = Path("restored")});
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->plan.snapshot.id.Hex(), backup.snapshot.Hex());
  EXPECT_EQ(outcome->plan.target.kind, RestoreTarget::Kind::kNewFile);
  EXPECT_EQ(outcome->plan.volume_bytes, kImageBytes);
  ASSERT_TRUE(outcome->result.has_value());
  EXPECT_EQ(outcome->result->written_bytes, kImageBytes);
  EXPECT_EQ(Read("restored"), Read("image"));
}

TEST_F(WorkTest, ADryRunWritesNothing) {
  Backed();
  const absl::StatusOr<RestoreOutcome> outcome =
      Restore({.snapshot = "latest", .target = Path("restored"), .is_dry_run = true});
  ASSERT_THAT(outcome, IsOk());
  EXPECT_FALSE(outcome->result.has_value());
  EXPECT_EQ(outcome->plan.volume_bytes, kImageBytes);
  EXPECT_FALSE(std::filesystem::exists(Path("restored")));
}

TEST_F(WorkTest, WithoutConsentTheTargetStaysAsItIs) {
  Backed();
  const std::string before = support::Noise(kImageBytes, 2);
  Write("restored", before);
  RestorePlan asked;
  EXPECT_THAT(RunRestore(
                  ctx_, *NewSession(), {.snapshot = "latest", .target = Path("restored")},
                  [&](const RestorePlan& plan) {
                    asked = plan;
                    return absl::FailedPreconditionError("no");
                  },
                  Ignored())
                  .status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, "no"));
  EXPECT_EQ(asked.target.kind, RestoreTarget::Kind::kFile);
  EXPECT_EQ(asked.target.size_bytes, kImageBytes);
  EXPECT_EQ(Read("restored"), before);
}

TEST_F(WorkTest, ARestoreThatComesTooLateWritesNothing) {
  Backed();
  opened_ = 0;
  EXPECT_THAT(Restore({.snapshot = "latest",
                       .target = Path("restored"),
                       .start_before = absl::FromUnixSeconds(1'700'000'000)})
                  .status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("it is later than 2023-11-14T22:13:20Z")));
  EXPECT_EQ(opened_, 0);
  EXPECT_THAT(Restore({.snapshot = "latest",
                       .target = Path("restored"),
                       .start_before = absl::Now() + absl::Hours(1)}),
              IsOk());
}

TEST_F(WorkTest, ATargetThatIsTooSmallIsMarked) {
  Backed();
  Write("restored", "x");
  EXPECT_TRUE(
      IsTargetTooSmall(Restore({.snapshot = "latest", .target = Path("restored")}).status()));
  EXPECT_EQ(Read("restored"), "x");
}

TEST_F(WorkTest, ARestoreWaitsUntilItMayWrite) {
  Backed();
  SessionOptions options = Options();
  options.await_writing = [](const CallContext&) { return absl::FailedPreconditionError("never"); };
  Session session(std::move(options));
  EXPECT_THAT(RunRestore(ctx_, session, {.snapshot = "latest", .target = Path("restored")}, Yes(),
                         Ignored())
                  .status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, "never"));
}

TEST_F(WorkTest, WhatIsForgottenGoesAndThenItsSpace) {
  const BackupResult one = Backed("/one");
  Write("image", support::Noise(kImageBytes, 3));
  Backed("/two");
  const ForgetJob job{.ids = {one.snapshot.Hex()}, .frees_space = true};
  const std::unique_ptr<Session> session = NewSession();
  const absl::StatusOr<ForgetOutcome> outcome = RunForget(ctx_, *session, job, Ignored());
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->removed, 1U);
  ASSERT_THAT(outcome->groups, testing::SizeIs(1));
  EXPECT_EQ(outcome->groups[0].remove.at(0).id.Hex(), one.snapshot.Hex());
  const auto pruned = FreeSpace(ctx_, *session, job, *outcome, Ignored());
  ASSERT_THAT(pruned, IsOk());
  ASSERT_TRUE(pruned->has_value());
  EXPECT_GE((*pruned)->figures.bytes_freed, kImageBytes);
  EXPECT_GT((*pruned)->done.packs_deleted, 0);
}

TEST_F(WorkTest, SpaceIsFreedWhereSomethingWasRemovedAndTheJobSaysSo) {
  const BackupResult backup = Backed();
  const auto frees = [&](const ForgetJob& job) {
    const std::unique_ptr<Session> session = NewSession();
    const absl::StatusOr<ForgetOutcome> outcome = RunForget(ctx_, *session, job, Ignored());
    EXPECT_THAT(outcome, IsOk());
    const auto pruned = FreeSpace(ctx_, *session, job, *outcome, Ignored());
    EXPECT_THAT(pruned, IsOk());
    return pruned->has_value();
  };
  const std::string id = backup.snapshot.Hex();
  const std::string unknown(64, 'a');
  EXPECT_FALSE(frees({.ids = {id}, .is_dry_run = true, .frees_space = true}));
  EXPECT_FALSE(frees(
      {.ids = {"latest"}, .filter = {.tags = {"x"}}, .ignore_missing = true, .frees_space = true}));
  EXPECT_TRUE(frees({.ids = {unknown}, .ignore_missing = true, .frees_space = true}))
      << "an attempt before this one may have come no further";
  EXPECT_FALSE(frees({.ids = {id}}));
  EXPECT_THAT(RunForget(ctx_, *NewSession(), {.ids = {id}}, Ignored()).status(),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(WorkTest, SnapshotsAreNamedByIdsOrByRules) {
  ForgetJob job{.ids = {"latest"}};
  job.rules.last = 1;
  EXPECT_THAT(RunForget(ctx_, *NewSession(), job, Ignored()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// A stranger's: each verb that reads names a few of them, once, and counts the others.
TEST_F(WorkTest, JunkAmongTheSnapshotsIsNamedAndStopsNoVerbThatReads) {
  const BackupResult backup = Backed();
  for (int i = 0; i < 100; ++i) {
    const std::string bytes(static_cast<std::size_t>(i + 1), 'j');
    Write("repo/snapshots/" + repository::Id::Of(bytes).Hex(), bytes);
  }
  const auto told = [&] {
    return std::count_if(warnings_.begin(), warnings_.end(), [](const std::string& text) {
      return text.find("snapshots/") != std::string::npos;
    });
  };
  EXPECT_THAT(Restore({.snapshot = "latest", .target = Path("restored")}), IsOk());
  EXPECT_EQ(told(), 9);
  EXPECT_THAT(warnings_.back(), testing::StartsWith("92 other files of snapshots/ cannot be read"));
  warnings_.clear();
  ForgetJob job{.tags = {"none"}};
  EXPECT_THAT(RunForget(ctx_, *NewSession(), job, Ignored()), IsOk());
  job = {.ids = {}};
  job.rules.last = 1;
  EXPECT_THAT(RunForget(ctx_, *NewSession(), job, Ignored()), IsOk());
  EXPECT_EQ(told(), 18);
  EXPECT_THAT(RunForget(ctx_, *NewSession(), {.ids = {"latest"}}, Ignored()).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("by its id")));
  EXPECT_THAT(RunPrune(ctx_, *NewSession(), {}, Ignored()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("nor do 99 others")));
  // A backup builds on what reads, and tells of the others once.
  warnings_.clear();
  const absl::StatusOr<BackupResult> next = Backup({.device = Path("image"), .path = "/app"});
  ASSERT_THAT(next, IsOk());
  EXPECT_EQ(next->base, backup.snapshot.Hex());
  EXPECT_EQ(told(), 9);
  EXPECT_THAT(Backup({.device = Path("image"), .path = "/app"}), IsOk());
  EXPECT_EQ(told(), 9);
}

TEST_F(WorkTest, EachVerbRefusesWithTheBudgetThatIsEnough) {
  Backed();
  const std::vector<std::pair<const char*, std::function<absl::Status()>>> verbs = {
      {"restore",
       [&] { return Restore({.snapshot = "latest", .target = Path("restored")}).status(); }},
      {"forget",
       [&] {
         ForgetJob job;
         job.rules.last = 1;
         return RunForget(ctx_, *NewSession(), job, Ignored()).status();
       }},
      {"check", [&] { return RunCheck(ctx_, *NewSession(), {}, Ignored()).status(); }},
      {"prune", [&] { return RunPrune(ctx_, *NewSession(), {}, Ignored()).status(); }}};
  for (const auto& [name, run] : verbs) {
    SCOPED_TRACE(name);
    memory_budget_bytes_ = 40 * kMiB;
    absl::Status refusal = run();
    EXPECT_FALSE(refusal.ok());
    for (int tries = 0; tries < 8 && !refusal.ok(); ++tries) {
      const std::string text(refusal.message());
      const std::string before = "memory budget of at least ";
      const std::size_t at = text.find(before);
      ASSERT_NE(at, std::string::npos) << refusal;
      const int64_t said_bytes = std::atoll(text.c_str() + at + before.size()) * kMiB;
      ASSERT_GT(said_bytes, memory_budget_bytes_) << refusal;
      ASSERT_LE(said_bytes, 96 * kMiB) << refusal;
      memory_budget_bytes_ = said_bytes;
      refusal = run();
    }
    EXPECT_THAT(refusal, IsOk());
  }
}

TEST_F(WorkTest, ACheckFindsDamageAndSaysWithWhichSeed) {
  Backed();
  const CheckJob job{.read_data = repository::ReadEverything{}};
  const absl::StatusOr<CheckOutcome> good = RunCheck(ctx_, *NewSession(), job, Ignored());
  ASSERT_THAT(good, IsOk());
  EXPECT_TRUE(good->report.ok());
  EXPECT_EQ(good->report.snapshots, 1);
  EXPECT_GT(good->report.packs_read, 0);
  for (const auto& file : std::filesystem::recursive_directory_iterator(Path("repo") + "/data")) {
    if (file.is_regular_file()) {
      std::filesystem::permissions(file.path(), std::filesystem::perms::owner_all);
      std::fstream pack(file.path(), std::ios::binary | std::ios::in | std::ios::out);
      pack.seekp(100);
      pack << "damage";
    }
  }
  const absl::StatusOr<CheckOutcome> bad = RunCheck(ctx_, *NewSession(), job, Ignored());
  ASSERT_THAT(bad, IsOk());
  EXPECT_FALSE(bad->report.ok());
  EXPECT_NE(bad->seed, good->seed);
}

TEST_F(WorkTest, ACheckRenewsLocksFirstAndSaysWhatCameOfIt) {
  const repository::RenewLocksOptions renewal{.mode = "COMPLIANCE", .days = 30};
  Backed();
  // A folder has no object locks; that is an error, and the check is made all the same.
  const absl::StatusOr<CheckOutcome> without =
      RunCheck(ctx_, *NewSession(), {.beside_backups = true, .renew_locks = renewal}, Ignored());
  ASSERT_THAT(without, IsOk());
  ASSERT_TRUE(without->locks.has_value());
  EXPECT_THAT(without->locks->status(), StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_EQ(without->report.snapshots, 1);

  store_ = &locked_;
  ASSERT_THAT(NewSession()->Init(ctx_), IsOk());
  Backed();
  EXPECT_FALSE(RunCheck(ctx_, *NewSession(), {}, Ignored())->locks.has_value());
  const absl::StatusOr<CheckOutcome> with =
      RunCheck(ctx_, *NewSession(), {.beside_backups = true, .renew_locks = renewal}, Ignored());
  ASSERT_THAT(with, IsOk());
  EXPECT_TRUE(with->report.ok());
  ASSERT_THAT(*with->locks, IsOk());
  EXPECT_GT((*with->locks)->objects, 5);
  EXPECT_EQ((*with->locks)->extended, (*with->locks)->objects);
  locked_.MaySetRetention(false);
  const absl::StatusOr<CheckOutcome> refused = RunCheck(
      ctx_, *NewSession(),
      {.beside_backups = true, .renew_locks = {{.mode = "COMPLIANCE", .days = 90}}}, Ignored());
  ASSERT_THAT(refused, IsOk());
  EXPECT_EQ((*refused->locks)->failed, (*refused->locks)->objects);
}

TEST_F(WorkTest, ForgetAndPruneSayWhatStaysLockedAndUntilWhen) {
  store_ = &locked_;
  locked_.LockPuts("GOVERNANCE", absl::Hours(24 * 30));
  ASSERT_THAT(NewSession()->Init(ctx_), IsOk());
  const BackupResult first = Backed();
  Write("image", support::Noise(kImageBytes, 2));
  Backed();
  const absl::Time before = absl::Now();
  const auto forget = [&](const std::string& id) {
    const std::unique_ptr<Session> session = NewSession();
    const ForgetJob job{.ids = {id}, .frees_space = true, .prune = {.unused_max = {.percent = 0}}};
    const absl::StatusOr<ForgetOutcome> outcome = RunForget(ctx_, *session, job, Ignored());
    EXPECT_THAT(outcome, IsOk());
    EXPECT_EQ(outcome->locked.asked, 2) << "its file and the sidecar";
    EXPECT_EQ(outcome->locked.locked, 2);
    EXPECT_GE(outcome->locked.until, before + absl::Hours(24 * 29));
    const auto pruned = FreeSpace(ctx_, *session, job, *outcome, Ignored());
    EXPECT_THAT(pruned, IsOk());
    return pruned->value_or(PruneOutcome());
  };
  const PruneOutcome pruned = forget(first.snapshot.Hex());
  EXPECT_GT(pruned.locked.asked, 0);
  EXPECT_EQ(pruned.locked.locked, pruned.locked.asked);
  EXPECT_GE(pruned.locked.until, before + absl::Hours(24 * 29));
  EXPECT_THAT(TextOf(pruned.locked, "packs"),
              HasSubstr("deleted packs stay in the bucket as versions"));
  EXPECT_EQ(TextOf(LockedObjects(), "packs"), "");
}

TEST_F(WorkTest, WithoutALockNothingIsWritten) {
  Backed();
  no_lock_ = true;
  EXPECT_THAT(Backup({.device = Path("image")}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--no-lock")));
  EXPECT_THAT(RunPrune(ctx_, *NewSession(), {}, Ignored()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Restore({.snapshot = "latest", .target = Path("restored")}), IsOk());
}

TEST_F(WorkTest, APasswordThatDoesNotOpenItIsSaid) {
  password_ = "wrong";
  EXPECT_TRUE(repository::IsWrongPassword(Backup({.device = Path("image")}).status()));
}

// --- Parents of another PVC

class RestoredPvcTest : public WorkTest {
 protected:
  static constexpr std::size_t kChunk = std::size_t{512} << 10;

  // Of the PVC with that uid.
  BackupJob JobOf(const std::string& pvc_uid, const std::string& restored = "") const {
    return {.device = Path("image"),
            .pvc_uid = pvc_uid,
            .restored_snapshot = restored,
            .path = "/shop/data"};
  }
  BackupResult Do(const BackupJob& job) {
    const absl::StatusOr<BackupResult> result = Backup(job);
    EXPECT_THAT(result, IsOk());
    return result.value_or(BackupResult());
  }
  static std::string Why(const BackupResult& result) {
    return result.why.has_value() ? incremental::ToString(*result.why) : "";
  }
  // One chunk is another.
  void Change(uint64_t seed) {
    Write("image", Read("image").replace(kChunk, kChunk, support::Noise(kChunk, seed)));
  }
  void Forget(const BackupResult& backup) {
    EXPECT_THAT(RunForget(ctx_, *NewSession(), {.ids = {backup.snapshot.Hex()}}, Ignored()),
                IsOk());
  }
  // What changed since `base`: nothing.
  BackupJob Listed(BackupJob job, const BackupResult& base) const {
    Write("list", "{\"base\":\"" + base.snapshot.Hex() + "\"}\n{\"end\":true}\n");
    job.extents = Path("list");
    return job;
  }
};

TEST_F(RestoredPvcTest, GoesOnFromWhatFilledItAndIsIncrementalFromThenOn) {
  const BackupResult first = Do(JobOf("a"));
  const std::string restored = Read("image");
  Change(2);
  const BackupResult newest = Do(JobOf("a"));
  Write("image", restored);
  Change(3);
  // A list that says that nothing changed is not asked.
  const BackupResult went_on = Do(Listed(JobOf("b", first.snapshot.Hex()), newest));
  EXPECT_EQ(Why(went_on), "restored");
  EXPECT_EQ(went_on.mode_asked, "incremental");
  EXPECT_EQ(went_on.base, first.snapshot.Hex());
  EXPECT_EQ(went_on.read_bytes, kImageBytes);
  EXPECT_GE(went_on.audit_bytes * 100, went_on.logical_bytes);
  EXPECT_LT(went_on.new_bytes, kChunk + 64 * 1024) << "a chunk, trees and volume.json";
  const BackupResult next = Do(Listed(JobOf("b", first.snapshot.Hex()), went_on));
  EXPECT_EQ(Why(next), "");
  EXPECT_EQ(next.mode_done, "incremental");
  EXPECT_EQ(next.base, went_on.snapshot.Hex());
  EXPECT_EQ(next.image_tree, went_on.image_tree);
}

// A driver that is asked to compare snapshots of two volumes may answer nonsense.
TEST_F(RestoredPvcTest, NoListIsBelievedOverAParentOfAnotherPvc) {
  struct Case {
    const char* what;
    const char* parents_pvc;
    bool is_restored;
    const char* want;
    const char* pvc = "b";
  };
  for (const Case& one : {Case{"its own", "b", true, ""}, Case{"its own alone", "b", false, ""},
                          Case{"the program knows no PVC", "a", false, "", ""},
                          Case{"a late one beside a restored one", "a", false, "restored"},
                          Case{"written before PVCs were named", "", true, "restored"},
                          Case{"the same, not restored", "", false, ""}}) {
    SCOPED_TRACE(one.what);
    BackupJob parent = JobOf(one.parents_pvc);
    parent.path = absl::StrCat("/shop/", one.what);
    const BackupResult base = Do(parent);
    BackupJob job = JobOf(one.pvc, one.is_restored ? base.snapshot.Hex() : "");
    job.path = parent.path;
    EXPECT_EQ(Why(Do(Listed(job, base))), one.want);
  }
}

// A cluster was adopted that is not gone: both go on in one repository.
TEST_F(RestoredPvcTest, TwoWritersBuildOnEachOthersBackupsByContentAlone) {
  const BackupResult first = Do(JobOf("a"));
  Change(2);
  const BackupResult adopted = Do(Listed(JobOf("b", first.snapshot.Hex()), first));
  Change(3);
  const BackupResult late = Do(Listed(JobOf("a"), adopted));
  EXPECT_EQ(Why(late), "restored");
  EXPECT_EQ(late.read_bytes, kImageBytes);
  BackupJob whole = JobOf("a");
  whole.is_requested_full = true;
  EXPECT_EQ(Do(whole).image_tree, late.image_tree);
}

TEST_F(RestoredPvcTest, WithoutWhatFilledItAnythingOfTheVolumeServes) {
  const BackupResult first = Do(JobOf("a"));
  Change(2);
  const BackupResult newest = Do(JobOf("a"));
  Forget(first);
  const BackupResult went_on = Do(JobOf("b", first.snapshot.Hex()));
  EXPECT_EQ(Why(went_on),
            "restored: the backup that it was restored from is gone, so it builds on another");
  EXPECT_EQ(went_on.base, newest.snapshot.Hex());
  EXPECT_LT(went_on.new_bytes, kChunk);
  Forget(newest);
  Forget(went_on);
  EXPECT_EQ(Why(Do(JobOf("c", first.snapshot.Hex()))),
            "no-parent: nothing is left of the backups that the PVC was restored from");
}

// A store that is away for a moment is no reason to store everything again.
TEST_F(RestoredPvcTest, WhatCannotBeLookedForIsNotGone) {
  support::FakeObjectStore store;
  store_ = &store;
  ASSERT_THAT(NewSession()->Init(ctx_), IsOk());
  const BackupResult first = Do(JobOf("a"));
  Do(JobOf("a"));
  store.AddFault({.operation = support::StoreOperation::kGet,
                  .key_prefix = "snapshots/" + first.snapshot.Hex(),
                  .first_call = 2,
                  .last_call = 2,
                  .status = absl::PermissionDeniedError("not now")});
  EXPECT_THAT(Backup(JobOf("b", first.snapshot.Hex())).status(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("not now")));
  EXPECT_EQ(Do(JobOf("b", first.snapshot.Hex())).base, first.snapshot.Hex());
}

// The volume is read in any case: onFallback: fail would forbid each of its backups.
TEST_F(RestoredPvcTest, IfWhatFilledItIsDamagedTheFirstBackupIsAFullOne) {
  support::FakeObjectStore store;
  store_ = &store;
  ASSERT_THAT(NewSession()->Init(ctx_), IsOk());
  const BackupResult first = Do(JobOf("a"));
  const auto stored = store.objects();
  Change(2);
  Do(JobOf("a"));
  for (const auto& [key, bytes] : stored) {
    if (key.starts_with("data/")) {
      store.RemoveObject(key);
    }
  }
  BackupJob job = JobOf("b", first.snapshot.Hex());
  job.on_fallback = objects::OnFallback::kFail;
  EXPECT_THAT(Why(Do(job)), HasSubstr("parent-damaged"));
}

TEST_F(RestoredPvcTest, WhatTheUserAsksForComesFirst) {
  const BackupResult first = Do(JobOf("a"));
  const BackupResult newest = Do(JobOf("a"));
  BackupJob job = JobOf("b", first.snapshot.Hex());
  job.parent = newest.snapshot.Hex();
  job.on_fallback = objects::OnFallback::kFail;
  const BackupResult named = Do(job);
  EXPECT_EQ(named.base, newest.snapshot.Hex());
  EXPECT_EQ(Why(named), "restored") << "which is no fallback";
  job.is_requested_full = true;
  EXPECT_EQ(Why(Do(job)), "requested");
}

// Else no backup of the PVC would succeed until an operator removes the file.
TEST_F(RestoredPvcTest, ADamagedFileOfWhatFilledItStopsNoBackup) {
  const BackupResult first = Do(JobOf("a"));
  const BackupResult newest = Do(JobOf("a"));
  Write("repo/snapshots/" + first.snapshot.Hex(), "junk");
  const BackupResult went_on = Do(JobOf("b", first.snapshot.Hex()));
  EXPECT_EQ(Why(went_on),
            "restored: the backup that it was restored from cannot be read, so it builds on "
            "another");
  EXPECT_EQ(went_on.base, newest.snapshot.Hex());
}

TEST_F(RestoredPvcTest, AnotherVolumesSnapshotIsNoParent) {
  for (const bool is_elsewhere : {false, true}) {
    BackupJob others = JobOf("x");
    others.path = is_elsewhere ? others.path : "/shop/other";
    others.host = is_elsewhere ? "elsewhere" : "";
    const BackupResult other = Do(others);
    const BackupResult own = Do(JobOf("a"));
    const BackupResult went_on = Do(JobOf("b", other.snapshot.Hex()));
    EXPECT_EQ(went_on.base, own.snapshot.Hex());
    EXPECT_THAT(Why(went_on), HasSubstr("so it builds on another"));
  }
}

TEST_F(RestoredPvcTest, WhyItStartsOverIsSaid) {
  BackupJob job = JobOf("b");
  job.why_no_parent = "restored from a backup of cluster x";
  EXPECT_EQ(Why(Do(job)), "no-parent: restored from a backup of cluster x");
  EXPECT_EQ(Why(Do(Listed(job, Do(job)))), "") << "once";
  job.is_requested_full = true;
  EXPECT_EQ(Why(Do(job)), "requested");
}

}  // namespace
}  // namespace csidelta::engine::work_test
