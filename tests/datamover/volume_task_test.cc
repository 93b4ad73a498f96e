#include "datamover/volume_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/yaml.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/support/paths.h"

namespace csidelta::datamover::volume_task_test {
namespace {

VolumeTaskSpec SomeSpec() {
  return {
      .kind = TaskKind::kDownload,
      .subject = {.kind = "DataDownload", .namespace_name = "velero", .name = "r-1", .uid = "u-1"},
      .volume = {.namespace_name = "app", .claim = "data", .claim_uid = "c-1"},
      .cancel = true};
}

TEST(VolumeTask, SaysWhatItWasMadeFrom) {
  const Json object =
      MakeVolumeTask("mover", "dd-u-1", SomeSpec(), {{objects::kMoverTaskLabel, "dd-u-1"}});
  EXPECT_EQ(GetString(object, {"apiVersion"}), "mover.csi-delta.io/v1alpha1");
  EXPECT_EQ(k8s::Namespace(object), "mover");
  EXPECT_EQ(k8s::Label(object, "mover.csi-delta.io/task"), "dd-u-1");
  const auto spec = TaskSpecOf(object);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(*spec, SomeSpec());
}

TEST(VolumeTask, AnUnknownTypeIsRefusedByName) {
  Json object = MakeVolumeTask("mover", "dd-u-1", SomeSpec(), {});
  SetJson(object, {"spec", "type"}, "Sideload");
  const auto spec = TaskSpecOf(object);
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(spec.status().message(),
              testing::HasSubstr("mover/dd-u-1: spec.type is \"Sideload\""));
}

TEST(VolumeTask, StatusSurvivesTheWire) {
  VolumeTaskStatus status;
  status.phase = TaskPhase::kFailed;
  status.stage = "transfer";
  status.done_bytes = 5;
  status.total_bytes = 7;
  status.started_at = absl::FromUnixSeconds(1'700'000'000);
  status.completed_at = absl::FromUnixSeconds(1'700'000'100);
  status.node = "node-a";
  status.outcome =
      Outcome{.code = OutcomeCode::kFailed, .cause = OutcomeCause::kLocked, .message = "locked"};
  const VolumeTaskStatus read = TaskStatusOf({{"status", ToJson(status)}});
  EXPECT_EQ(read.phase, TaskPhase::kFailed);
  EXPECT_EQ(read.stage, "transfer");
  EXPECT_EQ(read.done_bytes, 5);
  EXPECT_EQ(read.total_bytes, 7);
  EXPECT_EQ(read.started_at, status.started_at);
  EXPECT_EQ(read.heartbeat_at, std::nullopt);
  EXPECT_EQ(read.completed_at, status.completed_at);
  EXPECT_EQ(read.node, "node-a");
  EXPECT_EQ(read.outcome, status.outcome);
}

TEST(VolumeTask, WhatIsOfTheWrongTypeIsMissing) {
  const VolumeTaskStatus read = TaskStatusOf({{"status",
                                               {{"phase", "Sleeping"},
                                                {"doneBytes", "many"},
                                                {"startTimestamp", "yesterday"},
                                                {"outcome", "none"}}}});
  EXPECT_EQ(read.phase, TaskPhase::kNone);
  EXPECT_EQ(read.done_bytes, 0);
  EXPECT_EQ(read.started_at, std::nullopt);
  EXPECT_EQ(read.outcome, std::nullopt);
  EXPECT_EQ(MessageOf(read), "");
  EXPECT_EQ(CauseOf(read), OutcomeCause::kNone);
}

TEST(VolumeTask, AnInterruptedOneIsRunAgain) {
  EXPECT_FALSE(IsLast(TaskPhase::kNone));
  EXPECT_FALSE(IsLast(TaskPhase::kRunning));
  EXPECT_FALSE(IsLast(TaskPhase::kInterrupted));
  EXPECT_TRUE(IsLast(TaskPhase::kSucceeded));
  EXPECT_TRUE(IsLast(TaskPhase::kFailed));
  EXPECT_TRUE(IsLast(TaskPhase::kCanceled));
}

std::set<std::string> NamesOf(const Json& object) {
  std::set<std::string> names;
  for (const auto& [name, value] : object.items()) {
    names.insert(name);
  }
  return names;
}

// A worker of the version before may end during an upgrade.
TEST(VolumeTask, TheEndOfAFormerWorkerIsUnderstood) {
  const VolumeTaskStatus read = TaskStatusOf(
      {{"status", {{"phase", "Failed"}, {"exitCode", 12}, {"message", "no key opens it"}}}});
  EXPECT_EQ(read.outcome, (Outcome{.code = OutcomeCode::kFailed,
                                   .cause = OutcomeCause::kNoKey,
                                   .message = "no key opens it"}));
  EXPECT_EQ(TaskStatusOf({{"status", {{"phase", "Running"}}}}).outcome, std::nullopt);
}

TEST(VolumeTask, TheSchemaKnowsEveryFieldThatIsWritten) {
  const auto crd = ParseYaml(support::ReadSource("deploy/chart/crds/volumetask.yaml"));
  ASSERT_TRUE(crd.ok()) << crd.status();
  const Json schema = crd->at("spec").at("versions").at(0).at("schema").at("openAPIV3Schema");
  const Json& properties = schema.at("properties");
  VolumeTaskStatus status;
  status.stage = status.node = "x";
  status.started_at = status.heartbeat_at = status.completed_at = absl::UnixEpoch();
  status.outcome = Outcome{.backup = BackupFigures(), .restore = RestoreFigures()};
  const Json written = ToJson(status);
  for (const auto& [name, value] : written.items()) {
    EXPECT_TRUE(properties.at("status").at("properties").contains(name)) << name;
  }
  constexpr std::size_t kOfFormerWorkers = 3;  // exitCode, message, result
  EXPECT_EQ(written.size() + kOfFormerWorkers, properties.at("status").at("properties").size());
  const Json& outcome = properties.at("status").at("properties").at("outcome").at("properties");
  EXPECT_EQ(NamesOf(written.at("outcome")), NamesOf(outcome));
  for (const char* figures : {"backup", "restore"}) {
    EXPECT_EQ(NamesOf(written.at("outcome").at(figures)),
              NamesOf(outcome.at(figures).at("properties")));
  }
  Json spec = MakeVolumeTask("mover", "dd-u-1", SomeSpec(), {}).at("spec");
  spec["job"] = nullptr;
  EXPECT_EQ(NamesOf(spec), NamesOf(properties.at("spec").at("properties")));
  const Json& job = properties.at("spec").at("properties").at("job").at("properties");
  for (const VolumeWork& work :
       {VolumeWork(UploadWork()), VolumeWork(DownloadWork()), VolumeWork(ForgetWork())}) {
    const Json told = ToJson(VolumeJob{.work = work});
    EXPECT_EQ(NamesOf(told), NamesOf(job));
    for (const auto& [name, value] : told.items()) {
      if (value.is_object()) {
        EXPECT_EQ(NamesOf(value), NamesOf(job.at(name).at("properties"))) << name;
      }
    }
  }
}

}  // namespace
}  // namespace csidelta::datamover::volume_task_test
