#include "longhorn/snapshot_inventory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "longhorn/snapshot_prune.h"
#include "longhorn/types.h"
#include "objects/backup.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/finding_codes.h"
#include "tests/support/longhorn_objects.h"
#include "tests/support/memory_growth.h"
#include "tests/support/sanitized.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::longhorn::snapshot_inventory_test {
namespace {

using support::CodesOf;
using support::IsOk;
using support::MakeLonghornBackup;
using support::MakeLonghornJob;
using support::MakeLonghornSnapshot;
using support::MakeLonghornVolume;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kTaken[] = "2023-11-10T00:00:00Z";
const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

class LonghornInventoryTest : public testing::Test {
 protected:
  LonghornInventoryTest() {
    for (const char* volume : {"pvc-1", "pvc-2"}) {
      api_.Seed(Volume::Type(), MakeLonghornVolume(volume));
    }
  }

  void Snapshot(const std::string& name, const std::string& job = "",
                const std::string& volume = "pvc-1", const std::string& taken = kTaken) {
    api_.Seed(Snapshot::Type(), MakeLonghornSnapshot(name, volume, taken, job));
  }
  void Change(const k8s::ResourceType& type, const std::string& name, JsonPath path,
              const Json& value) {
    ASSERT_TRUE(api_.Mutate({type, kDefaultNamespace, name},
                            [&](Json& object) { SetJson(object, path, value); }));
  }
  absl::StatusOr<Inventory> Read(bool requires_all = true, const std::string& volume = "") {
    return ReadInventory({}, api_,
                         {.namespace_name = kDefaultNamespace,
                          .volume = volume,
                          .requires_all = requires_all,
                          .now = kNow});
  }
  Inventory MustRead(bool requires_all = true, const std::string& volume = "") {
    absl::StatusOr<Inventory> inventory = Read(requires_all, volume);
    EXPECT_THAT(inventory, IsOk());
    return inventory.ok() ? *std::move(inventory) : Inventory();
  }
  // The state of the job of the only Snapshot.
  std::string JobStateOfOnly() {
    return std::string(ToString(MustRead().snapshots.at(0).job_state));
  }
  // The codes of what keeps it.
  std::vector<std::string> KeptFor(const std::string& name) {
    for (const SnapshotEntry& entry : MustRead().snapshots) {
      if (entry.name == name) {
        return CodesOf(entry.kept_for);
      }
    }
    return {"not found"};
  }

  support::FakeApiClient api_;
};

TEST_F(LonghornInventoryTest, IsByVolumeAndTheOldestFirst) {
  Snapshot("b", "", "pvc-2", "2023-11-10T00:00:00Z");
  Snapshot("newer", "", "pvc-1", "2023-11-11T00:00:00Z");
  Snapshot("older", "", "pvc-1", "2023-11-10T00:00:00Z");
  const Inventory inventory = MustRead();
  std::vector<std::string> names;
  for (const SnapshotEntry& entry : inventory.snapshots) {
    names.push_back(absl::StrCat(inventory.volumes[entry.volume].name, "/", entry.name));
  }
  EXPECT_THAT(names, ElementsAre("pvc-1/older", "pvc-1/newer", "pvc-2/b"));
  EXPECT_EQ(PvcText(inventory.volumes.at(0)), "shop/data-of-pvc-1");
}

TEST_F(LonghornInventoryTest, TheStateIsReadAsTheTableSays) {
  struct StateCase {
    Json status;
    bool is_deleting;
    SnapshotState state;
  };
  const Json ready = {{"readyToUse", true}, {"creationTime", kTaken}};
  const StateCase cases[] = {
      {ready, true, SnapshotState::kDeleting},
      {{{"readyToUse", true}, {"markRemoved", true}}, false, SnapshotState::kRemoved},
      {ready, false, SnapshotState::kReady},
      {{{"error", "waits"}}, false, SnapshotState::kPending},
      {{{"requestedTime", kTaken}}, false, SnapshotState::kPending},
      {{{"creationTime", kTaken}}, false, SnapshotState::kNotReady},
  };
  for (const StateCase& test : cases) {
    Json object = MakeLonghornSnapshot("one", "pvc-1", kTaken);
    object["status"] = test.status;
    if (test.is_deleting) {
      SetJson(object, {"metadata", "deletionTimestamp"}, kTaken);
    }
    api_.Seed(Snapshot::Type(), object);
    EXPECT_EQ(MustRead().snapshots.at(0).state, test.state) << test.status;
  }
}

TEST_F(LonghornInventoryTest, AJobAppliesByItsNameOrAGroup) {
  Snapshot("one", "nightly");
  EXPECT_EQ(JobStateOfOnly(), "Gone");
  api_.Seed(RecurringJob::Type(), MakeLonghornJob("nightly"));
  EXPECT_EQ(JobStateOfOnly(), "NotOfVolume");
  api_.Seed(RecurringJob::Type(), MakeLonghornJob("nightly", Json::array({"default"})));
  EXPECT_EQ(JobStateOfOnly(), "Applies");
  Change(Volume::Type(), "pvc-1", {"metadata", "labels"},
         Json{{"recurring-job.longhorn.io/other", "enabled"}});
  EXPECT_EQ(JobStateOfOnly(), "NotOfVolume") << "the volume is not in the group default";
  Change(Volume::Type(), "pvc-1", {"metadata", "labels"},
         Json{{"recurring-job.longhorn.io/nightly", "enabled"}});
  EXPECT_EQ(JobStateOfOnly(), "Applies");
  Change(Volume::Type(), "pvc-1", {"metadata", "labels"},
         Json{{"recurring-job.longhorn.io/nightly", "disabled"}});
  EXPECT_EQ(JobStateOfOnly(), "NotOfVolume");
  Change(Volume::Type(), "pvc-1", {"metadata", "labels"}, Json::object());
  EXPECT_EQ(JobStateOfOnly(), "Applies") << "without a label Longhorn gives it that of default";
}

TEST_F(LonghornInventoryTest, TheJobOfAnEntryOfTheEngineStandsInItsStatus) {
  Snapshot("one");
  EXPECT_EQ(JobStateOfOnly(), "None");
  Change(Snapshot::Type(), "one", {"status", "labels"}, Json{{"RecurringJob", "nightly"}});
  EXPECT_EQ(MustRead().snapshots.at(0).job, "nightly");
  EXPECT_EQ(JobStateOfOnly(), "Gone");
}

TEST_F(LonghornInventoryTest, WithoutTheListsOfJobsAndVolumesNoJobIsGone) {
  Snapshot("one", "nightly");
  for (const char* plural : {"recurringjobs", "volumes"}) {
    api_.Forbid("list", plural);
    const Inventory inventory = MustRead(/*requires_all=*/false);
    EXPECT_EQ(inventory.snapshots.at(0).job_state, JobState::kUnknown) << plural;
    EXPECT_FALSE(inventory.are_jobs_known);
    EXPECT_THAT(inventory.not_checked, ElementsAre(HasSubstr(plural)));
    EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(plural)));
    api_.ClearFaults();
  }
}

TEST_F(LonghornInventoryTest, EachListThatFailsIsAnErrorWhereAllIsRequired) {
  for (const char* plural : {"snapshots", "volumes", "recurringjobs", "backups"}) {
    api_.FailNext("list", plural, absl::PermissionDeniedError("no"));
    EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kPermissionDenied)) << plural;
    api_.FailNext("list", plural, absl::UnavailableError("away"));
    EXPECT_THAT(Read(false), StatusIs(absl::StatusCode::kUnavailable)) << plural;
  }
  api_.RemoveType("snapshots");
  EXPECT_THAT(Read(false), StatusIs(absl::StatusCode::kNotFound, HasSubstr("list snapshots")));
}

TEST_F(LonghornInventoryTest, AVolumeThatIsFilledFromOneNeedsIt) {
  Snapshot("one");
  Change(Volume::Type(), "pvc-2", {"spec", "dataSource"}, "snap://pvc-1/one");
  EXPECT_THAT(KeptFor("one"), ElementsAre("Clone")) << "it has not begun";
  Change(Volume::Type(), "pvc-2", {"status", "cloneStatus"},
         Json{{"snapshot", "one"}, {"state", "failed"}});
  EXPECT_THAT(KeptFor("one"), ElementsAre("Clone")) << "Longhorn tries again";
  Change(Volume::Type(), "pvc-2", {"status", "cloneStatus", "state"}, "completed");
  EXPECT_THAT(KeptFor("one"), IsEmpty());
  Change(Volume::Type(), "pvc-2", {"spec", "dataSource"}, "vol://pvc-1");
  Change(Volume::Type(), "pvc-2", {"status", "cloneStatus", "state"}, "initiated");
  EXPECT_THAT(KeptFor("one"), ElementsAre("Clone"));
}

TEST_F(LonghornInventoryTest, ALinkedCloneNeedsItForEver) {
  Snapshot("one");
  Change(Volume::Type(), "pvc-2",
         {"metadata", "labels", "longhorn.io/linked-clone-source-snapshot"}, "one");
  EXPECT_THAT(KeptFor("one"), ElementsAre("Clone"));
}

TEST_F(LonghornInventoryTest, ABackupThatIsNotOverNeedsIt) {
  Snapshot("one");
  for (const char* state : {"", "Pending", "InProgress", "Next"}) {
    api_.Seed(Backup::Type(), MakeLonghornBackup("b", "one", state));
    EXPECT_THAT(KeptFor("one"), ElementsAre("Uploading")) << state;
  }
  for (const char* state : {"Error", "Unknown", "Deleting"}) {
    api_.Seed(Backup::Type(), MakeLonghornBackup("b", "one", state));
    EXPECT_THAT(KeptFor("one"), IsEmpty()) << state;
  }
}

TEST_F(LonghornInventoryTest, TheNextBackupIsComparedWithTheNewestCompletedOne) {
  Snapshot("one");
  Snapshot("two");
  api_.Seed(Backup::Type(), MakeLonghornBackup("b-1", "one", "Completed", "2023-11-10T00:00:00Z"));
  EXPECT_THAT(KeptFor("one"), ElementsAre("LastBackup"));
  api_.Seed(Backup::Type(), MakeLonghornBackup("b-2", "two", "Completed", "2023-11-11T00:00:00Z"));
  EXPECT_THAT(KeptFor("one"), IsEmpty());
  EXPECT_THAT(KeptFor("two"), ElementsAre("LastBackup"));
  Change(Backup::Type(), "b-1", {"status", "backupTargetName"}, "second");
  EXPECT_THAT(KeptFor("one"), ElementsAre("LastBackup")) << "of each target one";
  Change(Backup::Type(), "b-1", {"metadata", "deletionTimestamp"}, kTaken);
  EXPECT_THAT(KeptFor("one"), IsEmpty());
}

TEST_F(LonghornInventoryTest, WhatItSaysByItselfKeepsIt) {
  Snapshot("one");
  EXPECT_THAT(KeptFor("one"), IsEmpty());
  for (const char* label :
       {"velero.io/csi-delta", "longhorn.csi-delta.io/made-by", "velero.io/backup-name"}) {
    Change(Snapshot::Type(), "one", {"metadata", "labels"}, Json{{label, "x"}});
    EXPECT_THAT(KeptFor("one"), ElementsAre("Backup")) << label;
  }
  Change(Snapshot::Type(), "one", {"metadata", "labels"}, Json::object());
  Change(Snapshot::Type(), "one", {"status", "children"}, Json{{"volume-head", true}});
  EXPECT_THAT(KeptFor("one"), ElementsAre("Newest"));
}

TEST_F(LonghornInventoryTest, ABackupOfVeleroIsGoneOnlyWhereTheyWereRead) {
  Snapshot("one");
  Change(Snapshot::Type(), "one", {"metadata", "labels"},
         Json{{"velero.io/backup-name", "nightly"}});
  const auto message = [&] { return MustRead(false).snapshots.at(0).kept_for.at(0).message; };
  EXPECT_EQ(message(),
            "backup nightly made it, and deletes it; that Backup is not in this cluster any more");
  api_.Forbid("list", "backups");
  EXPECT_EQ(message(), "backup nightly made it, and deletes it");
  api_.ClearFaults();
  api_.Seed(objects::Backup::Type(),
            support::MakeObject("velero.io/v1", "Backup", "velero", "nightly"));
  EXPECT_EQ(message(), "backup nightly made it, and deletes it");
}

TEST(LonghornProtectionTest, FollowsItsTable) {
  SnapshotEntry plain;
  plain.name = std::string(63, 'n');
  plain.taken_at = kNow - absl::Minutes(5);
  EXPECT_THAT(ProtectionsOf(plain, {}, false, kNow), IsEmpty());
  SnapshotEntry entry = plain;
  entry.name = std::string(64, 'n');
  EXPECT_THAT(ProtectionsOf(entry, {}, false, kNow).at(0).message,
              testing::AllOf(HasSubstr("64"), HasSubstr("63")));
  entry.is_newest = true;
  entry.is_made_by_managed = true;
  for (const absl::Duration age : {absl::Minutes(5) - absl::Seconds(1), -absl::Hours(1)}) {
    entry.taken_at = kNow - age;
    EXPECT_THAT(CodesOf(ProtectionsOf(entry, {{"Clone", "c"}}, false, kNow)),
                ElementsAre("Clone", "Backup", "Newest", "LongName", "Young"));
  }
}

TEST_F(LonghornInventoryTest, SeveralNeedsStandInTheOrderOfTheTableAndAFewAreNamed) {
  Snapshot("one");
  api_.Seed(Backup::Type(), MakeLonghornBackup("b", "one", "Completed", kTaken));
  for (int i = 0; i < 5; ++i) {
    api_.Seed(Backup::Type(), MakeLonghornBackup(absl::StrCat("u", i), "one", "InProgress"));
  }
  const auto clone = [&](int i) {
    const std::string name = absl::StrCat("clone-", i);
    api_.Seed(Volume::Type(), MakeLonghornVolume(name));
    Change(Volume::Type(), name, {"spec", "dataSource"}, "snap://pvc-1/one");
  };
  clone(0);
  EXPECT_THAT(KeptFor("one"), ElementsAre("Clone", "Uploading", "Uploading", "Uploading",
                                          "Uploading", "Uploading", "LastBackup"));
  for (int i = 1; i < 20; ++i) {
    clone(i);
  }
  const std::vector<Finding> kept_for = MustRead().snapshots.at(0).kept_for;
  EXPECT_THAT(kept_for, SizeIs(kNeedsNamedMax));
  EXPECT_THAT(kept_for.back().message, testing::EndsWith(", and 18 more need it"));
}

TEST_F(LonghornInventoryTest, OfOneVolumeNoOtherIsHeld) {
  Snapshot("one");
  Snapshot("two", "", "pvc-2");
  const Inventory inventory = MustRead(true, "pvc-2");
  ASSERT_THAT(inventory.snapshots, SizeIs(1));
  EXPECT_EQ(inventory.snapshots[0].name, "two");
  EXPECT_THAT(inventory.volumes, SizeIs(1));
  // Whatever its label says.
  Change(Snapshot::Type(), "one", {"metadata", "labels", "longhornvolume"}, "pvc-2");
  EXPECT_THAT(MustRead(true, "pvc-2").snapshots, SizeIs(1));
}

TEST_F(LonghornInventoryTest, AVolumeThatIsNotThereIsKnownByName) {
  Snapshot("one", "nightly", "pvc-9");
  const Inventory inventory = MustRead();
  EXPECT_FALSE(inventory.volumes.at(0).is_there);
  EXPECT_EQ(inventory.volumes.at(0).name, "pvc-9");
}

TEST_F(LonghornInventoryTest, ForeignTextsAreCut) {
  Snapshot("one");
  Change(Snapshot::Type(), "one", {"status", "error"}, std::string(100'000, 'e'));
  Json children = {{"volume-head", true}};
  for (int i = 0; i < 1000; ++i) {
    children[absl::StrCat(i, std::string(1000, 'c'))] = true;
  }
  Change(Snapshot::Type(), "one", {"status", "children"}, children);
  const SnapshotEntry entry = MustRead().snapshots.at(0);
  EXPECT_THAT(entry.error, SizeIs(kTextBytesMax));
  EXPECT_THAT(entry.children, SizeIs(kChildrenMax));
  EXPECT_THAT(entry.children, testing::Each(SizeIs(kTextBytesMax)));
  EXPECT_TRUE(entry.is_newest);
}

// The verbs' tests select by all else.
TEST_F(LonghornInventoryTest, OneWithoutADateIsNotOlder) {
  Snapshot("one");
  const Inventory inventory = MustRead();
  SnapshotEntry one = inventory.snapshots.at(0);
  EXPECT_TRUE(IsSelected(inventory, one, {.before = kNow}));
  one.taken_at = one.requested_at = one.created_at = std::nullopt;
  EXPECT_FALSE(IsSelected(inventory, one, {.before = kNow}));
}

// Lists as many Snapshots as it is told to, a page at a time, without holding any.
class EndlessApi : public support::FakeApiClient {
 public:
  explicit EndlessApi(int count) : count_(count) {}

  absl::StatusOr<std::string> ListPages(
      const CallContext& ctx, const k8s::ResourceType& type, absl::string_view namespace_name,
      const k8s::ListOptions& options,
      absl::FunctionRef<void(std::vector<Json>& page, bool is_first)> sink) override {
    if (type.plural != "snapshots") {
      return FakeApiClient::ListPages(ctx, type, namespace_name, options, sink);
    }
    bool is_first = true;
    for (int i = 0; i < count_;) {
      std::vector<Json> page;
      for (; i < count_ && static_cast<int>(page.size()) < options.page_items_max; ++i) {
        Json object = MakeLonghornSnapshot(
            absl::StrCat("c-nightly-6ba7b810-9dad-11d1-80b4-", 100'000'000 + i),
            absl::StrCat("pvc-26aa9bd5-9dad-11d1-80b4-", i % (count_ / 30)), kTaken, "nightly");
        SetJson(object, {"metadata", "managedFields"}, std::string(700, 'f'));
        page.push_back(std::move(object));
      }
      sink(page, std::exchange(is_first, false));
      if (grows_old_once_ && i < count_) {
        grows_old_once_ = false;
        return absl::OutOfRangeError("too old");
      }
    }
    return std::string("1");
  }

  bool grows_old_once_ = false;

 private:
  const int count_;
};

// 30,000 snapshots of 1,000 volumes with CSI_DELTA_SWEEP=all, else a tenth, and of the memory too.
// Held as JSON they would be ten times as much.
TEST(LonghornInventoryScaleTest, ASnapshotAndItsDecisionAreHeldAsSmallStructs) {
  const support::SweepSample sample;
  const int count = sample.is_everything() ? 30'000 : 3'000;
  EndlessApi api(count);
  EndlessApi warm(600);
  EXPECT_THAT(ReadInventory({}, warm, {.namespace_name = kDefaultNamespace, .now = kNow}), IsOk());
  const support::MemoryGrowth growth;
  absl::StatusOr<Inventory> inventory =
      ReadInventory({}, api, {.namespace_name = kDefaultNamespace, .now = kNow});
  ASSERT_THAT(inventory, IsOk());
  EXPECT_THAT(inventory->snapshots, SizeIs(count));
  EXPECT_THAT(inventory->volumes, SizeIs(count / 30));
  PruneRequest request{.selection = {}, .rules = {}, .also_detached = true, .now = kNow};
  request.rules.last = 3;
  EXPECT_THAT(DecidePrune(*inventory, request), SizeIs(count));
  if (support::AssertsUnsanitized("memory of the inventory")) {
    // A page of JSON, and 1.5 KiB for each: of 30,000 not 64 MiB.
    EXPECT_LE(growth.bytes(), (int64_t{8} << 20) + int64_t{1536} * count);
  }
}

TEST(LonghornInventoryScaleTest, AListThatGrewTooOldBeginsAgain) {
  EndlessApi api(1200);
  api.grows_old_once_ = true;
  const absl::StatusOr<Inventory> inventory =
      ReadInventory({}, api, {.namespace_name = kDefaultNamespace, .now = kNow});
  ASSERT_THAT(inventory, IsOk());
  EXPECT_THAT(inventory->snapshots, SizeIs(1200));
}

}  // namespace
}  // namespace csidelta::longhorn::snapshot_inventory_test
