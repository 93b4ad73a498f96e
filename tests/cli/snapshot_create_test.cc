// csi-delta snapshot create: VolumeSnapshots for people, taken before it returns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "csi/snapshot_types.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/cli/program_runner.h"
#include "tests/support/api_test_server.h"
#include "tests/support/await.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/snapshot_objects.h"

namespace csidelta::cli::snapshot_create_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;

class SnapshotCreateTest : public testing::Test {
 protected:
  SnapshotCreateTest()
      : api_server_(api_, {csi::VolumeSnapshotType(), csi::VolumeSnapshotContentType(),
                           csi::VolumeSnapshotClassType(), csi::PersistentVolumeClaimType(),
                           csi::PersistentVolumeType(), csi::LeaseType(), csi::PodType(),
                           csi::StatefulSetType()}) {
    program_.Write("kubeconfig", api_server_.Kubeconfig());
    for (const char* pvc : {"data-db-0", "data-db-1"}) {
      Json claim = support::MakeObject("v1", "PersistentVolumeClaim", "shop", pvc);
      SetJson(claim, {"spec", "volumeName"}, absl::StrCat("pv-", pvc));
      SetJson(claim, {"status", "phase"}, "Bound");
      api_.Seed(csi::PersistentVolumeClaimType(), claim);
      Json volume = support::MakeObject("v1", "PersistentVolume", "", absl::StrCat("pv-", pvc));
      SetJson(volume, {"spec", "csi", "driver"}, cluster_.driver_name);
      SetJson(volume, {"spec", "csi", "volumeHandle"}, absl::StrCat("volume-", pvc));
      api_.Seed(csi::PersistentVolumeType(), volume);
    }
    api_.Seed(csi::VolumeSnapshotClassType(),
              support::MakeClassObject("fast", cluster_.driver_name));
    Json set = support::MakeObject("apps/v1", "StatefulSet", "shop", "db");
    SetJson(set, {"spec", "volumeClaimTemplates"},
            Json::array({{{"metadata", {{"name", "data"}}}}}));
    api_.Seed(csi::StatefulSetType(), set);
  }

  Outcome Run(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {
        "--kubeconfig", program_.Path("kubeconfig"), "snapshot", "create", "-n", "shop"};
    words.insert(words.end(), more.begin(), more.end());
    return program_.Run(words);
  }
  static Json Parsed(const Outcome& outcome) {
    return ParseJson(outcome.out).value_or(Json::array());
  }
  std::vector<Json> Made() const { return api_.All(csi::VolumeSnapshotType()); }
  void SeedUnderWay(const std::string& pvc) {
    Json other = support::MakeSnapshotObject("shop", "nightly-" + pvc, "");
    SetJson(other, {"spec", "source", "persistentVolumeClaimName"}, pvc);
    api_.Seed(csi::VolumeSnapshotType(), other);
  }

  ProgramRunner program_;
  support::FakeApiClient api_;
  support::FakeSnapshotCluster cluster_{api_};
  support::ApiTestServer api_server_;
};

TEST_F(SnapshotCreateTest, SaysWhenTheApplicationMayGoOn) {
  const Outcome outcome = Run({"data-db-0", "--name", "monday"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("NAME"), HasSubstr("monday"), HasSubstr("data-db-0"),
                                 HasSubstr("taken: the application may go on\n")));
  ASSERT_EQ(Made().size(), 1);
  EXPECT_EQ(k8s::Name(Made().front()), "monday");
  EXPECT_EQ(GetString(Made().front(), {"spec", "volumeSnapshotClassName"}), "fast");
}

TEST_F(SnapshotCreateTest, NamesItAfterThePvcAndTheTime) {
  const Outcome outcome = Run({"data-db-0", "-o", "name"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, MatchesRegex("volumesnapshot.snapshot.storage.k8s.io/"
                                        "data-db-0-[0-9]{8}-[0-9]{6}\n"));
}

TEST_F(SnapshotCreateTest, AStatefulSetIsASet) {
  const Outcome outcome = Run({"--statefulset", "db", "--name", "week", "-o", "json"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  const Json list = Parsed(outcome);
  ASSERT_EQ(list.size(), 2);
  EXPECT_EQ(GetString(list.at(0), {"name"}), "week-data-db-0");
  EXPECT_EQ(GetString(list.at(1), {"name"}), "week-data-db-1");
  for (const Json& one : list) {
    EXPECT_EQ(GetString(one, {"set"}), "week");
    EXPECT_EQ(GetString(one, {"workload"}), "StatefulSet/db");
    EXPECT_THAT(GetString(one, {"taken_at"}), Not(IsEmpty()));
    EXPECT_THAT(GetString(one, {"handle"}), Not(IsEmpty()));
    EXPECT_GE(GetInt(one, {"asked_to_taken_ms"}, -1), 0);
  }
}

TEST_F(SnapshotCreateTest, AnotherOperationOnTheVolumeEndsWith11) {
  SeedUnderWay("data-db-0");
  const Outcome outcome = Run({"data-db-0"});
  EXPECT_EQ(outcome.code, ExitCode::kLocked);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("nightly-data-db-0"), HasSubstr("--wait-lease")));
  EXPECT_EQ(Made().size(), 1);
}

TEST_F(SnapshotCreateTest, OneOfSeveralThatFailsIsNamedAndTheApplicationMustNotGoOn) {
  SeedUnderWay("data-db-1");
  const Outcome outcome = Run({"--all"});
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
  EXPECT_THAT(outcome.error, HasSubstr("PVC data-db-1: "));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("data-db-0"), HasSubstr("must not go on")));
  SeedUnderWay("data-db-0");
  const Outcome none = Run({"--all", "-o", "json"});
  EXPECT_EQ(none.code, ExitCode::kLocked);
  EXPECT_EQ(GetInt(Parsed(none).at(0), {"code"}), 11);
  EXPECT_EQ(GetString(Parsed(none).at(0), {"pvc"}), "data-db-0");
}

// A Ready one of the PVC that is old enough to be pruned.
void SeedOld(support::FakeApiClient& api, const std::string& name, const std::string& taken,
             const support::Strings& labels) {
  Json snapshot = support::MakeSnapshotObject("shop", name, "content-of-" + name, labels);
  SetJson(snapshot, {"spec", "source", "persistentVolumeClaimName"}, "data-db-0");
  SetJson(snapshot, {"metadata", "creationTimestamp"}, taken);
  SetJson(snapshot, {"status", "readyToUse"}, true);
  SetJson(snapshot, {"status", "creationTime"}, taken);
  SetJson(snapshot, {"status", "restoreSize"}, "1Gi");
  api.Seed(csi::VolumeSnapshotType(), snapshot);
  api.Seed(csi::VolumeSnapshotContentType(),
           support::MakeContentObject("content-of-" + name, "shop", name, "handle-of-" + name));
}

TEST_F(SnapshotCreateTest, KeepLastDeletesWhatTheVerbsMadeAndNothingElse) {
  const support::Strings ours = {{objects::kMadeByLabel, objects::kMadeByVerbs}};
  support::Strings kept = ours;
  kept[objects::kKeepLabel] = "true";
  SeedOld(api_, "first", "2020-11-20T05:00:00Z", ours);
  SeedOld(api_, "kept", "2020-11-21T05:00:00Z", kept);
  SeedOld(api_, "foreign", "2020-11-22T05:00:00Z", {});
  SeedOld(api_, "second", "2020-11-23T05:00:00Z", ours);
  const Outcome outcome = Run({"data-db-0", "--name", "new", "--keep-last", "1"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("--keep-last: deleted VolumeSnapshot first"),
                                   Not(HasSubstr("VolumeSnapshot kept"))));
  std::vector<std::string> names;
  for (const Json& one : Made()) {
    names.push_back(k8s::Name(one));
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"foreign", "kept", "new"}));
  EXPECT_THAT(names, Not(testing::Contains("first")));
}

TEST_F(SnapshotCreateTest, KeepLastDeletesNothingWhenItMayNotReadAll) {
  SeedOld(api_, "first", "2020-11-20T05:00:00Z", {{objects::kMadeByLabel, objects::kMadeByVerbs}});
  api_.Forbid("list", "volumesnapshotcontents");
  const Outcome outcome = Run({"data-db-0", "--name", "new", "--keep-last", "1"});
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
  EXPECT_THAT(outcome.error, HasSubstr("--keep-last: "));
  EXPECT_EQ(Made().size(), 2);
}

TEST_F(SnapshotCreateTest, WhatIsInTheWayIsSaidBeforeAnythingIsMade) {
  EXPECT_EQ(Run({}).code, ExitCode::kFailed);
  EXPECT_THAT(Run({"-A", "--all"}).error, HasSubstr("-A is not for snapshot create"));
  EXPECT_THAT(Run({"data-db-0", "missing"}).error, HasSubstr("PVC shop/missing was not found"));
  EXPECT_THAT(Run({"data-db-0", "--class", "other"}).error, HasSubstr("other was not found"));
  EXPECT_THAT(Run({"data-db-0", "--wait", "soon"}).error, HasSubstr("--wait"));
  EXPECT_EQ(api_.CallCount("create", "*"), 0);
}

TEST_F(SnapshotCreateTest, WithoutWaitingNothingIsPromised) {
  cluster_.driver().Hold("CreateSnapshot");
  const Outcome outcome = Run({"data-db-0", "--wait", "no"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Creating"), Not(HasSubstr("may go on"))));
  EXPECT_EQ(Run({"data-db-0"}).code, ExitCode::kLocked);
}

TEST_F(SnapshotCreateTest, TheApplicationIsHeldUntilAllAreTaken) {
  program_.Write("hold", "echo held; cat > /dev/null; echo released > \"$1\"\n");
  const std::string log = program_.Path("log");
  api_.OnCreate("volumesnapshots", [&](support::FakeApiClient&, const Json&) {
    EXPECT_FALSE(std::filesystem::exists(log)) << "let go before the snapshot was taken";
  });
  const Outcome outcome =
      Run({"--all", "--hold", absl::StrCat("sh ", program_.Path("hold"), " ", log)});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_TRUE(std::filesystem::exists(log));
  EXPECT_THAT(outcome.error, HasSubstr("the application was held for"));
}

TEST_F(SnapshotCreateTest, AHoldThatFailsEndsItBeforeAnythingIsMade) {
  for (const char* const command : {"sh -c 'exit 3'", "true", "no-such-program-here"}) {
    const Outcome outcome = Run({"data-db-0", "--hold", command});
    EXPECT_EQ(outcome.code, ExitCode::kFailed) << command;
    EXPECT_THAT(outcome.error, HasSubstr("--hold")) << command;
  }
  EXPECT_THAT(Run({"data-db-0", "--hold", "cat", "--wait", "ready"}).error,
              HasSubstr("does not go with --wait ready"));
  EXPECT_EQ(api_.CallCount("create", "*"), 0);
}

// Whether a child has ended and is not yet waited for.
bool IsZombie(const std::string& pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string number, name, state;
  file >> number >> name >> state;
  return state == "Z";
}

TEST_F(SnapshotCreateTest, AHoldThatEndsTooEarlyIsNoHold) {
  program_.Write("hold",
                 "echo $$ > \"$1\"; echo held; while [ ! -e \"$2\" ]; do sleep 0.01; done\n");
  api_.OnCreate("volumesnapshots", [&](support::FakeApiClient&, const Json&) {
    program_.Write("end", "");
    std::string pid;
    std::ifstream(program_.Path("pid")) >> pid;
    support::Await("the program to end", [&] { return IsZombie(pid); });
  });
  const Outcome outcome = Run({"data-db-0", "--hold",
                               absl::StrCat("sh ", program_.Path("hold"), " ", program_.Path("pid"),
                                            " ", program_.Path("end"))});
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
  EXPECT_THAT(outcome.error, HasSubstr("may have written while they were taken"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("may go on")));
}

TEST_F(SnapshotCreateTest, TextsOfTheDriverArePrintable) {
  cluster_.driver().Refuse("CreateSnapshot", "InvalidArgument", "no \x1b[31mpool\u202e here");
  const Outcome outcome = Run({"data-db-0"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error,
              AllOf(HasSubstr("refuses"), Not(HasSubstr("\x1b")), Not(HasSubstr("\u202e"))));
  EXPECT_THAT(Made(), IsEmpty());
}

}  // namespace
}  // namespace csidelta::cli::snapshot_create_test
