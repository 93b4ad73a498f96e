#include "snapshots/promotion_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/finding_codes.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::snapshots::promotion_check_test {
namespace {

using objects::PersistentVolumeClaim;
using objects::StorageClass;
using objects::VolumeMode;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;
using support::CodesOf;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kTaken[] = "2023-11-14T22:13:20Z";
constexpr int64_t kGibibyte = int64_t{1} << 30;
constexpr char kModeChange[] = "snapshot.storage.kubernetes.io/allow-volume-mode-change";

Json ClassObject(const char* name, const char* provisioner) {
  return {{"metadata", {{"name", name}}}, {"provisioner", provisioner}};
}

// A VolumeSnapshot that is ready and bound both ways, its source PVC, and classes: nothing is
// against a PVC of it. A case changes it.
struct Cluster {
  Json snapshot = support::MakeReadySnapshot("monday", "data");
  Json content = support::MakeBoundContent("monday");
  Json source = {{"metadata", {{"name", "data"}, {"namespace", "shop"}}},
                 {"spec",
                  {{"storageClassName", "fast"},
                   {"accessModes", {"ReadWriteMany"}},
                   {"resources", {{"requests", {{"storage", "1Gi"}}}}}}}};
  std::vector<Json> classes = {ClassObject("fast", "d.example.com"),
                               ClassObject("slow", "d.example.com"),
                               ClassObject("other", "ebs.csi.aws.com")};
  Json taken_by;  // null: the name is free
  PvcOptions options = {.namespace_name = "shop", .name = "copy"};
  csi::ContentReading::Kind kind = csi::ContentReading::Kind::kPresent;
  bool has_source = true;
  bool may_list_classes = true;
  bool must_prove_binding = false;
};

struct Decision {
  PlannedPvc pvc;
  std::vector<Finding> refusals;
};

Decision Decide(const Cluster& cluster) {
  const VolumeSnapshot snapshot = *VolumeSnapshot::Of(cluster.snapshot);
  const VolumeSnapshotContent content = *VolumeSnapshotContent::Of(cluster.content);
  const PersistentVolumeClaim source = *PersistentVolumeClaim::Of(cluster.source);
  const PersistentVolumeClaim taken_by =
      *PersistentVolumeClaim::Of(cluster.taken_by.is_null() ? Json::object() : cluster.taken_by);
  std::vector<StorageClass> classes;
  for (const Json& one : cluster.classes) {
    classes.push_back(*StorageClass::Of(one));
  }
  const PromotionSurroundings around = {
      .content = {.kind = cluster.kind,
                  .content =
                      cluster.kind == csi::ContentReading::Kind::kPresent ? &content : nullptr,
                  .is_handle_gone = false},
      .source_pvc = cluster.has_source ? &source : nullptr,
      .storage_classes = cluster.may_list_classes ? &classes : nullptr,
      .taken_by = cluster.taken_by.is_null() ? nullptr : &taken_by,
      .must_prove_binding = cluster.must_prove_binding};
  PlannedPvc pvc = PlanPvc(snapshot, cluster.options, around);
  std::vector<Finding> refusals = CheckPromotion(snapshot, pvc, around);
  return {.pvc = std::move(pvc), .refusals = std::move(refusals)};
}

struct Case {
  std::string code;
  const char* what;
  std::function<void(Cluster&)> change;
  const char* message;
};

void ExpectRefusals(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    Cluster cluster;
    one.change(cluster);
    const Decision decision = Decide(cluster);
    EXPECT_THAT(CodesOf(decision.refusals), ElementsAre(one.code)) << one.what;
    ASSERT_FALSE(decision.refusals.empty()) << one.what;
    EXPECT_THAT(decision.refusals.front().message, HasSubstr(one.message)) << one.what;
  }
}

void NotReady(Cluster& c) { c.snapshot["status"]["readyToUse"] = false; }
void Fail(Cluster& c, const char* message) {
  NotReady(c);
  c.snapshot["status"]["error"] = {{"message", message}, {"time", kTaken}};
}

TEST(PromotionCheckTest, NothingIsAgainstOneThatIsReadyAndBoundBothWays) {
  EXPECT_THAT(Decide({}).refusals, IsEmpty());
  Cluster proven;
  proven.must_prove_binding = true;
  EXPECT_THAT(Decide(proven).refusals, IsEmpty());
}

// The table of the header, row by row, each alone.
TEST(PromotionCheckTest, RowsOfStateAndBinding) {
  ExpectRefusals(
      {{"NotReady", "uploading", NotReady, "shop/monday is Uploading"},
       {"NotReady", "creating",
        [](Cluster& c) {
          c.snapshot.erase("status");
          c.content["status"] = {{"restoreSize", kGibibyte}};
        },
        "is Creating; with --wait"},
       {"NotReady", "retried",
        [](Cluster& c) { Fail(c, "rpc error: code = Unavailable desc = later"); },
        "code = Unavailable desc = later; with --wait"},
       {"Unusable", "refused",
        [](Cluster& c) { Fail(c, "rpc error: code = InvalidArgument desc = no"); },
        "is Error: rpc error: code = InvalidArgument desc = no"},
       {"Unusable", "being deleted",
        [](Cluster& c) { c.snapshot["metadata"]["deletionTimestamp"] = kTaken; }, "is Deleting"},
       {"Unusable", "lost", [](Cluster& c) { c.kind = csi::ContentReading::Kind::kGone; },
        "is Lost"},
       {"NotMutual", "another's content",
        [](Cluster& c) {
          c.content["spec"]["volumeSnapshotRef"] = {
              {"namespace", "team"}, {"name", "theirs"}, {"uid", "v"}};
        },
        "VolumeSnapshotContent c, which belongs to team/theirs (uid v): it is not used"},
       {"NotMutual", "another of its name",
        [](Cluster& c) { c.content["spec"]["volumeSnapshotRef"]["uid"] = "v"; }, "(uid v)"},
       {"NotMutual", "to be proven, and no uid",
        [](Cluster& c) {
          c.must_prove_binding = true;
          c.content["spec"]["volumeSnapshotRef"].erase("uid");
        },
        "without its uid"},
       {"NotMutual", "to be proven, and not read",
        [](Cluster& c) {
          c.must_prove_binding = true;
          c.kind = csi::ContentReading::Kind::kUnknown;
        },
        "no VolumeSnapshotContent that names it"},
       {"NotMutual", "to be proven, and neither has a uid",
        [](Cluster& c) {
          c.must_prove_binding = true;
          c.snapshot["metadata"].erase("uid");
          c.content["spec"]["volumeSnapshotRef"].erase("uid");
        },
        "belongs to shop/monday"}});
}

TEST(PromotionCheckTest, RowsOfTheName) {
  ExpectRefusals(
      {{"BadName", "upper case", [](Cluster& c) { c.options.name = "Copy"; },
        "\"Copy\" is not a name"},
       {"BadName", "none", [](Cluster& c) { c.options.name = ""; }, "is not a name"},
       {"BadName", "a path", [](Cluster& c) { c.options.name = "../copy"; }, "is not a name"},
       {"NameTaken", "taken",
        [](Cluster& c) {
          c.taken_by = {{"metadata", {{"name", "copy"}, {"namespace", "shop"}}}};
        },
        "PVC shop/copy exists already; give another name"},
       {"NameTaken", "by one of the same VolumeSnapshot",
        [](Cluster& c) {
          c.taken_by = {
              {"metadata", {{"name", "copy"}, {"namespace", "shop"}}},
              {"spec", {{"dataSource", {{"kind", "VolumeSnapshot"}, {"name", "monday"}}}}}};
        },
        "and is one of this VolumeSnapshot"}});
}

TEST(PromotionCheckTest, RowsOfTheStorageClass) {
  ExpectRefusals(
      {{"NoStorageClass", "two, and no source", [](Cluster& c) { c.has_source = false; },
        "--storage-class; StorageClasses of driver d.example.com: fast, slow"},
       {"NoStorageClass", "none of the driver",
        [](Cluster& c) {
          c.has_source = false;
          c.classes.resize(0);
        },
        "StorageClasses of driver d.example.com: none"},
       {"NoStorageClass", "classes that may not be listed",
        [](Cluster& c) {
          c.has_source = false;
          c.may_list_classes = false;
        },
        "may not be read"},
       {"NoStorageClass", "named as none", [](Cluster& c) { c.options.storage_class = ""; },
        "--storage-class"},
       {"NoSuchClass", "unknown", [](Cluster& c) { c.options.storage_class = "quick"; },
        "StorageClass quick does not exist; StorageClasses of driver d.example.com: fast, slow"},
       {"OtherDriver", "of another driver", [](Cluster& c) { c.options.storage_class = "other"; },
        "StorageClass other is of driver ebs.csi.aws.com, the VolumeSnapshot of d.example.com; "
        "StorageClasses of driver d.example.com: fast, slow"},
       {"OtherDriver", "that provisions nothing",
        [](Cluster& c) {
          c.classes.push_back(ClassObject("local", "kubernetes.io/no-provisioner"));
          c.options.storage_class = "local";
        },
        "kubernetes.io/no-provisioner"}});
}

TEST(PromotionCheckTest, RowsOfSizeModeAndAccess) {
  ExpectRefusals(
      {{"NoSize", "not known",
        [](Cluster& c) {
          c.has_source = false;
          c.options.storage_class = "fast";
          c.snapshot["status"]["restoreSize"] = "0";
        },
        "give --size"},
       {"TooSmall", "than the VolumeSnapshot",
        [](Cluster& c) { c.options.size_bytes = kGibibyte - 1; },
        "1073741823 is less than the 1Gi"},
       {"TooSmall", "than its content",
        [](Cluster& c) {
          c.content["status"]["restoreSize"] = kGibibyte + 1;
          c.options.size_bytes = kGibibyte;
        },
        "give --size 1025Mi or more"},
       {"OtherMode", "not allowed", [](Cluster& c) { c.options.mode = VolumeMode::kBlock; },
        "mode Filesystem, the PVC would be in mode Block"},
       {"OtherMode", "forbidden in so many words",
        [](Cluster& c) {
          c.content["metadata"]["annotations"] = {{kModeChange, "false"}};
          c.options.mode = VolumeMode::kBlock;
        },
        kModeChange},
       {"BadAccessMode", "unknown", [](Cluster& c) { c.options.access_modes = {"RWO"}; },
        "\"RWO\" is not an access mode; use ReadWriteOnce"},
       {"BadAccessMode", "one Pod and more",
        [](Cluster& c) {
          c.options.access_modes = {"ReadWriteOncePod", "ReadOnlyMany"};
        },
        "ReadWriteOncePod goes with no other"}});
}

TEST(PromotionCheckTest, WhatIsNotKnownDecidesNothing) {
  const std::vector<std::function<void(Cluster&)>> changes = {
      [](Cluster& c) { c.kind = csi::ContentReading::Kind::kUnknown; },
      [](Cluster& c) {  // Then the driver is not known, either.
        c.kind = csi::ContentReading::Kind::kUnknown;
        c.options.storage_class = "other";
        c.options.mode = VolumeMode::kBlock;
      },
      [](Cluster& c) {
        c.may_list_classes = false;
        c.options.storage_class = "quick";
      },
      [](Cluster& c) {
        c.content["spec"].erase("sourceVolumeMode");
        c.options.mode = VolumeMode::kBlock;
      },
      [](Cluster& c) { c.content["spec"]["volumeSnapshotRef"].erase("uid"); },
      [](Cluster& c) {
        c.snapshot["status"]["error"] = {{"message", "stale"}};
      }};
  for (const auto& change : changes) {
    Cluster cluster;
    change(cluster);
    EXPECT_THAT(Decide(cluster).refusals, IsEmpty());
  }
}

TEST(PromotionCheckTest, WhatIsAllowedPasses) {
  const std::vector<std::function<void(Cluster&)>> changes = {
      [](Cluster& c) { c.options.size_bytes = kGibibyte; },
      [](Cluster& c) { c.options.access_modes = {"ReadWriteOncePod"}; },
      [](Cluster& c) {
        c.content["metadata"]["annotations"] = {{kModeChange, "true"}};
        c.options.mode = VolumeMode::kBlock;
      },
      [](Cluster& c) {  // An in-tree name is migrated to a CSI driver.
        c.classes.push_back(ClassObject("tree", "kubernetes.io/aws-ebs"));
        c.options.storage_class = "tree";
      },
      [](Cluster& c) {  // Unverified: the provisioner finds out.
        c.snapshot["spec"]["source"] = {{"volumeSnapshotContentName", "c"}};
        c.snapshot["status"].erase("restoreSize");
        c.has_source = false;
        c.options.storage_class = "fast";
        c.options.size_bytes = kGibibyte;
      }};
  for (const auto& change : changes) {
    Cluster cluster;
    change(cluster);
    EXPECT_THAT(Decide(cluster).refusals, IsEmpty());
  }
}

TEST(PromotionCheckTest, AllThatIsAgainstItIsSaidInTheOrderOfTheTable) {
  Cluster cluster;
  NotReady(cluster);
  cluster.options = {.namespace_name = "shop",
                     .name = "Copy",
                     .storage_class = "other",
                     .size_bytes = 1,
                     .mode = VolumeMode::kBlock,
                     .access_modes = {"RWO"}};
  EXPECT_THAT(
      CodesOf(Decide(cluster).refusals),
      ElementsAre("NotReady", "BadName", "OtherDriver", "TooSmall", "OtherMode", "BadAccessMode"));
}

TEST(PromotionCheckTest, DefaultsAreThoseOfTheSource) {
  const PlannedPvc pvc = Decide({}).pvc;
  EXPECT_EQ(pvc.namespace_name, "shop");
  EXPECT_EQ(pvc.name, "copy");
  EXPECT_EQ(pvc.storage_class, "fast");
  EXPECT_EQ(pvc.size_bytes, kGibibyte);
  EXPECT_EQ(pvc.mode, VolumeMode::kFilesystem);
  EXPECT_THAT(pvc.access_modes, ElementsAre("ReadWriteMany"));
}

TEST(PromotionCheckTest, TheSizeIsTheLargerOfWhatIsNeededAndWhatTheSourceRequests) {
  Cluster cluster;
  cluster.source["spec"]["resources"]["requests"]["storage"] = "3Gi";
  EXPECT_EQ(Decide(cluster).pvc.size_bytes, 3 * kGibibyte);
  cluster.has_source = false;
  cluster.snapshot["status"]["restoreSize"] = "1073741825";
  EXPECT_EQ(Decide(cluster).pvc.size_bytes, kGibibyte + (1 << 20));
  cluster.snapshot["status"]["restoreSize"] = "9223372036854775807";
  EXPECT_EQ(Decide(cluster).pvc.size_bytes, std::numeric_limits<int64_t>::max());
}

TEST(PromotionCheckTest, WithoutASourceTheClassIsTheDefaultOrTheOnlyOneOfTheDriver) {
  Cluster cluster;
  cluster.has_source = false;
  cluster.classes[1]["metadata"]["annotations"] = {
      {"storageclass.kubernetes.io/is-default-class", "true"}};
  EXPECT_EQ(Decide(cluster).pvc.storage_class, "slow");
  EXPECT_THAT(Decide(cluster).pvc.access_modes, ElementsAre("ReadWriteOnce"));
  cluster.classes.erase(cluster.classes.begin() + 1);
  EXPECT_EQ(Decide(cluster).pvc.storage_class, "fast");
  cluster.classes[1]["metadata"]["annotations"] = {
      // The default, but of another driver.
      {"storageclass.kubernetes.io/is-default-class", "true"}};
  EXPECT_EQ(Decide(cluster).pvc.storage_class, "fast");
  cluster.kind = csi::ContentReading::Kind::kUnknown;
  EXPECT_EQ(Decide(cluster).pvc.storage_class, "");
}

TEST(PromotionCheckTest, TheModeOfTheContentCountsBeforeThatOfThePvc) {
  Cluster cluster;
  cluster.source["spec"]["volumeMode"] = "Block";
  EXPECT_EQ(Decide(cluster).pvc.mode, VolumeMode::kFilesystem);
  cluster.content["spec"].erase("sourceVolumeMode");
  EXPECT_EQ(Decide(cluster).pvc.mode, VolumeMode::kBlock);
}

// --- The name of the PVC

struct NameCase {
  const char* source;    // PVC; "" for one of an existing content
  const char* workload;  // annotation
  PvcNaming naming;
  const char* name;  // "": an error
};

std::string NameOf(const NameCase& one) {
  Json json = {{"metadata", {{"name", "monday"}, {"namespace", "shop"}}}};
  if (*one.workload != '\0') {
    json["metadata"]["annotations"] = {{"snapshot.csi-delta.io/workload", one.workload}};
  }
  if (*one.source != '\0') {
    json["spec"]["source"]["persistentVolumeClaimName"] = one.source;
  }
  const absl::StatusOr<std::string> name = PvcNameFor(*VolumeSnapshot::Of(json), one.naming);
  if (!name.ok()) {
    EXPECT_THAT(name, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("shop/monday")));
  }
  return name.value_or("");
}

TEST(PromotionNamesTest, FollowTheirTable) {
  const std::vector<NameCase> cases = {
      {"data", "", {}, "monday"},
      {"", "", {}, "monday"},
      {"data", "", {.prefix = "old-"}, "old-data"},
      {"data", "", {.suffix = "-old"}, "data-old"},
      {"data", "", {.prefix = "a-", .suffix = "-b"}, "a-data-b"},
      {"", "", {.prefix = "old-"}, ""},
      {"data-db-2", "StatefulSet/db", {.replica_of = "test"}, "data-test-2"},
      {"data-db-2", "StatefulSet/db", {.replica_of = "test", .ordinal = 0}, "data-test-0"},
      {"data-db-2", "Pod/db-2", {.replica_of = "test"}, "data-test-2"},
      {"data-db-2", "", {.replica_of = "db", .ordinal = 7}, "data-db-7"},
      {"data-db-2", "", {.replica_of = "test"}, ""},
      {"my-data-my-db-10", "StatefulSet/my-db", {.replica_of = "x"}, "my-data-x-10"},
      {"data-db-2", "StatefulSet/other", {.replica_of = "test"}, ""},
      {"data", "StatefulSet/db", {.replica_of = "test"}, ""},
      {"-db-2", "StatefulSet/db", {.replica_of = "test"}, ""},
      {"data-db-", "StatefulSet/db", {.replica_of = "test"}, ""},
      {"data-db-two", "StatefulSet/db", {.replica_of = "test"}, ""},
      {"data-db-99999999999999999999", "StatefulSet/db", {.replica_of = "test"}, ""},
      {"", "", {.replica_of = "test"}, ""},
      {"data-db-2", "Deployment/db", {.replica_of = "test"}, ""},
  };
  for (const NameCase& one : cases) {
    EXPECT_EQ(NameOf(one), one.name) << one.source << " " << one.workload;
  }
}

}  // namespace
}  // namespace csidelta::snapshots::promotion_check_test
