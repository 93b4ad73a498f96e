// csi-delta worker: the whole program in this process, on a repository in a folder, with an API
// server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "cli/location_store.h"
#include "objects/volume_task.h"
#include "repository/lock.h"
#include "repository/repository.h"
#include "storage/file_object_store.h"
#include "tests/cli/program_runner.h"
#include "tests/support/api_test_server.h"
#include "tests/support/await.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"
#include "tests/support/volume_jobs.h"

namespace csidelta::cli::worker_test {
namespace {

using objects::OutcomeCause;
using objects::OutcomeCode;
using objects::TaskPhase;
using objects::VolumeJob;
using objects::VolumeTaskStatus;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kImageBytes = std::size_t{2} << 20;

class WorkerTest : public testing::Test {
 protected:
  WorkerTest() : api_server_(api_, {objects::VolumeTask::Type()}) {
    program_.variables = {{"RESTIC_PASSWORD", "secret"},
                          {"RESTIC_REPOSITORY", Path("repo")},
                          {"NODE_NAME", "node-a"}};
    program_.Write("kubeconfig", api_server_.Kubeconfig());
    program_.Write("image", support::Noise(kImageBytes, 1));
    api_.SetStatusSubresource("volumetasks", true);
    Seed("du-1", objects::UploadWork{.device = Path("image"), .path = "/app/data"});
  }

  std::string Path(const std::string& name) const { return program_.Path(name); }

  static k8s::ObjectKey Task(const std::string& name) {
    return objects::VolumeTask::Key("mover", name);
  }
  VolumeJob JobFor(objects::VolumeWork work) const {
    return {.repository = {.address = Path("repo")}, .work = std::move(work)};
  }
  void Seed(const std::string& name, objects::VolumeWork work) {
    Seed(name, JobFor(std::move(work)));
  }
  void Seed(const std::string& name, VolumeJob job) {
    api_.Seed(objects::VolumeTask::Type(), support::TaskWithJob(name, std::move(job)));
  }
  VolumeTaskStatus Status(const std::string& name = "du-1") const {
    return support::As<objects::VolumeTask>(api_.Find(Task(name)).value_or(Json::object()))
        .status();
  }

  // Of the backup that "du-1" made.
  std::string SnapshotId() const {
    const VolumeTaskStatus status = Status();
    const bool names_key = status.outcome.has_value() && status.outcome->backup.has_value();
    return names_key ? status.outcome->backup->snapshot_id : "";
  }

  Outcome Run(const std::vector<std::string>& words) const { return program_.Run(words); }

  // A worker of this task. Its work waits until the task is said to run. Of work that ends at once
  // this would still be on its way, and might come to the server after its end: it then is the
  // final word.
  Outcome Work(const std::string& task) {
    program_.on_variable = [this, task](const std::string& name) {
      if (name == "RESTIC_PASSWORD") {  // The worker itself does not read it.
        support::Await("the task to run", [&] { return Status(task).phase != TaskPhase::kNone; });
      }
    };
    const absl::Cleanup restore = [this] { program_.on_variable = nullptr; };
    return Run(
        {"worker", "--task", absl::StrCat("mover/", task), "--kubeconfig", Path("kubeconfig")});
  }
  Outcome Backup() { return Work("du-1"); }

  int64_t Packs() const {
    const std::filesystem::recursive_directory_iterator files(Path("repo/data"));
    return std::count_if(begin(files), end(files),
                         [](const auto& file) { return file.is_regular_file(); });
  }

  // A lock of a worker in this Pod, of which no more is known. Returns its digits.
  std::string PutLockOfPod(const std::string& uid) const {
    storage::FileObjectStore store(Path("repo"), Random::Real());
    const CallContext ctx;
    const auto opened = repository::Repository::Open(ctx, store, "secret", {});
    EXPECT_THAT(opened, support::IsOk());
    const repository::LockFile file = {
        .time = absl::Now(),
        .hostname = repository::EncodeLockHostname({.name = "n", .process = {}, .pod_uid = uid}),
        .username = "worker",
        .pid = 1};
    const auto id =
        (*opened)->SaveFile(ctx, repository::FileKind::kLock, repository::EncodeLock(file));
    EXPECT_THAT(id, support::IsOk());
    return id.ok() ? id->Hex() : "";
  }

  ProgramRunner program_;
  support::FakeApiClient api_;
  support::ApiTestServer api_server_;
};

TEST_F(WorkerTest, BacksUpMakesTheRepositoryAndWritesItsResult) {
  const Outcome outcome = Backup();
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  const VolumeTaskStatus status = Status();
  EXPECT_EQ(status.phase, TaskPhase::kSucceeded);
  EXPECT_EQ(status.node, "node-a");
  ASSERT_TRUE(status.outcome.has_value() && status.outcome->backup.has_value());
  EXPECT_EQ(status.outcome->code, OutcomeCode::kDone);
  EXPECT_EQ(status.outcome->cause, OutcomeCause::kNone);
  EXPECT_EQ(status.outcome->message, "");
  EXPECT_EQ(status.outcome->backup->logical_bytes, kImageBytes);
  EXPECT_EQ(status.outcome->backup->mode, "full");
  EXPECT_EQ(status.outcome->backup->reason, "no-parent");
  EXPECT_GT(status.outcome->backup->peak_memory_bytes, 0);
  EXPECT_EQ(SnapshotId().size(), 64U);
  const Outcome snapshots = Run({"snapshots", "--json"});
  EXPECT_THAT(snapshots.out, HasSubstr(SnapshotId()));
}

TEST_F(WorkerTest, RestoresWhatWasBackedUp) {
  ASSERT_EQ(Backup().code, ExitCode::kOk);
  Seed("dd-1", objects::DownloadWork{.device = Path("restored"), .snapshot_id = SnapshotId()});
  const Outcome outcome = Work("dd-1");
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_EQ(Status("dd-1").phase, TaskPhase::kSucceeded);
  ASSERT_TRUE(Status("dd-1").outcome->restore.has_value());
  EXPECT_EQ(Status("dd-1").outcome->restore->logical_bytes, kImageBytes);
  EXPECT_EQ(Status("dd-1").outcome->restore->written_bytes, kImageBytes);
  EXPECT_EQ(program_.Read("restored"), support::Noise(kImageBytes, 1));
}

TEST_F(WorkerTest, NoneButAnUploadMakesARepositoryThatIsMissing) {
  Seed("dd-1",
       objects::DownloadWork{.device = Path("restored"), .snapshot_id = std::string(64, 'a')});
  Seed("dx-1", objects::ForgetWork{.items = {{.tag = "du-1"}}});
  for (const char* task : {"dd-1", "dx-1"}) {
    const Outcome outcome = Work(task);
    EXPECT_EQ(outcome.code, ExitCode::kOk);
    EXPECT_EQ(Status(task).phase, TaskPhase::kFailed);
    EXPECT_EQ(CauseOf(Status(task)), OutcomeCause::kNoRepository);
    EXPECT_THAT(MessageOf(Status(task)), AllOf(HasSubstr("csi-delta init"), Not(HasSubstr("\n"))));
    EXPECT_THAT(outcome.error, HasSubstr(MessageOf(Status(task))));
  }
}

// The Pod of a deletion may be lost at any moment, and another one restarts.
TEST_F(WorkerTest, ASnapshotForgottenAlreadyIsDone) {
  ASSERT_EQ(Backup().code, ExitCode::kOk);
  const std::string id = SnapshotId();
  for (const char* task : {"dx-1", "dx-2"}) {
    Seed(task, objects::ForgetWork{.items = {{.snapshot_id = id}}});
    EXPECT_EQ(Work(task).code, ExitCode::kOk);
    EXPECT_EQ(Status(task).phase, TaskPhase::kSucceeded) << MessageOf(Status(task));
  }
  EXPECT_EQ(Run({"snapshots", "--json"}).out, "[]\n");
}

TEST_F(WorkerTest, TheLockOfAPodThatHasEndedIsDeadAndNoOther) {
  program_.Init();
  const std::string lock = PutLockOfPod("a-1");
  VolumeJob job = JobFor(objects::ForgetWork{.items = {{.tag = "du-1"}}});
  job.lock_wait = absl::ZeroDuration();
  job.ended_pods = {"a-12", "b-1"};
  Seed("dx-1", job);
  job.ended_pods = {"b-1", "a-1"};
  Seed("dx-2", job);
  const Outcome locked = Work("dx-1");
  ASSERT_EQ(CauseOf(Status("dx-1")), OutcomeCause::kLocked) << locked.error;
  EXPECT_THAT(MessageOf(Status("dx-1")), HasSubstr("on n, Pod a-1"));
  EXPECT_THAT(Status("dx-1").outcome->locks, testing::ElementsAre(lock));
  Work("dx-2");
  EXPECT_EQ(Status("dx-2").phase, TaskPhase::kSucceeded) << MessageOf(Status("dx-2"));
}

// A worker that was lost stored its repository snapshot all the same, beside that of its successor.
TEST_F(WorkerTest, TheSiblingThatALostWorkerStoredGoesToo) {
  ASSERT_EQ(Run({"init"}).code, ExitCode::kOk);
  for (const char* tag : {"du-1", "du-1", "du-2", "du-20"}) {
    ASSERT_EQ(Run({"backup", Path("image"), "--json", "--path", "/app/data", "--tag", tag, "--tag",
                   "nightly"})
                  .code,
              ExitCode::kOk);
  }
  const Json before = ParseJson(Run({"snapshots", "--json"}).out).value_or(Json());
  ASSERT_EQ(before.size(), 4U);
  const std::string missing(64, 'a');
  Seed("dx-1", objects::ForgetWork{.items = {{.snapshot_id = GetString(before[1], {"id"})},
                                             {.snapshot_id = missing},
                                             {.tag = "du-2"}}});
  EXPECT_EQ(Work("dx-1").code, ExitCode::kOk);
  EXPECT_EQ(Status("dx-1").phase, TaskPhase::kSucceeded) << MessageOf(Status("dx-1"));
  const Json left = ParseJson(Run({"snapshots", "--json"}).out).value_or(Json());
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(GetString(left[0], {"id"}), GetString(before[3], {"id"}));
}

// A first upload that was stopped before it finished: the next one goes on with what it
// stored.
TEST_F(WorkerTest, NoSpaceIsFreedForAnUploadThatLeftNoSnapshot) {
  ASSERT_EQ(Backup().code, ExitCode::kOk);
  const std::string id = SnapshotId();
  ASSERT_TRUE(std::filesystem::remove(Path("repo/snapshots/" + id)));
  const auto before = Packs();
  Seed("dx-1", objects::ForgetWork{.items = {{.tag = "du-1"}}});
  EXPECT_EQ(Work("dx-1").code, ExitCode::kOk);
  EXPECT_GT(before, 0);
  EXPECT_EQ(Packs(), before);
  Seed("dx-2", objects::ForgetWork{.items = {{.snapshot_id = id}}});
  EXPECT_EQ(Work("dx-2").code, ExitCode::kOk);
  EXPECT_EQ(Packs(), 0) << "the one that was there is done with";
}

// A volume that needs several windows has a backup deleted between two of them.
TEST_F(WorkerTest, DataOfAnUnfinishedBackupOutlivesADeletion) {
  const auto backup = [this] {
    EXPECT_EQ(Run({"backup", Path("image"), "--json", "--path", "/app/data"}).code, ExitCode::kOk);
  };
  const auto forget = [this](const std::string& task, const std::string& id) {
    Seed(task, objects::ForgetWork{.items = {{.snapshot_id = id}}});
    EXPECT_EQ(Work(task).code, ExitCode::kOk);
    EXPECT_EQ(Status(task).phase, TaskPhase::kSucceeded) << MessageOf(Status(task));
  };
  program_.Init();
  backup();
  std::ofstream(Path("image"), std::ios::binary) << support::Noise(kImageBytes, 2);
  backup();
  std::filesystem::create_directories(Path("repo/aux/v1"));
  std::ofstream(Path("repo/aux/v1/unfinished")) << "1";
  const auto before = Packs();
  const Json snapshots = ParseJson(Run({"snapshots", "--json"}).out).value_or(Json());
  ASSERT_EQ(snapshots.size(), 2U);
  forget("dx-1", GetString(snapshots[0], {"id"}));
  EXPECT_EQ(Packs(), before);
  forget("dx-2", GetString(snapshots[1], {"id"}));
  EXPECT_EQ(Packs(), 0) << "it is not continued";
}

// A job of another version, or of none: the worker tells what it did not understand, and does
// nothing of it.
TEST_F(WorkerTest, AJobThatIsNotUnderstoodFailsAndIsNotDone) {
  const std::pair<void (*)(Json & spec), const char*> wrongs[] = {
      {[](Json& spec) { spec.erase("job"); }, "says nothing of what is to be done"},
      {[](Json& spec) { spec["type"] = "Forget"; }, "of another type than Forget"},
      {[](Json& spec) { spec["job"]["upload"]["sideways"] = true; }, "spec.job.upload.sideways"}};
  for (const auto& [change, words] : wrongs) {
    Seed("du-1", objects::UploadWork{.device = Path("image"), .path = "/app/data"});
    api_.Mutate(Task("du-1"), [change = change](Json& task) { change(task["spec"]); });
    EXPECT_EQ(Backup().code, ExitCode::kOk);
    EXPECT_EQ(Status().phase, TaskPhase::kFailed);
    EXPECT_THAT(MessageOf(Status()), AllOf(HasSubstr("mover/du-1"), HasSubstr(words)));
    EXPECT_FALSE(std::filesystem::exists(Path("repo")));
    EXPECT_TRUE(api_.Remove(Task("du-1")));
  }
}

TEST_F(WorkerTest, ATaskHasANamespaceAndAName) {
  for (const char* task : {"mover", "/du-1", "mover/", "a/b/c"}) {
    EXPECT_EQ(Run({"worker", "--task", task}).code, ExitCode::kFailed) << task;
  }
}

TEST_F(WorkerTest, WithoutItsTaskThereIsNoWork) {
  const Outcome outcome = Work("gone");
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, HasSubstr("mover/gone"));
  EXPECT_FALSE(std::filesystem::exists(Path("repo")));
}

// Where a worker reads and trusts what is which the controller found in a location.
TEST(WorkerOptionsTest, SayAllThatAJobSaysOfItsRepository) {
  const GlobalOptions options =
      OptionsOf(objects::JobRepository{.address = "s3:https://h/b",
                                       .region = "r",
                                       .bucket_lookup = "dns",
                                       .encryption = "aws:kms",
                                       .kms_key_id = "k",
                                       .tagging = "a=b&c=d",
                                       .options = {"s3.storage-class=STANDARD_IA"},
                                       .object_lock = {{"COMPLIANCE", 30}},
                                       .insecure_tls = true,
                                       .is_read_only = true,
                                       .has_certificates = true,
                                       .has_keyring = true});
  EXPECT_EQ(options.choice.repository, "s3:https://h/b");
  EXPECT_EQ(options.choice.keyring_file, "/secrets/keyring");
  EXPECT_EQ(options.added_ca_file, "/secrets/ca.crt");
  EXPECT_TRUE(options.insecure_tls);
  EXPECT_TRUE(options.no_lock) << "VerbLockTest.WithNoLockARestoreWritesNothing runs with it";
  storage::StoreSettings settings;
  for (const std::string& option : options.store_options) {
    EXPECT_THAT(ApplyStoreOption(option, settings), support::IsOk());
  }
  EXPECT_EQ(settings.region, "r");
  EXPECT_EQ(settings.style, storage::BucketStyle::kVirtualHost);
  EXPECT_EQ(settings.s3.server_side_encryption, "aws:kms");
  EXPECT_EQ(settings.s3.kms_key_id, "k");
  EXPECT_EQ(settings.s3.tagging, "a=b&c=d");
  EXPECT_EQ(settings.s3.storage_class, "STANDARD_IA");
  EXPECT_EQ(settings.s3.object_lock_mode, "COMPLIANCE");
  EXPECT_EQ(settings.s3.object_lock_duration, absl::Hours(24 * 30));
  EXPECT_THAT(settings.s3.object_lock_exempt_prefixes, testing::ElementsAre("locks/"));
  const GlobalOptions plain = OptionsOf(objects::JobRepository{.address = "/repo"});
  EXPECT_EQ(plain.choice.keyring_file, "");
  EXPECT_EQ(plain.added_ca_file, "");
  EXPECT_THAT(plain.store_options, testing::IsEmpty());
  EXPECT_FALSE(plain.no_lock || plain.insecure_tls);
}

}  // namespace
}  // namespace csidelta::cli::worker_test
