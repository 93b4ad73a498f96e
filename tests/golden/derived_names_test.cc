// The names that a later process looks for: of objects, Leases, operations and repositories. Each
// is derived from uids and names alone, so that a process that restarts finds what one that died
// made. The expected texts were written down by the program of commit fbeb56d and are literals on
// purpose.
//
// A failure here means: a process of the new version does not find what the old one made. It takes
// a second snapshot of the same volume, leaves the first one behind, starts a full backup, or
// cannot say how an operation ended. Do not change the expected text. Keep the derivation; or look
// for the old name, too, for as long as an object of the old version can be there (docs say for how
// long), add a row for the new name, and keep the old row with a test that finds it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "backupitemactions/item_results.h"
#include "base/random.h"
#include "csi/content_deletion.h"
#include "csi/environment.h"
#include "csi/expose/data_transfer.h"
#include "csi/group/group_deletion.h"
#include "csi/group/group_lifecycle.h"
#include "csi/group/moved_group.h"
#include "csi/snapshot_lifecycle.h"
#include "csi/volume_lease.h"
#include "datamover/keyring.h"
#include "datamover/mover_environment.h"
#include "datamover/worker/deletion_queue.h"
#include "diffsnap/cursor.h"
#include "incremental/mover/volume_group_tags.h"
#include "k8s/leader_lease.h"
#include "k8s/object.h"
#include "longhorn/native_snapshot.h"
#include "restoreitemactions/claim_operation.h"
#include "restoreitemactions/group_restore.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"
#include "velero/data_reference.h"
#include "velero/labels.h"

namespace csidelta::derived_names_test {
namespace {

using support::IsOk;
using testing::Contains;
using testing::ElementsAre;
using testing::SizeIs;

constexpr char kBackupUid[] = "2f6f1c6e-8a1b-4b0e-9a55-0d3f5e6a7b81";
constexpr char kClaimUid[] = "9c7d2f10-3e4b-4c5d-8e6f-a1b2c3d4e5f6";
constexpr char kRestoreUid[] = "5b1e9d34-7c2a-4f60-b3d8-c4a5968778e0";
constexpr char kUploadUid[] = "c0ffee00-1111-4222-8333-444455556666";
constexpr char kDriver[] = "hostpath.csi.k8s.io";

class DerivedNamesTest : public testing::Test {
 protected:
  DerivedNamesTest() {
    ctx_.clock = &clock_;
    clock_.SetAutoAdvance(true);
  }

  std::string SnapshotOf(const std::string& claim) const {
    return csi::SnapshotName({.backup = backup_,
                              .claim_namespace = "shop",
                              .claim_name = claim,
                              .claim_uid = kClaimUid,
                              .class_name = "snapshots"});
  }

  csi::GroupRequest Group(const std::string& key, const std::string& value, bool moved) const {
    return {.backup = backup_,
            .namespace_name = "shop",
            .label_key = key,
            .label_value = value,
            .class_name = "groups",
            .version = "v1",
            .to_be_moved = moved,
            .members = {}};
  }

  // The one Lease that there is.
  Json TheLease() const {
    const std::vector<Json> leases = api_.All(LeaseType());
    EXPECT_THAT(leases, SizeIs(1));
    return leases.empty() ? Json() : leases.front();
  }

  support::FakeClock clock_;
  support::FakeApiClient api_{clock_};
  csi::Environment env_{.api = api_,
                        .clock = clock_,
                        .random = Random::Real(),
                        .velero_namespace = "velero",
                        .enable_csi = true};
  objects::Backup backup_ =
      support::As<objects::Backup>(support::MakeBackupObject("nightly", "InProgress", kBackupUid));
  CallContext ctx_;
};

// --- Snapshots of a backup

TEST_F(DerivedNamesTest, VolumeSnapshot) {
  EXPECT_EQ(SnapshotOf("data-db-0"), "velero-data-db-0-1e97c7209479e7c86100");
  // Dots are no part of a DNS label, and 35 bytes of the PVC's name count.
  EXPECT_EQ(SnapshotOf("www.shop.example.com-storage-of-the-web-servers-0"),
            "velero-www-shop-example-com-storage-of-the-1e97c7209479e7c86100");
}

TEST_F(DerivedNamesTest, VolumeGroupSnapshot) {
  EXPECT_EQ(csi::GroupName(Group("velero.io/volume-group", "db", false)),
            "velero-db-3baf1f8d8d1133e46fa9");
  EXPECT_EQ(csi::GroupName(Group("velero.io/volume-group", "db", true)),
            "velero-db-4ca65243e4171ffd6718");
  EXPECT_EQ(csi::GroupName(Group("example.com/app", "Orders_DB.v2-" + std::string(45, 'x'), false)),
            "velero-orders-db-v2-xxxxxxxxxxxxxxxxxxxxxx-1f68cf03c8760cb56bd7");
}

TEST_F(DerivedNamesTest, MarkOfAGroupsPvcs) {
  EXPECT_EQ(csi::GroupMark(Group("velero.io/volume-group", "db", false)),
            "2f6f1c6e-8a1b-4b0e-9a55-0d3f5e6a7b81.d24f7e50");
  EXPECT_EQ(csi::GroupMark(Group("velero.io/volume-group", "db", true)),
            "2f6f1c6e-8a1b-4b0e-9a55-0d3f5e6a7b81.afef8ee3");
}

TEST_F(DerivedNamesTest, ContentsThatDelete) {
  EXPECT_EQ(csi::DeletionContentName(kDriver, "snap-0001"),
            "csi-delta-delete-bc349fa043e5dcf04629a676e2981252");
  EXPECT_EQ(csi::GroupDeletionContentName(kDriver, "group-0001"),
            "csi-delta-delete-group-682aeb92a9dbec4c607abec6d598727a");
}

// The VolumeGroupSnapshotContent that stands for the driver's group while its members are moved.
TEST_F(DerivedNamesTest, RecordOfAMovedGroup) {
  const support::FakeSnapshotCluster cluster(api_);
  api_.Seed(VolumeGroupSnapshotClassType("v1"),
            {{"metadata", {{"name", "groups"}}}, {"driver", "d.example.com"}});
  api_.Seed(VolumeSnapshotClassType(),
            {{"metadata", {{"name", "snapshots"}}}, {"driver", "d.example.com"}});
  api_.Seed(PersistentVolumeType(),
            {{"metadata", {{"name", "pv-0"}}},
             {"spec", {{"csi", {{"driver", "d.example.com"}, {"volumeHandle", "volume-0"}}}}}});
  api_.Seed(PersistentVolumeClaimType(),
            {{"metadata", {{"name", "data-db-0"}, {"namespace", "shop"}, {"uid", kClaimUid}}},
             {"spec", {{"volumeName", "pv-0"}}}});
  csi::GroupRequest request = Group("velero.io/volume-group", "db", true);
  request.members = {{.pvc = "data-db-0", .pvc_uid = kClaimUid, .volume_handle = "volume-0"}};
  absl::StatusOr<csi::TakenGroup> taken = csi::TakeGroup(ctx_, env_, request);
  ASSERT_THAT(taken, IsOk());
  const k8s::ObjectKey content = GroupContentKey("v1", taken->content.name());
  api_.Mutate(content, [](Json& object) {
    SetJson(object, {"status", "volumeGroupSnapshotHandle"}, "group-0001");
  });
  taken->content = support::As<objects::VolumeGroupSnapshotContent>(*api_.Find(content));
  ASSERT_THAT(csi::AdoptGroup(ctx_, env_, request, *taken), IsOk());
  std::vector<std::string> names;
  for (const Json& record : api_.All(VolumeGroupSnapshotContentType("v1"))) {
    names.push_back(k8s::Name(record));
  }
  // 32 digits of the SHA-256 of "d.example.com/group-0001".
  EXPECT_THAT(names, Contains("csi-delta-group-6cf321ec22fc4d483516c4deeb3ea31b"));
}

// --- Restores

TEST_F(DerivedNamesTest, RestoredSnapshots) {
  EXPECT_EQ(velero::RestoredSnapshotName(kRestoreUid, "velero-data-db-0-x"),
            "38f1830def17bcb7a23c8b8d9694fdc507da7012ad322ba7ef94cf9e71686c58");
  EXPECT_EQ(restoreitemactions::RestoredGroupName(kRestoreUid, "shop", "velero-db-x"),
            "474bdc124700248f286c0c8c482b869ab6dee42849fe38613f47960c1a926874");
  // Of the content that a member alone needs: Velero's own rule, with the group's handle as the
  // name.
  EXPECT_EQ(velero::RestoredSnapshotName(kRestoreUid, "group-0001"),
            "bf489e7286e9ecf2b2babc877309cd3155fb71f89ef0ac902d0d660079852ad7");
}

TEST_F(DerivedNamesTest, LabelValuesThatAreTooLong) {
  EXPECT_EQ(velero::ValidLabelValue("shop.data-db-0"), "shop.data-db-0");
  EXPECT_EQ(velero::ValidLabelValue(std::string(64, 'a')), std::string(57, 'a') + "ffe054");
}

// --- Operations, as Velero keeps them in the archive of a backup or restore

TEST_F(DerivedNamesTest, OperationsOfABackup) {
  using backupitemactions::SnapshotOperation;
  SnapshotOperation operation{.namespace_name = "shop",
                              .snapshot_name = "velero-data-db-0-1e97c7209479e7c86100",
                              .snapshot_uid = "11111111-2222-4333-8444-555555555555",
                              .started_at = absl::FromUnixSeconds(1772366400)};
  EXPECT_EQ(backupitemactions::EncodeOperationId(operation),
            "1/shop/velero-data-db-0-1e97c7209479e7c86100/11111111-2222-4333-8444-555555555555/"
            "2026-03-01T12:00:00Z");
  operation.kind = SnapshotOperation::Kind::kGroup;
  operation.snapshot_name = "velero-db-3baf1f8d8d1133e46fa9";
  EXPECT_EQ(backupitemactions::EncodeOperationId(operation),
            "g1/shop/velero-db-3baf1f8d8d1133e46fa9/11111111-2222-4333-8444-555555555555/"
            "2026-03-01T12:00:00Z");
  operation.kind = SnapshotOperation::Kind::kLonghorn;
  operation.namespace_name = "longhorn-system";
  operation.snapshot_name =
      longhorn::NativeSnapshotName(kBackupUid, "11111111-2222-4333-8444-555555555555");
  EXPECT_EQ(backupitemactions::EncodeOperationId(operation),
            "l1/longhorn-system/csd-cc8786eadbe29701bc9b5a4ce5aa9ec93e627be7/"
            "11111111-2222-4333-8444-555555555555/2026-03-01T12:00:00Z");
}

TEST_F(DerivedNamesTest, OperationsOfABackupAreReadAgain) {
  using backupitemactions::SnapshotOperation;
  const absl::StatusOr<SnapshotOperation> one = backupitemactions::DecodeOperationId(
      "1/shop/velero-data-db-0-1e97c7209479e7c86100/11111111-2222-4333-8444-555555555555/"
      "2026-03-01T12:00:00Z");
  ASSERT_THAT(one, IsOk());
  EXPECT_EQ(one->namespace_name, "shop");
  EXPECT_EQ(one->snapshot_name, "velero-data-db-0-1e97c7209479e7c86100");
  EXPECT_EQ(one->snapshot_uid, "11111111-2222-4333-8444-555555555555");
  EXPECT_EQ(one->started_at, absl::FromUnixSeconds(1772366400));
  const absl::StatusOr<SnapshotOperation> group = backupitemactions::DecodeOperationId(
      "g1/shop/velero-db-3baf1f8d8d1133e46fa9/11111111-2222-4333-8444-555555555555/"
      "2026-03-01T12:00:00Z",
      SnapshotOperation::Kind::kGroup);
  ASSERT_THAT(group, IsOk());
  EXPECT_EQ(group->snapshot_name, "velero-db-3baf1f8d8d1133e46fa9");
  const absl::StatusOr<SnapshotOperation> native = backupitemactions::DecodeOperationId(
      "l1/longhorn-system/csd-0123/11111111-2222-4333-8444-555555555555/2026-03-01T12:00:00Z",
      SnapshotOperation::Kind::kLonghorn);
  ASSERT_THAT(native, IsOk());
  EXPECT_EQ(native->snapshot_name, "csd-0123");
}

TEST_F(DerivedNamesTest, OperationsOfARestore) {
  constexpr char kId[] = "claim/shop/data-db-0/38f1830def17bcb7a23c8b8d9694fdc507da7012";
  EXPECT_EQ(restoreitemactions::EncodeOperation(
                {.namespace_name = "shop",
                 .claim_name = "data-db-0",
                 .snapshot_name = "38f1830def17bcb7a23c8b8d9694fdc507da7012"}),
            kId);
  const auto read = restoreitemactions::DecodeOperation(kId);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->claim_name, "data-db-0");
}

// --- Moves

TEST_F(DerivedNamesTest, OperationsOfMoves) {
  EXPECT_EQ(csi::UploadOperationId(kBackupUid, kClaimUid),
            "du-2f6f1c6e-8a1b-4b0e-9a55-0d3f5e6a7b81.9c7d2f10-3e4b-4c59bc6c0");
  EXPECT_EQ(csi::DownloadOperationId(kRestoreUid, kClaimUid),
            "dd-5b1e9d34-7c2a-4f60-b3d8-c4a5968778e0.9c7d2f10-3e4b-4c55c1bb5");
}

TEST_F(DerivedNamesTest, DataUploadsDownloadsAndDeletions) {
  const std::string upload = csi::UploadOperationId(kBackupUid, kClaimUid);
  EXPECT_EQ(csi::TransferName("nightly", upload), "nightly-bc448c4393ffe9511747");
  EXPECT_EQ(csi::TransferName(std::string(250, 'n'), upload),
            std::string(232, 'n') + "-bc448c4393ffe9511747");
  EXPECT_EQ(csi::TransferName("nightly-restore", csi::DownloadOperationId(kRestoreUid, kClaimUid)),
            "nightly-restore-c6fc2a432753af6e0940");
  // As the delete action calls its DataDeletion: the backup's uid and the DataUpload's.
  EXPECT_EQ(csi::TransferName("delete", std::string(kBackupUid) + "/" + kUploadUid),
            "delete-69151d185df8627fbd90");
}

TEST_F(DerivedNamesTest, DataDeletionOfAnUploadThatDidNotSayWhatItStored) {
  const auto upload = support::As<objects::DataTransfer>(
      {{"metadata", {{"name", "u"}, {"namespace", "velero"}, {"uid", kUploadUid}}},
       {"spec", {{"backupStorageLocation", "default"}}}});
  const Json deletion = datamover::MakeDeletionOfUnnamed(upload,
                                                         {.cluster = "cluster-uid",
                                                          .namespace_name = "shop",
                                                          .claim_uid = kClaimUid,
                                                          .snapshot_id = "",
                                                          .key = "c4bbcb1fbec99d65"},
                                                         true)
                            .json();
  EXPECT_EQ(k8s::Name(deletion), "unnamed-c0ffee00-1111-4222-8333-444455556666");
  EXPECT_EQ(GetString(deletion, {"spec", "snapshotID"}),
            "csi-delta/1/cluster-uid/shop/9c7d2f10-3e4b-4c5d-8e6f-a1b2c3d4e5f6/"
            "0000000000000000000000000000000000000000000000000000000000000000/c4bbcb1fbec99d65");
}

// VolumeTask, worker Pod, Secret, exposed VolumeSnapshot, content and PVC of one object have this
// name, and its label.
TEST_F(DerivedNamesTest, TasksAndWorkers) {
  EXPECT_EQ(datamover::TaskNameOf("DataUpload", kUploadUid),
            "du-c0ffee00-1111-4222-8333-444455556666");
  EXPECT_EQ(datamover::TaskNameOf("DataDownload", kUploadUid),
            "dd-c0ffee00-1111-4222-8333-444455556666");
  EXPECT_EQ(datamover::TaskNameOf("DataDeletion", kUploadUid),
            "dx-c0ffee00-1111-4222-8333-444455556666");
  EXPECT_EQ(datamover::LabelsFor("du-1", "velero"),
            (std::map<std::string, std::string>{{"mover.csi-delta.io/task", "du-1"},
                                                {"mover.csi-delta.io/velero-namespace", "velero"},
                                                {"velero.io/exclude-from-backup", "true"}}));
}

TEST_F(DerivedNamesTest, KeysOfALocation) {
  EXPECT_EQ(datamover::KeyringSecretName({.velero_namespace = "velero", .location = "default"}),
            "csi-delta-keys-velero.default");
  EXPECT_EQ(datamover::KeyringSecretName(
                {.velero_namespace = "velero", .location = std::string(240, 'l')}),
            "csi-delta-keys-velero." + std::string(214, 'l') + "-e1b041a1b3b350e0");
  EXPECT_EQ(repository::KeyFingerprint("correct horse battery staple"), "c4bbcb1fbec99d65");
}

// --- In the bucket

TEST_F(DerivedNamesTest, RepositoryAndSnapshotId) {
  const velero::DataReference reference{
      .cluster = "6d0c3a0e-0000-4000-8000-000000000001",
      .namespace_name = "shop",
      .claim_uid = kClaimUid,
      .snapshot_id = "38f1830def17bcb7a23c8b8d9694fdc507da7012ad322ba7ef94cf9e71686c58",
      .key = "c4bbcb1fbec99d65"};
  constexpr char kText[] =
      "csi-delta/1/6d0c3a0e-0000-4000-8000-000000000001/shop/9c7d2f10-3e4b-4c5d-8e6f-a1b2c3d4e5f6/"
      "38f1830def17bcb7a23c8b8d9694fdc507da7012ad322ba7ef94cf9e71686c58/c4bbcb1fbec99d65";
  EXPECT_EQ(velero::FormatDataReference(reference), kText);
  const absl::StatusOr<velero::DataReference> read = velero::ParseDataReference(kText);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, reference);
  EXPECT_EQ(velero::RepositoryPath(reference),
            "plugins/csi-delta/6d0c3a0e-0000-4000-8000-000000000001/shop/"
            "9c7d2f10-3e4b-4c5d-8e6f-a1b2c3d4e5f6");
}

TEST_F(DerivedNamesTest, TagsOfAMovedGroup) {
  EXPECT_EQ(incremental::FormatGroupTags({.group = "shop/db",
                                          .snapshot = "velero-db-4ca65243e4171ffd6718",
                                          .snapshot_taken_at = "2026-03-01T12:00:00Z",
                                          .members = 3}),
            (std::vector<std::string>{
                "volume-group=shop/db", "volume-group-snapshot=velero-db-4ca65243e4171ffd6718",
                "volume-group-cut=2026-03-01T12:00:00Z", "volume-group-members=3"}));
}

// --- Leases: two versions run side by side while a Deployment is rolled out, and must see each
// other's.

TEST_F(DerivedNamesTest, LeaseOfAVolume) {
  clock_.Advance(absl::Microseconds(123456));
  const absl::StatusOr<csi::VolumeLease> turn =
      csi::VolumeLease::Take(ctx_, api_,
                             {.lease_namespace = "velero",
                              .claim_namespace = "shop",
                              .claim_name = "data-db-0",
                              .claim_uid = kClaimUid,
                              .backup_name = "nightly",
                              .backup_uid = kBackupUid,
                              .holder = "2f6f1c6e-8a1b-4b0e-9a55-0d3f5e6a7b81_1a2b"});
  ASSERT_THAT(turn, IsOk());
  Json lease = TheLease();
  for (const char* given : {"uid", "resourceVersion", "creationTimestamp", "generation"}) {
    EraseJson(lease, {"metadata", given});
  }
  EXPECT_EQ(lease, *ParseJsonObject(R"json({
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {
      "name": "csi-delta-9c7d2f10-3e4b-4c5d-8e6f-a1b2c3d4e5f6",
      "namespace": "velero",
      "labels": {"velero.io/csi-delta": "volume-turn", "velero.io/exclude-from-backup": "true"},
      "annotations": {
        "velero.io/csi-delta-claim": "shop/data-db-0", "velero.io/csi-delta-backup": "nightly"
      },
      "ownerReferences": [{
        "apiVersion": "velero.io/v1", "kind": "Backup", "name": "nightly",
        "uid": "2f6f1c6e-8a1b-4b0e-9a55-0d3f5e6a7b81"
      }]
    },
    "spec": {
      "holderIdentity": "2f6f1c6e-8a1b-4b0e-9a55-0d3f5e6a7b81_1a2b",
      "leaseDurationSeconds": 20,
      "acquireTime": "2023-11-14T22:13:20.123456Z",
      "renewTime": "2023-11-14T22:13:20.123456Z"
    }
  })json"));
}

TEST_F(DerivedNamesTest, LeaseOfAGroup) {
  std::vector<std::string> names;
  api_.OnCreate("leases", [&](support::FakeApiClient&, const Json& lease) {
    names.push_back(k8s::Name(lease));
  });
  support::SetField(backup_, {"spec", "csiSnapshotTimeout"}, "1s");
  csi::GroupRequest request = Group("velero.io/volume-group", "db", false);
  request.members = {{.pvc = "data-db-0", .pvc_uid = kClaimUid, .volume_handle = "volume-0"}};
  csi::TakeGroup(ctx_, env_, request).status().IgnoreError();  // Nothing answers.
  request.to_be_moved = true;
  csi::TakeGroup(ctx_, env_, request).status().IgnoreError();
  EXPECT_THAT(names, ElementsAre("csi-delta-group-d24f7e509f7b00e23374",
                                 "csi-delta-group-afef8ee3118336d2d5bf"));
}

TEST_F(DerivedNamesTest, LeaseOfALeader) {
  EXPECT_STREQ(datamover::kMoverLease, "csi-delta-datamover");
  clock_.Advance(absl::Microseconds(123456));
  k8s::LeaderLease lease(
      api_,
      {.namespace_name = "csi-delta", .name = datamover::kMoverLease, .holder = "mover-0:8080"});
  ASSERT_THAT(lease.Step(ctx_), IsOk());
  EXPECT_EQ(TheLease()["spec"], *ParseJsonObject(R"json({
    "holderIdentity": "mover-0:8080",
    "leaseDurationSeconds": 10,
    "acquireTime": "2023-11-14T22:13:20.123456Z",
    "renewTime": "2023-11-14T22:13:20.123456Z"
  })json"));
}

// How long one process waits for a Lease of another: both versions have to agree.
TEST_F(DerivedNamesTest, DurationsOfLeases) {
  EXPECT_EQ(csi::kVolumeLeaseDuration, absl::Seconds(20));
  EXPECT_EQ(csi::kVolumeLeaseRenewAfter, absl::Seconds(8));
  EXPECT_EQ(k8s::kLeaseDuration, absl::Seconds(10));
  EXPECT_EQ(k8s::kLeadTimeMax, absl::Seconds(7));
  EXPECT_EQ(k8s::kLeaseStepEvery, absl::Seconds(2));
}

// --- Pages of changed blocks: servers of two versions serve one reader during a rollout.

TEST_F(DerivedNamesTest, CursorsOfAListing) {
  const diffsnap::CursorCodec codec{Secret(std::string(32, 'k'))};
  const diffsnap::CursorScope scope{.namespace_name = "shop",
                                    .uid = kUploadUid,
                                    .base_handle = "snap-0001",
                                    .target_handle = "snap-0002"};
  EXPECT_EQ(codec.Encode(scope, {.from_bytes = 1048576, .volume_size_bytes = 1073741824}),
            "o:1048576.1073741824.0.-_F8Qb2u6g2TtkqYuo55yLVC9phbdvn5wJQZDfXOgew");
  EXPECT_EQ(codec.Encode(scope, {.from_bytes = 1048576,
                                 .volume_size_bytes = 1073741824,
                                 .expires_at_seconds = 1772366400,
                                 .driver_token = "place/7"}),
            "t:cGxhY2UvNw.1048576.1073741824.1772366400."
            "HNHkdfxtLUgubMbbWWFkYIHJmqeFw04YzXvlCOmsiJY");
}

}  // namespace
}  // namespace csidelta::derived_names_test
