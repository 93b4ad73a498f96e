// csi-delta snapshot create: VolumeSnapshots for people, taken before it returns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/cli/snapshot_verb_fixture.h"
#include "tests/support/await.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"

namespace csidelta::cli::snapshot_create_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;

class SnapshotCreateTest : public SnapshotProgramTest {
 protected:
  SnapshotCreateTest() {
    for (const char* pvc : {"data-db-0", "data-db-1"}) {
      SeedBoundPvc(api_, pvc, cluster_.driver_name);
    }
    api_.Seed(VolumeSnapshotClassType(), support::MakeClassObject("fast", cluster_.driver_name));
    SeedStatefulSet(api_);
  }

  Outcome Run(const std::vector<std::string>& more) const {
    return RunWords({"create", "-n", "shop"}, more);
  }
  static Json Parsed(const Outcome& outcome) {
    return ParseJson(outcome.out).value_or(Json::array());
  }
  std::vector<Json> Made() const { return api_.All(VolumeSnapshotType()); }
  std::string HoldThatWrites(const std::string& log) const {
    program_.Write("hold", "echo held; : > \"$1\"; cat > /dev/null\n");
    return absl::StrCat("sh ", program_.Path("hold"), " ", log);
  }
  void SeedUnderWay(const std::string& pvc) {
    Json other = support::MakeSnapshotObject("shop", "nightly-" + pvc, "");
    SetJson(other, {"spec", "source", "persistentVolumeClaimName"}, pvc);
    api_.Seed(VolumeSnapshotType(), other);
  }

  support::FakeSnapshotCluster cluster_{api_};
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

TEST_F(SnapshotCreateTest, AFailureAmongSeveralPvcsIsNamedAndTheApplicationMustNotGoOn) {
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

const support::Strings kOwn = {{objects::kMadeByLabel, objects::kMadeByVerbs}};

// A Ready VolumeSnapshot of data-db-0 that is old enough to be pruned.
void SeedOld(support::FakeApiClient& api, const std::string& name, const std::string& taken,
             const support::Strings& labels = kOwn) {
  SeedReady(api, "shop", name, taken, labels);
  api.Mutate(VolumeSnapshotKey("shop", name), [](Json& snapshot) {
    SetJson(snapshot, {"spec", "source", "persistentVolumeClaimName"}, "data-db-0");
  });
}

// Two old VolumeSnapshots of data-db-0; the rules keep the newest.
void SeedTwoOld(support::FakeApiClient& api) {
  SeedOld(api, "first", "2020-11-20T05:00:00Z");
  SeedOld(api, "second", "2020-11-23T05:00:00Z");
}

TEST_F(SnapshotCreateTest, KeepLastDeletesWhatTheVerbsMadeAndNothingElse) {
  support::Strings kept = kOwn;
  kept[objects::kKeepLabel] = "true";
  SeedOld(api_, "first", "2020-11-20T05:00:00Z");
  SeedOld(api_, "kept", "2020-11-21T05:00:00Z", kept);
  SeedOld(api_, "foreign", "2020-11-22T05:00:00Z", {});
  SeedOld(api_, "second", "2020-11-23T05:00:00Z");
  const Outcome outcome = Run({"data-db-0", "--name", "new", "--keep-last", "1"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("--keep-last: deleted VolumeSnapshot first"),
                                   Not(HasSubstr("VolumeSnapshot kept"))));
  const std::vector<std::string> names = NamesIn(VolumeSnapshotType());
  EXPECT_THAT(names, testing::IsSupersetOf({"foreign", "kept", "new"}));
  EXPECT_THAT(names, Not(testing::Contains("first")));
}

TEST_F(SnapshotCreateTest, KeepLastDeletesNothingWhenItMayNotReadAll) {
  SeedOld(api_, "first", "2020-11-20T05:00:00Z");
  api_.Forbid("list", "volumesnapshotcontents");
  const Outcome outcome = Run({"data-db-0", "--name", "new", "--keep-last", "1"});
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
  EXPECT_THAT(outcome.error, HasSubstr("--keep-last: "));
  EXPECT_EQ(Made().size(), 2);
}

TEST_F(SnapshotCreateTest, AQuotaThatIsUsedUpNamesWhatMakeRoomWouldDelete) {
  SeedTwoOld(api_);
  api_.SetQuota("snaps", VolumeSnapshotType(), "shop", 2);
  const Outcome refused = Run({"data-db-0", "--name", "new"});
  EXPECT_EQ(refused.code, ExitCode::kFailed);
  EXPECT_THAT(refused.error, HasSubstr("quota snaps: 2 of 2 used; --make-room removes the oldest 1 "
                                       "that rules allow (first)"));
  EXPECT_EQ(Made().size(), 2);
  const Outcome taken = Run({"data-db-0", "--name", "new", "--make-room", "--keep-last", "1"});
  ASSERT_EQ(taken.code, ExitCode::kOk) << taken.error;
  EXPECT_THAT(taken.error, AllOf(HasSubstr("--make-room: deleted VolumeSnapshot first of PVC"),
                                 HasSubstr("--keep-last: deleted VolumeSnapshot second")));
}

TEST_F(SnapshotCreateTest, RoomForAGroupIsMadeInTheQuotaAndInTheDriver) {
  SeedGroupClass(api_, cluster_.driver_name);
  for (const char* const name : {"1st", "2nd", "3rd"}) {
    SeedOld(api_, name, absl::StrCat("2020-11-2", std::string(1, name[0]), "T05:00:00Z"));
    api_.Mutate(VolumeSnapshotContentKey(absl::StrCat("content-of-", name)),
                [&](Json& content) { content["spec"]["driver"] = cluster_.driver_name; });
  }
  api_.SetQuota("snaps", VolumeSnapshotType(), "shop", 4);
  const Outcome refused = Run({"--all", "--name", "week"});
  EXPECT_EQ(refused.code, ExitCode::kFailed);
  EXPECT_THAT(refused.error, HasSubstr("quota snaps: 3 of 4 used; --make-room removes the oldest 1 "
                                       "that rules allow (1st)"));
  EXPECT_EQ(Made().size(), 3);
  cluster_.driver().Refuse("CreateVolumeGroupSnapshot", "ResourceExhausted", "2 of 2 snapshots");
  std::thread driver([&] {
    support::Await("the second one to be gone", [&] {
      return !api_.Find(VolumeSnapshotContentKey("content-of-2nd")).has_value();
    });
    cluster_.LetDriverWork();
  });
  const Outcome taken = Run({"--all", "--name", "week", "--make-room", "--timeout", "60s"});
  driver.join();
  ASSERT_EQ(taken.code, ExitCode::kOk) << taken.error;
  EXPECT_THAT(taken.error, AllOf(HasSubstr("--make-room: deleted VolumeSnapshot 1st of PVC"),
                                 HasSubstr("--make-room: deleted VolumeSnapshot 2nd of PVC")));
  EXPECT_EQ(Made().size(), 3);
  EXPECT_EQ(cluster_.driver().groups().size(), 1);
}

TEST_F(SnapshotCreateTest, AGroupThatCannotBeHadEndsItBeforeAnythingIsDeleted) {
  SeedTwoOld(api_);
  api_.SetQuota("snaps", VolumeSnapshotType(), "shop", 2);
  const Outcome outcome = Run({"--all", "--group", "always", "--make-room"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, HasSubstr("--group always: "));
  EXPECT_EQ(Made().size(), 2);
}

TEST_F(SnapshotCreateTest, RoomForASetIsMadeBeforeTheApplicationIsHeld) {
  for (const char* const name : {"first", "second", "third"}) {
    SeedOld(api_, name, absl::StrCat("2020-11-2", std::string(name).size(), "T05:00:00Z"));
  }
  api_.SetQuota("snaps", VolumeSnapshotType(), "shop", 3);
  const std::string log = program_.Path("log");
  api_.SetInterceptor([&](const support::ApiCall& call, const Json*) {
    EXPECT_FALSE(call.verb == "delete" && call.plural == "volumesnapshots" &&
                 std::filesystem::exists(log))
        << "held while room is made";
    return absl::OkStatus();
  });
  const Outcome outcome = Run({"--all", "--make-room", "--hold", HoldThatWrites(log)});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_EQ(Made().size(), 3);
  EXPECT_THAT(outcome.out, HasSubstr("taken: the application may go on\n"));
}

TEST_F(SnapshotCreateTest, NothingIsDeletedOrHeldForAVolumeThatIsBusy) {
  SeedTwoOld(api_);
  SeedUnderWay("data-db-0");
  api_.SetQuota("snaps", VolumeSnapshotType(), "shop", 3);
  const std::string log = program_.Path("log");
  const Outcome outcome = Run({"data-db-0", "--make-room", "--hold", HoldThatWrites(log)});
  EXPECT_EQ(outcome.code, ExitCode::kLocked) << outcome.error;
  EXPECT_THAT(outcome.error, HasSubstr("nightly-data-db-0"));
  EXPECT_FALSE(std::filesystem::exists(log));
  EXPECT_EQ(Made().size(), 3);
  EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
}

TEST_F(SnapshotCreateTest, NothingIsDeletedForAGroupOfWhichOneIsBusy) {
  SeedGroupClass(api_, cluster_.driver_name);
  SeedTwoOld(api_);
  SeedUnderWay("data-db-1");
  api_.SetQuota("snaps", VolumeSnapshotType(), "shop", 4);
  EXPECT_EQ(Run({"--all", "--make-room"}).code, ExitCode::kLocked);
  EXPECT_EQ(Made().size(), 3);
}

TEST_F(SnapshotCreateTest, RoomIsMadeForThoseThatAreFree) {
  SeedTwoOld(api_);
  SeedUnderWay("data-db-1");
  api_.SetQuota("snaps", VolumeSnapshotType(), "shop", 3);
  const Outcome outcome = Run({"--all", "--group", "never", "--make-room"});
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete) << outcome.error;
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("--make-room: deleted VolumeSnapshot first"),
                                   Not(HasSubstr("VolumeSnapshot second"))));
  EXPECT_EQ(Made().size(), 3);
}

TEST_F(SnapshotCreateTest, SnapshotsOfAnEarlierRunNeedNoRoom) {
  SeedTwoOld(api_);
  const std::vector<std::string> words = {"--all",  "--group", "never",
                                          "--name", "week",    "--make-room"};
  ASSERT_EQ(Run(words).code, ExitCode::kOk);
  api_.SetQuota("snaps", VolumeSnapshotType(), "shop", 4);
  EXPECT_EQ(Run(words).code, ExitCode::kOk);
  EXPECT_EQ(Made().size(), 4);
}

TEST_F(SnapshotCreateTest, NothingIsDeletedForAGroupThatExists) {
  SeedGroupClass(api_, cluster_.driver_name);
  SeedTwoOld(api_);
  const std::vector<std::string> words = {"--all", "--name", "week", "--make-room"};
  ASSERT_EQ(Run(words).code, ExitCode::kOk);
  api_.SetQuota("snaps", VolumeSnapshotType(), "shop", 4);
  EXPECT_THAT(Run(words).error, HasSubstr("shop/week exists already"));
  EXPECT_EQ(Made().size(), 4);
}

TEST_F(SnapshotCreateTest, AQuotaOfGroupsEndsItAtOnce) {
  SeedGroupClass(api_, cluster_.driver_name);
  SeedTwoOld(api_);
  api_.SetQuota("few", VolumeGroupSnapshotType("v1"), "shop", 0);
  const Outcome outcome = Run({"--all", "--make-room"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, HasSubstr("exceeded quota: few"));
  EXPECT_EQ(api_.CallCount("create", "volumegroupsnapshots"), 1);
  EXPECT_EQ(Made().size(), 2);
}

TEST_F(SnapshotCreateTest, NothingMakesRoomForAHoldThatCannotBe) {
  SeedTwoOld(api_);
  api_.SetQuota("snaps", VolumeSnapshotType(), "shop", 2);
  EXPECT_EQ(Run({"data-db-0", "--make-room", "--hold", "sh -c 'open"}).code, ExitCode::kFailed);
  EXPECT_EQ(Run({"data-db-0", "--make-room", "--hold", "cat", "--wait", "ready"}).code,
            ExitCode::kFailed);
  EXPECT_EQ(Made().size(), 2);
}

TEST_F(SnapshotCreateTest, RefusalsComeBeforeAnythingIsMade) {
  EXPECT_EQ(Run({}).code, ExitCode::kFailed);
  EXPECT_THAT(Run({"-A", "--all"}).error, HasSubstr("-A is not for snapshot create"));
  EXPECT_THAT(Run({"data-db-0", "missing"}).error, HasSubstr("PVC shop/missing was not found"));
  EXPECT_THAT(Run({"data-db-0", "--class", "other"}).error, HasSubstr("other was not found"));
  EXPECT_THAT(Run({"data-db-0", "--wait", "soon"}).error, HasSubstr("--wait"));
  EXPECT_THAT(Run({"data-db-0", "--any-maker"}).error, HasSubstr("goes with --make-room"));
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
    EXPECT_FALSE(std::filesystem::exists(log)) << "released before the snapshot was taken";
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

}  // namespace
}  // namespace csidelta::cli::snapshot_create_test
