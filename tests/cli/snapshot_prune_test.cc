// csi-delta snapshot prune: keep rules for each PVC, and a reason for each VolumeSnapshot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "tests/cli/snapshot_verb_fixture.h"

namespace csidelta::cli::snapshot_prune_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Four Ready VolumeSnapshots of one PVC, of four days.
class SnapshotPruneTest : public SnapshotVerbTest {
 protected:
  SnapshotPruneTest() : SnapshotVerbTest("prune") {
    for (const int day : {10, 11, 12, 13}) {
      Ready(absl::StrCat("day-", day), absl::StrCat("2023-11-", day, "T12:00:00Z"));
    }
  }

  Outcome Prune(std::vector<std::string> more) const {
    more.insert(more.end(), {"-n", "shop"});
    return Run(more);
  }
  int deletions() const { return api_.CallCount("delete", "*"); }
};

TEST_F(SnapshotPruneTest, SaysWhatItWouldDeleteAndWhy) {
  Label("day-10", objects::kKeepLabel, "true");
  const Outcome outcome = Prune({"--keep-last", "2"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("WHY"), HasSubstr("would delete  day-11"),
                                 HasSubstr("no rule keeps it"), HasSubstr("last snapshot"),
                                 HasSubstr("labelled snapshot.csi-delta.io/keep=true"),
                                 HasSubstr("would delete 1 VolumeSnapshot, keep 3; --yes")));
  EXPECT_EQ(deletions(), 0);
}

TEST_F(SnapshotPruneTest, PrunesAsTheDryRunAnnounced) {
  const std::vector<std::string> said = PruneDecisions(RunJson({"--keep-last", "2"}));
  EXPECT_THAT(said, ElementsAre("day-13 keep Rule", "day-12 keep Rule", "day-11 delete NoRule",
                                "day-10 delete NoRule"));
  const Json done = RunJson({"--keep-last", "2", "--yes"});
  EXPECT_EQ(PruneDecisions(done), said);
  EXPECT_FALSE(GetBool(done, {"dry_run"}, true));
  EXPECT_EQ(GetInt(done, {"deleted"}), 2);
  EXPECT_EQ(GetInt(done, {"kept"}), 2);
  EXPECT_TRUE(IsThere("day-12"));
  EXPECT_FALSE(IsThere("day-11"));
  EXPECT_FALSE(IsThere("day-10"));
  EXPECT_THAT(Prune({"--keep-last", "2", "--yes"}).out,
              HasSubstr("deleted 0 VolumeSnapshots, kept 2\n"));
}

TEST_F(SnapshotPruneTest, WithoutARuleItIsAnError) {
  const std::vector<std::vector<std::string>> lines = {
      {}, {"--yes"}, {"--keep-last", "0", "--yes"}};
  for (const std::vector<std::string>& words : lines) {
    const Outcome outcome = Prune(words);
    EXPECT_EQ(outcome.code, ExitCode::kFailed);
    EXPECT_THAT(outcome.error, HasSubstr("no keep rule is given"));
  }
  EXPECT_EQ(api_.CallCount("*", "*"), 0);
}

TEST_F(SnapshotPruneTest, HasTheRulesOfForgetByTheirLongNames) {
  const std::map<std::string, int> deleted = {
      {"--keep-last", 3},    {"--keep-hourly", 3}, {"--keep-daily", 3},
      {"--keep-weekly", 2},  // Monday the 13th begins a week; of the one before the newest counts.
      {"--keep-monthly", 2}, {"--keep-yearly", 2}};
  for (const auto& [flag, count] : deleted) {
    // Two weeks, months and years are asked for where one has all: the oldest stays, too.
    const char* const number = count == 3 ? "1" : "2";
    EXPECT_EQ(GetInt(RunJson({flag, number}), {"kept"}), 4 - count) << flag;
  }
  for (const char* flag : {"--keep-within", "--keep-within-hourly", "--keep-within-daily"}) {
    EXPECT_EQ(GetInt(RunJson({flag, "2d"}), {"kept"}), 2) << flag;
  }
  for (const char* flag :
       {"--keep-within-weekly", "--keep-within-monthly", "--keep-within-yearly"}) {
    EXPECT_GE(GetInt(RunJson({flag, "9d"}), {"kept"}), 1) << flag;
  }
  EXPECT_EQ(Prune({"-l", "2"}).code, ExitCode::kFailed);  // kubectl's -l
  EXPECT_EQ(Prune({"--keep-last", "many"}).code, ExitCode::kFailed);
}

TEST_F(SnapshotPruneTest, SnapshotsOfOtherMakersStayWithoutAnyMaker) {
  Change("day-10", {"metadata", "labels"}, Json::object());
  const Outcome outcome = Prune({"--keep-last", "1", "--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, AllOf(Not(HasSubstr("day-10")), HasSubstr("1 of other makers are left"),
                                 HasSubstr("--any-maker")));
  EXPECT_TRUE(IsThere("day-10"));
  EXPECT_EQ(api_.CallCount("list", "backups"), 0);
  EXPECT_EQ(Prune({"--keep-last", "1", "--yes", "--any-maker"}).code, ExitCode::kOk);
  EXPECT_FALSE(IsThere("day-10"));
  EXPECT_EQ(api_.CallCount("list", "backups"), 1);
}

TEST_F(SnapshotPruneTest, NeverTakesWhatIsNeeded) {
  Label("day-10", objects::kBackupNameLabel, "nightly");
  ChangeContent("day-11", {"metadata", "labels", objects::kBaseLabel}, "true");
  FillFrom("day-12", "copy");
  const Json result = RunJson({"--keep-last", "1", "--yes"});
  EXPECT_THAT(PruneDecisions(result),
              ElementsAre("day-13 keep Rule", "day-12 keep Protected", "day-11 keep Protected",
                          "day-10 keep Protected"));
  EXPECT_THAT(result.at("snapshots").at(3).at("messages").at(0).get<std::string>(),
              AllOf(HasSubstr("backup nightly"), HasSubstr("not in this cluster any more")));
  EXPECT_EQ(deletions(), 0);
}

TEST_F(SnapshotPruneTest, AGroupGoesInOneLineIfNoMemberIsNeeded) {
  Ready("logs-13", "2023-11-13T12:00:00Z");
  Change("logs-13", {"spec", "source", "persistentVolumeClaimName"}, "logs");
  MakeGroup("week", {"day-10", "day-11"});
  FillFrom("day-11", "copy");
  EXPECT_THAT(PruneDecisions(RunJson({"--keep-last", "1", "--yes"})),
              ElementsAre("day-13 keep Rule", "day-12 delete NoRule", "day-10 keep Protected",
                          "logs-13 keep Rule", "day-11 keep Protected"));
  EXPECT_TRUE(IsGroupThere("week"));
  ASSERT_TRUE(api_.Remove({PersistentVolumeClaimType(), "shop", "copy"}));
  const Outcome outcome = Prune({"--keep-last", "1"});
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("would delete  week"), HasSubstr("data,logs"),
                                 HasSubstr("would delete 2 VolumeSnapshots, keep 2")));
  EXPECT_EQ(GetInt(RunJson({"--keep-last", "1", "--yes"}), {"deleted"}), 2);
  EXPECT_FALSE(IsGroupThere("week"));
  EXPECT_FALSE(IsThere("day-10"));
}

TEST_F(SnapshotPruneTest, SelectsByPvcLabelAndNamespace) {
  Ready("logs-1", "2023-11-10T05:00:00Z");
  Ready("logs-2", "2023-11-11T05:00:00Z");
  for (const char* name : {"logs-1", "logs-2"}) {
    Change(name, {"spec", "source", "persistentVolumeClaimName"}, "logs");
  }
  Label("day-10", "tier", "old");
  Ready("elsewhere", "2023-11-09T05:00:00Z", "team");
  EXPECT_THAT(PruneDecisions(RunJson({"--keep-last", "1", "--pvc", "logs"})),
              ElementsAre("logs-2 keep Rule", "logs-1 delete NoRule"));
  // Rules count what is selected, and protection looks at all.
  EXPECT_THAT(PruneDecisions(RunJson({"--keep-last", "1", "-l", "tier=old"})),
              ElementsAre("day-10 keep Rule"));
  const Outcome all = Run({"--keep-last", "1", "-A"});
  EXPECT_THAT(all.out, AllOf(HasSubstr("NAMESPACE"), HasSubstr("elsewhere"), HasSubstr("logs-2")));
}

TEST_F(SnapshotPruneTest, EndsBeforeTheFirstDeletionWhenSomethingCannotBeListed) {
  const std::vector<absl::Status> errors = {absl::PermissionDeniedError("no"),
                                            absl::InvalidArgumentError("broken")};
  for (const absl::Status& error : errors) {
    for (const char* plural :
         {"volumesnapshots", "volumesnapshotcontents", "persistentvolumeclaims", "backups"}) {
      api_.FailNext("list", plural, error, 2);  // Also in pages.
      const Outcome outcome = Prune({"--keep-last", "1", "--yes", "--any-maker"});
      EXPECT_EQ(outcome.code, ExitCode::kFailed) << plural;
      EXPECT_THAT(outcome.error, HasSubstr("nothing was deleted")) << plural;
      EXPECT_THAT(outcome.out, IsEmpty());
      api_.ClearFaults();
    }
  }
  // One that carries a label of Velero's is enough to need the Backups.
  Label("day-10", "velero.io/restore-name", "r");
  api_.FailNext("list", "backups", absl::PermissionDeniedError("no"));
  EXPECT_EQ(Prune({"--keep-last", "1", "--yes"}).code, ExitCode::kFailed);
  EXPECT_EQ(deletions(), 0);
}

TEST_F(SnapshotPruneTest, ADeletionThatTheApiServerRefusesIs3AndTheRestIsDone) {
  api_.FailNext("delete", "volumesnapshots", absl::PermissionDeniedError("not that one"));
  const Outcome outcome = Prune({"--keep-last", "1", "--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("shop/day-12 was not deleted"),
                                   HasSubstr("1 VolumeSnapshot not deleted")));
  EXPECT_THAT(outcome.out, HasSubstr("deleted 2 VolumeSnapshots, kept 1"));
  EXPECT_TRUE(IsThere("day-12"));
  EXPECT_FALSE(IsThere("day-10"));
}

TEST_F(SnapshotPruneTest, AKeepLabelThatIsSetMeanwhileWins) {
  BeforeDeletionOf("day-11", [&] { Label("day-11", objects::kKeepLabel, "true"); });
  const Outcome outcome = Prune({"--keep-last", "1", "--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.error, HasSubstr("shop/day-11 is kept: labelled"));
  EXPECT_THAT(outcome.out, HasSubstr("deleted 2 VolumeSnapshots, kept 2"));
  EXPECT_TRUE(IsThere("day-11"));
}

TEST_F(SnapshotPruneTest, SaysWhereTheStorageKeepsTheData) {
  ChangeContent("day-10", {"spec", "deletionPolicy"}, "Retain");
  const Outcome outcome = Prune({"--keep-last", "3"});
  EXPECT_THAT(outcome.out, HasSubstr("no rule keeps it; the storage keeps its data: handle "
                                     "handle-of-day-10"));
  EXPECT_EQ(Prune({"--keep-last", "3", "--yes"}).code, ExitCode::kOk);
  EXPECT_FALSE(IsContentThere("day-10"));
  EXPECT_TRUE(IsContentThere("day-11"));
}

TEST_F(SnapshotPruneTest, OtherForms) {
  EXPECT_EQ(Prune({"--keep-last", "3", "-o", "name"}).out,
            "volumesnapshot.snapshot.storage.k8s.io/day-10\n");
  EXPECT_THAT(Prune({"--keep-last", "3", "-o", "yaml"}).out, HasSubstr("day-10"));
  EXPECT_THAT(Prune({"--keep-last", "3", "--pvc", "none"}).out,
              HasSubstr("would delete 0 VolumeSnapshots, keep 0\n"));
}

TEST_F(SnapshotPruneTest, ForeignTextsAreShownAndNotObeyed) {
  const std::string hostile = HostileText();
  ChangeContent("day-10", {"spec", "deletionPolicy"}, "Retain");
  ChangeContent("day-10", {"status", "snapshotHandle"}, hostile);
  Change("day-11", {"status", "volumeGroupSnapshotName"}, hostile);
  api_.FailNext("delete", "volumesnapshots", absl::PermissionDeniedError(hostile), 2);
  const Outcome outcome = Prune({"--keep-last", "1", "--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
  ExpectHarmless(outcome.out);
  ExpectHarmless(outcome.error);
}

}  // namespace
}  // namespace csidelta::cli::snapshot_prune_test
