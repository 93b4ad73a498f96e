#include "objects/volume_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/yaml.h"
#include "objects/keys.h"
#include "objects/patch.h"
#include "tests/support/paths.h"
#include "tests/support/typed.h"

namespace csidelta::objects::volume_task_test {
namespace {

VolumeTaskSpec SomeSpec() {
  return {
      .kind = TaskKind::kDownload,
      .subject = {.kind = "DataDownload", .namespace_name = "velero", .name = "r-1", .uid = "u-1"},
      .volume = {.namespace_name = "app",
                 .claim = "data",
                 .claim_uid = "c-1",
                 .repository_uid = "c-0",
                 .repository_cluster = "k-0",
                 .restored_snapshot = "s",
                 .why_own = "so"},
      .cancel = true};
}

VolumeTaskStatus StatusOf(const Json& status) {
  return support::As<VolumeTask>({{"status", status}}).status();
}

TEST(VolumeTask, SaysWhatItWasMadeFrom) {
  const VolumeTask task =
      VolumeTask::Make("mover", "dd-u-1", SomeSpec(), {{kMoverTaskLabel, "dd-u-1"}});
  EXPECT_EQ(task.api_version(), "mover.csi-delta.io/v1alpha1");
  EXPECT_EQ(task.namespace_name(), "mover");
  EXPECT_EQ(task.Label("mover.csi-delta.io/task"), "dd-u-1");
  const auto spec = task.spec();
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(*spec, SomeSpec());
}

TEST(VolumeTask, AnUnknownTypeIsRefusedByName) {
  Json object = VolumeTask::Make("mover", "dd-u-1", SomeSpec(), {}).json();
  SetJson(object, {"spec", "type"}, "Sideload");
  const auto spec = support::As<VolumeTask>(object).spec();
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
  const VolumeTaskStatus read = StatusOf(ToJson(status));
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
  const VolumeTaskStatus read = StatusOf({{"phase", "Sleeping"},
                                          {"doneBytes", "many"},
                                          {"startTimestamp", "yesterday"},
                                          {"outcome", "none"}});
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

// What a run does not say of itself must not stay as the one before left it.
TEST(VolumeTask, NothingOfTheRunBeforeStays) {
  Json task = {{"status",
                {{"phase", "Interrupted"},
                 {"stage", "transfer"},
                 {"bytesPerSecond", 5},
                 {"secondsLeft", 7},
                 {"completionTimestamp", "2026-01-01T00:00:00Z"},
                 {"outcome", {{"code", "Stopped"}}}}}};
  task.merge_patch(Patch().SetStatus(VolumeTaskStatus{.phase = TaskPhase::kRunning}).json());
  EXPECT_EQ(task, (Json{{"status", {{"phase", "Running"}, {"doneBytes", 0}, {"totalBytes", 0}}}}));
}

TEST(VolumeTask, OnlyProgressLeavesTheRestAsItIs) {
  const Json before = {{"metadata", {{"name", "a"}, {"resourceVersion", "1"}}},
                       {"spec", {{"job", {{"limits", Json::object()}}}}},
                       {"status", {{"phase", "Running"}, {"doneBytes", 1}}}};
  Json moved = before;
  moved["metadata"]["resourceVersion"] = "2";
  moved["status"].update({{"doneBytes", 2}, {"totalBytes", 3}, {"stage", "audit"}});
  moved["status"]["observedGeneration"] = 2;
  moved["metadata"]["generation"] = 2;
  moved["spec"]["job"]["limits"] = {{"uploadKiBPerSecond", 5}};
  const auto rest = [](const Json& json) {
    return support::As<VolumeTask>(json).WithoutProgress();
  };
  EXPECT_EQ(rest(moved), rest(before));
  moved["status"]["phase"] = "Failed";
  EXPECT_NE(rest(moved), rest(before));
}

TEST(VolumeTask, AttemptsAreCountedInAnAnnotation) {
  const auto attempts = [](const char* text) {
    VolumeTask task;
    task.SetAnnotation(kAttemptsAnnotation, text);
    return task.attempts();
  };
  EXPECT_EQ(VolumeTask().attempts(), 0);
  EXPECT_EQ(attempts("3"), 3);
  EXPECT_EQ(attempts("many"), 0);
}

std::set<std::string> NamesOf(const Json& object) {
  std::set<std::string> names;
  for (const auto& [name, value] : object.items()) {
    names.insert(name);
  }
  return names;
}

TEST(VolumeTask, TheSchemaKnowsEveryFieldThatIsWritten) {
  const auto crd = ParseYaml(support::ReadSource("deploy/chart/crds/volumetask.yaml"));
  ASSERT_TRUE(crd.ok()) << crd.status();
  const Json schema = crd->at("spec").at("versions").at(0).at("schema").at("openAPIV3Schema");
  const Json& properties = schema.at("properties");
  VolumeTaskStatus status;
  status.stage = status.node = "x";
  status.bytes_per_second = status.seconds_left = status.observed_generation = 1;
  status.started_at = status.heartbeat_at = status.completed_at = absl::UnixEpoch();
  status.outcome =
      Outcome{.backup = BackupFigures(), .restore = RestoreFigures{.host = "h", .path = "/p"}};
  status.outcome->check.emplace().locks = LockFigures();
  const Json written = ToJson(status);
  EXPECT_EQ(NamesOf(written), NamesOf(properties.at("status").at("properties")));
  const Json& outcome = properties.at("status").at("properties").at("outcome").at("properties");
  EXPECT_EQ(NamesOf(written.at("outcome")), NamesOf(outcome));
  for (const char* figures : {"backup", "restore", "check"}) {
    EXPECT_EQ(NamesOf(written.at("outcome").at(figures)),
              NamesOf(outcome.at(figures).at("properties")));
  }
  Json spec = VolumeTask::Make("mover", "dd-u-1", SomeSpec(), {}).json().at("spec");
  spec["job"] = nullptr;
  EXPECT_EQ(NamesOf(spec), NamesOf(properties.at("spec").at("properties")));
  const Json& job = properties.at("spec").at("properties").at("job").at("properties");
  for (const VolumeWork& work : {VolumeWork(UploadWork()), VolumeWork(DownloadWork()),
                                 VolumeWork(ForgetWork()), VolumeWork(CheckWork())}) {
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
}  // namespace csidelta::objects::volume_task_test
