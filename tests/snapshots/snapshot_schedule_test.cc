// snapshots/cron.h and snapshots/snapshot_schedule.h: what a CronJob takes, and the objects of a
// schedule.
#include "snapshots/snapshot_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/yaml.h"
#include "snapshots/cron.h"
#include "tests/support/paths.h"
#include "tests/support/status_matchers.h"

namespace csidelta::snapshots::snapshot_schedule_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(CronTest, WhatACronJobTakes) {
  for (const char* good : {"0 3 * * *", "*/15 0-6/2 1,15 jan,JUL-dec mon-fri", "@daily", "@hourly",
                           "@yearly", "59 23 31 12 6", "  5/20   ? * ? sun ", "0 0 29 2 *",
                           "0 0 30 2 mon", "0,30 1-2,4 * * *", "*/1000000000 * * * *"}) {
    EXPECT_THAT(CheckCron(good), IsOk()) << good;
  }
}

TEST(CronTest, TheFieldIsNamed) {
  for (const auto& [bad, what] : std::vector<std::pair<std::string, std::string>>{
           {"", "0 fields"},
           {"* * * *", "4 fields"},
           {"* * * * * *", "6 fields"},
           {"@every 1h", "2 fields"},
           {"@noon", "1 field,"},
           {"60 * * * *", "the minute"},
           {"-1 * * * *", "the minute"},
           {"a * * * *", "the minute"},
           {"* 24 * * *", "the hour"},
           {"* * 0 * *", "the day of month"},
           {"* * 32 * *", "the day of month"},
           {"* * * 13 *", "the month"},
           {"* * * foo *", "feb"},
           {"* * * * 7", "the day of week"},
           {"* * * * monday", "the day of week"},
           {"* * * * fri-mon", "ends before it begins"},
           {"*/0 * * * *", "step"},
           {"*/x * * * *", "step"},
           {"*/ * * * *", "step"},
           {"1/2/3 * * * *", "neither"},
           {"1-2-3 * * * *", "neither"},
           {"1,,2 * * * *", "the minute"},
           {", * * * *", "the minute"},
           {"*-5 * * * *", "the minute"},
           {"99999999999999999999 * * * *", "the minute"},
           {"0 0 31 2,4 *", "never"},
           {"TZ=UTC 0 3 * * *", "6 fields"}}) {
    EXPECT_THAT(CheckCron(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)))
        << bad;
  }
}

ScheduleRequest Nightly() {
  return {.name = "nightly",
          .cron = "0 3 * * *",
          .time_zone = "",
          .is_suspended = false,
          .image = "registry/csi-delta:1",
          .selection = {.namespace_name = "shop",
                        .names = {"data-db-0"},
                        .pod = "",
                        .stateful_set = "",
                        .label_selector = "",
                        .all = false},
          .class_name = "",
          .group = "auto",
          .note = "",
          .keep_arguments = {"--keep-last=3"}};
}

const Json& PodOf(const SnapshotSchedule& schedule) {
  return *FindJson(schedule.cron_job.json(), {"spec", "jobTemplate", "spec", "template", "spec"});
}
std::vector<std::string> ArgsOf(const Json& container) {
  return container.at("args").get<std::vector<std::string>>();
}

TEST(SnapshotScheduleTest, TakesFirstAndThenPrunesItsOwn) {
  const absl::StatusOr<SnapshotSchedule> schedule = MakeSchedule(Nightly());
  ASSERT_THAT(schedule, IsOk());
  const Json& pod = PodOf(*schedule);
  EXPECT_THAT(ArgsOf(pod.at("initContainers").at(0)),
              ElementsAre("snapshot", "create", "--namespace=shop", "--schedule=nightly",
                          "--wait-lease", "--make-room", "--keep-last=3", "data-db-0"));
  EXPECT_THAT(
      ArgsOf(pod.at("containers").at(0)),
      ElementsAre("snapshot", "prune", "--namespace=shop",
                  "--selector=snapshot.csi-delta.io/schedule=nightly", "--yes", "--keep-last=3"));
  const Json& job = schedule->cron_job.json();
  EXPECT_EQ(GetString(job, {"spec", "concurrencyPolicy"}), "Forbid");
  EXPECT_EQ(GetInt(job, {"spec", "jobTemplate", "spec", "backoffLimit"}, -1), 0);
  EXPECT_FALSE(GetBool(job, {"spec", "suspend"}, true));
  EXPECT_EQ(FindJson(job, {"spec", "timeZone"}), nullptr);
}

TEST(SnapshotScheduleTest, WithoutKeepRulesNothingIsPruned) {
  ScheduleRequest request = Nightly();
  request.keep_arguments.clear();
  request.is_suspended = true;
  request.time_zone = "Europe/Berlin";
  const absl::StatusOr<SnapshotSchedule> schedule = MakeSchedule(request);
  ASSERT_THAT(schedule, IsOk());
  EXPECT_FALSE(PodOf(*schedule).contains("initContainers"));
  EXPECT_THAT(ArgsOf(PodOf(*schedule).at("containers").at(0)), Contains("create"));
  EXPECT_TRUE(GetBool(schedule->cron_job.json(), {"spec", "suspend"}));
  EXPECT_EQ(GetString(schedule->cron_job.json(), {"spec", "timeZone"}), "Europe/Berlin");
}

// https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
TEST(SnapshotScheduleTest, ThePodIsRestricted) {
  const absl::StatusOr<SnapshotSchedule> schedule = MakeSchedule(Nightly());
  ASSERT_THAT(schedule, IsOk());
  const Json& pod = PodOf(*schedule);
  EXPECT_TRUE(GetBool(pod, {"securityContext", "runAsNonRoot"}));
  EXPECT_EQ(GetString(pod, {"securityContext", "seccompProfile", "type"}), "RuntimeDefault");
  EXPECT_GT(GetInt(pod, {"securityContext", "runAsUser"}), 0);
  EXPECT_FALSE(pod.contains("volumes"));
  EXPECT_FALSE(pod.contains("hostNetwork"));
  for (const char* kind : {"initContainers", "containers"}) {
    ASSERT_EQ(pod.at(kind).size(), 1u);
    const Json& container = pod.at(kind).at(0);
    EXPECT_FALSE(GetBool(container, {"securityContext", "allowPrivilegeEscalation"}, true));
    EXPECT_EQ(DumpJson(*FindJson(container, {"securityContext", "capabilities", "drop"})),
              "[\"ALL\"]");
    EXPECT_EQ(DumpJson(container.at("command")), "[\"/bin/csi-delta\"]");
  }
}

TEST(SnapshotScheduleTest, NoWordIsAVariableOrAFlag) {
  ScheduleRequest request = Nightly();
  request.note = "$(KUBERNETES_SERVICE_HOST) '; rm -rf / #\n- --yes";
  const absl::StatusOr<SnapshotSchedule> schedule = MakeSchedule(request);
  ASSERT_THAT(schedule, IsOk());
  EXPECT_THAT(ArgsOf(PodOf(*schedule).at("initContainers").at(0)),
              Contains("--note=$$(KUBERNETES_SERVICE_HOST) '; rm -rf / #\n- --yes"));
}

TEST(SnapshotScheduleTest, TheRoleIsTheViewersAndWhatIsUsed) {
  const auto rules_of = [](const ScheduleRequest& request) {
    const absl::StatusOr<SnapshotSchedule> schedule = MakeSchedule(request);
    EXPECT_THAT(schedule, IsOk());
    return schedule->role.json().at("rules");
  };
  const absl::StatusOr<Json> viewer = ParseYaml(support::ReadSource("deploy/snapshot-roles.yaml"));
  ASSERT_THAT(viewer, IsOk());
  ASSERT_EQ(GetString(*viewer, {"metadata", "name"}), "csi-delta-snapshot-viewer");
  ScheduleRequest request = Nightly();
  const Json one = rules_of(request);
  int workloads = 0;  // That list looks at; a schedule names its PVCs.
  for (const Json& rule : viewer->at("rules")) {
    const std::string resource = rule.at("resources").at(0).get<std::string>();
    const bool is_workload = resource == "pods" || resource == "statefulsets";
    workloads += is_workload ? 1 : 0;
    EXPECT_EQ(std::find(one.begin(), one.end(), rule) == one.end(), is_workload) << DumpJson(rule);
  }
  EXPECT_EQ(one.size(), viewer->at("rules").size() - static_cast<std::size_t>(workloads) + 2);
  EXPECT_THAT(DumpJson(one), AllOf(Not(HasSubstr("patch")), Not(HasSubstr("statefulsets"))));
  request.selection.names.clear();
  request.selection.stateful_set = "db";
  EXPECT_THAT(DumpJson(rules_of(request)), AllOf(HasSubstr("patch"), HasSubstr("statefulsets")));
  request.group = "never";
  EXPECT_THAT(DumpJson(rules_of(request)), Not(HasSubstr("patch")));
}

TEST(SnapshotScheduleTest, NamesOfTwoNamespacesDoNotMeet) {
  ScheduleRequest left = Nightly();
  left.name = "b-c";
  left.selection.namespace_name = "a";
  ScheduleRequest right = Nightly();
  right.name = "c";
  right.selection.namespace_name = "a-b";
  EXPECT_NE(MakeSchedule(left)->cluster_role_binding.name(),
            MakeSchedule(right)->cluster_role_binding.name());
}

TEST(SnapshotScheduleTest, WhatCannotBeIsNamed) {
  const auto refuses = [](auto change, const std::string& what) {
    ScheduleRequest request = Nightly();
    change(request);
    EXPECT_THAT(MakeSchedule(request),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  for (const std::string& name : {std::string(), std::string("Nightly"), std::string("a.b"),
                                  std::string("-a"), std::string(53, 'a')}) {
    refuses([&](ScheduleRequest& request) { request.name = name; }, "name for a schedule");
  }
  refuses([](ScheduleRequest& request) { request.selection.namespace_name = ""; }, "namespace");
  refuses([](ScheduleRequest& request) { request.cron = "x"; }, "cron");
  refuses([](ScheduleRequest& request) { request.time_zone = "Local"; }, "time zone");
  refuses([](ScheduleRequest& request) { request.time_zone = "../etc/passwd"; }, "time zone");
  refuses([](ScheduleRequest& request) { request.image = ""; }, "image");
  refuses([](ScheduleRequest& request) { request.image = "a b"; }, "image");
  refuses([](ScheduleRequest& request) { request.selection.names.clear(); }, "one way");
  refuses([](ScheduleRequest& request) { request.selection.all = true; }, "one way");
  refuses([](ScheduleRequest& request) { request.selection.pod = "db-0"; }, "Pod");
  refuses([](ScheduleRequest& request) { request.selection.names = {"--all"}; }, "PVC");
  refuses([](ScheduleRequest& request) { request.class_name = "A"; }, "VolumeSnapshotClass");
}

}  // namespace
}  // namespace csidelta::snapshots::snapshot_schedule_test
