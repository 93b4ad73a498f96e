// csi-delta longhorn list: each Snapshot with its volume, its job and what keeps it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/yaml.h"
#include "tests/cli/longhorn_verb_fixture.h"

namespace csidelta::cli::longhorn_list_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Three of pvc-1: of a job that is gone, of one that applies, of none.
class LonghornListTest : public LonghornVerbTest {
 protected:
  LonghornListTest() : LonghornVerbTest("list") {
    Take("first", "retired");
    Take("second", "nightly");
    Take("third");
    api_.Seed(longhorn::RecurringJob::Type(),
              support::MakeLonghornJob("nightly", Json::array({"default"})));
  }
};

TEST_F(LonghornListTest, ShowsEachWithItsJobAndWhatKeepsIt) {
  Need("second", "monday");
  const Outcome outcome = Run({});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  const std::vector<std::string> lines = absl::StrSplit(outcome.out, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 4u) << outcome.out;
  EXPECT_THAT(lines[0],
              AllOf(HasSubstr("VOLUME"), HasSubstr("KEPT FOR"), Not(HasSubstr("PARENT"))));
  EXPECT_THAT(lines[1], AllOf(HasSubstr("pvc-1   shop/data"), HasSubstr("retired (gone)"),
                              HasSubstr("2023-11-1"), HasSubstr("Ready")));
  EXPECT_THAT(lines[2], AllOf(HasSubstr("nightly  "), HasSubstr("VolumeSnapshot")));
  EXPECT_THAT(lines[3], AllOf(HasSubstr("third"), HasSubstr("Newest")));
  EXPECT_THAT(Run({"-o", "wide"}).out,
              AllOf(HasSubstr("PARENT"), HasSubstr("volume-head"), HasSubstr("RESTORE SIZE")));
}

TEST_F(LonghornListTest, OtherForms) {
  const Json list = RunJson({});
  EXPECT_THAT(NamesOf(list), ElementsAre("first", "second", "third"));
  Json second = list.at(1);
  for (const char* const given : {"uid", "creationTime", "requestedTime", "size", "restoreSize"}) {
    EXPECT_FALSE(second.at(given).is_null()) << given;
    second.erase(given);
  }
  EXPECT_EQ(second, (Json{{"name", "second"},
                          {"namespace", "longhorn-system"},
                          {"volume", "pvc-1"},
                          {"pvc", "shop/data"},
                          {"job", "nightly"},
                          {"job_state", "Applies"},
                          {"state", "Ready"},
                          {"kept_for", Json::array()},
                          {"parent", "first"},
                          {"children", {"third"}},
                          {"markRemoved", false},
                          {"userCreated", true},
                          {"createSnapshot", true},
                          {"ready", true},
                          {"error", ""}}));
  EXPECT_EQ(list.at(2).at("kept_for").at(0).at("reason"), "Newest");
  EXPECT_EQ(
      Run({"-o", "name"}).out,
      "snapshot.longhorn.io/first\nsnapshot.longhorn.io/second\nsnapshot.longhorn.io/third\n");
  EXPECT_THAT(NamesOf(ParseYaml(Run({"-o", "yaml"}).out).value_or(Json())),
              ElementsAre("first", "second", "third"));
}

TEST_F(LonghornListTest, NothingFoundIsAnEmptyList) {
  const Outcome table = Run({"--volume", "pvc-9"});
  EXPECT_EQ(table.code, ExitCode::kOk);
  EXPECT_THAT(table.out, IsEmpty());
  EXPECT_THAT(table.error,
              HasSubstr("no Snapshots of Longhorn found in namespace longhorn-system"));
  EXPECT_EQ(Run({"--volume", "pvc-9", "-o", "json"}).out, "[]\n");
  EXPECT_EQ(Run({"--volume", "pvc-9", "-o", "yaml"}).out, "[]\n");
  EXPECT_THAT(Run({"-n", "elsewhere"}).error, HasSubstr("in namespace elsewhere"));
}

TEST_F(LonghornListTest, SelectsByVolumePvcJobAndAge) {
  Volume("pvc-2", "logs");
  longhorn_.Attach("pvc-2");
  longhorn_.Pass(absl::Seconds(10));
  Take("of-logs", "", "pvc-2");
  const auto names = [&](const std::vector<std::string>& words) { return NamesOf(RunJson(words)); };
  EXPECT_THAT(names({"--volume", "pvc-2"}), ElementsAre("of-logs"));
  EXPECT_THAT(names({"--pvc", "shop/logs"}), ElementsAre("of-logs"));
  EXPECT_THAT(names({"--pvc", "team/logs"}), IsEmpty());
  EXPECT_THAT(names({"--job", "nightly"}), ElementsAre("second"));
  EXPECT_THAT(names({"--of-gone-jobs"}), ElementsAre("first"));
  EXPECT_THAT(names({"--older-than", "1y", "--pvc", "shop/logs"}), ElementsAre("of-logs"));
  EXPECT_THAT(names({"--older-than", "100y"}), IsEmpty());
}

TEST_F(LonghornListTest, FlagsThatDoNotFitAreRefused) {
  EXPECT_THAT(Run({"-A"}).error, HasSubstr("leave out -A"));
  EXPECT_THAT(Run({"-l", "a=b"}).error, HasSubstr("leave out -l"));
  for (const char* pvc : {"orders", "/orders", "shop/", "a/b/c"}) {
    const Outcome outcome = Run({"--pvc", pvc});
    EXPECT_EQ(outcome.code, ExitCode::kFailed);
    EXPECT_THAT(outcome.error, HasSubstr("NAMESPACE/NAME")) << pvc;
  }
  EXPECT_EQ(Run({"--older-than", "often"}).code, ExitCode::kFailed);
}

TEST_F(LonghornListTest, WhatMayNotBeReadIsNamed) {
  for (const char* plural : {"volumes", "recurringjobs", "backups", "volumesnapshotcontents",
                             "persistentvolumeclaims"}) {
    api_.Forbid("list", plural);
    const Outcome outcome = Run({});
    EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
    EXPECT_THAT(outcome.out, HasSubstr("third"));
    EXPECT_THAT(outcome.error, AllOf(HasSubstr("not checked"), HasSubstr(plural)));
    api_.ClearFaults();
  }
  api_.Forbid("list", "recurringjobs");
  EXPECT_THAT(Run({"--of-gone-jobs"}).error,
              HasSubstr("it is not known which RecurringJobs are gone"));
  api_.ClearFaults();
  api_.Forbid("list", "snapshots");
  EXPECT_EQ(Run({}).code, ExitCode::kFailed);
}

TEST_F(LonghornListTest, ASnapshotBeingTakenOrFilledFromIsKept) {
  Take("snapshot-uid-1");
  Json content = support::MakeContentObject("content-1", "shop", "young", "");
  EraseJson(content, {"status"});
  SetJson(content, {"spec", "driver"}, "driver.longhorn.io");
  SetJson(content, {"spec", "volumeSnapshotRef", "uid"}, "uid-1");
  SetJson(content, {"spec", "source"}, Json{{"volumeHandle", "pvc-1"}});
  api_.Seed(VolumeSnapshotContentType(), content);
  Need("first", "monday");
  Json pvc = support::MakeObject("v1", "PersistentVolumeClaim", "shop", "copy");
  SetJson(pvc, {"spec", "dataSource"}, Json{{"kind", "VolumeSnapshot"}, {"name", "monday"}});
  api_.Seed(PersistentVolumeClaimType(), pvc);
  const Json list = RunJson({});
  EXPECT_EQ(
      list.at(0).at("kept_for"),
      Json::array(
          {{{"reason", "VolumeSnapshot"}, {"message", "VolumeSnapshot shop/monday needs it"}},
           {{"reason", "PendingPvc"}, {"message", "PVC shop/copy is being filled from it"}}}));
  EXPECT_EQ(list.at(3).at("kept_for").at(0).at("message"), "VolumeSnapshot shop/young needs it");
}

TEST_F(LonghornListTest, AContentThatWasImportedKeepsIt) {
  Json content = support::MakeContentObject("content-1", "shop", "imported", "");
  EraseJson(content, {"status"});
  SetJson(content, {"spec", "source"}, Json{{"snapshotHandle", "snap://pvc-1/first"}});
  api_.Seed(VolumeSnapshotContentType(), content);
  EXPECT_EQ(RunJson({}).at(0).at("kept_for").at(0).at("reason"), "VolumeSnapshot");
}

TEST_F(LonghornListTest, ForeignTextsAreShownAndNotObeyed) {
  Change(longhorn::Snapshot::Type(), "first", {"status", "error"}, HostileLonghornText());
  Change(longhorn::Snapshot::Type(), "first", {"spec", "labels", "RecurringJob"},
         HostileLonghornText());
  Change(longhorn::Volume::Type(), "pvc-1", {"status", "kubernetesStatus", "pvcName"},
         HostileLonghornText());
  const Outcome outcome = Run({"-o", "wide"});
  EXPECT_EQ(outcome.code, ExitCode::kOk);
  ExpectHarmless(outcome.out);
}

}  // namespace
}  // namespace csidelta::cli::longhorn_list_test
