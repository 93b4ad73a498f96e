// Backups on drivers that allow less than others: docs/csi-drivers.md.

#include "tests/support/driver_habits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "csi/base_snapshots.h"
#include "csi/driver_error.h"
#include "csi/driver_rules.h"
#include "csi/group/group_lifecycle.h"
#include "csi/snapshot_lifecycle.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "tests/csi/backup_fixture.h"
#include "tests/support/event_texts.h"
#include "tests/support/kind_names.h"
#include "tests/support/paths.h"
#include "tests/support/status_matchers.h"

namespace csidelta::csi::driver_habits_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class DriverHabitsTest : public BackupFixture {
 protected:
  DriverHabitsTest() {
    SeedClaim(0);
    cluster_.driver().clock = &clock_;
    // The sidecar tries again whenever the backup looks.
    api_.SetInterceptor([this](const support::ApiCall& call, const Json*) {
      if (call.verb == "watch" && !resyncing_) {
        resyncing_ = true;
        cluster_.Resync();
        resyncing_ = false;
      }
      return absl::OkStatus();
    });
  }

  support::DriverHabits& habits() { return cluster_.driver().habits; }

  absl::StatusOr<TakenSnapshot> Take(const std::string& backup_uid = "backup-uid") {
    const objects::Backup backup = BackupWith(backup_uid);
    const SnapshotRequest request{.backup = backup,
                                  .claim_namespace = "app",
                                  .claim_name = Claim(0).pvc,
                                  .claim_uid = Claim(0).pvc_uid,
                                  .class_name = "fast",
                                  .driver = "csi.vsphere.vmware.com"};
    return TakeSnapshot(ctx_, env_, request);
  }

  // A base of the PVC, which the driver holds.
  void AddBase(const std::string& name, const std::string& location, absl::Duration age,
               int claim = 0) {
    const std::string handle = absl::StrCat("handle-", name);
    cluster_.driver().AddSnapshot(handle, Claim(claim).volume_handle);
    Json content = {{"metadata",
                     {{"name", name},
                      {"labels", {{objects::kBaseLabel, "true"}}},
                      {"annotations", OwnerAnnotations({.velero_namespace = "velero",
                                                        .location = location,
                                                        .claim_namespace = "app",
                                                        .claim = Claim(claim).pvc,
                                                        .claim_uid = Claim(claim).pvc_uid,
                                                        .cluster = "c"})}}}};
    content["metadata"]["annotations"][objects::kMoverTakenAtAnnotation] =
        FormatRfc3339(clock_.Now() - age);
    content["spec"] = {{"driver", "d.example.com"},
                       {"deletionPolicy", "Retain"},
                       {"source", {{"snapshotHandle", handle}}}};
    api_.Seed(VolumeSnapshotContentType(), content);
  }

  void AddUpload(const std::string& location, const std::string& phase) {
    api_.Seed(objects::DataUpload::Type(),
              {{"metadata",
                {{"name", "nightly"},
                 {"namespace", "velero"},
                 {"labels", {{objects::kPvcUidLabel, Claim(0).pvc_uid}}}}},
               {"spec", {{"backupStorageLocation", location}}},
               {"status", {{"phase", phase}}}});
  }

  std::vector<std::string> Bases() {
    std::vector<std::string> names;
    const auto bases = ListBases(ctx_, env_, "");
    for (const BaseSnapshot& base : bases.value()) {
      names.push_back(base.content_name);
    }
    return names;
  }

  bool resyncing_ = false;
};

TEST_F(DriverHabitsTest, WithThreeSnapshotsAVolumeTheBaseMakesRoom) {
  habits().snapshots_max = 3;
  habits().snapshots_max_code = absl::StatusCode::kFailedPrecondition;
  for (const char* handle : {"kept-1", "kept-2"}) {
    cluster_.driver().AddSnapshot(handle, Claim(0).volume_handle);
  }
  AddBase("du-1", "default", absl::Hours(24));
  ASSERT_THAT(Take(), IsOk());
  EXPECT_THAT(Bases(), IsEmpty());
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(3));
  EXPECT_THAT(support::EventTexts(api_),
              ElementsAre(AllOf(HasSubstr("data-0 Normal BaseDropped: "), HasSubstr("du-1"),
                                HasSubstr("3 of 3 snapshots"))));
}

TEST_F(DriverHabitsTest, OfAPvcThatWasMadeAgainNoEventTellsOfTheBase) {
  AddBase("du-1", "default", absl::Hours(24));
  api_.SetField(ClaimKey("app", Claim(0).pvc), {"metadata", "uid"}, "another");
  EXPECT_TRUE(DropBaseForRoom(ctx_, env_, Claim(0).pvc_uid, "no room").value());
  EXPECT_THAT(support::EventTexts(api_), IsEmpty());
}

TEST_F(DriverHabitsTest, OfTheBasesOfThePvcAtTwoLocationsTheOlderMakesRoom) {
  habits().snapshots_max = 2;
  AddBase("du-1", "second", absl::Hours(1));
  AddBase("du-2", "default", absl::Hours(24));
  AddBase("du-other", "default", absl::Hours(48), 1);
  ASSERT_THAT(Take(), IsOk());
  EXPECT_THAT(Bases(), ElementsAre("du-1", "du-other"));
}

TEST_F(DriverHabitsTest, ABaseThatAnUploadIsComparedWithMakesNoRoom) {
  habits().snapshots_max = 1;
  AddBase("du-1", "default", absl::Hours(24));
  AddUpload("default", "InProgress");
  EXPECT_THAT(Take(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("1 of 1 snapshots")));
  EXPECT_THAT(Bases(), ElementsAre("du-1"));
  AddUpload("elsewhere", "InProgress");
  EXPECT_THAT(Take("second"), IsOk());
  EXPECT_THAT(Bases(), IsEmpty());
}

// An upload may be under way all the same. NOT_FOUND is the kind.
TEST_F(DriverHabitsTest, ABaseStaysWhileUploadsCannotBeListed) {
  AddBase("du-1", "default", absl::Hours(24));
  AddUpload("default", "Completed");
  for (const absl::Status& answer : {absl::PermissionDeniedError("no"), absl::NotFoundError("no"),
                                     absl::UnavailableError("no")}) {
    api_.FailNext("list", "datauploads", answer);
    EXPECT_THAT(DropBaseForRoom(ctx_, env_, Claim(0).pvc_uid, "full"),
                StatusIs(answer.code(), HasSubstr("base snapshot du-1 stays: whether an upload")));
    EXPECT_THAT(Bases(), ElementsAre("du-1"));
  }
  AddBase("du-2", "second", absl::Hours(1));
  api_.FailNext("list", "datauploads", absl::PermissionDeniedError("no"));
  EXPECT_TRUE(DropBaseForRoom(ctx_, env_, Claim(0).pvc_uid, "full").value());
  EXPECT_THAT(Bases(), ElementsAre("du-1")) << "of the newer one it is known";
  EXPECT_TRUE(DropBaseForRoom(ctx_, env_, Claim(0).pvc_uid, "full").value());
}

// The sidecar tries again meanwhile.
TEST_F(DriverHabitsTest, OneBaseIsDroppedInTheTimeThatTheDriverTakesToDeleteIt) {
  int dropped = 0;
  DriverErrors errors(clock_, "PVC", absl::Hours(1), {.drop_base = [&dropped](absl::string_view) {
                        ++dropped;
                        return true;
                      }});
  for (int tries = 0; tries < 5; ++tries) {
    EXPECT_THAT(errors.Check("code = ResourceExhausted desc = full"), IsOk());
    clock_.Advance(absl::Seconds(59));
  }
  EXPECT_EQ(dropped, 1);
  clock_.Advance(absl::Minutes(1));
  EXPECT_THAT(errors.Check("code = ResourceExhausted desc = full"), IsOk());
  EXPECT_EQ(dropped, 2);
}

TEST_F(DriverHabitsTest, ARefusalThatPassedCountsNoMore) {
  DriverErrors errors(clock_, "PVC", absl::Hours(1));
  for (int hour = 0; hour < 3; ++hour) {
    EXPECT_THAT(errors.Check("code = InvalidArgument desc = no"), IsOk());
    EXPECT_THAT(errors.Check(""), IsOk());
    clock_.Advance(absl::Hours(1));
  }
}

TEST_F(DriverHabitsTest, WithoutABaseAFullDriverFailsTheBackupAfterAMinute) {
  habits().snapshots_max = 1;
  habits().snapshots_max_code = absl::StatusCode::kOutOfRange;
  cluster_.driver().AddSnapshot("kept", Claim(0).volume_handle);
  const absl::Time before = clock_.Now();
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               AllOf(HasSubstr("1 of 1 snapshots"),
                                     HasSubstr("csi.vsphere.vmware.com keeps at most 3"))));
  EXPECT_GE(clock_.Now() - before, absl::Minutes(1));
  EXPECT_THAT(cluster_.driver().snapshots(), ElementsAre("kept"));
}

TEST_F(DriverHabitsTest, WithOneSnapshotInTenMinutesTheSecondBackupWaits) {
  habits().snapshot_pause = absl::Minutes(9);
  AddBase("du-1", "default", absl::Hours(24));
  ASSERT_THAT(Take("first"), IsOk());
  const absl::Time before = clock_.Now();
  ASSERT_THAT(Take("second"), IsOk());
  EXPECT_GE(clock_.Now() - before, absl::Minutes(9));
  EXPECT_THAT(Bases(), ElementsAre("du-1")) << "a base is not in the way of a rate";
}

TEST_F(DriverHabitsTest, APauseThatIsLongerThanTheTimeoutIsNamed) {
  habits().snapshot_pause = absl::Minutes(20);
  ASSERT_THAT(Take("first"), IsOk());
  EXPECT_THAT(Take("second"),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("one request per 20m")));
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
}

TEST_F(DriverHabitsTest, ASnapshotThatTakesEightMinutesIsAwaited) {
  habits().snapshot_takes = absl::Minutes(8);
  const absl::Time before = clock_.Now();
  ASSERT_THAT(Take(), IsOk());
  EXPECT_GE(clock_.Now() - before, absl::Minutes(8));
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
}

TEST_F(DriverHabitsTest, AFullDriverGetsTheBasesOfAGroup) {
  SeedClaim(1);
  AddBase("du-1", "default", absl::Hours(24));
  cluster_.driver().Refuse("CreateVolumeGroupSnapshot", "ResourceExhausted", "3 of 3 snapshots");
  api_.OnEvent("volumesnapshotcontents",
               [&](support::FakeApiClient&, const k8s::WatchEvent& event) {
                 if (event.kind == k8s::WatchEvent::Kind::kDeleted) {
                   cluster_.driver().ClearFaults();
                 }
               });
  ASSERT_THAT(TakeGroup(ctx_, env_, RequestOfGroup(2)), IsOk());
  EXPECT_THAT(Bases(), IsEmpty());
}

// What drivers answered, by their sources and issues. The sidecar's words stand before.
TEST(ReportsNoRoom, KnowsTheAnswersOfDrivers) {
  const struct {
    const char* driver;
    bool has_no_room;
    const char* answer;
  } kAnswers[] = {
      {"vsphere-csi-driver, vanilla/controller.go", true,
       "code = FailedPrecondition desc = the number of snapshots on the source volume 5c5e reaches "
       "the configured maximum (3)"},
      {"ibm-spectrum-scale-csi, issue 252", true,
       "code = OutOfRange desc = max limit of snapshots reached for fileset [fs1:pvc-43b0]. No "
       "more snapshots can be created for this fileset."},
      {"OpenEBS Mayastor, external-snapshotter issue 866", true,
       "code = Internal desc = Operation failed: GenericOperation(\"error in response: status code "
       "'503 Service Unavailable', content: 'RestJsonError { details: \\\"Cannot create a snapshot "
       "for volume 1097 because it would exceed the maximum limit of 10 snapshots\\\", message: "
       "\\\"SvcError :: MaxNumberOfSnapshotsReached\\\", kind: Aborted }'\")"},
      {"longhorn-engine, controller/control.go", true,
       "code = Internal desc = snapshot count usage 250 is equal or larger than snapshotMaxCount "
       "250"},
      {"the CSI specification, of CreateSnapshot", true,
       "code = ResourceExhausted desc = there is not enough space"},
      {"a driver that wraps the error of its storage", true,
       "code = Unknown desc = create failed: rpc error: code = ResourceExhausted desc = pool full"},
      {"csi-digitalocean, issue 370", false,
       "code = ResourceExhausted desc = this operation is rate-limited - one request per 10m0s"},
      {"aws-ebs-csi-driver, issue 1608", false,
       "code = Internal desc = Could not create snapshot \"snapshot-1\": "
       "SnapshotCreationPerVolumeRateExceeded: The maximum per volume CreateSnapshot request rate "
       "has been exceeded."},
      {"aws-ebs-csi-driver, after the retries of aws-sdk-go-v2", false,
       "code = Internal desc = Could not create snapshot \"snapshot-1\": operation error EC2: "
       "CreateSnapshot, exceeded maximum number of attempts, 3, https response error StatusCode: "
       "503, RequestID: 7a62, api error RequestLimitExceeded: Request limit exceeded."},
      {"the same, of another error", false,
       "code = Internal desc = Could not create snapshot \"snapshot-1\": operation error EC2: "
       "CreateSnapshot, exceeded maximum number of attempts, 3, api error InternalError"},
      {"azurefile-csi-driver, issue 2569", false,
       "code = Internal desc = StatusCode=429 -- Service returned an error. Status=429 "
       "Code=\"TooManyRequests\" Message=\"The request is being throttled as the limit has been "
       "reached for operation type - Read_ObservationWindow_00:05:00\""},
      {"Compute Engine, of rates", false,
       "code = ResourceExhausted desc = googleapi: Error 403: Quota exceeded for quota metric "
       "'Queries' and limit 'Queries per minute' of service 'compute.googleapis.com'., "
       "rateLimitExceeded"},
      {"Compute Engine, of snapshots", false,
       "code = ResourceExhausted desc = Operation rate exceeded for resource 'disks/d'. Too "
       "frequent operations from the source resource."},
      {"the same words, of something else", false,
       "code = Internal desc = the node has reached the maximum limit of 16 volumes"},
      {"NetApp Trident, issue 696", false,
       "code = FailedPrecondition desc = snapshots are not supported by backend type "
       "ontap-nas-economy"},
      {"longhorn, issue 3167", false, "code = DeadlineExceeded desc = context deadline exceeded"}};
  for (const auto& one : kAnswers) {
    EXPECT_EQ(ReportsNoRoom(absl::StrCat("Failed to check and update snapshot content: failed to "
                                         "take snapshot of the volume vol-maximum: \"rpc error: ",
                                         one.answer, "\"")),
              one.has_no_room)
        << one.driver;
  }
}

TEST(DriverRules, TheirTextNamesWhatLimitsUsers) {
  EXPECT_EQ(LimitsText(RulesOf("csi.vsphere.vmware.com")),
            "keeps at most 3 snapshots of a volume by default, grows no volume that has snapshots, "
            "deletes no volume that has snapshots");
  EXPECT_EQ(LimitsText(RulesOf("d.example.com")), "");
}

TEST(DriverRules, ThePageHasEachRow) {
  const std::string page = support::ReadSource("docs/csi-drivers.md");
  ASSERT_FALSE(AllDriverRules().empty());
  for (const DriverRules& rules : AllDriverRules()) {
    const std::string count =
        rules.snapshots_max == 0 ? "unknown" : absl::StrCat(rules.snapshots_max);
    EXPECT_THAT(page,
                HasSubstr(absl::StrCat("\n| `", rules.driver, "` | ", count, " | ",
                                       ToString(rules.grows), " | ", ToString(rules.deletes), " | ",
                                       rules.note, rules.note.empty() ? "| " : " | ")));
  }
}

}  // namespace
}  // namespace csidelta::csi::driver_habits_test
