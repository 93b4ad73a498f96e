// csi-delta snapshot restore: the data of a VolumeSnapshot into a PVC that exists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "objects/keys.h"
#include "tests/cli/snapshot_verb_fixture.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"

namespace csidelta::cli::snapshot_restore_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kFakeDriver[] = "d.example.com";

// PVCs data-db-0 and data-db-1 whose volumes hold "new", and the set week of when they were "old".
class SnapshotRestoreTest : public SnapshotProgramTest {
 protected:
  SnapshotRestoreTest() {
    SeedStorageClass(api_, "fast", kFakeDriver);
    SeedFilledWhenBound(api_, kFakeDriver);
    api_.Seed(VolumeSnapshotClassType(), support::MakeClassObject("snaps", kFakeDriver));
    for (const char* pvc : {"data-db-0", "data-db-1"}) {
      MakePvc(api_, pvc);
      cluster_.driver().Write(HandleOf(pvc), "old");
      MakeSnapshotOf(api_, pvc, absl::StrCat("week-", pvc), {{objects::kSnapshotSetLabel, "week"}});
      cluster_.driver().Write(HandleOf(pvc), "new");
    }
  }

  std::string VolumeOf(const std::string& pvc) const {
    const auto found = api_.Find(ClaimKey("shop", pvc));
    return found.has_value() ? GetString(*found, {"spec", "volumeName"}) : "";
  }
  std::string HandleOf(const std::string& pvc) const {
    return GetString(*api_.Find(VolumeKey(VolumeOf(pvc))), {"spec", "csi", "volumeHandle"});
  }
  std::string Data(const std::string& pvc = "data-db-0") const {
    return cluster_.driver().volumes()[HandleOf(pvc)];
  }
  std::size_t volumes() const { return cluster_.driver().volumes().size(); }
  int writes() const {
    return api_.CallCount("create", "persistentvolumeclaims") +
           api_.CallCount("patch", "persistentvolumes") +
           api_.CallCount("delete", "persistentvolumeclaims") +
           api_.CallCount("create", "volumesnapshots");
  }

  Outcome Run(const std::vector<std::string>& more) const {
    return RunWords({"restore", "-n", "shop"}, more);
  }
  Outcome Restore(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"week-data-db-0", "--into", "data-db-0"});
    return Run(more);
  }

  support::FakeSnapshotCluster cluster_{api_};
  int contents_ = 0;
};

TEST_F(SnapshotRestoreTest, SaysItsPlanItsStepsAndTheWayBack) {
  const std::string original = VolumeOf("data-db-0");
  const Outcome outcome = Restore({"--yes"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_EQ(Data(), "old");
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("PVC shop/data-db-0 gets the data of VolumeSnapshot week-data-db-0:"),
                    HasSubstr("a volume of 1.0 GiB is made of it, StorageClass fast"),
                    HasSubstr("is taken, for safety\n"),
                    HasSubstr(absl::StrCat("its volume ", original, " is kept\n")),
                    HasSubstr("is made again, with volume "),
                    HasSubstr("back:   csi-delta snapshot restore --into data-db-0 -n shop --undo"),
                    HasSubstr("delete: csi-delta snapshot restore --into data-db-0 -n shop "
                              "--finish")));
  cluster_.driver().Write(HandleOf("data-db-0"), "newer");
  const Outcome once_more = Restore({"--yes"});
  EXPECT_EQ(once_more.code, ExitCode::kOk);
  EXPECT_THAT(once_more.out, AllOf(HasSubstr(" already, and nothing is done; to do it again"),
                                   Not(HasSubstr("has the data of"))));
  EXPECT_EQ(Data(), "newer");
  const Outcome undo = Run({"--into", "data-db-0", "--undo", "--yes"});
  ASSERT_EQ(undo.code, ExitCode::kOk) << undo.error;
  EXPECT_EQ(Data(), "new");
  EXPECT_THAT(undo.out, HasSubstr(absl::StrCat("has its volume ", original, " again; what was")));
  const Outcome finish = Run({"--into", "data-db-0", "--finish", "--yes"});
  ASSERT_EQ(finish.code, ExitCode::kOk) << finish.error;
  EXPECT_THAT(finish.out, HasSubstr("the restore is finished"));
  EXPECT_EQ(volumes(), 2U);
  const Outcome again = Run({"--into", "data-db-0", "--finish", "--yes"});
  EXPECT_EQ(again.code, ExitCode::kOk);
  EXPECT_THAT(again.out, HasSubstr("has no restore to finish"));
  EXPECT_THAT(Run({"--into", "data-db-0", "--undo", "--yes"}).out,
              HasSubstr("has no restore to undo"));
}

TEST_F(SnapshotRestoreTest, JsonIsAnObjectALineWithTheResultLast) {
  const std::string original = VolumeOf("data-db-0");
  const Outcome outcome = Restore({"--yes", "-o", "json"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  std::vector<std::string> types;
  Json last;
  for (absl::string_view line : absl::StrSplit(outcome.out, '\n', absl::SkipEmpty())) {
    last = ParseJson(line).value_or(Json());
    types.push_back(GetString(last, {"message_type"}));
  }
  EXPECT_EQ(types.front(), "plan");
  EXPECT_EQ(std::count(types.begin(), types.end(), "step"),
            static_cast<std::ptrdiff_t>(types.size()) - 2);
  EXPECT_EQ(GetString(last, {"message_type"}), "result");
  EXPECT_EQ(GetString(last, {"state"}), "restored");
  EXPECT_EQ(GetString(last, {"original_volume"}), original);
  EXPECT_EQ(GetString(last, {"restored_volume"}), VolumeOf("data-db-0"));
  EXPECT_EQ(GetString(last, {"volume_in_use"}), VolumeOf("data-db-0"));
  EXPECT_THAT(GetString(last, {"safety_snapshot"}), HasSubstr("data-db-0-before-week-data-db-0-"));
  const Outcome finish = Run({"--into", "data-db-0", "--finish", "--yes", "-o", "yaml"});
  EXPECT_THAT(finish.out, HasSubstr("state: finished"));
  EXPECT_EQ(Run({"--into", "data-db-0", "--finish", "--yes", "-o", "name"}).out,
            "persistentvolumeclaim/data-db-0\n");
}

TEST_F(SnapshotRestoreTest, ADryRunSaysThePlanAndChangesNothing) {
  api_.ClearCalls();
  const Outcome outcome = Restore({"--dry-run"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("is kept until"));
  EXPECT_EQ(writes(), 0);
  ASSERT_EQ(Restore({"--yes"}).code, ExitCode::kOk);
  api_.ClearCalls();
  EXPECT_EQ(Run({"--into", "data-db-0", "--undo", "--dry-run"}).code, ExitCode::kOk);
  EXPECT_EQ(Run({"--into", "data-db-0", "--finish", "--dry-run"}).code, ExitCode::kOk);
  EXPECT_EQ(writes(), 0);
}

TEST_F(SnapshotRestoreTest, ADryRunNamesTheFinalizersOfOthers) {
  api_.Mutate(ClaimKey("shop", "data-db-0"), [](Json& pvc) {
    SetJson(pvc, {"metadata", "finalizers"},
            Json::array({"kubernetes.io/pvc-protection", "example.com/ledger"}));
  });
  const Outcome outcome = Restore({"--dry-run"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("which it has again afterwards: example.com/ledger"),
                                 Not(HasSubstr("pvc-protection"))));
}

TEST_F(SnapshotRestoreTest, AsksAtATerminalAndElsewhereNeedsYes) {
  api_.ClearCalls();
  const Outcome unmatched = Restore();
  EXPECT_EQ(unmatched.code, ExitCode::kFailed);
  EXPECT_THAT(unmatched.error, HasSubstr("add --yes"));
  std::string asked;
  program_.confirm = [&](const CallContext&, absl::string_view question) {
    asked = std::string(question);
    return absl::StatusOr<bool>(false);
  };
  const Outcome no = Restore();
  EXPECT_EQ(no.code, ExitCode::kFailed);
  EXPECT_THAT(no.error, HasSubstr("nothing is changed"));
  EXPECT_EQ(asked, "Replace the data of PVC shop/data-db-0?");
  EXPECT_EQ(writes(), 0);
  program_.confirm = [](const CallContext&, absl::string_view) {
    return absl::StatusOr<bool>(true);
  };
  EXPECT_EQ(Restore().code, ExitCode::kOk);
  EXPECT_EQ(Data(), "old");
}

TEST_F(SnapshotRestoreTest, ASetIsRestoredUndoneAndFinishedAsOne) {
  const Outcome outcome = Run({"--set", "week", "--yes"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_EQ(Data("data-db-0"), "old");
  EXPECT_EQ(Data("data-db-1"), "old");
  // No PVC is exchanged before all are prepared.
  const std::vector<support::ApiCall> calls = api_.calls();
  const auto first_delete = std::find_if(calls.begin(), calls.end(), [](const auto& call) {
    return call.verb == "delete" && call.plural == "persistentvolumeclaims";
  });
  EXPECT_EQ(std::count_if(first_delete, calls.end(),
                          [](const auto& call) {
                            return call.verb == "create" && call.plural == "volumesnapshots";
                          }),
            0);
  EXPECT_EQ(Run({"--set", "week", "--undo", "--yes"}).code, ExitCode::kOk);
  EXPECT_EQ(Data("data-db-1"), "new");
  EXPECT_EQ(Run({"--set", "week", "--finish", "--yes"}).code, ExitCode::kOk);
  EXPECT_EQ(volumes(), 2U);
}

TEST_F(SnapshotRestoreTest, ASetIsUntouchedIfOneIsRefused) {
  Json pod = support::MakeObject("v1", "Pod", "shop", "db-1");
  pod["spec"]["volumes"] = Json::array({{{"persistentVolumeClaim", {{"claimName", "data-db-1"}}}}});
  pod["status"]["phase"] = "Running";
  api_.Seed(PodType(), pod);
  api_.ClearCalls();
  const Outcome outcome = Run({"--set", "week", "--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error,
              AllOf(HasSubstr("PVC shop/data-db-1 is not restored: Pod/db-1 uses it"),
                    Not(HasSubstr("data-db-0 is not"))));
  EXPECT_EQ(writes(), 0);
  api_.Remove({PodType(), "shop", "db-1"});
  ASSERT_EQ(Run({"--set", "week", "--yes"}).code, ExitCode::kOk);
  api_.Seed(PodType(), pod);
  api_.ClearCalls();
  const Outcome undo = Run({"--set", "week", "--undo", "--yes"});
  EXPECT_EQ(undo.code, ExitCode::kFailed);
  EXPECT_THAT(undo.error, HasSubstr("PVC shop/data-db-1 is not changed: Pod/db-1 uses it"));
  EXPECT_EQ(writes(), 0);
}

TEST_F(SnapshotRestoreTest, ExitCodesTellTheRefusals) {
  api_.Mutate(VolumeSnapshotKey("shop", "week-data-db-0"),
              [](Json& snapshot) { snapshot["status"]["restoreSize"] = "2Gi"; });
  const Outcome small = Restore({"--yes"});
  EXPECT_EQ(small.code, ExitCode::kTargetTooSmall);
  EXPECT_THAT(small.error, HasSubstr("less than the 2Gi"));
  api_.Mutate(VolumeSnapshotKey("shop", "week-data-db-0"),
              [](Json& snapshot) { snapshot["status"]["restoreSize"] = "1Gi"; });

  Json other = support::MakeSnapshotObject("shop", "nightly", "");
  SetJson(other, {"spec", "source", "persistentVolumeClaimName"}, "data-db-0");
  api_.Seed(VolumeSnapshotType(), other);
  const Outcome busy = Restore({"--yes"});
  EXPECT_EQ(busy.code, ExitCode::kLocked);
  EXPECT_THAT(busy.error, AllOf(HasSubstr("VolumeSnapshot nightly"), Not(HasSubstr("--wait"))));
  api_.Remove(VolumeSnapshotKey("shop", "nightly"));

  EXPECT_EQ(Run({"none", "--into", "data-db-0", "--yes"}).code, ExitCode::kFailed);
  EXPECT_EQ(Run({"week-data-db-0", "--into", "none", "--yes"}).code, ExitCode::kFailed);
  EXPECT_EQ(Run({"--into", "none", "--undo", "--yes"}).code, ExitCode::kFailed);
  EXPECT_EQ(Data(), "new");
}

TEST_F(SnapshotRestoreTest, WithoutTheRightsItNamesTheRoleAndTheOtherWay) {
  api_.Forbid("patch", "persistentvolumes");
  api_.ClearCalls();
  const Outcome outcome = Restore({"--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error,
              AllOf(HasSubstr("you may not patch persistentvolumes"),
                    HasSubstr("ClusterRole csi-delta-snapshot-admin"),
                    HasSubstr("csi-delta snapshot promote week-data-db-0 NEW-PVC -n shop")));
  EXPECT_EQ(writes(), 0);
}

TEST_F(SnapshotRestoreTest, WhatMayNotBeReadIsNamed) {
  api_.Forbid("list", "backups");
  const Outcome outcome = Restore({"--dry-run"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.error, HasSubstr("Velero backups not checked: "));
}

TEST_F(SnapshotRestoreTest, FlagsThatExcludeEachOtherAreRefused) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"week-data-db-0"},
           {"--into", "data-db-0"},
           {"week-data-db-0", "--set", "week"},
           {"--set", "week", "--into", "data-db-0"},
           {"--into", "data-db-0", "--undo", "--finish"},
           {"week-data-db-0", "--into", "data-db-0", "--undo"},
           {"--undo"},
           {"week-data-db-0", "--into", "data-db-0", "--safety", "no"},
           {"week-data-db-0", "--into", "data-db-0", "-A"}}) {
    EXPECT_EQ(Run(words).code, ExitCode::kFailed) << testing::PrintToString(words);
  }
  EXPECT_EQ(Data(), "new");
  EXPECT_EQ(Restore({"--safety", "no", "--yes"}).code, ExitCode::kOk);
  EXPECT_EQ(Data(), "old");
}

TEST_F(SnapshotRestoreTest, TheListNamesOldVolumes) {
  const auto error_in = [&](const std::string& space) {
    return RunWords({"list", "-n", space}, {}).error;
  };
  EXPECT_THAT(error_in("shop"), Not(HasSubstr("is kept")));
  const std::string original = VolumeOf("data-db-0");
  ASSERT_EQ(Restore({"--yes"}).code, ExitCode::kOk);
  EXPECT_THAT(error_in("shop"),
              AllOf(HasSubstr(absl::StrCat("PersistentVolume ", original,
                                           " (1Gi) of PVC shop/data-db-0 is kept for 0 h")),
                    HasSubstr("restore --into data-db-0 -n shop --finish deletes it")));
  EXPECT_THAT(error_in("team"), Not(HasSubstr("is kept")));
  api_.Forbid("list", "persistentvolumes");
  EXPECT_THAT(error_in("shop"), Not(HasSubstr("persistentvolumes")));
}

// Longhorn keeps snapshots inside of a volume, and shows their VolumeSnapshots as Ready for ever.
TEST_F(SnapshotRestoreTest, FinishNamesTheVolumeSnapshotsWhoseDataGoesWithTheVolume) {
  const std::string original = VolumeOf("data-db-0");
  ASSERT_EQ(Restore({"--yes"}).code, ExitCode::kOk);
  const std::vector<std::string> dry_run = {"--into", "data-db-0", "--finish", "--dry-run"};
  EXPECT_THAT(Run(dry_run).error, Not(HasSubstr("is deleted with"))) << "another driver";
  api_.Mutate(VolumeKey(original), [](Json& volume) {
    SetJson(volume, {"spec", "csi", "driver"}, "driver.longhorn.io");
    SetJson(volume, {"spec", "csi", "volumeHandle"}, "pvc-1");
  });
  for (const char* handle : {"snap://pvc-1/b", "snap://pvc-1/a", "snap://pvc-12/other", "snap-1"}) {
    Json content = support::MakeContentObject(
        absl::StrCat("content", contents_++), "shop",
        absl::StrCat("of-", std::string(handle).substr(std::string(handle).size() - 1)), handle);
    SetJson(content, {"spec", "driver"}, "driver.longhorn.io");
    api_.Seed(VolumeSnapshotContentType(), content);
  }
  EXPECT_THAT(Run(dry_run).error,
              HasSubstr(absl::StrCat("volume ", original,
                                     " is deleted with the data of VolumeSnapshot shop/of-a, "
                                     "shop/of-b, which is inside of it; they stay Ready: delete")));
  api_.Forbid("list", "volumesnapshotcontents");
  EXPECT_THAT(Run(dry_run).error, HasSubstr("their VolumeSnapshots are not known: "));
}

TEST_F(SnapshotRestoreTest, AVolumeThatTheDriverKeepsIsReported) {
  api_.Mutate(VolumeKey(VolumeOf("data-db-0")), [](Json& volume) {
    EraseJson(volume, {"metadata", "annotations", objects::kProvisionedByAnnotation});
  });
  const std::string handle = HandleOf("data-db-0");
  ASSERT_EQ(Restore({"--yes"}).code, ExitCode::kOk);
  // The time that a provisioner may take to begin is over when the volume is looked at.
  api_.SetInterceptor([&](const support::ApiCall& call, const Json*) {
    if (call.verb == "list" && call.plural == "persistentvolumes") {
      program_.clock.LetPass(30);
    }
    return absl::OkStatus();
  });
  const Outcome outcome = Run({"--into", "data-db-0", "--finish", "--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
  EXPECT_THAT(outcome.out, HasSubstr(absl::StrCat("keeps volume ", handle)));
}

}  // namespace
}  // namespace csidelta::cli::snapshot_restore_test
