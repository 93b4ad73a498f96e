// csi-delta restore --upload --into: what the data mover moved, into a PVC that exists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "objects/keys.h"
#include "tests/cli/snapshot_verb_fixture.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "velero/data_reference.h"

namespace csidelta::cli::restore_into_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kFakeDriver[] = "d.example.com";

// PVC shop/data, and the VolumeSnapshot monday of it.
class RestoreIntoTest : public SnapshotProgramTest {
 protected:
  RestoreIntoTest() {
    SeedStorageClass(api_, "fast", kFakeDriver);
    api_.Seed(VolumeSnapshotClassType(), support::MakeClassObject("snaps", kFakeDriver));
    MakePvc(api_, "data");
    MakeSnapshotOf(api_, "data", "monday");
  }

  Outcome Run(std::vector<std::string> words) const {
    words.insert(words.end(), {"--kubeconfig", program_.Path("kubeconfig")});
    return program_.Run(words);
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

  support::FakeSnapshotCluster cluster_{api_};
};

TEST_F(RestoreIntoTest, TheMoverRestoresWhatItMoved) {
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
}

TEST_F(RestoreIntoTest, ANewClusterHasNoDataUploadAndNeedsTheLocation) {
  AddUpload();
  const std::string reference = GetString(api_.All(DataUploadType())[0], {"status", "snapshotID"});
  api_.Remove({DataUploadType(), "velero", "nightly"});
  EXPECT_THAT(RestoreUpload().error, HasSubstr("was not found"));
  const Outcome outcome = Run(
      {"restore", "--upload", reference, "--location", "default", "--into", "shop/data", "--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("4.0 KiB written"));
}

TEST_F(RestoreIntoTest, AMoverThatFailsSaysWhyAndWhereTheOldDataIs) {
  AddUpload();
  EndDownloads("Failed", "no key opens it");
  const Outcome outcome = RestoreUpload();
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("no key opens it"), HasSubstr("data-before-restore")));
}

TEST_F(RestoreIntoTest, TheMoverIsNotAskedForWhatIsRefused) {
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
TEST_F(RestoreIntoTest, NoSnapshotIsTakenForAMoverThatWillRefuse) {
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

TEST_F(RestoreIntoTest, UnreadableSettingsAreReportedAndTheMoverDecides) {
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

TEST_F(RestoreIntoTest, TheSourceOfARestoreIsNamedOnce) {
  AddUpload();
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"restore", "--into", "shop/data"},
           {"restore", "--target", "x"},
           {"restore", "--upload", "nightly", "--target", "x"},
           {"restore", "--upload", "nightly"},
           {"restore", "latest"},
           {"restore", "latest", "--into", "shop/data"},
           {"restore", "latest", "--target", "x", "--into", "shop/data"},
           {"restore", "--upload", "nightly", "--into", "data", "--yes"},
           {"restore", "latest", "--upload", "nightly", "--into", "shop/data"}}) {
    EXPECT_EQ(Run(words).code, ExitCode::kFailed);
  }
  EXPECT_EQ(api_.CallCount("create", "datadownloads"), 0);
}

}  // namespace
}  // namespace csidelta::cli::restore_into_test
