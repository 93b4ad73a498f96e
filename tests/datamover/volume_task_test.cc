#include "datamover/volume_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

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
  status.exit_code = 11;
  status.message = "locked";
  status.result = {{"message_type", "summary"}};
  const VolumeTaskStatus read = TaskStatusOf({{"status", ToJson(status)}});
  EXPECT_EQ(read.phase, TaskPhase::kFailed);
  EXPECT_EQ(read.stage, "transfer");
  EXPECT_EQ(read.done_bytes, 5);
  EXPECT_EQ(read.total_bytes, 7);
  EXPECT_EQ(read.started_at, status.started_at);
  EXPECT_EQ(read.heartbeat_at, std::nullopt);
  EXPECT_EQ(read.completed_at, status.completed_at);
  EXPECT_EQ(read.node, "node-a");
  EXPECT_EQ(read.exit_code, 11);
  EXPECT_EQ(read.message, "locked");
  EXPECT_EQ(read.result, status.result);
}

TEST(VolumeTask, WhatIsOfTheWrongTypeIsMissing) {
  const VolumeTaskStatus read = TaskStatusOf({{"status",
                                               {{"phase", "Sleeping"},
                                                {"doneBytes", "many"},
                                                {"startTimestamp", "yesterday"},
                                                {"exitCode", -4},
                                                {"result", "none"}}}});
  EXPECT_EQ(read.phase, TaskPhase::kNone);
  EXPECT_EQ(read.done_bytes, 0);
  EXPECT_EQ(read.started_at, std::nullopt);
  EXPECT_EQ(read.exit_code, std::nullopt);
  EXPECT_TRUE(read.result.is_null());
}

TEST(VolumeTask, AnInterruptedOneIsRunAgain) {
  EXPECT_FALSE(IsLast(TaskPhase::kNone));
  EXPECT_FALSE(IsLast(TaskPhase::kRunning));
  EXPECT_FALSE(IsLast(TaskPhase::kInterrupted));
  EXPECT_TRUE(IsLast(TaskPhase::kSucceeded));
  EXPECT_TRUE(IsLast(TaskPhase::kFailed));
  EXPECT_TRUE(IsLast(TaskPhase::kCanceled));
}

TEST(VolumeTask, TheSchemaKnowsEveryFieldThatIsWritten) {
  const auto crd = ParseYaml(support::ReadSource("deploy/chart/crds/volumetask.yaml"));
  ASSERT_TRUE(crd.ok()) << crd.status();
  const Json schema = crd->at("spec").at("versions").at(0).at("schema").at("openAPIV3Schema");
  const Json& properties = schema.at("properties");
  VolumeTaskStatus status;
  status.stage = status.node = status.message = "x";
  status.started_at = status.heartbeat_at = status.completed_at = absl::UnixEpoch();
  status.exit_code = 1;
  status.result = Json::object();
  const Json written = ToJson(status);
  for (const auto& [name, value] : written.items()) {
    EXPECT_TRUE(properties.at("status").at("properties").contains(name)) << name;
  }
  EXPECT_EQ(written.size(), properties.at("status").at("properties").size());
  const Json spec = MakeVolumeTask("mover", "dd-u-1", SomeSpec(), {}).at("spec");
  for (const auto& [name, value] : spec.items()) {
    EXPECT_TRUE(properties.at("spec").at("properties").contains(name)) << name;
  }
}

}  // namespace
}  // namespace csidelta::datamover::volume_task_test
