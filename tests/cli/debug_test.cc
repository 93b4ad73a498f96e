// csi-delta debug: what is in the file, and that no secret is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/run_program.h"
#include "objects/backup.h"
#include "objects/backup_storage_location.h"
#include "objects/cluster.h"
#include "objects/data_deletion.h"
#include "objects/protected_volume.h"
#include "objects/volume_task.h"
#include "tests/cli/program_runner.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::debug_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kSecret[] = "hunter2-of-this-cluster";  // an ordinary word

// A cluster in which each object has a secret wherever one may be.
class DebugTest : public testing::Test {
 protected:
  DebugTest() {
    for (const k8s::ResourceType& type : types_) {
      for (const char* space : {"velero", "csi-delta"}) {
        Plant(type, type.namespaced ? space : "");
      }
    }
    const Json settings = {
        {"paused", true},
        {"proxy", {{"https", absl::StrCat("http://user:", kSecret, "@proxy:3128")}}},
        {"drivers", {{"d", {{"keepBase", true}, {"parameters", {{"user", kSecret}}}}}}},
        {"worker", {{"podAnnotations", {{"name", kSecret}}}, {"scratchSize", "2Gi"}}}};
    api_.Seed(ConfigMapType(),
              {{"metadata", {{"name", "csi-delta-mover"}, {"namespace", "csi-delta"}}},
               {"data", {{"config.json", settings.dump()}, {"other", kSecret}}}});
    program_.Write("kubeconfig", server_.Kubeconfig(absl::StrCat("{token: ", kSecret, "}")));
    program_.variables["AWS_SECRET_ACCESS_KEY"] = kSecret;
    program_.open_store = [](const auto&, const auto&,
                             auto&) -> absl::StatusOr<std::unique_ptr<storage::OpenedStore>> {
      return absl::PermissionDeniedError(absl::StrCat("refused: secret_key=", kSecret));
    };
  }

  void Plant(const k8s::ResourceType& type, const std::string& space) {
    const std::string url = absl::StrCat("https://u:", kSecret, "@h/x?X-Amz-Signature=", kSecret);
    const Json container = {{"name", "datamover"},
                            {"image", "mover:1"},
                            {"restartCount", 1},
                            {"args", {absl::StrCat("--user=", kSecret)}},
                            {"env", {{{"name", "X"}, {"value", kSecret}}}}};
    const std::string message = absl::StrCat("at ", url, " with password=", kSecret,
                                             ", Authorization: Bearer ", kSecret, " failed");
    api_.Seed(type, {{"metadata",
                      {{"name", "planted"},
                       {"namespace", space},
                       {"labels", {{"team", kSecret}, {"app.kubernetes.io/name", "csi-delta"}}},
                       {"annotations", {{"name", kSecret}}}}},
                     {"spec",
                      {{"note", kSecret},
                       {"containers", {container}},
                       {"config", {{"s3Url", url}, {"user", kSecret}}},
                       {"job", {{"repository", {{"address", url}}}}}}},
                     {"status",
                      {{"phase", "Failed"},
                       {"message", message},
                       {"note", kSecret},
                       {"containerStatuses", {container}}}},
                     {"parameters", {{"name", kSecret}}},
                     {"data", {{"password", absl::Base64Escape(kSecret)}}},
                     {"reason", "Because"},
                     {"message", message}});
  }

  bool AnswerLog(const support::ServedRequest& request, support::ServedConnection& connection) {
    if (!absl::StrContains(request.target, "/log?")) {
      return false;
    }
    const std::scoped_lock lock(mutex_);
    logs_.push_back(request.target);
    connection.Send(200, absl::StrCat("{\"token\":\"", kSecret, "\"}\nthe controller is ready\n"));
    return true;
  }

  Outcome Debug() const {
    return program_.Run({"debug", "--output", program_.Path("out.tar"), "--kubeconfig",
                         program_.Path("kubeconfig")});
  }
  std::string Bundle() const { return program_.Read("out.tar"); }
  // A file of the bundle, as tar reads it.
  std::string Extract(const std::string& name) const {
    const auto text = RunProgram(
        CallContext(),
        {.arguments = {"tar", "-xOf", program_.Path("out.tar"), "csi-delta-debug/" + name}});
    EXPECT_THAT(text, support::IsOk());
    return text.value_or("");
  }

  const std::vector<k8s::ResourceType> types_{DataUploadType(),
                                              DataDownloadType(),
                                              DataDeletionType(),
                                              objects::ProtectedVolume::Type(),
                                              objects::BackupStorageLocation::Type(),
                                              objects::VolumeTask::Type(),
                                              PodType(),
                                              EventType(),
                                              objects::Restore::Type(),
                                              BackupType(),
                                              SecretType(),
                                              ConfigMapType(),
                                              LeaseType(),
                                              VolumeSnapshotClassType(),
                                              VolumeSnapshotContentType(),
                                              StorageClassType(),
                                              objects::Deployment::Type(),
                                              objects::Namespace::Type()};
  std::mutex mutex_;
  std::vector<std::string> logs_;  // targets
  support::FakeApiClient api_;
  support::ApiTestServer server_{api_, types_, {}, [this](const auto& request, auto& connection) {
                                   return AnswerLog(request, connection);
                                 }};
  ProgramRunner program_;
};

TEST_F(DebugTest, NoSecretIsInTheFile) {
  const Outcome outcome = Debug();
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  const std::string all = absl::StrCat(Bundle(), outcome.out, outcome.error);
  EXPECT_THAT(all, Not(HasSubstr(kSecret)));
  EXPECT_THAT(all, Not(HasSubstr(absl::Base64Escape(kSecret))));
  EXPECT_EQ(std::filesystem::status(program_.Path("out.tar")).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(DebugTest, TheFileHasWhatAReportNeeds) {
  const Outcome outcome = Debug();
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, testing::MatchesRegex("wrote .*out.tar; read it before .*\n"));
  EXPECT_EQ(Extract("settings.yaml"),
            "drivers:\n  d:\n    keepBase: true\npaused: true\nworker:\n  scratchSize: \"2Gi\"\n");
  for (const char* name :
       {"velero/datauploads.yaml", "velero/datadownloads.yaml", "velero/datadeletions.yaml",
        "velero/protectedvolumes.yaml", "velero/backupstoragelocations.yaml",
        "csi-delta/volumetasks.yaml", "csi-delta/pods.yaml", "volumesnapshotclasses.yaml"}) {
    EXPECT_THAT(Extract(name), AllOf(HasSubstr("name: planted\n"), HasSubstr("phase: Failed\n"),
                                     HasSubstr("https://***@h/x?*** with password=***, "
                                               "Authorization: Bearer *** failed")))
        << name;
  }
  EXPECT_THAT(Extract("csi-delta/events.yaml"), HasSubstr("reason: Because\n"));
  EXPECT_THAT(Extract("csi-delta/pods.yaml"), HasSubstr("image: \"mover:1\"\n"));
  EXPECT_THAT(Extract("version.txt"), HasSubstr(ProgramVersion()));
  EXPECT_THAT(Extract("doctor.txt"), HasSubstr("then: csi-delta "));
  EXPECT_THAT(Extract("status.json"), HasSubstr("\"kind\":\"volume\""));
  for (const char* name : {"logs/planted.datamover", "logs/planted.datamover.before"}) {
    EXPECT_EQ(Extract(name), "{\"token\":***}\nthe controller is ready\n");
  }
  EXPECT_THAT(logs_, testing::ElementsAre(
                         testing::EndsWith("/namespaces/csi-delta/pods/planted/log?"
                                           "container=datamover&tailLines=2000&limitBytes=8388608"),
                         HasSubstr("&previous=true&")));
}

TEST_F(DebugTest, WhatMayNotBeReadIsListedAndFailsNothing) {
  api_.Forbid("list", "events");
  api_.Forbid("list", "datauploads");
  const Outcome outcome = Debug();
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  for (const std::string& list : {Extract("not-read.txt"), outcome.error}) {
    EXPECT_THAT(list, AllOf(testing::ContainsRegex("velero/events.yaml: list events in velero: "),
                            HasSubstr("velero/datauploads.yaml: "), HasSubstr("status.txt: ")));
  }
}

TEST_F(DebugTest, AFileThatExistsIsNotReplaced) {
  program_.Write("out.tar", "mine");
  const Outcome outcome = Debug();
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, HasSubstr("name a new file by --output"));
  EXPECT_EQ(Bundle(), "mine");
}

}  // namespace
}  // namespace csidelta::cli::debug_test
