#include "inplace/restore_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "csi/lock.h"
#include "objects/copy_record.h"
#include "objects/keys.h"
#include "objects/swap_record.h"
#include "tests/support/finding_codes.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::inplace::restore_guard_test {
namespace {

using objects::PersistentVolume;
using objects::PersistentVolumeClaim;
using objects::Pod;
using objects::StatefulSet;
using objects::SwapRecord;
using objects::SwapSide;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;
using support::CodesOf;
using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kTaken[] = "2023-11-14T22:13:20Z";
constexpr char kPvc[] = "data-db-1";
const absl::Time kNow = absl::FromUnixSeconds(1'700'000'100);

// A VolumeSnapshot, ready and bound both ways, and a bound PVC that nothing uses: nothing is
// against the restore. A case changes it.
struct Cluster {
  Json snapshot = support::MakeReadySnapshot("monday", kPvc);
  Json content = support::MakeBoundContent("monday");
  Json pvc = {{"metadata", {{"name", kPvc}, {"namespace", "shop"}, {"uid", "p"}}},
              {"spec", {{"volumeName", "pv-1"}}},
              {"status", {{"phase", "Bound"}, {"capacity", {{"storage", "1Gi"}}}}}};
  Json volume = {{"metadata", {{"name", "pv-1"}}},
                 {"spec",
                  {{"capacity", {{"storage", "1Gi"}}},
                   {"claimRef", {{"namespace", "shop"}, {"name", kPvc}, {"uid", "p"}}},
                   {"csi", {{"driver", "d.example.com"}}}}}};
  csi::ContentReading::Kind content_kind = csi::ContentReading::Kind::kPresent;
  bool is_volume_read = true;
  bool may_list = true;
  std::vector<Json> pods, stateful_sets, snapshots;
  std::vector<objects::Backup> backups;
  std::string lease_held_for;
  std::optional<UnfinishedRestore> unfinished;
  bool is_written_into = false;
};

template <typename View>
std::vector<View> ViewsOf(const std::vector<Json>& all) {
  std::vector<View> views;
  for (const Json& one : all) {
    views.push_back(*View::Of(one));
  }
  return views;
}

RestoreVerdict Decide(const Cluster& c) {
  RestoreSurroundings around = {.namespace_name = "shop", .now = kNow};
  if (c.may_list) {
    around.pods = ViewsOf<Pod>(c.pods);
    around.stateful_sets = ViewsOf<StatefulSet>(c.stateful_sets);
    around.snapshots = ViewsOf<VolumeSnapshot>(c.snapshots);
    around.backups = c.backups;
  }
  RestoreInfo info = {.snapshot = *VolumeSnapshot::Of(c.snapshot),
                      .content_kind = c.content_kind,
                      .pvc_name = kPvc,
                      .is_volume_read = c.is_volume_read,
                      .lease_held_for = c.lease_held_for,
                      .unfinished = c.unfinished,
                      .is_written_into = c.is_written_into};
  if (c.content_kind == csi::ContentReading::Kind::kPresent) {
    info.content = *VolumeSnapshotContent::Of(c.content);
  }
  if (!c.pvc.is_null()) {
    info.pvc = *PersistentVolumeClaim::Of(c.pvc);
  }
  if (c.is_volume_read && !c.volume.is_null()) {
    info.volume = *PersistentVolume::Of(c.volume);
  }
  return CheckRestore(around, info);
}

Json PodObject(const char* phase, const char* pvc, const char* kind = "", const char* owner = "") {
  Json pod = {
      {"metadata", {{"name", "db-1"}, {"namespace", "shop"}}},
      {"spec", {{"volumes", Json::array({{{"persistentVolumeClaim", {{"claimName", pvc}}}}})}}},
      {"status", {{"phase", phase}}}};
  if (*kind != '\0') {
    pod["metadata"]["ownerReferences"] =
        Json::array({{{"kind", kind}, {"name", owner}, {"controller", true}}});
  }
  return pod;
}

Json SetObject(int replicas, int start, const char* when_scaled) {
  return {{"metadata", {{"name", "db"}, {"namespace", "shop"}}},
          {"spec",
           {{"replicas", replicas},
            {"ordinals", {{"start", start}}},
            {"persistentVolumeClaimRetentionPolicy", {{"whenScaled", when_scaled}}},
            {"volumeClaimTemplates", Json::array({{{"metadata", {{"name", "data"}}}}})}}}};
}

objects::Backup BackupIn(const char* phase, std::vector<std::string> namespaces = {}) {
  return support::As<objects::Backup>({{"metadata", {{"name", "nightly"}, {"namespace", "velero"}}},
                                       {"spec", {{"includedNamespaces", std::move(namespaces)}}},
                                       {"status", {{"phase", phase}}}});
}

void NotReady(Cluster& c) { c.snapshot["status"]["readyToUse"] = false; }

struct Case {
  const char* code;
  const char* what;
  std::function<void(Cluster&)> change;
  const char* message;
};

void ExpectRefusals(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    Cluster cluster;
    one.change(cluster);
    const RestoreVerdict verdict = Decide(cluster);
    ASSERT_EQ(verdict.refusals.size(), 1U) << one.what;
    EXPECT_EQ(verdict.refusals.front().code, one.code) << one.what;
    EXPECT_THAT(verdict.refusals.front().message, HasSubstr(one.message)) << one.what;
  }
}

// Neither refused nor named as unchecked.
void ExpectFine(const std::vector<std::function<void(Cluster&)>>& changes) {
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Cluster cluster;
    changes[i](cluster);
    const RestoreVerdict verdict = Decide(cluster);
    EXPECT_TRUE(verdict.refusals.empty()) << i << ": " << verdict.refusals.front().message;
    EXPECT_THAT(verdict.not_checked, IsEmpty()) << i;
  }
}

// --- The table of the header, row by row, each alone

TEST(RestoreGuardTest, NothingIsAgainstOneThatIsReadyIntoOneThatNothingUses) {
  ExpectFine({[](Cluster&) {}});
}

TEST(RestoreGuardTest, RowsOfTheVolumeSnapshot) {
  ExpectRefusals(
      {{"NotReady", "uploading", NotReady, "wait until csi-delta snapshot list shows it as Ready"},
       {"Unusable", "lost", [](Cluster& c) { c.content_kind = csi::ContentReading::Kind::kGone; },
        "is Lost"},
       {"NotMutual", "without a uid",
        [](Cluster& c) { c.content["spec"]["volumeSnapshotRef"].erase("uid"); },
        "without its uid"}});
}

TEST(RestoreGuardTest, RowsOfThePvc) {
  ExpectRefusals(
      {{"NoPvc", "absent", [](Cluster& c) { c.pvc = nullptr; },
        "csi-delta snapshot promote monday data-db-1 -n shop"},
       {"PvcNotBound", "pending",
        [](Cluster& c) {
          c.pvc["status"]["phase"] = "Pending";
          c.pvc["spec"].erase("volumeName");
        },
        "PVC shop/data-db-1 is Pending"},
       {"PvcNotBound", "lost", [](Cluster& c) { c.pvc["status"]["phase"] = "Lost"; }, "is Lost"},
       {"PvcBeingDeleted", "deleting",
        [](Cluster& c) { c.pvc["metadata"]["deletionTimestamp"] = kTaken; }, "is being deleted"}});
}

TEST(RestoreGuardTest, RowsOfTheVolume) {
  ExpectRefusals({{"VolumeNotItsOwn", "absent", [](Cluster& c) { c.volume = nullptr; },
                   "PersistentVolume pv-1 of PVC shop/data-db-1 does not exist"},
                  {"VolumeNotItsOwn", "another's",
                   [](Cluster& c) { c.volume["spec"]["claimRef"]["uid"] = "q"; }, "of another uid"},
                  {"OtherDriver", "another driver",
                   [](Cluster& c) { c.volume["spec"]["csi"]["driver"] = "ebs.csi.aws.com"; },
                   "is of driver ebs.csi.aws.com, the VolumeSnapshot of driver d.example.com"},
                  {"OtherDriver", "not of CSI", [](Cluster& c) { c.volume["spec"].erase("csi"); },
                   "is of no CSI driver"},
                  {"TooSmall", "by the VolumeSnapshot",
                   [](Cluster& c) { c.snapshot["status"]["restoreSize"] = "2Gi"; },
                   "has 1Gi, less than the 2Gi"},
                  {"TooSmall", "by the content",
                   [](Cluster& c) { c.content["status"]["restoreSize"] = (int64_t{1} << 30) + 1; },
                   "less than"},
                  {"TooSmall", "by the PVC where the volume was not read",
                   [](Cluster& c) {
                     c.is_volume_read = false;
                     c.pvc["status"]["capacity"]["storage"] = "512Mi";
                   },
                   "has 512Mi"},
                  {"OtherMode", "block of file system",
                   [](Cluster& c) { c.pvc["spec"]["volumeMode"] = "Block"; },
                   "in mode Filesystem, PVC shop/data-db-1 is in mode Block"}});
  ExpectFine({[](Cluster& c) { c.volume["spec"]["capacity"]["storage"] = "2Gi"; }});
}

void Share(Json& object) { object["spec"]["accessModes"] = {"ReadWriteOnce", "ReadWriteMany"}; }

TEST(RestoreGuardTest, RowsOfAVolumeThatIsWrittenInto) {
  ExpectRefusals({{"UnsafeDriver", "that deregisters",
                   [](Cluster& c) {
                     c.is_written_into = true;
                     c.content_kind = csi::ContentReading::Kind::kUnknown;
                     c.volume["spec"]["csi"]["driver"] = "csi.vsphere.vmware.com";
                   },
                   "its syncer deregisters"},
                  {"SharedVolume", "by the PVC",
                   [](Cluster& c) {
                     c.is_written_into = true;
                     Share(c.pvc);
                   },
                   "PVC shop/data-db-1 is in mode Filesystem and ReadWriteMany"},
                  {"SharedVolume", "by the volume",
                   [](Cluster& c) {
                     c.is_written_into = true;
                     Share(c.volume);
                   },
                   "restore the backup into a new PVC"}});
  ExpectFine({[](Cluster& c) { Share(c.pvc); },
              [](Cluster& c) {  // The VolumeSnapshot is not asked about.
                c.is_written_into = true;
                NotReady(c);
              },
              [](Cluster& c) {
                c.is_written_into = true;
                c.content["spec"]["sourceVolumeMode"] = "Block";
                c.pvc["spec"]["volumeMode"] = "Block";
                Share(c.pvc);
              }});
}

TEST(RestoreGuardTest, RowsOfPods) {
  const auto pods = [](Json pod) { return [pod](Cluster& c) { c.pods = {pod}; }; };
  ExpectRefusals(
      {{"InUse", "of a StatefulSet", pods(PodObject("Running", kPvc, "StatefulSet", "db")),
        "StatefulSet/db uses it (Pod db-1 is Running); kubectl scale statefulset/db --replicas=0 "
        "-n shop"},
       {"InUse", "pending, alone", pods(PodObject("Pending", kPvc)),
        "Pod/db-1 uses it (Pod db-1 is Pending); kubectl delete pod/db-1 -n shop"},
       {"InUse", "of a DaemonSet", pods(PodObject("Running", kPvc, "DaemonSet", "agent")),
        "kubectl delete daemonset/agent -n shop"},
       {"InUse", "two",
        [](Cluster& c) {
          c.pods = {PodObject("Running", kPvc), PodObject("", kPvc)};
        },
        "is Running, and 1 more)"}});
  ExpectFine({pods(PodObject("Succeeded", kPvc)), pods(PodObject("Failed", kPvc)),
              pods(PodObject("Running", "data-db-10"))});
}

TEST(RestoreGuardTest, RowsOfStatefulSets) {
  const auto sets = [](Json set) { return [set](Cluster& c) { c.stateful_sets = {set}; }; };
  ExpectRefusals({{"StatefulSetMakes", "has a replica for it", sets(SetObject(2, 0, "Retain")),
                   "kubectl scale statefulset/db --replicas=1 -n shop"},
                  {"StatefulSetMakes", "begins with it", sets(SetObject(1, 1, "Delete")),
                   "--replicas=0 -n shop"},
                  {"StatefulSetDeletes", "deletes what it scaled away",
                   sets(SetObject(1, 0, "Delete")), R"("whenScaled":"Retain")"}});
  ExpectFine({sets(SetObject(1, 0, "Retain")), sets(SetObject(3, 2, "Retain")),
              sets({{"metadata", {{"name", "other"}}}, {"spec", {{"replicas", 9}}}})});
}

TEST(RestoreGuardTest, RowsOfOtherOperations) {
  ExpectRefusals(
      {{"Busy", "a Lease", [](Cluster& c) { c.lease_held_for = "backup nightly"; },
        "another operation on PVC shop/data-db-1 is under way: backup nightly"},
       {"Busy", "being taken",
        [](Cluster& c) {
          c.snapshots = {{{"metadata", {{"name", "sunday"}, {"creationTimestamp", kTaken}}},
                          {"spec", {{"source", {{"persistentVolumeClaimName", kPvc}}}}}}};
        },
        "VolumeSnapshot sunday"},
       {"InBackup", "all namespaces", [](Cluster& c) { c.backups = {BackupIn("InProgress")}; },
        "backup velero/nightly is InProgress and includes namespace shop; wait"},
       {"InBackup", "this namespace",
        [](Cluster& c) { c.backups = {BackupIn("ReadyToStart", {"shop"})}; }, "is ReadyToStart"},
       {"InBackup", "queued", [](Cluster& c) { c.backups = {BackupIn("Queued")}; }, "is Queued"},
       {"InBackup", "not begun", [](Cluster& c) { c.backups = {BackupIn("")}; }, "is New"},
       {"Unfinished", "an earlier restore",
        [](Cluster& c) { c.unfinished = {.volume = "pv-0", .snapshot = "sunday"}; },
        "csi-delta snapshot restore --into data-db-1 -n shop --finish deletes that"}});
  ExpectFine({[](Cluster& c) {
                c.backups = {BackupIn("Completed"), BackupIn("Deleting")};
              },
              // Snapshots are read, for hours, and not the volume.
              [](Cluster& c) {
                c.backups = {BackupIn("WaitingForPluginOperations"),
                             BackupIn("WaitingForPluginOperationsPartiallyFailed", {"shop"}),
                             BackupIn("Finalizing"), BackupIn("FinalizingPartiallyFailed")};
              },
              [](Cluster& c) { c.backups = {BackupIn("InProgress", {"team"})}; },
              [](Cluster& c) {
                c.snapshots = {{{"metadata", {{"name", "s"}, {"creationTimestamp", kTaken}}},
                                {"spec", {{"source", {{"persistentVolumeClaimName", "other"}}}}}}};
              }});
}

TEST(RestoreGuardTest, EveryReasonIsSaid) {
  Cluster cluster;
  NotReady(cluster);
  cluster.pods = {PodObject("Running", kPvc)};
  cluster.pvc["spec"]["volumeMode"] = "Block";
  EXPECT_THAT(CodesOf(Decide(cluster).refusals), ElementsAre("NotReady", "OtherMode", "InUse"));
}

TEST(RestoreGuardTest, WhatMayNotBeReadDecidesNothing) {
  Cluster cluster;
  cluster.may_list = false;
  cluster.is_volume_read = false;
  cluster.content_kind = csi::ContentReading::Kind::kUnknown;
  EXPECT_THAT(Decide(cluster).refusals, IsEmpty());
}

TEST(RestoreGuardTest, WhatTheObjectsDoNotSayIsNamed) {
  Cluster cluster;
  cluster.content["spec"].erase("sourceVolumeMode");
  cluster.snapshot["status"].erase("restoreSize");
  const RestoreVerdict verdict = Decide(cluster);
  EXPECT_THAT(verdict.refusals, IsEmpty());
  EXPECT_THAT(verdict.not_checked, ElementsAre(HasSubstr("size not checked: the VolumeSnapshot"),
                                               HasSubstr("volume mode not checked")));
}

TEST(RestoreGuardTest, ARefusalHasTheExitCodeOfItsReason) {
  const auto status = [](std::vector<Finding> all) { return RefusalStatus("shop", "data", all); };
  const Finding busy = {"Busy", "a; b"};
  const Finding small = {"TooSmall", "c; d"};
  EXPECT_THAT(status({}), IsOk());
  EXPECT_TRUE(csi::IsVolumeBusy(status({busy})));
  EXPECT_FALSE(csi::IsVolumeBusy(status({busy, small})));
  EXPECT_THAT(status({busy, small}), StatusIs(absl::StatusCode::kFailedPrecondition,
                                              "PVC shop/data is not restored: a; b; and c; d"));
  EXPECT_TRUE(IsTooSmallAlone({small}));
  EXPECT_FALSE(IsTooSmallAlone({small, busy}));
  EXPECT_FALSE(IsTooSmallAlone({}));
}

// --- Reading

class RestoreInfoTest : public testing::Test {
 protected:
  RestoreInfoTest() {
    Json snapshot = cluster_.snapshot;
    bed_.api.Seed(VolumeSnapshotType(), snapshot);
    bed_.api.Seed(VolumeSnapshotContentType(), cluster_.content);
    bed_.api.Seed(PersistentVolumeClaimType(), cluster_.pvc);
    bed_.api.Seed(PersistentVolumeType(), cluster_.volume);
    bed_.api.Seed(PodType(), PodObject("Running", kPvc));
    bed_.api.Seed(StatefulSetType(), SetObject(2, 0, "Retain"));
    bed_.api.Seed(BackupType(), support::MakeBackupObject("nightly", "InProgress"));
    bed_.api.Seed(BackupType(), support::MakeBackupObject("before", "Completed", "before"));
  }

  absl::StatusOr<RestoreInfo> Info() {
    return ReadRestoreInfo(bed_.ctx, bed_.api, *VolumeSnapshot::Of(cluster_.snapshot), kPvc);
  }
  std::vector<std::string> Codes() {
    const auto around = ReadRestoreSurroundings(bed_.ctx, bed_.api, "shop");
    const auto info = Info();
    EXPECT_THAT(around, IsOk());
    EXPECT_THAT(info, IsOk());
    notes_ = around->not_checked;
    notes_.insert(notes_.end(), info->not_checked.begin(), info->not_checked.end());
    return CodesOf(CheckRestore(*around, *info).refusals);
  }

  Cluster cluster_;
  support::ActionBed bed_;
  std::vector<std::string> notes_;
};

TEST_F(RestoreInfoTest, ReadsAllThatTheTableAsksForAndChangesNothing) {
  bed_.api.Seed(LeaseType(),
                {{"metadata",
                  {{"name", "csi-delta-p"},
                   {"namespace", "shop"},
                   {"annotations", {{objects::kLeaseSnapshotAnnotation, "sunday"}}}}},
                 {"spec",
                  {{"holderIdentity", "x"},
                   {"renewTime", absl::FormatTime("%Y-%m-%d%ET%H:%M:%E6SZ", bed_.clock.Now(),
                                                  absl::UTCTimeZone())}}}});
  SwapRecord record = {.side = SwapSide::kRestored,
                       .namespace_name = "shop",
                       .pvc = kPvc,
                       .snapshot = "sunday",
                       .policy = "Delete",
                       .peer = "pv-1"};
  bed_.api.Seed(
      PersistentVolumeType(),
      support::MakeObject("v1", "PersistentVolume", "", "pv-0",
                          {{objects::kInPlaceLabel, RestoreLabelValue("shop", kPvc)}},
                          {{objects::kInPlaceRecordAnnotation, FormatSwapRecord(record)}}));
  EXPECT_THAT(Codes(), ElementsAre("InUse", "StatefulSetMakes", "Busy", "InBackup", "Unfinished"));
  EXPECT_THAT(notes_, IsEmpty());
  EXPECT_EQ(Info()->unfinished->volume, "pv-0");
  for (const support::ApiCall& call : bed_.api.calls()) {
    EXPECT_THAT(call.verb, testing::AnyOf("get", "list")) << call;
  }
}

TEST_F(RestoreInfoTest, WhatMayNotBeReadIsNamed) {
  bed_.api.Forbid("list", "*");
  bed_.api.Forbid("get", "volumesnapshotcontents");
  bed_.api.Forbid("get", "persistentvolumes");
  bed_.api.Forbid("get", "leases");
  EXPECT_THAT(Codes(), IsEmpty());
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("whether a Pod uses the PVC not checked: "),
                                  HasSubstr("StatefulSets not checked: "),
                                  HasSubstr("other snapshots of the PVC not checked: "),
                                  HasSubstr("Velero backups not checked: "),
                                  HasSubstr("binding, driver and volume mode not checked: "),
                                  HasSubstr("PersistentVolume not checked: "),
                                  HasSubstr("Lease not checked: "),
                                  HasSubstr("earlier restores into the PVC not checked: ")));
  bed_.api.Forbid("get", "persistentvolumeclaims");
  EXPECT_THAT(Info(), StatusIs(absl::StatusCode::kPermissionDenied, testing::_));
}

TEST_F(RestoreInfoTest, BackupsThatAreNotServedAreNamed) {
  bed_.api.RemoveType("backups");
  EXPECT_THAT(Codes(), ElementsAre("InUse", "StatefulSetMakes"));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("Velero backups not checked: ")));
}

TEST_F(RestoreInfoTest, ALeaseThatRanOutLongAgoIsNoOperation) {
  bed_.api.Seed(
      LeaseType(),
      {{"metadata", {{"name", "csi-delta-p"}, {"namespace", "shop"}}},
       {"spec", {{"holderIdentity", "x"}, {"renewTime", "2020-01-01T00:00:00.000000Z"}}}});
  EXPECT_EQ(Info()->lease_held_for, "");
}

TEST_F(RestoreInfoTest, AVolumeWithARecordThatCannotBeReadEndsIt) {
  bed_.api.Seed(PersistentVolumeType(),
                support::MakeObject("v1", "PersistentVolume", "", "pv-0",
                                    {{objects::kInPlaceLabel, RestoreLabelValue("shop", kPvc)}}));
  EXPECT_THAT(Info(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("pv-0")));
}

// --- Whether the data mover may still write

// The PVC has the record of DataDownload velero/x.
class TransferOverTest : public testing::Test {
 protected:
  TransferOverTest() {
    support::SeedBlockPvc(bed_.api, "d.example.com");
    SetRecord({.from = "velero/x", .id = "download-uid"});
    SetDownload("download-uid", "InProgress");
  }

  void SetRecord(const objects::CopyRecord& record) {
    bed_.api.Mutate(ClaimKey("shop", "data"), [&](Json& pvc) {
      SetJson(pvc, {"metadata", "annotations", objects::kCopyRecordAnnotation},
              FormatCopyRecord(record));
    });
  }
  void SetDownload(const std::string& uid, const std::string& phase) {
    bed_.api.Seed(DataDownloadType(),
                  {{"metadata", {{"name", "x"}, {"namespace", "velero"}, {"uid", uid}}},
                   {"status", {{"phase", phase}}}});
  }
  void SetSecondName(const std::string& of) {
    bed_.api.Seed(PersistentVolumeType(),
                  support::MakeObject("v1", "PersistentVolume", "", "dd-1", {},
                                      {{objects::kAliasOfAnnotation, of}}));
  }
  PersistentVolumeClaim Pvc() {
    return *PersistentVolumeClaim::Of(*bed_.api.Find(ClaimKey("shop", "data")));
  }
  // What it says, and whether another restore may begin.
  void Expect(bool is_over, bool may_begin) {
    const auto over = IsTransferOver(bed_.ctx, bed_.api, Pvc());
    ASSERT_THAT(over, IsOk());
    EXPECT_EQ(*over, is_over);
    const absl::Status free = CheckNotWrittenByMover(bed_.ctx, bed_.api, Pvc());
    if (may_begin) {
      EXPECT_THAT(free, IsOk());
    } else {
      EXPECT_THAT(free, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("the data mover writes into PVC shop/data")));
    }
  }

  support::ActionBed bed_;
};

TEST_F(TransferOverTest, ItIsOverWithTheDownloadAndTheSecondName) {
  Expect(false, false);
  SetDownload("download-uid", "Failed");
  Expect(true, true);
  SetDownload("later-uid", "InProgress");  // Another one of the name.
  Expect(true, true);
  bed_.api.Remove({DataDownloadType(), "velero", "x"});
  Expect(true, true);
  SetSecondName("pv-2");
  Expect(true, true);
  SetSecondName("pv-1");
  Expect(false, false);
}

TEST_F(TransferOverTest, WhatCannotBeSeenMayStillWrite) {
  bed_.api.Remove({DataDownloadType(), "velero", "x"});
  for (const auto& [verb, plural] :
       {std::pair("get", "datadownloads"), std::pair("list", "persistentvolumes")}) {
    bed_.api.Forbid(verb, plural);
    Expect(false, false);
    bed_.api.ClearFaults();
  }
  SetRecord({.from = "by hand", .id = "download-uid"});
  Expect(false, false);
}

TEST_F(TransferOverTest, WhereNothingWasBegunThereIsNothingToWaitFor) {
  SetRecord({.from = "velero/x", .id = "download-uid", .has_ended = true});
  Expect(false, true);
  SetRecord({.from = "monday"});
  Expect(false, true);
}

// --- The record

PersistentVolume VolumeWith(const std::string& record) {
  return *PersistentVolume::Of(
      {{"metadata",
        {{"name", "pv-1"}, {"annotations", {{objects::kInPlaceRecordAnnotation, record}}}}}});
}

SwapRecord OriginalRecord() {
  const Json pvc = {{"metadata",
                     {{"name", "data"},
                      {"namespace", "shop"},
                      {"uid", "p"},
                      {"resourceVersion", "7"},
                      {"labels", {{"app", "db"}}},
                      {"ownerReferences", Json::array({{{"kind", "StatefulSet"}, {"uid", "s"}}})},
                      {"annotations",
                       {{"pv.kubernetes.io/bind-completed", "yes"},
                        {"volume.kubernetes.io/selected-node", "node-1"},
                        {"team", "one"}}}}},
                    {"spec", {{"volumeName", "pv-1"}, {"storageClassName", "fast"}}},
                    {"status", {{"phase", "Bound"}}}};
  return {.side = SwapSide::kOriginal,
          .namespace_name = "shop",
          .pvc = "data",
          .snapshot = "monday",
          .snapshot_uid = "u",
          .policy = "Delete",
          .peer = "pv-2",
          .goal = SwapSide::kRestored,
          .at = absl::FromUnixSeconds(1'700'000'000),
          .pvc_uid = "p",
          .safety = "before",
          .claim = ClaimToMake(*PersistentVolumeClaim::Of(pvc), "")};
}

TEST(SwapRecordTest, IsReadAsItWasWritten) {
  const auto read = ParseSwapRecord(VolumeWith(FormatSwapRecord(OriginalRecord())));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(FormatSwapRecord(*read), FormatSwapRecord(OriginalRecord()));
  EXPECT_EQ(read->at, absl::FromUnixSeconds(1'700'000'000));
  EXPECT_EQ(read->safety, "before");
}

TEST(SwapRecordTest, ThePvcIsMadeAgainWithAllButItsBindingAndRestoresInPlace) {
  Json before = OriginalRecord().claim->json();
  SetJson(before, {"metadata", "annotations", objects::kCopyRecordAnnotation}, "{}");
  SetJson(before, {"metadata", "annotations", objects::kMayWriteAnnotation}, "velero/x");
  const Json made = ClaimToMake(*PersistentVolumeClaim::Of(before), "pv-2").json();
  EXPECT_EQ(made["metadata"],
            (Json{{"name", "data"},
                  {"namespace", "shop"},
                  {"labels", {{"app", "db"}}},
                  {"annotations", {{"team", "one"}}},
                  {"ownerReferences", Json::array({{{"kind", "StatefulSet"}, {"uid", "s"}}})}}));
  EXPECT_EQ(made["spec"], (Json{{"volumeName", "pv-2"}, {"storageClassName", "fast"}}));
  EXPECT_FALSE(made.contains("status"));
}

TEST(SwapRecordTest, OneThatIsNotCompleteIsNotUsed) {
  const Json whole = *ParseJson(FormatSwapRecord(OriginalRecord()));
  for (const char* field :
       {"side", "namespace", "pvc", "snapshot", "policy", "peer", "goal", "pvcUid", "claim"}) {
    Json part = whole;
    part.erase(field);
    EXPECT_THAT(ParseSwapRecord(VolumeWith(DumpJson(part))),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("pv-1")))
        << field;
  }
  Json other = whole;
  other["claim"]["metadata"]["name"] = "other";
  for (const std::string& text : {DumpJson(other), std::string("{"), std::string()}) {
    EXPECT_THAT(ParseSwapRecord(VolumeWith(text)),
                StatusIs(absl::StatusCode::kFailedPrecondition, testing::_));
  }
}

}  // namespace
}  // namespace csidelta::inplace::restore_guard_test
