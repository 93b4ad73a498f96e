#include "restoreitemactions/claim_operation.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "absl/strings/match.h"
#include "base/rfc3339.h"
#include "csi/driver_error.h"
#include "objects/keys.h"
#include "restoreitemactions/actions.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::restoreitemactions::claim_operation_test {
namespace {

using support::ActionBed;
using support::StatusIs;
using testing::HasSubstr;
using velero::OperationProgress;

const k8s::ResourceType kEvents{"", "v1", "events", "Event", true};

constexpr char kSilentDriver[] = "silent.example.com";
constexpr char kGone[] = "can not find snapshot for snapshotID handle-1";

struct ClaimCase {
  const char* name;
  std::string phase = "Pending";  // "" when the claim does not exist
  std::string binding_mode = "Immediate";
  std::string selected_node = "";
  std::string event = "";          // of the provisioner
  std::string content_error = "";  // of the driver's sidecar
  absl::Duration age = absl::Minutes(1);
  absl::Duration volume_age = absl::Seconds(30);
  std::string volume_driver = support::kDriver;
  std::string provisioned_by = support::kDriver;
  std::string content_driver = support::kDriver;
  std::string storage_class = "fast";
  std::string provisioner = support::kDriver;  // of class "fast"
  bool has_snapshot = true;
  bool completed = false;
  std::string error = "";  // "" for none
  std::string description = "";
};
std::ostream& operator<<(std::ostream& out, const ClaimCase& test) { return out << test.name; }

class ClaimOperationTest : public testing::TestWithParam<ClaimCase> {
 protected:
  void Seed(const ClaimCase& test) {
    if (!test.phase.empty()) {
      Json claim = support::MakeObject("v1", "PersistentVolumeClaim", "shop", "data");
      SetJson(claim, {"metadata", "uid"}, "claim-uid");
      SetJson(claim, {"metadata", "creationTimestamp"}, FormatRfc3339(bed_.clock.Now() - test.age));
      SetJson(claim, {"spec", "storageClassName"}, test.storage_class);
      SetJson(claim, {"status", "phase"}, test.phase);
      if (test.phase == "Bound") {
        SetJson(claim, {"spec", "volumeName"}, "pv");
        SeedVolume(test);
      }
      if (!test.selected_node.empty()) {
        SetJson(claim, {"metadata", "annotations", objects::kSelectedNodeAnnotation},
                test.selected_node);
      }
      bed_.api.Seed(PersistentVolumeClaimType(), claim);
    }
    support::SeedStorageClass(bed_.api, "fast", test.provisioner, test.binding_mode);
    if (test.has_snapshot) {
      bed_.api.Seed(VolumeSnapshotType(), support::MakeSnapshotObject("shop", "snap", "content"));
    }
    Json content = support::MakeContentObject("content", "shop", "snap", "handle-1");
    SetJson(content, {"spec", "driver"}, test.content_driver);
    if (!test.content_error.empty()) {
      SetJson(content, {"status", "readyToUse"}, false);
      SetJson(content, {"status", "error", "message"}, test.content_error);
    }
    bed_.api.Seed(VolumeSnapshotContentType(), content);
    if (!test.event.empty()) {
      SeedEvent("e1", "claim-uid", "ProvisioningFailed", test.event);
    }
    SeedEvent("e2", "another-uid", "ProvisioningFailed", "rpc error: code = NotFound desc = no");
    SeedEvent("e3", "claim-uid", "Provisioning", "rpc error: code = NotFound desc = no");
  }

  void SeedVolume(const ClaimCase& test) {
    Json volume = support::MakeObject("v1", "PersistentVolume", "", "pv");
    SetJson(volume, {"metadata", "creationTimestamp"},
            FormatRfc3339(bed_.clock.Now() - test.volume_age));
    SetJson(volume, {"spec", "claimRef", "uid"}, "claim-uid");
    SetJson(volume, {"spec", "csi", "driver"}, test.volume_driver);
    if (!test.provisioned_by.empty()) {
      SetJson(volume, {"metadata", "annotations", "pv.kubernetes.io/provisioned-by"},
              test.provisioned_by);
    }
    bed_.api.Seed(PersistentVolumeType(), volume);
  }

  void SeedEvent(const std::string& name, const std::string& uid, const std::string& reason,
                 const std::string& message) {
    Json event = support::MakeObject("v1", "Event", "shop", name);
    SetJson(event, {"involvedObject", "uid"}, uid);
    SetJson(event, {"reason"}, reason);
    SetJson(event, {"message"}, message);
    bed_.api.Seed(kEvents, event);
  }

  OperationProgress Check() { return CheckClaim(bed_.ctx, bed_.env, {"shop", "data", "snap"}); }

  ActionBed bed_;
};

TEST_P(ClaimOperationTest, FollowsTheDiagram) {
  const ClaimCase& test = GetParam();
  Seed(test);
  const OperationProgress progress = Check();
  EXPECT_EQ(progress.completed, test.completed);
  if (test.error.empty()) {
    EXPECT_EQ(progress.error, "");
  } else {
    EXPECT_THAT(progress.error, HasSubstr(test.error));
    EXPECT_THAT(progress.error, HasSubstr("shop/data"));
  }
  EXPECT_THAT(progress.description, HasSubstr(test.description));
  const bool told = !test.error.empty() && !test.phase.empty();
  EXPECT_EQ(bed_.api.CallCount("create", "events"), told ? 1 : 0);
  EXPECT_EQ(bed_.api.CallCount("delete", "persistentvolumeclaims"), 0);
}

const ClaimCase kCases[] = {
    {.name = "Bound", .phase = "Bound", .completed = true, .description = "bound"},
    {.name = "BoundToAnOlderVolume",
     .phase = "Bound",
     .volume_age = absl::Hours(1),
     .completed = true,
     .error = "older than the claim"},
    {.name = "BoundToAVolumeOfNoProvisioner",
     .phase = "Bound",
     .provisioned_by = "",
     .completed = true,
     .error = "made by no provisioner"},
    {.name = "BoundToAVolumeOfAnotherDriver",
     .phase = "Bound",
     .volume_driver = "other.driver",
     .completed = true,
     .error = "of driver other.driver"},
    {.name = "WithoutClass",
     .storage_class = "",
     .completed = true,
     .error = "no provisioner makes volumes"},
    {.name = "OfAClassOfAnotherDriver",
     .binding_mode = "WaitForFirstConsumer",
     .provisioner = "other.driver",
     .completed = true,
     .error = "storage class fast is of driver other.driver"},
    {.name = "OfAnInTreeClass", .provisioner = "kubernetes.io/aws-ebs", .description = "waiting"},
    {.name = "WithoutVolumeSnapshot",
     .binding_mode = "WaitForFirstConsumer",
     .has_snapshot = false,
     .completed = true,
     .error = "includedResources"},
    {.name = "Gone", .phase = "", .completed = true, .error = "is gone"},
    {.name = "Lost", .phase = "Lost", .completed = true, .error = "lost its volume"},
    {.name = "Young", .description = "waiting"},
    {.name = "NoSnapshotInDriver",
     .event = "rpc error: code = NotFound desc = snapshot handle-1",
     .completed = true,
     .error = "handle-1"},
    {.name = "RequestTooSmall",
     .event = "requested volume size 1 is less than the size 2",
     .completed = true,
     .error = "less than the size"},
    {.name = "DriverBusy",
     .event = "rpc error: code = ResourceExhausted desc = later",
     .description = "ResourceExhausted"},
    {.name = "SnapshotNotReadyYet",
     .event = "snapshot snap is not Ready",
     .description = "not Ready"},
    {.name = "ListedAsGone", .content_error = kGone, .completed = true, .error = "handle-1"},
    {.name = "ListingFails",
     .content_error = "rpc error: code = Unavailable",
     .description = "Unavailable"},
    {.name = "FirstConsumer",
     .binding_mode = "WaitForFirstConsumer",
     .completed = true,
     .description = "not checked"},
    {.name = "FirstConsumerScheduled",
     .binding_mode = "WaitForFirstConsumer",
     .selected_node = "node-1",
     .description = "waiting"},
    {.name = "FirstConsumerButGone",
     .binding_mode = "WaitForFirstConsumer",
     .content_error = kGone,
     .completed = true,
     .error = "handle-1"},
    {.name = "AfterHoursOfTrouble",
     .event = "rpc error: code = Internal desc = boom",
     .age = absl::Hours(100),
     .description = "boom"},
    {.name = "OfAClassThatMayCome",
     .age = absl::Hours(100),
     .storage_class = "slow",
     .description = "there is no storage class slow"},
    {.name = "BoundToAVolumeOfADriverThatDoesNotTell",
     .phase = "Bound",
     .age = absl::Hours(100),
     .volume_age = absl::Hours(99),
     .volume_driver = kSilentDriver,
     .provisioned_by = kSilentDriver,
     .content_driver = kSilentDriver,
     .description = "bound; "},
};
INSTANTIATE_TEST_SUITE_P(Table, ClaimOperationTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_F(ClaimOperationTest, TroubleWithTheApiServerIsNotAnEnd) {
  Seed({.name = "Pending"});
  for (const char* plural : {"persistentvolumeclaims", "volumesnapshots", "volumesnapshotcontents",
                             "events", "storageclasses"}) {
    bed_.api.FailNext("*", plural, absl::UnavailableError("connection lost"));
    EXPECT_FALSE(Check().completed) << plural;
    bed_.api.ClearFaults();
  }
}

TEST_F(ClaimOperationTest, EventThatCannotBeWrittenFailsNothing) {
  Seed({.name = "Lost", .phase = "Lost"});
  bed_.api.Forbid("create", "events");
  EXPECT_THAT(Check().error, HasSubstr("lost its volume"));
}

// Velero cancels what its itemOperationTimeout ends, and says no more than that.
TEST_F(ClaimOperationTest, AnEventSaysWhatAClaimWaitsForWhenVeleroCancelsItsOperation) {
  const auto cancel = [&](const std::string& operation_id) {
    return MakePvcAction(bed_.env)->Cancel(
        bed_.ctx, operation_id, objects::Object(support::MakeRestoreObject("r1", "nightly")));
  };
  EXPECT_THAT(cancel("claim/shop/data/snap"), support::IsOk()) << "the claim is gone";
  EXPECT_EQ(bed_.api.CallCount("create", "events"), 0);
  Seed({.name = "Pending", .event = "rpc error: code = Internal desc = boom"});
  EXPECT_THAT(cancel("claim/shop/data/snap"), support::IsOk());
  ASSERT_EQ(bed_.api.CallCount("create", "events"), 1);
  EXPECT_TRUE(bed_.api.Any(kEvents, [](const Json& event) {
    return GetString(event, {"reason"}) == "RestoreFromSnapshotFailed" &&
           absl::StrContains(GetString(event, {"message"}), "boom");
  }));
  EXPECT_THAT(cancel("nonsense"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(OperationIdTest, RoundTrip) {
  const std::string id = EncodeOperation({"shop", "data", "snap"});
  const absl::StatusOr<ClaimOperation> operation = DecodeOperation(id);
  ASSERT_THAT(operation, support::IsOk());
  EXPECT_EQ(operation->namespace_name, "shop");
  EXPECT_EQ(operation->claim_name, "data");
  EXPECT_EQ(operation->snapshot_name, "snap");
}

TEST(OperationIdTest, RefusesForeignIds) {
  for (const char* id : {"", "claim", "claim/a", "claim/a/b", "claim//b/c", "claim/a//c",
                         "claim/a/b/c/d", "other/a/b/c"}) {
    EXPECT_THAT(DecodeOperation(id), StatusIs(absl::StatusCode::kInvalidArgument)) << id;
  }
}

TEST(OperationIdTest, UnknownOperationIsAFailureNotAnRpcError) {
  ActionBed bed;
  const auto action = MakePvcAction(bed.env);
  const auto progress = action->Progress(
      bed.ctx, "nonsense", objects::Object(support::MakeRestoreObject("r1", "nightly")));
  ASSERT_THAT(progress, support::IsOk());
  EXPECT_TRUE(progress->completed);
  EXPECT_THAT(progress->error, HasSubstr("nonsense"));
}

TEST(SnapshotGoneTest, OnlyDefiniteAnswersCount) {
  EXPECT_TRUE(csi::ReportsMissingSnapshot(kGone));
  EXPECT_TRUE(csi::ReportsMissingSnapshot("rpc error: code = NotFound desc = snapshot x"));
  for (const char* text : {"", "rpc error: code = Unavailable desc = not found the server",
                           "failed to list snapshot", "timed out"}) {
    EXPECT_FALSE(csi::ReportsMissingSnapshot(text)) << text;
  }
}

}  // namespace
}  // namespace csidelta::restoreitemactions::claim_operation_test
