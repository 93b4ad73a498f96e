// What processes of two versions read of each other, written down by the program of commit fbeb56d:
// phases, the objects of the mover, and the annotations in which it keeps what it did. During a
// rollout a controller of one version and a worker of another work on the same VolumeTask;
// afterwards a new controller goes on with DataUploads of the old one.
//
// A failure here means: the new version does not understand what the old one wrote, or the old one
// what the new writes. Fields may be added (add them here); none may be renamed, removed or given
// another meaning. See derived_names_test.cc.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "csi/base_snapshots.h"
#include "csi/expose/exposed_snapshot.h"
#include "csi/group/moved_group.h"
#include "datamover/keyring.h"
#include "datamover/mover_environment.h"
#include "datamover/records/upload_report.h"
#include "datamover/transfer_object.h"
#include "datamover/worker/deletion_queue.h"
#include "k8s/object.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/patch.h"
#include "objects/volume_task.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::wire_forms_test {
namespace {

using objects::DataPhase;
using objects::DeletionPhase;
using objects::DeletionTrouble;
using objects::TaskKind;
using objects::TaskPhase;
using support::IsOk;

constexpr absl::Time kNoon = absl::FromUnixSeconds(1772366400);

objects::VolumeTaskStatus TaskStatusOf(const Json& status) {
  return support::As<objects::VolumeTask>({{"status", status}}).status();
}

objects::DataDeletionStatus DeletionStatusOf(const Json& status) {
  return support::As<objects::DataDeletion>({{"status", status}}).status();
}

TEST(WireFormsTest, Phases) {
  for (const auto& [phase, text] :
       std::vector<std::pair<DataPhase, std::string>>{{DataPhase::kNew, "New"},
                                                      {DataPhase::kAccepted, "Accepted"},
                                                      {DataPhase::kPrepared, "Prepared"},
                                                      {DataPhase::kInProgress, "InProgress"},
                                                      {DataPhase::kCanceling, "Canceling"},
                                                      {DataPhase::kCanceled, "Canceled"},
                                                      {DataPhase::kCompleted, "Completed"},
                                                      {DataPhase::kFailed, "Failed"}}) {
    EXPECT_EQ(objects::ToString(phase), text);
    EXPECT_EQ(support::As<objects::DataUpload>({{"status", {{"phase", text}}}}).known_phase(),
              phase);
  }
  for (const auto& [phase, text] :
       std::vector<std::pair<TaskPhase, std::string>>{{TaskPhase::kRunning, "Running"},
                                                      {TaskPhase::kSucceeded, "Succeeded"},
                                                      {TaskPhase::kFailed, "Failed"},
                                                      {TaskPhase::kCanceled, "Canceled"},
                                                      {TaskPhase::kInterrupted, "Interrupted"}}) {
    EXPECT_EQ(objects::ToString(phase), text);
    EXPECT_EQ(TaskStatusOf({{"phase", text}}).phase, phase);
  }
  for (const auto& [phase, text] : std::vector<std::pair<DeletionPhase, std::string>>{
           {DeletionPhase::kWaiting, "Waiting"},
           {DeletionPhase::kInProgress, "InProgress"},
           {DeletionPhase::kCompleted, "Completed"},
           {DeletionPhase::kFailed, "Failed"}}) {
    EXPECT_EQ(ToString(phase), text);
    EXPECT_EQ(DeletionStatusOf({{"phase", text}}).phase, phase);
  }
  for (const auto& [trouble, text] : std::vector<std::pair<DeletionTrouble, std::string>>{
           {DeletionTrouble::kLocked, "Locked"},
           {DeletionTrouble::kRetained, "Retained"},
           {DeletionTrouble::kFailed, "Failed"}}) {
    EXPECT_EQ(ToString(trouble), text);
    EXPECT_EQ(DeletionStatusOf({{"trouble", text}}).trouble, trouble);
  }
}

TEST(WireFormsTest, VolumeTask) {
  const objects::VolumeTaskSpec spec{
      .kind = TaskKind::kUpload,
      .subject = {.kind = "DataUpload", .namespace_name = "velero", .name = "up", .uid = "uid-1"},
      .volume = {.namespace_name = "shop", .claim = "data-db-0", .claim_uid = "uid-2"},
      .cancel = true};
  const objects::VolumeTask task = objects::VolumeTask::Make(
      "csi-delta", "du-uid-1", spec, datamover::LabelsFor("du-uid-1", "velero"));
  const Json golden = *ParseJsonObject(R"json({
    "apiVersion": "mover.csi-delta.io/v1alpha1",
    "kind": "VolumeTask",
    "metadata": {
      "name": "du-uid-1",
      "namespace": "csi-delta",
      "labels": {
        "mover.csi-delta.io/task": "du-uid-1",
        "mover.csi-delta.io/velero-namespace": "velero",
        "velero.io/exclude-from-backup": "true"
      }
    },
    "spec": {
      "type": "Upload",
      "subject": {"kind": "DataUpload", "namespace": "velero", "name": "up", "uid": "uid-1"},
      "volume": {"namespace": "shop", "claim": "data-db-0", "claimUID": "uid-2"},
      "cancel": true
    }
  })json");
  EXPECT_EQ(task.json(), golden);
  const absl::StatusOr<objects::VolumeTaskSpec> read =
      support::As<objects::VolumeTask>(golden).spec();
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, spec);
  EXPECT_EQ(objects::ToString(TaskKind::kDownload), "Download");
  EXPECT_EQ(objects::ToString(TaskKind::kForget), "Forget");
}

TEST(WireFormsTest, StatusOfAVolumeTask) {
  const Json golden = *ParseJsonObject(R"json({
    "phase": "Failed",
    "stage": "transfer",
    "doneBytes": 10,
    "totalBytes": 20,
    "startTimestamp": "2026-03-01T12:00:00Z",
    "heartbeatTimestamp": "2026-03-01T12:00:10Z",
    "completionTimestamp": "2026-03-01T12:00:20Z",
    "node": "node-1",
    "outcome": {
      "code": "Failed",
      "cause": "Locked",
      "message": "locked",
      "locks": ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"],
      "backup": {
        "snapshotID": "abc", "mode": "full", "reason": "no-parent", "reasonDetail": "first", "base": "def",
        "logicalBytes": 1, "changedBytes": 2, "readBytes": 3, "auditBytes": 4, "storedBytes": 5, "retries": 6,
        "durationMs": 7, "auditMs": 8, "peakMemoryBytes": 9, "repositoryBytes": 10, "repositorySnapshots": 11
      },
      "restore": {
        "fileSystem": "ext4", "logicalBytes": 1, "comparedBytes": 2, "writtenBytes": 3, "zeroBytes": 4, "keptBytes": 5
      }
    }
  })json");
  const objects::VolumeTaskStatus status = TaskStatusOf(golden);
  EXPECT_EQ(status.phase, TaskPhase::kFailed);
  EXPECT_EQ(status.completed_at, kNoon + absl::Seconds(20));
  EXPECT_EQ(objects::CauseOf(status), objects::OutcomeCause::kLocked);
  EXPECT_EQ(objects::MessageOf(status), "locked");
  ASSERT_TRUE(status.outcome.has_value());
  EXPECT_EQ(status.outcome->backup->repository_snapshots, 11);
  EXPECT_EQ(status.outcome->restore->kept_bytes, 5);
  EXPECT_EQ(ToJson(status), golden);
}

TEST(WireFormsTest, DataDeletion) {
  const Json golden = *ParseJsonObject(R"json({
    "metadata": {"namespace": "velero", "name": "delete-1", "uid": "uid-3"},
    "spec": {
      "backupStorageLocation": "default", "snapshotID": "csi-delta/1/...", "backup": "nightly",
      "upload": "uid-1", "workerEnded": true
    },
    "status": {
      "phase": "InProgress",
      "message": "locked",
      "trouble": "Locked",
      "troubleSince": "2026-03-01T12:00:00Z",
      "locks": [{"id": "lock-1", "since": "2026-03-01T12:00:00Z", "until": "2026-03-01T12:00:10Z"}],
      "attempts": 2,
      "startTimestamp": "2026-03-01T12:00:00Z",
      "nextAttemptTimestamp": "2026-03-01T12:00:30Z",
      "completionTimestamp": "2026-03-01T12:00:40Z"
    }
  })json");
  const auto deletion = support::As<objects::DataDeletion>(golden);
  const objects::DataDeletionSpec spec = deletion.spec();
  EXPECT_EQ(spec.location, "default");
  EXPECT_EQ(spec.snapshot_id, "csi-delta/1/...");
  EXPECT_EQ(spec.backup, "nightly");
  EXPECT_EQ(spec.upload, "uid-1");
  EXPECT_TRUE(spec.worker_ended);
  EXPECT_EQ(deletion.status().attempts, 2);
  EXPECT_EQ(objects::Patch().SetStatus(deletion.status()).json()["status"], golden["status"]);
}

// What a DataUpload says of its increment: reports, metrics and the next backup read it.
TEST(WireFormsTest, AnnotationsOfADataUpload) {
  datamover::TransferObject upload(
      DataUploadType(),
      support::As<objects::DataTransfer>({{"metadata",
                                           {{"name", "up"},
                                            {"namespace", "velero"},
                                            {"creationTimestamp", "2026-03-01T12:00:00Z"}}}}));
  csi::Exposure exposure;
  exposure.snapshot_taken_at = kNoon + absl::Seconds(1);
  exposure.ready_at = kNoon + absl::Seconds(2);
  exposure.group = csi::MovedGroup{.name = "shop/db",
                                   .label = "velero.io/volume-group=db",
                                   .snapshot = "velero-db-1",
                                   .snapshot_taken_at = kNoon + absl::Seconds(1),
                                   .members = 2};
  datamover::AnnotateExposure(exposure, upload);
  const objects::BackupFigures figures = {.snapshot_id = "abc",
                                          .mode = "full",
                                          .reason = "no_base",
                                          .reason_detail = "first",
                                          .base = "def",
                                          .logical_bytes = 7,
                                          .changed_bytes = 1,
                                          .read_bytes = 2,
                                          .audit_bytes = 3,
                                          .stored_bytes = 4,
                                          .repository_bytes = 5,
                                          .repository_snapshots = 6};
  objects::VolumeTaskStatus task;
  task.node = "node-1";
  task.completed_at = kNoon + absl::Seconds(3);
  datamover::AnnotateFigures(figures, task, upload);
  EXPECT_EQ(upload.object().json()["metadata"]["annotations"], *ParseJsonObject(R"json({
    "mover.csi-delta.io/asked-at": "2026-03-01T12:00:00Z",
    "mover.csi-delta.io/cut-at": "2026-03-01T12:00:01Z",
    "mover.csi-delta.io/ready-at": "2026-03-01T12:00:02Z",
    "mover.csi-delta.io/volume-group": "shop/db",
    "mover.csi-delta.io/volume-group-snapshot": "velero-db-1",
    "mover.csi-delta.io/volume-group-cut-at": "2026-03-01T12:00:01Z",
    "mover.csi-delta.io/mode": "full",
    "mover.csi-delta.io/reason": "no_base: first",
    "mover.csi-delta.io/base": "def",
    "mover.csi-delta.io/changed-bytes": "1",
    "mover.csi-delta.io/read-bytes": "2",
    "mover.csi-delta.io/audit-bytes": "3",
    "mover.csi-delta.io/stored-bytes": "4",
    "mover.csi-delta.io/repository-bytes": "5",
    "mover.csi-delta.io/repository-snapshots": "6",
    "mover.csi-delta.io/node": "node-1",
    "mover.csi-delta.io/uploaded-at": "2026-03-01T12:00:03Z"
  })json"));
}

// The next backup of a volume finds its base by these; without it the backup is full.
TEST(WireFormsTest, BaseOfAVolume) {
  const Json content = *ParseJsonObject(R"json({
    "metadata": {
      "name": "du-uid-1",
      "labels": {"mover.csi-delta.io/base": "true", "mover.csi-delta.io/base-needed": "true"},
      "annotations": {
        "mover.csi-delta.io/velero-namespace": "velero",
        "mover.csi-delta.io/location": "default",
        "mover.csi-delta.io/claim-namespace": "shop",
        "mover.csi-delta.io/claim": "data-db-0",
        "mover.csi-delta.io/claim-uid": "uid-2",
        "mover.csi-delta.io/cluster": "cluster-uid",
        "mover.csi-delta.io/cut-at": "2026-03-01T12:00:00Z"
      }
    },
    "spec": {"driver": "d.example.com", "source": {"snapshotHandle": "handle-1"}}
  })json");
  const csi::BaseOwner owner{.velero_namespace = "velero",
                             .location = "default",
                             .claim_namespace = "shop",
                             .claim = "data-db-0",
                             .claim_uid = "uid-2",
                             .cluster = "cluster-uid"};
  const csi::BaseSnapshot base =
      csi::ReadBase(support::As<objects::VolumeSnapshotContent>(content));
  EXPECT_EQ(base.owner, owner);
  EXPECT_EQ(base.driver, "d.example.com");
  EXPECT_EQ(base.snapshot_handle, "handle-1");
  EXPECT_EQ(base.snapshot_taken_at, kNoon);
  EXPECT_TRUE(base.is_needed);
  for (const auto& [key, value] : csi::OwnerAnnotations(owner)) {
    EXPECT_EQ(k8s::Annotation(content, key), value) << key;
  }
  EXPECT_STREQ(objects::kBaseLabel, "mover.csi-delta.io/base");
}

TEST(WireFormsTest, MemberOfAMovedGroup) {
  const Json content = *ParseJsonObject(R"json({
    "metadata": {
      "name": "velero-data-db-0-1",
      "labels": {"mover.csi-delta.io/group": "csi-delta-group-1", "mover.csi-delta.io/released": "true"},
      "annotations": {
        "mover.csi-delta.io/group-name": "shop/db",
        "velero.io/csi-delta-group-of": "velero.io/volume-group=db",
        "mover.csi-delta.io/group-snapshot": "velero-db-1",
        "mover.csi-delta.io/group-cut-at": "2026-03-01T12:00:00Z",
        "mover.csi-delta.io/group-members": "3"
      }
    }
  })json");
  EXPECT_EQ(csi::MovedGroupOf(objects::Object(content)), "csi-delta-group-1");
  EXPECT_TRUE(csi::HasBeenGivenUp(support::As<objects::VolumeSnapshotContent>(content)));
  const std::optional<csi::MovedGroup> group =
      csi::ReadMovedGroup(support::As<objects::VolumeSnapshotContent>(content));
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->name, "shop/db");
  EXPECT_EQ(group->snapshot, "velero-db-1");
  EXPECT_EQ(group->snapshot_taken_at, kNoon);
  EXPECT_EQ(group->members, 3);
}

// Of an object that another client looks for by it: an operator, RBAC rules, Velero.
TEST(WireFormsTest, NamesThatOthersUse) {
  EXPECT_STREQ(objects::kDataMoverName, "csi-delta");
  EXPECT_STREQ(objects::kMoverFinalizer, "mover.csi-delta.io/finalizer");
  EXPECT_STREQ(datamover::kMoverLease, "csi-delta-datamover");
  EXPECT_STREQ(datamover::kMoverComponent, "csi-delta-datamover");
  EXPECT_STREQ(objects::kNewestKeyAnnotation, "mover.csi-delta.io/newest");
  EXPECT_STREQ(objects::kConfirmedKeysAnnotation, "mover.csi-delta.io/confirmed");
  EXPECT_STREQ(objects::kCsiDeltaLabel, "velero.io/csi-delta");
  EXPECT_STREQ(objects::kGroupMarkLabel, "velero.io/csi-delta-group");
  EXPECT_STREQ(objects::kGroupNameLabel, "velero.io/csi-delta-volume-group");
  EXPECT_STREQ(objects::kGroupMembersAnnotation, "velero.io/csi-delta-group-members");
  EXPECT_STREQ(objects::kGroupOfAnnotation, "velero.io/csi-delta-group-of");
  EXPECT_STREQ(objects::kGroupToBeMovedAnnotation, "velero.io/csi-delta-to-be-moved");
  EXPECT_STREQ(objects::kMemberClaimAnnotation, "velero.io/csi-delta-claim");
  EXPECT_STREQ(objects::kAskedAtAnnotation, "velero.io/csi-delta-asked-at");
  EXPECT_STREQ(objects::kTakenAtAnnotation, "velero.io/csi-delta-cut-at");
  EXPECT_STREQ(objects::kReadyAtAnnotation, "velero.io/csi-delta-ready-at");
  EXPECT_STREQ(objects::kAnsweredAtAnnotation, "velero.io/csi-delta-answered-at");
}

}  // namespace
}  // namespace csidelta::wire_forms_test
