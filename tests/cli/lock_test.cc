#include "repository/lock.h"

#include <algorithm>

#include "tests/cli/sweep_fixture.h"

namespace csidelta::cli::lock_test {
namespace {

using repository::LockFile;
using support::StoreOperation;
using testing::HasSubstr;

// What the verbs do about locks.
class VerbLockTest : public SweepFixture {
 protected:
  VerbLockTest() {
    kept_ = Backup();
    kept_image_ = image_;
  }

  // A lock of a stock restic that is not running any more.
  void PutForeignLock(bool exclusive) {
    CallContext ctx;
    ctx.clock = &clock_;
    const LockFile file = {.time = clock_.Now() - absl::Hours(24),
                           .exclusive = exclusive,
                           .hostname = "laptop",
                           .username = "eve",
                           .pid = 7};
    ASSERT_TRUE(OpenRepository(ctx)
                    ->SaveFile(ctx, repository::FileKind::kLock, repository::EncodeLock(file))
                    .ok());
  }

  void RefuseLocks() {
    RefuseDeletions();
    store_.AddFault({.operation = StoreOperation::kPut,
                     .last_call = 1'000'000,
                     .status = absl::PermissionDeniedError("403 Forbidden")});
  }
};

TEST_F(VerbLockTest, ALockNamesThePodThatItIsOf) {
  variables_["POD_UID"] = "00000000-0000-4000-8000-00000000000a";
  RefuseDeletions();
  Run(BackupArguments());
  store_.ClearFaults();
  CallContext ctx;
  ctx.clock = &clock_;
  const auto opened = OpenRepository(ctx);
  const auto locks = opened->ListFiles(ctx, repository::FileKind::kLock);
  ASSERT_TRUE(locks.ok());
  ASSERT_FALSE(locks->empty());
  const auto text = opened->LoadFile(ctx, repository::FileKind::kLock, locks->front().id);
  ASSERT_TRUE(text.ok());
  const auto owner = repository::DecodeLockHostname(repository::DecodeLock(*text)->hostname);
  ASSERT_TRUE(owner.has_value());
  EXPECT_EQ(owner->pod_uid, variables_["POD_UID"]);
}

// How a worker reads from a location that is read-only.
TEST_F(VerbLockTest, WithNoLockARestoreWritesNothing) {
  const auto writes_of = [this](std::vector<std::string> arguments) {
    WriteFile("target", std::string(image_.size(), '\xa5'));
    arguments.insert(arguments.end(), {"restore", kept_, "--target", Path("target")});
    store_.Restart();
    MustRun(arguments);
    EXPECT_TRUE(ReadFile("target") == image_);
    const std::vector<support::StoreCall> calls = store_.calls();
    return std::count_if(calls.begin(), calls.end(), [](const support::StoreCall& call) {
      return call.operation == StoreOperation::kPut || call.operation == StoreOperation::kDelete;
    });
  };
  EXPECT_GE(writes_of({}), 2) << "a lock, and its removal";
  EXPECT_EQ(writes_of({"--no-lock"}), 0);
}

TEST_F(VerbLockTest, ExclusiveVerbsWaitAndNameTheHolder) {
  const std::vector<std::vector<std::string>> verbs = {
      {"forget", "--keep-last", "1"}, {"prune"}, {"check"}};
  for (const std::vector<std::string>& words : verbs) {
    PutForeignLock(/*exclusive=*/false);
    const absl::Duration before = clock_.Uptime();
    const Outcome outcome = MustRun(words);
    EXPECT_GE(clock_.Uptime() - before, absl::Minutes(30)) << words[0];
    EXPECT_LE(clock_.Uptime() - before, absl::Minutes(31) + absl::Seconds(1)) << words[0];
    EXPECT_THAT(outcome.error, HasSubstr("waiting for")) << words[0];
    EXPECT_THAT(outcome.error, HasSubstr("eve on laptop")) << words[0];
    EXPECT_EQ(CountBelow("locks/"), 0u);
  }
}

TEST_F(VerbLockTest, WithoutAWaitAForeignLockEndsItAtOnce) {
  PutForeignLock(/*exclusive=*/true);
  const std::vector<std::vector<std::string>> verbs = {
      {"forget", "--keep-last", "1"}, {"prune"}, {"check"}, BackupArguments(), {"snapshots"}};
  for (std::vector<std::string> words : verbs) {
    words.insert(words.end(), {"--retry-lock", "0"});
    const absl::Duration before = clock_.Uptime();
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.code, ExitCode::kLocked) << words[0];
    EXPECT_THAT(outcome.error, HasSubstr("eve on laptop")) << words[0];
    EXPECT_LT(clock_.Uptime() - before, absl::Seconds(2)) << words[0];
    EXPECT_EQ(CountBelow("locks/"), 1u);
  }
}

TEST_F(VerbLockTest, TheLockOfAPruneThatDiedElsewhereIsOutlasted) {
  WriteFile("target", "");
  const std::vector<std::vector<std::string>> verbs = {
      BackupArguments(), {"restore", kept_, "--target", Path("target")}, {"snapshots"}};
  for (const std::vector<std::string>& words : verbs) {
    PutForeignLock(/*exclusive=*/true);
    const absl::Duration before = clock_.Uptime();
    const Outcome outcome = MustRun(words);
    EXPECT_GE(clock_.Uptime() - before, absl::Minutes(30)) << words[0];
    EXPECT_THAT(outcome.error, HasSubstr("waiting for exclusive lock")) << words[0];
    EXPECT_THAT(outcome.error, HasSubstr("at most 31m")) << words[0];
    EXPECT_EQ(CountBelow("locks/"), 0u);
  }
  ExpectGood({});
}

TEST_F(VerbLockTest, ABackupDoesNotWaitForAnotherBackup) {
  PutForeignLock(/*exclusive=*/false);
  const absl::Duration before = clock_.Uptime();
  MustRun(BackupArguments());
  EXPECT_LT(clock_.Uptime() - before, absl::Seconds(2));
  EXPECT_EQ(CountBelow("locks/"), 1u);
}

TEST_F(VerbLockTest, RefusedLocksAllowReadingButNoMaintenance) {
  const std::map<std::string, std::string> before = store_.objects();
  RefuseLocks();
  WriteFile("target", "");
  const Outcome outcome = MustRun({"restore", kept_, "--target", Path("target")});
  EXPECT_THAT(outcome.error, HasSubstr("continuing without a lock"));
  EXPECT_TRUE(ReadFile("target") == kept_image_);
  EXPECT_THAT(MustRun({"check", "--read-data"}).error, HasSubstr("continuing without a lock"));
  const std::vector<std::vector<std::string>> verbs = {
      {"forget", "--keep-last", "1"}, {"prune"}, BackupArguments()};
  for (const std::vector<std::string>& words : verbs) {
    EXPECT_EQ(Run(words).code, ExitCode::kFailed) << words[0];
    EXPECT_TRUE(store_.objects() == before) << words[0];
  }
}

TEST_F(VerbLockTest, ABackupWhoseLockWasRemovedCommitsNothing) {
  WriteImage({1, 12, 3, 14, 5, 6});
  store_.AddFault({.operation = StoreOperation::kStat,
                   .key_prefix = "locks/",
                   .status = absl::NotFoundError("removed by another client")});
  const Outcome outcome = Run(BackupArguments());
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, HasSubstr("removed by another client"));
  EXPECT_EQ(CountBelow("snapshots/"), 1u);
  store_.ClearFaults();
  ExpectGood({});
}

}  // namespace
}  // namespace csidelta::cli::lock_test
