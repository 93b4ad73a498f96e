// csi-delta snapshot delete: what becomes of the data is said first; what is needed is kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/json.h"
#include "tests/cli/snapshot_verb_fixture.h"

namespace csidelta::cli::snapshot_delete_test {
namespace {

using support::ApiCall;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Three Ready VolumeSnapshots of one PVC.
class SnapshotDeleteTest : public SnapshotVerbTest {
 protected:
  SnapshotDeleteTest() : SnapshotVerbTest("delete") {
    Ready("monday", "2023-11-13T05:00:00Z");
    Ready("tuesday", "2023-11-14T05:00:00Z");
    Ready("wednesday", "2023-11-15T05:00:00Z");
  }

  Outcome Delete(std::vector<std::string> more) const {
    more.insert(more.end(), {"-n", "shop"});
    return Run(more);
  }
  int deletions() const { return api_.CallCount("delete", "*"); }
  static std::vector<std::string> Results(const Json& list) {
    std::vector<std::string> results;
    for (const Json& one : list) {
      results.push_back(GetString(one, {"name"}) + " " + GetString(one, {"result"}));
    }
    return results;
  }
};

TEST_F(SnapshotDeleteTest, SaysFirstWhatBecomesOfTheData) {
  ChangeContent("tuesday", {"spec", "deletionPolicy"}, "Retain");
  const Outcome outcome = Delete({"monday", "tuesday"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_EQ(outcome.out,
            "monday: its data is gone for good\n"
            "tuesday: the storage keeps its data: handle handle-of-tuesday; csi-delta snapshot "
            "import --driver hostpath.csi.k8s.io handle-of-tuesday brings it back\n"
            "monday: deleted\n"
            "tuesday: deleted\n");
  EXPECT_FALSE(IsThere("monday"));
  EXPECT_FALSE(IsThere("tuesday"));
  EXPECT_TRUE(IsThere("wednesday"));
}

TEST_F(SnapshotDeleteTest, ADryRunDeletesNothing) {
  const Outcome outcome = Delete({"monday", "--dry-run", "--with-data"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_EQ(outcome.out, "monday: its data is gone for good\n");
  EXPECT_THAT(Results(RunJson({"monday", "--dry-run"})), ElementsAre("monday would-delete"));
  EXPECT_EQ(deletions() + api_.CallCount("patch", "*"), 0);
}

TEST_F(SnapshotDeleteTest, AllProtectedIs23AndSomeIs3) {
  Label("monday", objects::kKeepLabel, "true");
  FillFrom("tuesday", "copy");
  for (const bool dry_run : {true, false}) {
    std::vector<std::string> words = {"monday", "tuesday"};
    if (dry_run) {
      words.emplace_back("--dry-run");
    }
    const Outcome all = Delete(words);
    EXPECT_EQ(all.code, ExitCode::kProtected);
    EXPECT_EQ(static_cast<int>(all.code), 23);
    EXPECT_THAT(all.out, AllOf(HasSubstr("monday: is kept: labelled snapshot.csi-delta.io/keep"),
                               HasSubstr("tuesday: is kept: PVC copy is being filled from it")));
    EXPECT_THAT(all.error, HasSubstr("all that was named is kept"));
    EXPECT_EQ(deletions(), 0);
  }
  EXPECT_THAT(Delete({"monday", "--json"}).error, HasSubstr(R"("code":23)"));
  const Json list = RunJson({"monday", "wednesday"}, ExitCode::kIncomplete);
  EXPECT_THAT(Results(list), ElementsAre("monday kept", "wednesday deleted"));
  EXPECT_EQ(GetString(list.at(0).at("kept_for").at(0), {"reason"}), "Keep");
  EXPECT_TRUE(IsThere("monday"));
  EXPECT_FALSE(IsThere("wednesday"));
}

// Every reason of csi/snapshot_protection.h that holds for a person.
TEST_F(SnapshotDeleteTest, EachReasonIsNamed) {
  Change("monday", {"status", "volumeGroupSnapshotName"}, "group");
  EXPECT_THAT(Delete({"monday"}).out, HasSubstr("member of VolumeGroupSnapshot group"));
  Change("monday", {"status", "volumeGroupSnapshotName"}, "");
  ChangeContent("monday", {"metadata", "labels", objects::kBaseLabel}, "true");
  EXPECT_THAT(Delete({"monday"}).out, HasSubstr("delta base"));
  ChangeContent("monday", {"metadata", "labels"}, Json::object());
  Label("monday", objects::kBackupNameLabel, "nightly");
  EXPECT_THAT(Delete({"monday"}).out, HasSubstr("backup nightly made it"));
  EXPECT_EQ(Delete({"monday", "--mover-namespace", "shop", "--last-too"}).code,
            ExitCode::kProtected);
  EXPECT_EQ(deletions(), 0);
}

TEST_F(SnapshotDeleteTest, TheLastReadyOneGoesOnlyByName) {
  ASSERT_EQ(Delete({"monday", "tuesday"}).code, ExitCode::kOk);
  const Outcome refused = Delete({"wednesday"});
  EXPECT_EQ(refused.code, ExitCode::kProtected);
  EXPECT_THAT(refused.out,
              HasSubstr("wednesday: is kept: the only Ready one of its PVC (--last-too"));
  EXPECT_TRUE(IsThere("wednesday"));
  EXPECT_EQ(Delete({"wednesday", "--last-too"}).code, ExitCode::kOk);
  EXPECT_FALSE(IsThere("wednesday"));
}

TEST_F(SnapshotDeleteTest, ASetGoesTogether) {
  Label("monday", objects::kSnapshotSetLabel, "db-1");
  Label("tuesday", objects::kSnapshotSetLabel, "db-1");
  Label("wednesday", objects::kSnapshotSetLabel, "db-2");
  EXPECT_THAT(Results(RunJson({"--set", "db-1"})),
              ElementsAre("tuesday deleted", "monday deleted"));
  EXPECT_TRUE(IsThere("wednesday"));
  const Outcome none = Delete({"--set", "db-1"});
  EXPECT_EQ(none.code, ExitCode::kFailed);
  EXPECT_THAT(none.error, AllOf(HasSubstr("no VolumeSnapshot of set db-1"),
                                HasSubstr("csi-delta snapshot list -n shop")));
  EXPECT_EQ(Delete({"--set", "db-1", "--ignore-missing"}).code, ExitCode::kOk);
}

TEST_F(SnapshotDeleteTest, AGroupIsDeletedAsOneAndInOneLine) {
  MakeGroup("week", {"monday", "tuesday"});
  const Outcome dry = Delete({"--set", "week", "--dry-run", "--last-too"});
  EXPECT_EQ(dry.out, "VolumeGroupSnapshot week of PVC data, logs: its data is gone for good\n");
  for (const char* const name : {"monday", "tuesday"}) {
    ChangeContent(name, {"spec", "deletionPolicy"}, "Retain");
  }
  EXPECT_THAT(Delete({"--set", "week", "--dry-run", "--last-too"}).out,
              AllOf(HasSubstr("handle handle-of-monday"), HasSubstr("handle handle-of-tuesday")));
  EXPECT_EQ(deletions(), 0);
  EXPECT_THAT(Results(RunJson({"--set", "week", "--last-too"})),
              ElementsAre("monday deleted", "tuesday deleted"));
  EXPECT_FALSE(IsContentThere("monday"));
  EXPECT_FALSE(IsContentThere("tuesday"));
  EXPECT_FALSE(IsGroupThere("week"));
  EXPECT_FALSE(IsThere("monday"));
  EXPECT_FALSE(IsThere("tuesday"));
}

TEST_F(SnapshotDeleteTest, AGroupStaysUnlessAllItsMembersMayGo) {
  MakeGroup("week", {"monday", "tuesday"});
  const Outcome one = Delete({"monday"});
  EXPECT_EQ(one.code, ExitCode::kProtected);
  EXPECT_THAT(one.out, AllOf(HasSubstr("week/data: is kept: a member of VolumeGroupSnapshot week"),
                             HasSubstr("that of PVC logs stays")));
  EXPECT_EQ(Delete({"--set", "week"}).code, ExitCode::kProtected) << "the only Ready one of logs";
  Label("monday", objects::kKeepLabel, "true");
  EXPECT_EQ(Delete({"--set", "week", "--last-too"}).code, ExitCode::kProtected);
  Label("monday", objects::kKeepLabel, "");
  api_.Forbid("list", "volumegroupsnapshots");
  EXPECT_EQ(Delete({"--set", "week", "--last-too"}).code, ExitCode::kProtected);
  api_.ClearFaults();
  api_.Forbid("list", "volumesnapshots");  // So there may be others.
  EXPECT_EQ(Delete({"monday", "tuesday", "--last-too"}).code, ExitCode::kProtected);
  EXPECT_EQ(deletions(), 0);
}

TEST_F(SnapshotDeleteTest, AMissingNameEndsItBeforeTheFirstDeletion) {
  const Outcome outcome = Delete({"monday", "missing", "tuesdya"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, HasSubstr("VolumeSnapshot missing, tuesdya was not found"));
  EXPECT_EQ(deletions(), 0);
  EXPECT_THAT(Results(RunJson({"monday", "missing", "--ignore-missing"})),
              ElementsAre("missing missing", "monday deleted"));
}

TEST_F(SnapshotDeleteTest, NamesMayBeThoseThatListPrints) {
  EXPECT_EQ(Delete({"volumesnapshot.snapshot.storage.k8s.io/monday", "monday", "vs/tuesday"}).code,
            ExitCode::kOk);
  EXPECT_EQ(deletions(), 2);
  EXPECT_EQ(Run({"wednesday", "-n", "shop", "--last-too", "-o", "name"}).out,
            "volumesnapshot.snapshot.storage.k8s.io/wednesday\n");
}

TEST_F(SnapshotDeleteTest, NothingIsDeletedWhenAListingFails) {
  for (const char* plural :
       {"volumesnapshots", "volumesnapshotcontents", "persistentvolumeclaims"}) {
    api_.FailNext("list", plural, absl::InvalidArgumentError("broken"), 2);  // Also in pages.
    api_.FailNext("get", plural, absl::InvalidArgumentError("broken"), 1);
    EXPECT_EQ(Delete({"monday"}).code, ExitCode::kFailed) << plural;
    api_.ClearFaults();
  }
  EXPECT_EQ(deletions(), 0);
}

TEST_F(SnapshotDeleteTest, WhatMayNotBeReadIsNamedAndTheRestIsChecked) {
  api_.Forbid("*", "volumesnapshotcontents");
  api_.Forbid("list", "persistentvolumeclaims");
  const Outcome outcome = Delete({"monday"});
  EXPECT_EQ(outcome.code, ExitCode::kOk);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("binding, driver and handle not checked"),
                                   HasSubstr("PVCs that use a snapshot not checked")));
  EXPECT_THAT(outcome.out, HasSubstr("it is not known whether the storage keeps its data"));
  EXPECT_FALSE(IsThere("monday"));
  Label("tuesday", objects::kKeepLabel, "true");
  EXPECT_EQ(Delete({"tuesday"}).code, ExitCode::kProtected);
}

TEST_F(SnapshotDeleteTest, ADeletionThatTheApiServerRefusesIs3) {
  api_.Forbid("delete", "volumesnapshots");
  const Outcome outcome = Delete({"monday", "tuesday"});
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("monday: was not deleted: delete volumesnapshots"),
                                 HasSubstr("tuesday: was not deleted")));
  EXPECT_THAT(outcome.error, HasSubstr("2 of 2 VolumeSnapshots not deleted"));
  const Json list = RunJson({"monday"}, ExitCode::kIncomplete);
  EXPECT_THAT(Results(list), ElementsAre("monday failed"));
  EXPECT_THAT(GetString(list.at(0), {"error"}), HasSubstr("forbidden"));
}

TEST_F(SnapshotDeleteTest, DeletesByUidAndResourceVersion) {
  // Another one of that name, between the listing and the deletion.
  BeforeDeletionOf("monday", [&] { Change("monday", {"metadata", "uid"}, "another-uid"); });
  EXPECT_THAT(Results(RunJson({"monday"})), ElementsAre("monday gone"));
  EXPECT_TRUE(IsThere("monday"));
}

TEST_F(SnapshotDeleteTest, AKeepLabelThatIsSetMeanwhileWins) {
  BeforeDeletionOf("monday", [&] { Label("monday", objects::kKeepLabel, "true"); });
  const Outcome outcome = Delete({"monday"});
  EXPECT_EQ(outcome.code, ExitCode::kProtected);
  EXPECT_THAT(outcome.out, HasSubstr("monday: is kept: labelled snapshot.csi-delta.io/keep=true"));
  EXPECT_TRUE(IsThere("monday"));
}

TEST_F(SnapshotDeleteTest, TheContentOfKeptDataIsDeletedSoThatItsHandleCanBeImported) {
  ChangeContent("monday", {"spec", "deletionPolicy"}, "Retain");
  EXPECT_EQ(Delete({"monday"}).code, ExitCode::kOk);
  EXPECT_FALSE(IsContentThere("monday"));
  EXPECT_TRUE(IsContentThere("tuesday"));  // The snapshot controller's to delete.
  ChangeContent("tuesday", {"spec", "deletionPolicy"}, "Retain");
  api_.Forbid("delete", "volumesnapshotcontents");
  const Outcome outcome = Delete({"tuesday"});
  EXPECT_EQ(outcome.code, ExitCode::kOk);
  EXPECT_THAT(outcome.error,
              HasSubstr("VolumeSnapshotContent content-of-tuesday of tuesday stays, and must go"));
  EXPECT_FALSE(IsThere("tuesday"));
  EXPECT_TRUE(IsContentThere("tuesday"));
}

TEST_F(SnapshotDeleteTest, WithDataTakesTheRightToReadAndPatchContents) {
  ChangeContent("monday", {"spec", "deletionPolicy"}, "Retain");
  api_.Forbid("*", "volumesnapshotcontents");
  const Outcome unread = Delete({"monday", "--with-data"});
  EXPECT_EQ(unread.code, ExitCode::kFailed);
  EXPECT_THAT(unread.error, HasSubstr("--with-data needs the rights to get and to patch"));
  api_.ClearFaults();
  api_.Forbid("patch", "volumesnapshotcontents");
  EXPECT_EQ(Delete({"monday", "--with-data"}).code, ExitCode::kIncomplete);
  EXPECT_EQ(deletions(), 0);
  api_.ClearFaults();
  const Outcome done = Delete({"monday", "--with-data"});
  EXPECT_EQ(done.code, ExitCode::kOk) << done.error;
  EXPECT_THAT(done.out, HasSubstr("monday: its data is gone for good"));
  EXPECT_FALSE(IsContentThere("monday"));
}

TEST_F(SnapshotDeleteTest, TheWaitEndsWhenTheContentIsGone) {
  api_.SetInterceptor([&](const ApiCall& call, const Json*) {
    if (call.verb == "watch" && call.plural == "volumesnapshotcontents") {
      api_.Remove(VolumeSnapshotContentKey("content-of-monday"));
    }
    return absl::OkStatus();
  });
  const Outcome outcome = Delete({"monday", "--wait"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("monday: gone\n"));
  EXPECT_FALSE(IsContentThere("monday"));
}

TEST_F(SnapshotDeleteTest, AWaitThatRunsOutIs1) {
  const Outcome outcome = Delete({"monday", "tuesday", "--wait", "--timeout", "0s"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, HasSubstr("is not gone yet"));
  EXPECT_FALSE(IsThere("monday"));
}

TEST_F(SnapshotDeleteTest, ASnapshotBeingDeletedIsLeftAlone) {
  Change("monday", {"metadata", "finalizers"}, Json::array({"a/b"}));
  Change("monday", {"metadata", "deletionTimestamp"}, "2023-11-15T05:00:00Z");
  const Outcome outcome = Delete({"monday"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_EQ(outcome.out, "monday: is being deleted already\n");
  EXPECT_EQ(deletions(), 0);
}

TEST_F(SnapshotDeleteTest, FlagsThatMeanNothingHereAreRefused) {
  EXPECT_THAT(Delete({}).error, HasSubstr("nothing is named"));
  EXPECT_THAT(Delete({"monday", "--set", "db"}).error, HasSubstr("leave one of them out"));
  EXPECT_THAT(Delete({"monday", "--timeout", "5s"}).error, HasSubstr("--wait"));
  EXPECT_THAT(Run({"monday", "-A"}).error, HasSubstr("works in one namespace"));
  EXPECT_THAT(Delete({"monday", "-l", "a in (b)"}).error, HasSubstr("list -l 'a in (b)' -o name"));
  EXPECT_THAT(Delete({"pod/monday"}).error, HasSubstr("does not name a VolumeSnapshot"));
  EXPECT_EQ(api_.CallCount("*", "*"), 0);
}

TEST_F(SnapshotDeleteTest, ForeignTextsAreShownAndNotObeyed) {
  const std::string hostile = HostileText();
  ChangeContent("monday", {"status", "snapshotHandle"}, hostile);
  ChangeContent("monday", {"spec", "deletionPolicy"}, "Retain");
  ChangeContent("tuesday", {"status", "snapshotHandle"}, "-rf $(reboot); it's");
  ChangeContent("tuesday", {"spec", "deletionPolicy"}, "Retain");
  api_.FailNext("delete", "volumesnapshotcontents", absl::PermissionDeniedError(hostile), 2);
  const Outcome outcome = Delete({"monday", "tuesday"});
  EXPECT_EQ(outcome.code, ExitCode::kOk);
  ExpectHarmless(outcome.out);
  ExpectHarmless(outcome.error);
  EXPECT_THAT(outcome.out, HasSubstr(" -- '-rf $(reboot); it'\\''s' brings it back"));
}

TEST_F(SnapshotDeleteTest, SnapshotsNotReachedBeforeAnInterruptAreReported) {
  std::stop_source stop;
  BeforeDeletionOf("monday", [&] { stop.request_stop(); });
  const Outcome outcome = program_.Run({"--kubeconfig", program_.Path("kubeconfig"), "snapshot",
                                        "delete", "-n", "shop", "monday", "tuesday"},
                                       stop.get_token());
  EXPECT_EQ(outcome.code, ExitCode::kInterrupted);
  EXPECT_THAT(outcome.out, HasSubstr("tuesday: was not deleted: interrupted before\n"));
  EXPECT_TRUE(IsThere("tuesday"));
}

}  // namespace
}  // namespace csidelta::cli::snapshot_delete_test
