// csi-delta snapshot schedule: what is printed can be applied, and its words are this program's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/yaml.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/cli/snapshot_verb_fixture.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/paths.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::snapshot_schedule_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SnapshotScheduleVerbTest : public SnapshotProgramTest {
 protected:
  SnapshotScheduleVerbTest() {
    SeedBoundPvc(api_, "data-db-0", cluster_.driver_name, {{"app", "db"}});
    api_.Seed(VolumeSnapshotClassType(), support::MakeClassObject("fast", cluster_.driver_name));
    SeedStatefulSet(api_);
  }

  Outcome Run(std::vector<std::string> words) const {
    words.insert(words.begin(), {"--kubeconfig", program_.Path("kubeconfig")});
    return program_.Run(words);
  }
  Outcome Schedule(const std::vector<std::string>& more) const {
    return RunWords({"schedule", "-n", "shop", "nightly"}, more);
  }
  // With all that is required.
  std::vector<Json> Printed(std::vector<std::string> more) const {
    more.insert(more.end(), {"--cron", "0 3 * * *", "--image", "registry/csi-delta:1"});
    const Outcome outcome = Schedule(more);
    EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
    std::vector<Json> objects;
    for (const absl::string_view document :
         absl::StrSplit(outcome.out, "---\n", absl::SkipEmpty())) {
      const absl::StatusOr<Json> object = ParseYaml(document);
      EXPECT_THAT(object, support::IsOk()) << document;
      objects.push_back(object.value_or(Json()));
    }
    return objects;
  }
  static std::vector<std::string> FailureMessage(const Json& cron_job, const char* kind) {
    const Json* const pod = FindJson(cron_job, {"spec", "jobTemplate", "spec", "template", "spec"});
    std::vector<std::string> words;
    for (const Json& word : pod->at(kind).at(0).at("args")) {
      // As a kubelet reads them.
      words.push_back(absl::StrReplaceAll(word.get<std::string>(), {{"$$", "$"}}));
    }
    return words;
  }
  // Each call that was made is one of the Role, or of the ClusterRole of readers.
  void ExpectAllowed(const Json& role) const {
    Json rules = role.at("rules");
    for (const absl::string_view document :
         absl::StrSplit(support::ReadSource("deploy/snapshot-roles.yaml"), "---\n")) {
      const Json one = ParseYaml(document).value_or(Json());
      if (GetString(one, {"metadata", "name"}) == "csi-delta-snapshot-reader") {
        rules.insert(rules.end(), one.at("rules").begin(), one.at("rules").end());
      }
    }
    for (const support::ApiCall& call : api_.calls()) {
      const bool is_allowed = std::any_of(rules.begin(), rules.end(), [&](const Json& rule) {
        const auto has = [&](const char* key, const std::string& word) {
          const Json& words = rule.at(key);
          return std::find(words.begin(), words.end(), Json(word)) != words.end();
        };
        return has("resources", call.plural) && has("verbs", call.verb);
      });
      EXPECT_TRUE(is_allowed) << call;
    }
  }
  std::vector<Json> Made() const { return api_.All(VolumeSnapshotType()); }

  // StatefulSet db has a second PVC, and its driver a class of groups.
  void MakeGroups() {
    SeedBoundPvc(api_, "data-db-1", cluster_.driver_name);
    SeedGroupClass(api_, cluster_.driver_name);
  }
  // What the Pod of the CronJob runs first, an hour after the last one. All that there is from then
  // on is old enough to be pruned.
  Outcome Take(const Json& cron_job, const std::string& set) {
    cluster_.driver().cut_at_nanoseconds += absl::ToInt64Nanoseconds(absl::Hours(1));
    std::vector<std::string> words = FailureMessage(cron_job, "initContainers");
    words.insert(words.end(), {"--name", set});  // Else by the second, and this test is faster.
    const Outcome outcome = Run(words);
    for (const Json& one : Made()) {
      api_.Mutate(VolumeSnapshotKey("shop", k8s::Name(one)), [](Json& object) {
        SetJson(object, {"metadata", "creationTimestamp"}, "2023-11-14T00:00:00Z");
      });
    }
    return outcome;
  }

  support::FakeSnapshotCluster cluster_{api_};
};

TEST_F(SnapshotScheduleVerbTest, ThePrintedCronJobTakesAndPrunesWithItsRights) {
  const std::string note = "$(HOME) \"quoted\" 'too': # -\n--yes";
  for (const std::vector<std::string>& chosen :
       std::vector<std::vector<std::string>>{{"data-db-0"},
                                             {"--statefulset", "db"},
                                             {"-l", "app=db"},
                                             {"--all", "--group", "never"}}) {
    std::vector<std::string> words = {"--note", note, "--keep-last", "2", "--keep-within", "2y5d"};
    words.insert(words.end(), chosen.begin(), chosen.end());
    api_.ClearCalls();
    const std::vector<Json> objects = Printed(words);
    EXPECT_THAT(api_.calls(), IsEmpty());
    ASSERT_EQ(objects.size(), 5u);
    const std::size_t before = Made().size();
    const Outcome create = Run(FailureMessage(objects[4], "initContainers"));
    ASSERT_EQ(create.code, ExitCode::kOk) << create.error;
    ASSERT_EQ(Made().size(), before + 1);
    const Json made = Made().back();
    EXPECT_EQ(k8s::Label(made, objects::kSnapshotScheduleLabel), "nightly");
    EXPECT_EQ(k8s::Annotation(made, objects::kSnapshotNoteAnnotation), note);
    const Outcome prune = Run(FailureMessage(objects[4], "containers"));
    ASSERT_EQ(prune.code, ExitCode::kOk) << prune.error;
    EXPECT_THAT(prune.out, HasSubstr("deleted 0"));
    ExpectAllowed(objects[1]);
    for (const Json& one : Made()) {
      ASSERT_TRUE(api_.Remove(VolumeSnapshotKey("shop", k8s::Name(one))));
    }
  }
}

TEST_F(SnapshotScheduleVerbTest, OfGroupsTheLastTwoSetsStayAndWhatAPersonTook) {
  MakeGroups();
  ASSERT_EQ(RunWords({"create", "-n", "shop"}, {"--statefulset", "db", "--name", "by-hand"}).code,
            ExitCode::kOk);
  const std::vector<Json> objects = Printed({"--statefulset", "db", "--keep-last", "2"});
  api_.ClearCalls();
  for (const char* const set : {"first", "second", "third"}) {
    const Outcome create = Take(objects.at(4), set);
    ASSERT_EQ(create.code, ExitCode::kOk) << create.error;
    const Outcome prune = Run(FailureMessage(objects.at(4), "containers"));
    ASSERT_EQ(prune.code, ExitCode::kOk) << prune.error;
  }
  ExpectAllowed(objects.at(1));
  EXPECT_THAT(NamesIn(VolumeGroupSnapshotType("v1")), ElementsAre("by-hand", "second", "third"));
  EXPECT_EQ(Made().size(), 6u);
  EXPECT_EQ(api_.All(VolumeSnapshotContentType()).size(), 6u);
  EXPECT_EQ(api_.All(VolumeGroupSnapshotContentType("v1")).size(), 3u);
  EXPECT_EQ(cluster_.driver().groups().size(), 3u);
}

TEST_F(SnapshotScheduleVerbTest, WhereTheQuotaIsFullItPrunesItsOwnBeforeItTakes) {
  MakeGroups();
  ASSERT_EQ(RunWords({"create", "-n", "shop"}, {"--statefulset", "db", "--name", "by-hand"}).code,
            ExitCode::kOk);
  const std::vector<Json> objects = Printed({"--statefulset", "db", "--keep-last", "1"});
  ASSERT_EQ(Take(objects.at(4), "first").code, ExitCode::kOk);
  api_.Forbid("delete", "volumegroupsnapshots");
  EXPECT_EQ(Take(objects.at(4), "second").code, ExitCode::kIncomplete);
  api_.ClearFaults();
  api_.SetQuota("snaps", VolumeSnapshotType(), "shop", 6);
  api_.ClearCalls();
  const Outcome create = Take(objects.at(4), "third");
  ASSERT_EQ(create.code, ExitCode::kOk) << create.error;
  EXPECT_THAT(create.error, HasSubstr("--make-room: deleted VolumeGroupSnapshot first"));
  ExpectAllowed(objects.at(1));
  EXPECT_THAT(NamesIn(VolumeGroupSnapshotType("v1")), testing::IsSupersetOf({"by-hand", "third"}));
}

TEST_F(SnapshotScheduleVerbTest, WhereAPvcFailsEachNightTheOthersArePruned) {
  MakeGroups();
  const std::vector<Json> objects = Printed({"--all", "--group", "never", "--keep-last", "1"});
  cluster_.driver().AddFault({.method = "CreateSnapshot",
                              .match = "volume-data-db-1",
                              .code = "InvalidArgument",
                              .message = "no such volume"});
  for (const char* const set : {"first", "second", "third"}) {
    EXPECT_EQ(Take(objects.at(4), set).code, ExitCode::kIncomplete);
  }
  EXPECT_EQ(Made().size(), 1u);
}

TEST_F(SnapshotScheduleVerbTest, OtherForms) {
  const std::vector<std::string> words = {"--all",   "--cron",        "@daily",
                                          "--image", "csi-delta:1.0", "--suspend"};
  std::vector<std::string> json = words;
  json.insert(json.end(), {"-o", "json"});
  const Outcome outcome = Schedule(json);
  const Json list = ParseJson(outcome.out).value_or(Json());
  EXPECT_EQ(GetString(list, {"kind"}), "List");
  EXPECT_EQ(list.at("items").size(), 5u);
  EXPECT_THAT(outcome.error, HasSubstr("nothing is ever pruned"));
  std::vector<std::string> names = words;
  names.insert(names.end(), {"-o", "name"});
  EXPECT_EQ(Schedule(names).out,
            "serviceaccount/csi-delta-schedule-nightly\nrole/csi-delta-schedule-nightly\n"
            "rolebinding/csi-delta-schedule-nightly\n"
            "clusterrolebinding/csi-delta-schedule:shop:nightly\ncronjob/nightly\n");
}

TEST_F(SnapshotScheduleVerbTest, MissingAndWrongFlagsAreNamed) {
  const auto refuses = [&](const std::vector<std::string>& words, const std::string& what) {
    const Outcome outcome = Schedule(words);
    EXPECT_EQ(outcome.code, ExitCode::kFailed);
    EXPECT_THAT(outcome.error, HasSubstr(what));
    EXPECT_THAT(outcome.out, IsEmpty());
  };
  refuses({"--all", "--image", "i"}, "--cron");
  refuses({"--all", "--cron", "@daily"}, "--image");
  refuses({"--all", "--cron", "0 25 * * *", "--image", "i"}, "the hour");
  refuses({"--cron", "@daily", "--image", "i"}, "one way");
  refuses({"--all", "--pod", "db-0", "--cron", "@daily", "--image", "i"}, "--pod");
  refuses({"--all", "-A", "--cron", "@daily", "--image", "i"}, "-A");
  refuses({"--all", "--cron", "@daily", "--image", "i", "--keep-last", "x"}, "neither a number");
}

}  // namespace
}  // namespace csidelta::cli::snapshot_schedule_test
