// What `csi-delta snapshot` makes is a person's: neither this version nor one from before these
// verbs takes it for an orphan, a delta base or a part of the mover. Older versions run alongside
// newer ones during an upgrade, and after a downgrade; what they look for stands here as literals,
// as commit 605f81a spelled it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "csi/base_snapshots.h"
#include "csi/environment.h"
#include "csi/orphan_sweep.h"
#include "csi/snapshot_lifecycle.h"
#include "csi/volume_lease.h"
#include "datamover/controller/uninstall.h"
#include "k8s/object.h"
#include "snapshots/group_creation.h"
#include "snapshots/snapshot_creation.h"
#include "snapshots/snapshot_import.h"
#include "snapshots/static_pair.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/group_objects.h"
#include "tests/support/kind_names.h"
#include "tests/support/selectors.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::people_objects_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kDriver[] = "d.example.com";
constexpr char kVelero[] = "velero";

std::vector<k8s::ResourceType> Types() {
  return {VolumeSnapshotType(),          VolumeSnapshotContentType(),
          VolumeGroupSnapshotType("v1"), VolumeGroupSnapshotContentType("v1"),
          PersistentVolumeClaimType(),   LeaseType()};
}

// A cluster with the mover, in which people have made everything that the verbs make: a
// VolumeSnapshot, a group of two, an imported one, a pair in another namespace; and one is just
// being taken, so that its Lease is there.
class PeoplesObjectsTest : public testing::Test {
 protected:
  PeoplesObjectsTest() {
    for (const char* const name : {"data-0", "data-1"}) {
      AddPvc(name);
    }
    bed_.api.Seed(VolumeGroupSnapshotClassType("v1"),
                  support::MakeGroupClassObject("groups", kDriver));
    bed_.cluster.driver().AddSnapshot("imported");
    bed_.cluster.driver().AddSnapshot("lent");
    Make();
  }

  void AddPvc(const std::string& name) {
    Json volume = support::MakeObject("v1", "PersistentVolume", "", "pv-" + name);
    SetJson(volume, {"spec", "csi"}, Json{{"driver", kDriver}, {"volumeHandle", "of-" + name}});
    bed_.api.Seed(PersistentVolumeType(), volume);
    Json pvc = support::MakeObject("v1", "PersistentVolumeClaim", "shop", name);
    SetJson(pvc, {"metadata", "uid"}, name + "-uid");
    SetJson(pvc, {"spec", "volumeName"}, "pv-" + name);
    sources_.push_back({.pvc = *objects::PersistentVolumeClaim::Of(
                            bed_.api.Seed(PersistentVolumeClaimType(), pvc)),
                        .driver = kDriver,
                        .class_name = "fast"});
  }

  void Make() {
    const CallContext ctx = bed_.ctx.WithTimeout(absl::Minutes(5));
    ASSERT_THAT(snapshots::CreateSnapshot(ctx, bed_.api, Random::Real(),
                                          {.source = sources_.front(),
                                           .name = "monday",
                                           .set = "week",
                                           .workload = "StatefulSet/data",
                                           .note = "before the upgrade",
                                           .schedule = "nightly",
                                           .timeout = absl::Minutes(1)}),
                IsOk());
    ASSERT_THAT(snapshots::CreateGroup(ctx, bed_.api, Random::Real(),
                                       {.choice = {.version = "v1", .class_name = "groups"},
                                        .sources = sources_,
                                        .name = "both",
                                        .workload = "StatefulSet/data",
                                        .note = "before the upgrade",
                                        .schedule = "nightly",
                                        .timeout = absl::Minutes(1)}),
                IsOk());
    const absl::StatusOr<snapshots::ImportPlan> plan =
        snapshots::PlanImport(ctx, bed_.api,
                              {.driver = kDriver,
                               .handle = "imported",
                               .snapshot_namespace = "shop",
                               .deletion_policy = "Delete"});
    ASSERT_THAT(plan, IsOk());
    ASSERT_THAT(snapshots::CarryOutImport(ctx, bed_.api, *plan), IsOk());
    ASSERT_THAT(snapshots::MakePair(ctx, bed_.api,
                                    {.name = "csi-delta-lent",
                                     .driver = kDriver,
                                     .handle = "lent",
                                     .snapshot_namespace = "team",
                                     .snapshot_name = "lent"}),
                IsOk());
    std::string held_by;
    const auto lease = csi::VolumeLease::TakeIfFree(ctx, bed_.api,
                                                    {.lease_namespace = "shop",
                                                     .claim_namespace = "shop",
                                                     .claim_name = "data-0",
                                                     .claim_uid = "data-0-uid",
                                                     .backup_name = "",
                                                     .backup_uid = "",
                                                     .holder = "one",
                                                     .subject = "PVC",
                                                     .snapshot_name = "tuesday"},
                                                    held_by);
    ASSERT_THAT(lease, IsOk());
    ASSERT_TRUE(lease->has_value());
  }

  // "VolumeSnapshot shop/monday": the object without what the API server counts.
  std::map<std::string, Json> Everything() const {
    std::map<std::string, Json> all;
    for (const k8s::ResourceType& type : Types()) {
      for (Json& object : bed_.api.All(type)) {
        all[absl::StrCat(type.kind, " ", k8s::Namespace(object), "/", k8s::Name(object))] = object;
      }
    }
    return all;
  }

  csi::Environment PluginsEnvironment() {
    return {.api = bed_.api,
            .clock = bed_.clock,
            .random = Random::Real(),
            .velero_namespace = kVelero,
            .enable_csi = true};
  }

  datamover::MoverBed bed_;
  std::vector<snapshots::SnapshotSource> sources_;
};

TEST_F(PeoplesObjectsTest, AllThatTheVerbsMakeIsThere) {
  EXPECT_THAT(bed_.api.All(VolumeSnapshotType()), SizeIs(5));
  EXPECT_THAT(bed_.api.All(VolumeSnapshotContentType()), SizeIs(5));
  EXPECT_THAT(bed_.api.All(VolumeGroupSnapshotType("v1")), SizeIs(1));
  EXPECT_THAT(bed_.api.All(VolumeGroupSnapshotContentType("v1")), SizeIs(1));
  EXPECT_THAT(bed_.api.All(LeaseType()), SizeIs(1));
}

// Never edited: versions that are out look for these.
TEST_F(PeoplesObjectsTest, NothingThatOlderVersionsSweepByIsOnThem) {
  const std::vector<std::pair<std::string, std::string>> selectors = {
      {"VolumeSnapshot", "velero.io/csi-delta"},
      {"VolumeSnapshotContent", "velero.io/csi-delta"},
      {"VolumeGroupSnapshot", "velero.io/csi-delta"},
      {"VolumeGroupSnapshotContent", "velero.io/csi-delta"},
      {"PersistentVolumeClaim", "velero.io/csi-delta-group"},
      {"VolumeSnapshotContent", "mover.csi-delta.io/base=true"},
      {"VolumeSnapshotContent", "mover.csi-delta.io/task"},
      {"VolumeSnapshotContent", "mover.csi-delta.io/group"},
      {"VolumeSnapshot", "mover.csi-delta.io/task"},
      {"PersistentVolumeClaim", "mover.csi-delta.io/task"}};
  for (const auto& [key, object] : Everything()) {
    for (const auto& [kind, selector] : selectors) {
      if (absl::StartsWith(key, kind + " ")) {
        EXPECT_THAT(support::MatchesLabels(object, selector), IsOkAndHolds(false))
            << key << " " << selector;
      }
    }
    for (const char* const annotation :
         {"velero.io/csi-delta-delete-when-filled", "velero.io/csi-delta-owned-by-backup",
          "velero.io/csi-delta-group"}) {
      EXPECT_EQ(k8s::Annotation(object, annotation), "") << key;
    }
    const Json* const finalizers = FindJson(object, {"metadata", "finalizers"});
    EXPECT_FALSE(finalizers != nullptr && absl::StrContains(DumpJson(*finalizers), "csi-delta"))
        << key;
    // What the plugin makes for a backup is told by its name, too.
    EXPECT_FALSE(absl::StartsWith(k8s::Name(object), "velero-")) << key;
  }
}

// The plugin sweeps Leases that no client renews by a label which a person's have as well, in its
// own namespace alone, so that a person's goes with its PVC, or when its holder releases it.
TEST_F(PeoplesObjectsTest, StaleLeasesAreSweptInVelerosNamespaceAlone) {
  const Json lease = bed_.api.All(LeaseType()).front();
  EXPECT_EQ(k8s::Namespace(lease), "shop");
  EXPECT_EQ(k8s::Label(lease, "velero.io/csi-delta"), "volume-turn");
  bed_.clock.Advance(absl::Hours(1));
  ASSERT_THAT(csi::RemoveStaleVolumeLeases(bed_.ctx, bed_.api, kVelero), IsOk());
  EXPECT_THAT(bed_.api.All(LeaseType()), SizeIs(1));
}

TEST_F(PeoplesObjectsTest, SweepsBasesAndUninstallLeaveThemAsTheyAre) {
  bed_.api.Seed(BackupType(), support::MakeBackupObject("today", "InProgress",
                                                        "11111111-0000-4000-8000-000000000000"));
  const std::map<std::string, Json> before = Everything();
  bed_.clock.Advance(absl::Hours(24 * 365));

  const objects::Backup running = objects::Backup::Make(kVelero, "today");
  const csi::Environment env = PluginsEnvironment();
  const absl::StatusOr<csi::SweepResult> swept = csi::SweepOrphans(bed_.ctx, env, running, {});
  ASSERT_THAT(swept, IsOk());
  EXPECT_EQ(swept->swept + swept->deleted_late + swept->finished + swept->unmarked, 0);
  const auto bases = csi::ListBases(bed_.ctx, env, "");
  ASSERT_THAT(bases, IsOk());
  EXPECT_THAT(*bases, IsEmpty());

  datamover::UninstallRequest request{
      .velero_namespaces = {kVelero, "shop", "team"}, .keep_data = true, .open_store = {}};
  const absl::StatusOr<datamover::UninstallPlan> plan =
      datamover::PlanUninstall(bed_.ctx, bed_.env, request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->running, IsEmpty());
  EXPECT_THAT(plan->steps, IsEmpty());
  EXPECT_EQ(Everything(), before);
}

}  // namespace
}  // namespace csidelta::people_objects_test
