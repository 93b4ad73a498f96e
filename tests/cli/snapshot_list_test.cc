// csi-delta snapshot list: VolumeSnapshots with their state and what keeps them, with the caller's
// rights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "base/yaml.h"
#include "objects/keys.h"
#include "tests/cli/snapshot_verb_fixture.h"
#include "tests/support/await.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::snapshot_list_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::UnorderedElementsAre;

class SnapshotListTest : public SnapshotProgramTest {
 protected:
  SnapshotListTest() {
    Ready("shop", "monday", "2026-11-23T05:00:00Z");
    Ready("shop", "tuesday", "2026-11-24T05:00:00Z");
    Ready("team", "other", "2026-11-24T05:00:00Z");
    Json copy = support::MakeObject("v1", "PersistentVolumeClaim", "shop", "copy");
    SetJson(copy, {"spec", "dataSource"}, Json{{"kind", "VolumeSnapshot"}, {"name", "monday"}});
    api_.Seed(PersistentVolumeClaimType(), copy);
  }

  void Ready(const std::string& space, const std::string& name, const std::string& taken) {
    SeedReady(api_, space, name, taken);
  }

  // A Ready one of PVC `pvc` of namespace shop, which need not exist.
  void ReadyOf(const std::string& pvc, const std::string& name, const std::string& workload = "") {
    Ready("shop", name, "2026-11-25T05:00:00Z");
    api_.Mutate(VolumeSnapshotKey("shop", name), [&](Json& snapshot) {
      SetJson(snapshot, {"spec", "source", "persistentVolumeClaimName"}, pvc);
      if (!workload.empty()) {
        SetJson(snapshot, {"metadata", "annotations", objects::kSnapshotWorkloadAnnotation},
                workload);
      }
    });
  }

  Outcome Run(const std::vector<std::string>& more) const { return RunWords({"list"}, more); }
  Json List(std::vector<std::string> more) const {
    more.insert(more.end(), {"-o", "json"});
    const Outcome outcome = Run(more);
    EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
    return ParseJson(outcome.out).value_or(Json());
  }
};

TEST_F(SnapshotListTest, ShowsStateAndWhatKeepsIt) {
  const Outcome outcome = Run({"-n", "shop"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("NAME"), HasSubstr("monday"), HasSubstr("copy"), HasSubstr("Ready"),
                    HasSubstr("PendingSource"), HasSubstr("1.0 GiB"), Not(HasSubstr("other")),
                    Not(HasSubstr("handle-of"))));
  EXPECT_THAT(Run({"-n", "shop", "-o", "wide"}).out,
              AllOf(HasSubstr("handle-of-monday"), HasSubstr(support::kDriver)));
  EXPECT_THAT(Run({"-A"}).out, AllOf(HasSubstr("NAMESPACE"), HasSubstr("team")));
}

TEST_F(SnapshotListTest, JsonIsOneArrayTheNewestOfAPvcFirst) {
  const Json list = List({"-n", "shop"});
  EXPECT_THAT(NamesOf(list), ElementsAre("tuesday", "monday"));
  const Json& monday = list.at(1);
  EXPECT_EQ(GetString(monday, {"namespace"}), "shop");
  EXPECT_EQ(GetString(monday, {"pvc"}), "data");
  EXPECT_EQ(GetString(monday, {"state"}), "Ready");
  EXPECT_EQ(GetString(monday.at("conditions").at(0), {"type"}), "Ready");
  EXPECT_EQ(GetString(monday, {"taken_at"}), "2026-11-23T05:00:00Z");
  EXPECT_EQ(GetInt(monday, {"size_bytes"}), int64_t{1} << 30);
  EXPECT_EQ(GetString(monday, {"handle"}), "handle-of-monday");
  EXPECT_EQ(GetString(monday, {"policy"}), "Delete");
  EXPECT_THAT(monday.at("used_by").get<std::vector<std::string>>(), ElementsAre("copy"));
  EXPECT_EQ(GetString(monday.at("kept_for").at(0), {"reason"}), "PendingSource");
}

TEST_F(SnapshotListTest, OtherFormsAndFilters) {
  EXPECT_EQ(Run({"-n", "team", "-o", "name"}).out,
            "volumesnapshot.snapshot.storage.k8s.io/other\n");
  const absl::StatusOr<Json> yaml = ParseYaml(Run({"-n", "team", "-o", "yaml"}).out);
  ASSERT_THAT(yaml, support::IsOk());
  EXPECT_EQ(GetString(yaml->at(0), {"name"}), "other");
  EXPECT_THAT(List({"-A", "--state", "Lost"}), IsEmpty());
  EXPECT_THAT(List({"-A", "--pvc", "elsewhere"}), IsEmpty());
  EXPECT_THAT(NamesOf(List({"-A", "--pvc", "data"})), ElementsAre("tuesday", "monday", "other"));
  const Outcome none = Run({"-n", "nowhere"});
  EXPECT_EQ(none.code, ExitCode::kOk);
  EXPECT_THAT(none.out, IsEmpty());
  EXPECT_THAT(none.error, HasSubstr("no VolumeSnapshots found"));
}

TEST_F(SnapshotListTest, AMemberOfAGroupIsShownByItsSetAndPvc) {
  for (const char* const set : {"week", ""}) {
    const std::string name = absl::StrCat("snapshot-", std::string(64, set[0] == 0 ? 'a' : 'b'));
    ReadyOf("data-db-0", name);
    api_.Mutate(VolumeSnapshotKey("shop", name), [&](Json& snapshot) {
      SetJson(snapshot, {"status", "volumeGroupSnapshotName"}, "velero-db-1");
      SetJson(snapshot, {"metadata", "labels", objects::kSnapshotSetLabel}, set);
    });
  }
  const Outcome table = Run({"-n", "shop"});
  EXPECT_THAT(table.out, AllOf(HasSubstr("week/data-db-0 "), HasSubstr("velero-db-1/data-db-0 "),
                               Not(HasSubstr("snapshot-bbbb"))));
  EXPECT_THAT(Run({"-n", "shop", "-o", "wide"}).out, HasSubstr("snapshot-bbbb"));
  const Json list = List({"-n", "shop", "--pvc", "data-db-0"});
  EXPECT_EQ(GetString(list.at(0), {"group"}), "velero-db-1");
}

TEST_F(SnapshotListTest, GroupsAreListedWithWhatBecameOfThem) {
  const auto seed = [&](const std::string& name, const std::string& content, const Json& status) {
    Json group =
        support::MakeObject("groupsnapshot.storage.k8s.io/v1", "VolumeGroupSnapshot", "shop", name);
    group["status"] = status;
    if (!content.empty()) {
      group["status"]["boundVolumeGroupSnapshotContentName"] = content;
    }
    api_.Seed(VolumeGroupSnapshotType("v1"), group);
  };
  Json content = support::MakeObject("groupsnapshot.storage.k8s.io/v1",
                                     "VolumeGroupSnapshotContent", "", "there");
  SetJson(content, {"status", "volumeGroupSnapshotHandle"}, "group-1");
  api_.Seed(VolumeGroupSnapshotContentType("v1"), content);
  SetJson(content, {"metadata", "name"}, "refused");
  SetJson(content, {"status", "error", "message"}, "no \x1b[31mspace");
  api_.Seed(VolumeGroupSnapshotContentType("v1"), content);
  seed("good", "there", {{"readyToUse", true}, {"creationTime", "2026-11-23T05:00:00Z"}});
  seed("lost", "gone", {{"readyToUse", true}});
  seed("bad", "refused", {{"readyToUse", false}});
  seed("new", "", {{"readyToUse", false}});
  api_.Mutate(VolumeSnapshotKey("shop", "monday"), [](Json& snapshot) {
    SetJson(snapshot, {"status", "volumeGroupSnapshotName"}, "good");
  });
  std::vector<std::string> states;
  for (const Json& one : List({"-n", "shop", "--groups"})) {
    states.push_back(absl::StrCat(GetString(one, {"name"}), " ", GetString(one, {"state"})));
  }
  EXPECT_THAT(states, UnorderedElementsAre("good Ready", "lost Lost", "bad Error", "new Creating"));
  EXPECT_THAT(Run({"-A", "--groups"}).out,
              AllOf(HasSubstr("shop/good  data"), HasSubstr("space"), Not(HasSubstr("\x1b"))));
  api_.Forbid("get", "volumegroupsnapshotcontents");
  EXPECT_THAT(Run({"-n", "shop", "--groups"}).error, HasSubstr("contents of groups not checked"));
  EXPECT_EQ(Run({"--groups", "--watch"}).code, ExitCode::kFailed);
}

TEST_F(SnapshotListTest, ListsByStatefulSetAlsoWhenItsPvcsAreGone) {
  ReadyOf("data-db-0", "first");
  ReadyOf("data-db-17", "scaled-down");
  ReadyOf("logs", "by-word", "StatefulSet/db");
  ReadyOf("data-db-x", "no-ordinal", "StatefulSet/other");
  Json set = support::MakeObject("apps/v1", "StatefulSet", "shop", "db");
  SetJson(set, {"spec", "volumeClaimTemplates"}, Json::array({{{"metadata", {{"name", "data"}}}}}));
  api_.Seed(StatefulSetType(), set);
  EXPECT_THAT(NamesOf(List({"-n", "shop", "--statefulset", "db"})),
              UnorderedElementsAre("first", "scaled-down", "by-word"));
  const Outcome gone = Run({"-n", "shop", "--statefulset", "other", "-o", "json"});
  EXPECT_THAT(NamesOf(ParseJson(gone.out).value_or(Json())), ElementsAre("no-ordinal"));
  EXPECT_THAT(gone.error, HasSubstr("StatefulSet shop/other does not exist"));
  api_.Forbid("get", "statefulsets");
  const Outcome forbidden = Run({"-n", "shop", "--statefulset", "db", "-o", "json"});
  EXPECT_THAT(NamesOf(ParseJson(forbidden.out).value_or(Json())), ElementsAre("by-word"));
  EXPECT_THAT(forbidden.error, HasSubstr("PVCs of StatefulSet db not checked"));
}

TEST_F(SnapshotListTest, ListsByPod) {
  ReadyOf("logs", "of-logs");
  ReadyOf("gone", "by-word", "Pod/web");
  Json pod = support::MakeObject("v1", "Pod", "shop", "web");
  SetJson(pod, {"spec", "volumes"},
          Json::array({{{"name", "l"}, {"persistentVolumeClaim", {{"claimName", "logs"}}}}}));
  api_.Seed(PodType(), pod);
  EXPECT_THAT(NamesOf(List({"-n", "shop", "--pod", "web"})),
              UnorderedElementsAre("of-logs", "by-word"));
  EXPECT_THAT(Run({"-A", "--pod", "web"}).error, HasSubstr("name it with -n"));
  EXPECT_EQ(Run({"-n", "shop", "--pod", "web", "--statefulset", "db"}).code, ExitCode::kFailed);
}

TEST_F(SnapshotListTest, ListsByVolumeAlsoWhenItsPvcIsGone) {
  ReadyOf("gone", "of-two");
  api_.Mutate(VolumeSnapshotContentKey("content-of-of-two"), [](Json& content) {
    SetJson(content, {"spec", "source", "volumeHandle"}, "volume-2");
  });
  Json volume = support::MakeObject("v1", "PersistentVolume", "", "pv-2");
  SetJson(volume, {"spec", "csi"},
          Json{{"driver", support::kDriver}, {"volumeHandle", "volume-2"}});
  SetJson(volume, {"spec", "claimRef"}, Json{{"namespace", "shop"}, {"name", "data"}});
  api_.Seed(PersistentVolumeType(), volume);
  EXPECT_THAT(NamesOf(List({"-A", "--volume", "pv-2"})), ElementsAre("of-two"));
  const Outcome gone = Run({"-A", "--volume", "volume-2", "-o", "json"});
  EXPECT_THAT(NamesOf(ParseJson(gone.out).value_or(Json())), ElementsAre("of-two"));
  EXPECT_THAT(gone.error, HasSubstr("PersistentVolume volume-2 does not exist"));
  // Without contents, the PVC that the volume names has to do.
  api_.Forbid("list", "volumesnapshotcontents");
  EXPECT_THAT(NamesOf(List({"-A", "--volume", "pv-2"})), ElementsAre("tuesday", "monday"));
  api_.Forbid("get", "persistentvolumes");
  EXPECT_EQ(Run({"-A", "--volume", "pv-2"}).code, ExitCode::kFailed);
}

// Watches while monday grows twice and tuesday is deleted between. What came first is told for
// certain once the second was asked about.
class SnapshotListWatchTest : public SnapshotListTest {
 protected:
  Outcome Watch(const std::vector<std::string>& more) {
    std::stop_source stop;
    Outcome outcome;
    std::jthread program([&] {
      std::vector<std::string> words = {
          "--kubeconfig", program_.Path("kubeconfig"), "snapshot", "list", "-n", "shop", "--watch"};
      words.insert(words.end(), more.begin(), more.end());
      outcome = program_.Run(words, stop.get_token());
    });
    api_.AwaitWatches(2);
    Grow("2Gi", 1);
    api_.Remove(VolumeSnapshotKey("shop", "tuesday"));
    Grow("3Gi", 2);
    stop.request_stop();
    program.join();
    return outcome;
  }
  void Grow(const std::string& size, int reads) {
    api_.Mutate(VolumeSnapshotKey("shop", "monday"), [&](Json& snapshot) {
      SetJson(snapshot, {"status", "restoreSize"}, size);
    });
    support::Await("the change to be seen",
                   [&] { return api_.CallCount("get", "volumesnapshotcontents") >= reads; });
  }
};

TEST_F(SnapshotListWatchTest, ARowForEachChangeUntilItIsInterrupted) {
  const Outcome outcome = Watch({});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, MatchesRegex("NAME .*1.0 GiB.*1.0 GiB.*monday .*2.0 GiB.*\\?\ntuesday "
                                        ".*gone.*"));
}

TEST_F(SnapshotListWatchTest, JsonIsOneObjectALine) {
  const Outcome outcome = Watch({"-o", "json"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  std::vector<std::string> told;
  for (const absl::string_view line : absl::StrSplit(outcome.out, '\n', absl::SkipEmpty())) {
    const Json one = ParseJson(line).value_or(Json());
    told.push_back(absl::StrCat(GetString(one, {"name"}), " ", GetInt(one, {"size_bytes"}) >> 30,
                                one.value("gone", false) ? " gone" : ""));
    EXPECT_EQ(one.at("kept_for").is_null(), told.size() > 2);
  }
  told.resize(4);
  EXPECT_THAT(told, ElementsAre("tuesday 1", "monday 1", "monday 2", "tuesday 1 gone"));
}

TEST_F(SnapshotListWatchTest, AMissingRightToWatchIsReportedAfterTheList) {
  api_.Forbid("watch", "volumesnapshots");
  const Outcome outcome = Run({"-n", "shop", "--watch"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.out, HasSubstr("monday"));
  EXPECT_THAT(outcome.error, HasSubstr("csi-delta-snapshot-viewer"));
}

TEST_F(SnapshotListTest, CostsOneListOfEachKind) {
  List({"-A"});
  for (const char* plural :
       {"volumesnapshots", "volumesnapshotcontents", "persistentvolumeclaims"}) {
    EXPECT_EQ(api_.CallCount("list", plural), 1) << plural;
  }
  EXPECT_EQ(api_.CallCount("get", "*"), 0);
}

TEST_F(SnapshotListTest, WhatMayNotBeReadIsNamedAndNotGuessed) {
  api_.FailNext("list", "volumesnapshotcontents",
                absl::PermissionDeniedError("no contents for you"));
  api_.FailNext("list", "persistentvolumeclaims", absl::PermissionDeniedError("no PVCs for you"));
  const Outcome outcome = Run({"-n", "shop", "-o", "json"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("binding, driver and handle not checked"),
                                   HasSubstr("PVCs that use")));
  const Json list = ParseJson(outcome.out).value_or(Json());
  EXPECT_EQ(GetString(list.at(1), {"state"}), "Ready");
  EXPECT_EQ(GetString(list.at(1), {"handle"}), "");
  EXPECT_THAT(list.at(1).at("kept_for"), IsEmpty());
  api_.FailNext("list", "volumesnapshots", absl::PermissionDeniedError("none for you"));
  EXPECT_EQ(Run({"-n", "shop"}).code, ExitCode::kFailed);
}

TEST_F(SnapshotListTest, LabelsLeaveOthersOutAndWithThemWhoIsLast) {
  Json labelled = support::MakeSnapshotObject("shop", "labelled", "", {{"app", "db"}});
  SetJson(labelled, {"status", "readyToUse"}, true);
  SetJson(labelled, {"metadata", "creationTimestamp"}, "2026-11-24T05:00:00Z");
  api_.Seed(VolumeSnapshotType(), labelled);
  const Outcome outcome = Run({"-n", "shop", "-l", "app=db", "-o", "json"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  const Json list = ParseJson(outcome.out).value_or(Json());
  EXPECT_THAT(NamesOf(list), ElementsAre("labelled"));
  EXPECT_THAT(list.at(0).at("kept_for"), IsEmpty());
  EXPECT_THAT(outcome.error, HasSubstr("last Ready one of a PVC not checked"));
}

}  // namespace
}  // namespace csidelta::cli::snapshot_list_test
