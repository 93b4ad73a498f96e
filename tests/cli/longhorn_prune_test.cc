// csi-delta longhorn prune: what goes, what stays and why, and nothing before all is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/yaml.h"
#include "tests/cli/longhorn_verb_fixture.h"

namespace csidelta::cli::longhorn_prune_test {
namespace {

using support::ApiCall;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Of pvc-1 two of a job that is gone, and a newer one of none.
class LonghornPruneVerbTest : public LonghornVerbTest {
 protected:
  LonghornPruneVerbTest() : LonghornVerbTest("prune") {
    Take("first", "retired");
    Take("second", "retired");
    Take("third");
    api_.ClearCalls();
  }

  int deletions() const { return api_.CallCount("delete", "*"); }
};

TEST_F(LonghornPruneVerbTest, SaysWhatItWouldDeleteAndWhy) {
  const Outcome outcome = Run({"--of-gone-jobs"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("WHY"), HasSubstr("would delete  pvc-1   shop/data"),
                                 HasSubstr("RecurringJob retired is gone"), Not(HasSubstr("third")),
                                 HasSubstr("would delete 2 Snapshots of 1 volume ("),
                                 HasSubstr("kept 0, held back 0; --yes deletes them")));
  EXPECT_EQ(deletions(), 0);
}

TEST_F(LonghornPruneVerbTest, PrunesAsTheDryRunAnnounced) {
  const std::vector<std::string> said = PruneDecisions(RunJson({"--keep-last", "1"}));
  EXPECT_THAT(said, ElementsAre("first delete NoRule", "second delete NoRule", "third keep Rule"));
  const Json done = RunJson({"--keep-last", "1", "--yes"});
  EXPECT_EQ(PruneDecisions(done), said);
  EXPECT_FALSE(GetBool(done, {"dry_run"}, true));
  EXPECT_EQ(GetInt(done, {"deleted"}), 2);
  EXPECT_TRUE(GetBool(done.at("snapshots").at(0), {"deleted"}));
  longhorn_.Pass(absl::Seconds(30));
  EXPECT_FALSE(api_.Find(Key(longhorn::Snapshot::Type(), "first")).has_value());
  EXPECT_FALSE(api_.Find(Key(longhorn::Snapshot::Type(), "second")).has_value());
  EXPECT_TRUE(api_.Find(Key(longhorn::Snapshot::Type(), "third")).has_value());
  EXPECT_THAT(Run({"--keep-last", "1", "--yes"}).out,
              HasSubstr("deleted 0 Snapshots, kept 1, held back 0\n"));
}

TEST_F(LonghornPruneVerbTest, OnlyListsAndDeletes) {
  EXPECT_EQ(Run({"--of-gone-jobs", "--yes"}).code, ExitCode::kOk);
  for (const ApiCall& call : api_.calls()) {
    EXPECT_TRUE(call.verb == "list" || (call.verb == "delete" && call.plural == "snapshots"))
        << call;
  }
}

TEST_F(LonghornPruneVerbTest, WithoutARuleOrASelectionThatMeansAllItIsAnError) {
  const std::vector<std::vector<std::string>> lines = {{"--yes"},
                                                       {"--volume", "pvc-1", "--yes"},
                                                       {"--job", "retired", "--yes"},
                                                       {"--keep-last", "0", "--yes"}};
  for (const std::vector<std::string>& words : lines) {
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.code, ExitCode::kFailed);
    EXPECT_THAT(outcome.error, HasSubstr("no rule chooses Snapshots to delete"));
  }
  EXPECT_EQ(api_.CallCount("*", "*"), 0);
  EXPECT_EQ(Run({"--older-than", "1d"}).code, ExitCode::kOk);
}

TEST_F(LonghornPruneVerbTest, KeepsWhatIsNeeded) {
  Need("first", "monday");
  Change(longhorn::Snapshot::Type(), "second", {"metadata", "labels", "velero.io/backup-name"},
         "nightly");
  const Json result = RunJson({"--older-than", "1d", "--yes"});
  EXPECT_THAT(PruneDecisions(result),
              ElementsAre("first keep Protected", "second keep Protected", "third keep Protected"));
  EXPECT_THAT(GetString(result.at("snapshots").at(0), {"message"}),
              HasSubstr("VolumeSnapshot shop/monday needs it"));
  EXPECT_THAT(GetString(result.at("snapshots").at(1), {"message"}),
              HasSubstr("backup nightly made it, and deletes it; that Backup is not in this"));
  EXPECT_THAT(GetString(result.at("snapshots").at(2), {"message"}), HasSubstr("the newest"));
  EXPECT_EQ(deletions(), 0);
}

TEST_F(LonghornPruneVerbTest, EndsBeforeTheFirstDeletionWhenSomethingCannotBeListed) {
  const std::vector<std::pair<std::string, std::string>> kinds = {
      {"snapshots", "longhorn-system"},
      {"volumes", "longhorn-system"},
      {"recurringjobs", "longhorn-system"},
      {"backups", "longhorn-system"},
      {"backups", ""},
      {"volumesnapshotcontents", ""},
      {"persistentvolumeclaims", ""}};
  const std::vector<absl::Status> errors = {absl::PermissionDeniedError("no"),
                                            absl::InvalidArgumentError("broken")};
  for (const absl::Status& error : errors) {
    for (const auto& [plural, space] : kinds) {
      bool is_met = false;
      api_.SetInterceptor([&, plural = plural, space = space](const ApiCall& call, const Json*) {
        if (call.verb != "list" || call.plural != plural || call.namespace_name != space) {
          return absl::OkStatus();
        }
        is_met = true;
        return error;
      });
      const Outcome outcome = Run({"--of-gone-jobs", "--yes"});
      EXPECT_TRUE(is_met) << plural;
      EXPECT_EQ(outcome.code, ExitCode::kFailed) << plural;
      EXPECT_THAT(outcome.error, AllOf(HasSubstr("nothing was deleted"), HasSubstr(plural)));
      EXPECT_THAT(outcome.out, IsEmpty());
    }
  }
  api_.ClearFaults();
  EXPECT_EQ(deletions(), 0);
}

TEST_F(LonghornPruneVerbTest, AClusterWithoutVolumeSnapshotsAndVeleroIsPruned) {
  api_.RemoveType("volumesnapshotcontents");
  EXPECT_EQ(GetInt(RunJson({"--of-gone-jobs"}), {"to_delete"}), 2);
}

TEST_F(LonghornPruneVerbTest, EndedHalfwayASecondRunGoesOn) {
  std::stop_source stop;
  api_.SetInterceptor([&](const ApiCall& call, const Json*) -> absl::Status {
    if (call.verb != "delete" || call.name == "first") {
      return absl::OkStatus();
    }
    stop.request_stop();
    return absl::UnavailableError("the answer is lost");
  });
  EXPECT_EQ(Run({"--of-gone-jobs", "--yes"}, stop.get_token()).code, ExitCode::kInterrupted);
  EXPECT_EQ(deletions(), 2);
  api_.ClearFaults();
  const Json done = RunJson({"--of-gone-jobs", "--yes"});
  EXPECT_THAT(PruneDecisions(done), ElementsAre("first keep Deleting", "second delete NoRule"));
  EXPECT_TRUE(IsGoing("second"));
}

TEST_F(LonghornPruneVerbTest, ADeletionThatLonghornDeniesIs3AndTheRestIsDone) {
  api_.SetInterceptor([](const ApiCall& call, const Json*) {
    return call.verb == "delete" && call.name == "first"
               ? absl::PermissionDeniedError(
                     "admission webhook \"validator.longhorn.io\" denied the request: it is needed")
               : absl::OkStatus();
  });
  const Outcome outcome = Run({"--of-gone-jobs", "--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("first was not deleted"),
                                   HasSubstr("denied the request: it is needed"),
                                   HasSubstr("1 Snapshot not deleted")));
  EXPECT_THAT(outcome.out, HasSubstr("deleted 1 Snapshot, kept 0, held back 0, not deleted 1\n"));
  EXPECT_FALSE(IsGoing("first"));
  EXPECT_TRUE(IsGoing("second"));
}

TEST_F(LonghornPruneVerbTest, WithoutTheRightNothingElseIsTried) {
  api_.Forbid("delete", "snapshots");
  const Outcome outcome = Run({"--of-gone-jobs", "--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("ask for the ClusterRole csi-delta-longhorn-pruner"),
                                   HasSubstr("2 Snapshots not deleted")));
  EXPECT_EQ(deletions(), 1);
}

TEST_F(LonghornPruneVerbTest, SnapshotsOfADetachedVolumeAreHeldBack) {
  longhorn_.Detach("pvc-1");
  longhorn_.Pass(absl::Seconds(10));
  const Outcome held = Run({"--of-gone-jobs", "--yes"});
  EXPECT_EQ(held.code, ExitCode::kOk);
  EXPECT_THAT(held.out, AllOf(HasSubstr("hold back"), HasSubstr("its volume is detached"),
                              HasSubstr("deleted 0 Snapshots, kept 0, held back 2")));
  EXPECT_FALSE(IsGoing("first"));
  const Outcome asked = Run({"--of-gone-jobs", "--yes", "--also-detached"});
  EXPECT_THAT(asked.out, HasSubstr("goes when its volume is attached next"));
  EXPECT_TRUE(IsGoing("first"));
}

TEST_F(LonghornPruneVerbTest, OtherForms) {
  EXPECT_EQ(Run({"--of-gone-jobs", "-o", "name"}).out,
            "snapshot.longhorn.io/first\nsnapshot.longhorn.io/second\n");
  const absl::StatusOr<Json> yaml = ParseYaml(Run({"--keep-last", "1", "-o", "yaml"}).out);
  ASSERT_THAT(yaml, support::IsOk());
  EXPECT_EQ(GetString(*yaml, {"to_delete"}), "2");
  EXPECT_THAT(NamesOf(yaml->at("snapshots")), ElementsAre("first", "second", "third"));
  const Json none = RunJson({"--of-gone-jobs", "--volume", "pvc-9"});
  EXPECT_EQ(none.at("snapshots"), Json::array());
  EXPECT_THAT(ParseYaml(Run({"--of-gone-jobs", "--volume", "pvc-9", "-o", "yaml"}).out)
                  .value_or(Json())
                  .at("snapshots"),
              IsEmpty());
}

TEST_F(LonghornPruneVerbTest, ForeignTextsAreShownAndNotObeyed) {
  Change(longhorn::Snapshot::Type(), "first", {"spec", "labels", "RecurringJob"},
         HostileLonghornText());
  Need("second", HostileLonghornText());
  api_.SetInterceptor([](const ApiCall& call, const Json*) {
    return call.verb == "delete" ? absl::InvalidArgumentError(HostileLonghornText())
                                 : absl::OkStatus();
  });
  const Outcome outcome = Run({"--older-than", "1d", "--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
  ExpectHarmless(outcome.out);
  ExpectHarmless(outcome.error);
}

// A tenth of 30,000 Snapshots of 1,000 volumes.
TEST_F(LonghornPruneVerbTest, ThousandsCostARequestForEachFiveHundred) {
  for (int i = 0; i < 3000; ++i) {
    api_.Seed(longhorn::Snapshot::Type(),
              support::MakeLonghornSnapshot(absl::StrCat("s-", i), absl::StrCat("pvc-m-", i % 100),
                                            "2023-11-10T00:00:00Z", i % 4 == 0 ? "retired" : ""));
  }
  for (int i = 0; i < 100; ++i) {
    api_.Seed(longhorn::Volume::Type(), support::MakeLonghornVolume(absl::StrCat("pvc-m-", i)));
  }
  const Json result = RunJson({"--of-gone-jobs"});
  EXPECT_EQ(GetInt(result, {"to_delete"}), 752);
  EXPECT_EQ(result.at("snapshots").size(), 752u);
  EXPECT_LE(api_.CallCount("list", "snapshots"), 7);
  EXPECT_LE(api_.CallCount("*", "*") - api_.CallCount("list", "snapshots"), 6)
      << "of each kind one";
}

TEST_F(LonghornPruneVerbTest, SaysHowLongManyTake) {
  for (int i = 0; i < 58; ++i) {
    api_.Seed(longhorn::Snapshot::Type(),
              support::MakeLonghornSnapshot(absl::StrCat("s-", i), "pvc-1", "2023-11-10T00:00:00Z",
                                            "retired"));
  }
  api_.Forbid("delete", "snapshots");
  EXPECT_THAT(Run({"--of-gone-jobs", "--yes"}).error,
              HasSubstr("at 5 a second this takes 12.00 s; run the command again if it is ended"));
}

}  // namespace
}  // namespace csidelta::cli::longhorn_prune_test
