// What restores into a PVC by a Pod: snapshot restore --method copy, and restore --into.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/cli/program_runner.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "velero/data_reference.h"

namespace csidelta::cli::volume_pod_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kFakeDriver[] = "d.example.com";
const k8s::ResourceType kReviews{"authorization.k8s.io", "v1", "selfsubjectaccessreviews",
                                 "SelfSubjectAccessReview", false};
const k8s::ResourceType kEvents{"", "v1", "events", "Event", true};

// PVC shop/data in mode Block, and the VolumeSnapshot monday of it.
class VolumePodTest : public testing::Test {
 protected:
  VolumePodTest()
      : api_server_(api_,
                    {VolumeSnapshotType(), VolumeSnapshotContentType(), VolumeSnapshotClassType(),
                     PersistentVolumeClaimType(), PersistentVolumeType(), StorageClassType(),
                     LeaseType(), PodType(), StatefulSetType(), BackupType(), DataUploadType(),
                     DataDownloadType(), ConfigMapType(), kEvents, kReviews}) {
    program_.Write("kubeconfig", api_server_.Kubeconfig());
    Json storage_class = support::MakeObject("storage.k8s.io/v1", "StorageClass", "", "fast");
    storage_class["provisioner"] = kFakeDriver;
    api_.Seed(StorageClassType(), storage_class);
    api_.Seed(VolumeSnapshotClassType(), support::MakeClassObject("snaps", kFakeDriver));
    Json pvc = support::MakeObject("v1", "PersistentVolumeClaim", "shop", "data");
    pvc["spec"] = {{"storageClassName", "fast"},
                   {"accessModes", {"ReadWriteOnce"}},
                   {"volumeMode", "Block"},
                   {"resources", {{"requests", {{"storage", "1Gi"}}}}}};
    EXPECT_THAT(api_.Create({}, PersistentVolumeClaimType(), "shop", pvc), support::IsOk());
    Json snapshot =
        support::MakeObject("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "shop", "monday");
    snapshot["spec"] = {{"source", {{"persistentVolumeClaimName", "data"}}},
                        {"volumeSnapshotClassName", "snaps"}};
    EXPECT_THAT(api_.Create({}, VolumeSnapshotType(), "shop", snapshot), support::IsOk());
    api_.OnCreate("pods", [this](support::FakeApiClient&, const Json& made) { pod_ = made; });
    EndPods("Succeeded",
            R"({"message_type":"result","compared_bytes":1048576,"written_bytes":4096})");
  }

  // As a kubelet that is quick.
  void EndPods(const std::string& phase, const std::string& message) {
    api_.SetInterceptor(
        [this, phase, message](const support::ApiCall& call, const Json*) -> absl::Status {
          if (call.verb == "get" && call.plural == "pods" && call.subresource.empty()) {
            api_.Mutate({PodType(), "shop", call.name}, [&](Json& pod) {
              pod["status"] = {
                  {"phase", phase},
                  {"containerStatuses", {{{"state", {{"terminated", {{"message", message}}}}}}}}};
            });
          }
          return absl::OkStatus();
        });
  }
  std::vector<std::string> Arguments() const {
    return pod_["spec"]["containers"][0]["args"].get<std::vector<std::string>>();
  }

  Outcome Run(std::vector<std::string> words) const {
    words.insert(words.end(), {"--kubeconfig", program_.Path("kubeconfig")});
    return program_.Run(words);
  }
  Outcome Restore(std::vector<std::string> more = {"--method", "copy", "--image", "i", "--yes"}) {
    more.insert(more.begin(), {"snapshot", "restore", "monday", "--into", "data", "-n", "shop"});
    return Run(more);
  }
  Outcome RestoreInto(std::vector<std::string> more = {"--yes"}) {
    more.insert(more.begin(), {"restore", "latest", "--path", "/orders", "--into", "shop/data",
                               "--repository-secret", "repository", "--image", "i"});
    return Run(more);
  }
  // What csi-delta moved in a backup, and a data mover that is quick.
  void AddUpload() {
    Json upload = support::MakeObject("velero.io/v2alpha1", "DataUpload", "velero", "nightly");
    upload["spec"] = {{"datamover", "csi-delta"},
                      {"backupStorageLocation", "default"},
                      {"sourceNamespace", "shop"},
                      {"sourcePVC", "data"},
                      {"csiSnapshot", {{"volumeSnapshot", "gone"}}}};
    upload["status"] = {
        {"phase", "Completed"},
        {"snapshotID", velero::FormatDataReference({.cluster = "cluster-uid",
                                                    .namespace_name = "shop",
                                                    .claim_uid = "claim-uid",
                                                    .snapshot_id = std::string(64, 'a'),
                                                    .key = std::string(16, '0')})}};
    api_.Seed(DataUploadType(), upload);
    SetMover(R"({"restore": {"intoExistingVolumes": true}})");
    EndDownloads("Completed", "");
  }
  void SetMover(const std::string& settings) {
    api_.Seed(ConfigMapType(),
              {{"metadata", {{"name", "csi-delta-mover"}, {"namespace", "csi-delta"}}},
               {"data", {{"config.json", settings}}}});
  }
  void EndDownloads(const std::string& phase, const std::string& message) {
    api_.SetInterceptor(
        [this, phase, message](const support::ApiCall& call, const Json*) -> absl::Status {
          if (call.verb == "get" && call.plural == "datadownloads") {
            api_.Mutate({DataDownloadType(), "velero", call.name}, [&](Json& download) {
              download["status"] = {{"phase", phase}, {"message", message}};
              SetJson(download, {"metadata", "annotations", objects::kRestoredBytesAnnotation},
                      R"({"compared_bytes":1048576,"written_bytes":4096})");
            });
          }
          return absl::OkStatus();
        });
  }
  Outcome RestoreUpload(std::vector<std::string> more = {"--yes"}) {
    more.insert(more.begin(), {"restore", "--upload", "nightly", "--into", "shop/data"});
    return Run(more);
  }
  std::size_t downloads() const { return api_.All(DataDownloadType()).size(); }
  std::size_t snapshots() const { return api_.All(VolumeSnapshotType()).size(); }

  ProgramRunner program_;
  support::FakeApiClient api_;
  support::FakeSnapshotCluster cluster_{api_};
  support::ApiTestServer api_server_;
  Json pod_;
};

TEST_F(VolumePodTest, CopySaysItsPlanItsStepsAndTheWayBack) {
  const std::string uid = k8s::Uid(*api_.Find(ClaimKey("shop", "data")));
  const Outcome outcome = Restore();
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("PVC shop/data gets the data of VolumeSnapshot monday:"),
                    HasSubstr("is taken, for safety\n"), HasSubstr("4.0 KiB written"),
                    HasSubstr("back:   csi-delta snapshot restore data-before-restore-")));
  EXPECT_EQ(k8s::Uid(*api_.Find(ClaimKey("shop", "data"))), uid);
  EXPECT_EQ(snapshots(), 2U);
  EXPECT_THAT(api_.All(PodType()), IsEmpty());
  EXPECT_EQ(api_.All(PersistentVolumeClaimType()).size(), 1U);
}

TEST_F(VolumePodTest, AutoCopiesOnlyWhereAnImageIsKnownAndPodsMayBeMade) {
  const auto method = [this](std::vector<std::string> more) {
    more.insert(more.end(), {"--dry-run", "-o", "json"});
    const Outcome outcome = Restore(more);
    EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
    return GetString(ParseJson(outcome.out).value_or(Json()), {"method"});
  };
  EXPECT_EQ(method({}), "swap");
  EXPECT_EQ(method({"--image", "i"}), "copy");
  EXPECT_EQ(method({"--image", "i", "--method", "swap"}), "swap");
  api_.Forbid("create", "pods");
  EXPECT_EQ(method({"--image", "i"}), "swap");
  EXPECT_EQ(api_.CallCount("create", "pods"), 0);
  EXPECT_EQ(snapshots(), 1U);
}

TEST_F(VolumePodTest, CopyIsRefusedBeforeAnythingIsMade) {
  EXPECT_THAT(Restore({"--method", "copy", "--yes"}).error, HasSubstr("--image"));
  api_.Mutate(ClaimKey("shop", "data"),
              [](Json& pvc) { pvc["spec"]["volumeMode"] = "Filesystem"; });
  const Outcome of_files = Restore();
  EXPECT_EQ(of_files.code, ExitCode::kFailed);
  EXPECT_THAT(of_files.error, HasSubstr("Filesystem"));
  api_.Mutate(ClaimKey("shop", "data"), [](Json& pvc) { pvc["spec"]["volumeMode"] = "Block"; });
  Json app = support::MakeObject("v1", "Pod", "shop", "app");
  app["spec"]["volumes"] =
      Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}});
  api_.Seed(PodType(), app);
  EXPECT_THAT(Restore().error, HasSubstr("Pod/app"));
  api_.Forbid("create", "pods");
  EXPECT_THAT(Restore().error, HasSubstr("csi-delta-snapshot-user"));
  EXPECT_EQ(snapshots(), 1U);
}

TEST_F(VolumePodTest, CopyAsksUnlessToldNotTo) {
  EXPECT_THAT(Restore({"--method", "copy", "--image", "i"}).error, HasSubstr("--yes"));
  EXPECT_EQ(snapshots(), 1U);
  program_.confirm = [](const CallContext&, absl::string_view) { return false; };
  EXPECT_NE(Restore({"--method", "copy", "--image", "i"}).code, ExitCode::kOk);
  EXPECT_EQ(snapshots(), 1U);
}

TEST_F(VolumePodTest, CopySaysInJsonWhatItCounted) {
  const Outcome outcome =
      Restore({"--method", "copy", "--image", "i", "--safety", "no", "--yes", "-o", "json"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  const std::string last = outcome.out.substr(outcome.out.rfind('\n', outcome.out.size() - 2) + 1);
  const Json result = ParseJson(last).value_or(Json());
  EXPECT_EQ(GetString(result, {"message_type"}), "result");
  EXPECT_EQ(GetInt(result, {"written_bytes"}), 4096);
  EXPECT_EQ(GetString(result, {"method"}), "copy");
  EXPECT_EQ(GetString(result, {"safety_snapshot"}), "");
  EXPECT_EQ(snapshots(), 1U);
}

TEST_F(VolumePodTest, ATargetThatIsTooSmallIsExitCode22) {
  EndPods("Failed", R"({"message_type":"exit_error","code":22,"message":"too small"})");
  EXPECT_EQ(Restore().code, ExitCode::kTargetTooSmall);
}

TEST_F(VolumePodTest, ARepositoryIsRestoredByAPodWithItsSecret) {
  const Outcome outcome = RestoreInto();
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("restored into PVC shop/data: "));
  EXPECT_THAT(outcome.error, HasSubstr("for safety"));
  EXPECT_THAT(Arguments(), AllOf(Contains("restore"), Contains("--differing"), Contains("latest"),
                                 Contains("--path"), Contains("/orders")));
  EXPECT_EQ(pod_["spec"]["containers"][0]["envFrom"][0]["secretRef"]["name"], "repository");
  EXPECT_EQ(snapshots(), 2U);
  EXPECT_THAT(api_.All(PodType()), IsEmpty());
}

// The Pod has restored, and ends with exit code 3.
TEST_F(VolumePodTest, ARestoreOfWhatMayNotBeTheLatestIsIncomplete) {
  EndPods("Failed", R"({"message_type":"result","written_bytes":4096,"may_be_older":true})");
  const Outcome outcome = RestoreInto({"--yes", "--json"});
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
  EXPECT_THAT(outcome.out, HasSubstr(R"("may_be_older":true)"));
  EXPECT_THAT(outcome.error, HasSubstr("may be newer than the one which was restored into PVC "
                                       "shop/data"));
}

TEST_F(VolumePodTest, ARepositoryIsNotRestoredOverAnythingInUse) {
  EXPECT_THAT(RestoreInto({}).error, HasSubstr("--yes"));
  EXPECT_EQ(RestoreInto({"--dry-run"}).code, ExitCode::kOk);
  Json app = support::MakeObject("v1", "Pod", "shop", "app");
  app["spec"]["volumes"] =
      Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}});
  api_.Seed(PodType(), app);
  EXPECT_THAT(RestoreInto().error, HasSubstr("Pod/app"));
  EXPECT_EQ(api_.CallCount("create", "pods"), 0);
  EXPECT_EQ(snapshots(), 1U);
}

TEST_F(VolumePodTest, WhatTheMoverMovedComesBackByTheMover) {
  AddUpload();
  const Outcome outcome = RestoreUpload();
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("restored into PVC shop/data: "), HasSubstr("4.0 KiB written")));
  EXPECT_THAT(outcome.error,
              AllOf(HasSubstr("for safety"), HasSubstr("asks the data mover to restore")));
  EXPECT_EQ(snapshots(), 2U);
  EXPECT_EQ(api_.CallCount("create", "datadownloads"), 1);
  EXPECT_EQ(downloads(), 0U);
  EXPECT_EQ(api_.CallCount("create", "pods"), 0);
}

TEST_F(VolumePodTest, AMoverThatFailsSaysWhyAndWhereTheOldDataIs) {
  AddUpload();
  EndDownloads("Failed", "no key opens it");
  const Outcome outcome = RestoreUpload();
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("no key opens it"), HasSubstr("data-before-restore")));
}

TEST_F(VolumePodTest, TheMoverIsNotAskedForWhatIsRefused) {
  AddUpload();
  EXPECT_THAT(RestoreUpload({}).error, HasSubstr("--yes"));
  const Outcome plan = RestoreUpload({"--dry-run"});
  EXPECT_EQ(plan.code, ExitCode::kOk);
  EXPECT_THAT(plan.out, HasSubstr("would restore DataUpload velero/nightly into PVC shop/data"));
  for (const auto& [verb, plural] : {std::pair("create", "datadownloads"),
                                     std::pair("list", "pods"), std::pair("get", "datauploads")}) {
    api_.Forbid(verb, plural);
    EXPECT_THAT(RestoreUpload().error, HasSubstr("csi-delta-snapshot-admin"));
    api_.ClearFaults();
  }
  Json app = support::MakeObject("v1", "Pod", "shop", "app");
  app["spec"]["volumes"] =
      Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}});
  api_.Seed(PodType(), app);
  EXPECT_THAT(RestoreUpload().error, HasSubstr("Pod/app"));
  EXPECT_EQ(api_.CallCount("create", "datadownloads"), 0);
  EXPECT_EQ(snapshots(), 1U);
}

// It would refuse in the end, with a VolumeSnapshot left that is not needed.
TEST_F(VolumePodTest, NoSnapshotIsTakenForAMoverThatWillRefuse) {
  AddUpload();
  SetMover("{}");
  for (const char* more : {"--yes", "--dry-run"}) {
    const Outcome outcome = RestoreUpload({more});
    EXPECT_EQ(outcome.code, ExitCode::kFailed);
    EXPECT_THAT(outcome.error, HasSubstr("restore.intoExistingVolumes, which is not set"));
  }
  EXPECT_EQ(snapshots(), 1U);
  EXPECT_EQ(api_.CallCount("create", "datadownloads"), 0);
}

TEST_F(VolumePodTest, WhereTheSettingsCannotBeReadThatIsSaidAndTheMoverDecides) {
  AddUpload();
  struct Case {
    const char* want;
    std::function<void()> make;
  };
  const std::vector<Case> cases = {
      {"ConfigMap csi-delta/csi-delta-mover was not found",
       [&] {
         api_.Remove({ConfigMapType(), "csi-delta", "csi-delta-mover"});
       }},
      {"config.json", [&] { SetMover("no settings"); }},
      {"you may not get configmaps", [&] { api_.Forbid("get", "configmaps"); }}};
  for (const Case& test : cases) {
    SCOPED_TRACE(test.want);
    test.make();
    const Outcome outcome = RestoreUpload({"--yes", "--safety", "no"});
    EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
    EXPECT_THAT(outcome.error,
                AllOf(HasSubstr("restore.intoExistingVolumes of the data mover not checked: "),
                      HasSubstr(test.want)));
  }
  api_.ClearFaults();
  EndDownloads("Completed", "");
  SetMover("{}");
  EXPECT_EQ(RestoreUpload({"--yes", "--safety", "no", "--mover-namespace", "other"}).code,
            ExitCode::kOk);
  // Who may not read them is not refused a request for them.
  api_.Forbid("get", "configmaps");
  api_.ClearCalls();
  RestoreUpload({"--dry-run"});
  EXPECT_EQ(api_.CallCount("get", "configmaps"), 0);
}

TEST_F(VolumePodTest, WhatIsRestoredIsSaidOnce) {
  AddUpload();
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"restore", "--into", "shop/data"},
           {"restore", "--target", "x"},
           {"restore", "--upload", "nightly", "--target", "x"},
           {"restore", "--upload", "nightly"},
           {"restore", "latest", "--upload", "nightly", "--into", "shop/data"},
           {"restore", "--upload", "nightly", "--into", "shop/data", "--image", "i"},
           {"restore", "--upload", "nightly", "--into", "shop/data", "--repository-secret", "s"}}) {
    EXPECT_EQ(Run(words).code, ExitCode::kFailed);
  }
  EXPECT_EQ(api_.CallCount("create", "datadownloads"), 0);
}

TEST_F(VolumePodTest, WhereToRestoreIsSaidOnce) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"restore", "latest"},
           {"restore", "latest", "--target", "x", "--into", "shop/data"},
           {"restore", "latest", "--into", "data", "--repository-secret", "s", "--image", "i"},
           {"restore", "latest", "--into", "shop/data", "--image", "i"},
           {"restore", "latest", "--into", "shop/data", "--repository-secret", "s"}}) {
    EXPECT_EQ(Run(words).code, ExitCode::kFailed);
  }
  EXPECT_EQ(api_.CallCount("create", "pods"), 0);
}

}  // namespace
}  // namespace csidelta::cli::volume_pod_test
