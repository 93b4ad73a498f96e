#include "datamover/records/kept_reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "csi/drop.h"
#include "csi/kept_snapshots.h"
#include "objects/backup.h"
#include "objects/keys.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/kind_names.h"
#include "tests/support/longhorn_objects.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::datamover::kept_reconciler_test {
namespace {

using objects::VolumeSnapshotContent;
using support::IsOk;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

const char kNative[] = "csd-0000000000000000000000000000000000000001";

class KeptReconcilerTest : public ::testing::Test {
 protected:
  KeptReconcilerTest() {
    Driver().takes_any_handle = false;
    SetBackup("InProgress");
  }

  support::FakeStorageDriver& Driver() { return bed_.cluster.driver(); }

  void SetBackup(const std::string& phase, bool moves_data = false) {
    bed_.api.Seed(objects::Backup::Type(),
                  {{"metadata", {{"name", "nightly"}, {"namespace", "velero"}}},
                   {"spec", {{"snapshotMoveData", moves_data}}},
                   {"status", {{"phase", phase}}}});
  }

  // The VolumeSnapshot of a PVC as the plugin or Velero's own action makes it, and its content as
  // it is labelled when it is archived. The informer delivers the content.
  void Archive(const std::string& claim, bool is_by_velero = false) {
    Json labels = {{objects::kBackupNameLabel, "nightly"}};
    if (!is_by_velero) {
      labels[objects::kCsiDeltaLabel] = "velero";
    }
    bed_.AddClaim("shop", claim);
    ASSERT_THAT(bed_.api.Create(bed_.ctx, VolumeSnapshotType(), "shop",
                                {{"apiVersion", "snapshot.storage.k8s.io/v1"},
                                 {"kind", "VolumeSnapshot"},
                                 {"metadata",
                                  {{"name", absl::StrCat("velero-", claim)},
                                   {"namespace", "shop"},
                                   {"labels", labels}}},
                                 {"spec",
                                  {{"source", {{"persistentVolumeClaimName", claim}}},
                                   {"volumeSnapshotClassName", "fast"}}}}),
                IsOk());
    bed_.api.SetField(ContentOf(claim).key(), {"metadata", "labels", objects::kBackupNameLabel},
                      "nightly");
    Look(ContentOf(claim).json());
  }

  // The VolumeSnapshot of the PVC, as a member of a group.
  void MakeMember(const std::string& claim, const std::string& to_be_moved) {
    bed_.api.Seed(VolumeGroupSnapshotType("v1"),
                  {{"metadata",
                    {{"name", "db"},
                     {"namespace", "shop"},
                     {"uid", "uid-of-db"},
                     {"annotations", {{objects::kGroupToBeMovedAnnotation, to_be_moved}}}}}});
    bed_.api.Mutate({VolumeSnapshotType(), "shop", "velero-" + claim}, [](Json& snapshot) {
      snapshot["metadata"]["ownerReferences"] = {{{"apiVersion", "groupsnapshot.storage.k8s.io/v1"},
                                                  {"kind", "VolumeGroupSnapshot"},
                                                  {"name", "db"},
                                                  {"uid", "uid-of-db"}}};
    });
  }

  VolumeSnapshotContent ContentOf(const std::string& claim) {
    for (const auto& content :
         support::AllAs<VolumeSnapshotContent>(bed_.api.All(VolumeSnapshotContentType()))) {
      if (content.snapshot_name() == absl::StrCat("velero-", claim)) {
        return content;
      }
    }
    ADD_FAILURE() << "no content of " << claim;
    return {};
  }

  // What the plugin does with them at the end of the backup.
  void Finalize(const std::vector<std::string>& claims) {
    for (const std::string& claim : claims) {
      ASSERT_THAT(csi::DropSnapshot(bed_.ctx, bed_.api,
                                    support::As<objects::VolumeSnapshot>(*bed_.api.Find(
                                        {VolumeSnapshotType(), "shop", "velero-" + claim})),
                                    csi::Data::kRetain),
                  IsOk());
    }
    SetBackup("Completed");
    bed_.cluster.strict = true;  // Else the sidecar writes no time.
  }

  void Keep(const std::vector<std::string>& claims) {
    std::for_each(claims.begin(), claims.end(), [this](const auto& claim) { Archive(claim); });
    Finalize(claims);
  }

  void Look(const Json& object) {
    const absl::StatusOr<absl::Time> next = kept_->Reconcile(bed_.ctx, object);
    ASSERT_THAT(next, IsOk());
    next_ = *next;
  }
  // All records, some time later.
  void LookAfter(absl::Duration step) {
    bed_.clock.Advance(step);
    for (const VolumeSnapshotContent& record : Records()) {
      Look(record.json());
    }
  }

  void LookWithoutBackup(int hours) {
    bed_.api.Remove(objects::Backup::Key("velero", "nightly"));
    for (int hour = 0; hour < hours; ++hour) {
      LookAfter(absl::Hours(1));
    }
  }

  std::vector<VolumeSnapshotContent> Records() {
    auto records = support::AllAs<VolumeSnapshotContent>(bed_.api.All(VolumeSnapshotContentType()));
    std::erase_if(records, [](const auto& one) { return !one.HasLabel(objects::kKeptLabel); });
    return records;
  }
  // How many records have each state.
  std::map<std::string, int> States() {
    std::map<std::string, int> states;
    for (const VolumeSnapshotContent& record : Records()) {
      ++states[csi::ReadKept(record).state];
    }
    return states;
  }
  csi::KeptSnapshot Only() {
    const auto records = Records();
    EXPECT_THAT(records, SizeIs(1));
    return records.empty() ? csi::KeptSnapshot() : csi::ReadKept(records.front());
  }

  Json TakeNative(const char* name = kNative) {
    Json native = support::MakeLonghornSnapshot(name, "pvc-1", "2023-11-01T00:00:00Z");
    native["metadata"]["labels"] = {{objects::kLonghornMadeByLabel, "csi-delta"},
                                    {objects::kCsiDeltaLabel, "velero"},
                                    {objects::kBackupNameLabel, "nightly"}};
    native["spec"]["labels"] = {{objects::kLonghornEnginePvcLabel, "shop/data"}};
    return bed_.api.Seed(kNatives, native);
  }

  const k8s::ResourceType kNatives = csi::NativesOfBackups().type;
  MoverBed bed_;
  std::optional<KeptReconciler> kept_{std::in_place, bed_.env};
  absl::Time next_;
};

TEST_F(KeptReconcilerTest, TheDailyLookFindsTheOneOfFiveThatTheDriverLost) {
  Keep({"a", "b", "c", "d", "e"});
  LookAfter(kKeptAskedFirst);
  EXPECT_THAT(States(), ElementsAre(Pair(csi::kKeptPresent, 5)));
  const std::string lost = *std::next(Driver().snapshots().begin(), 2);
  Driver().RemoveSnapshot(lost);
  EXPECT_THAT(States(), ElementsAre(Pair(csi::kKeptPresent, 5)));  // Nothing in the cluster tells.
  LookAfter(kKeptAskedEvery);
  EXPECT_THAT(States(), ElementsAre(Pair(csi::kKeptGone, 1), Pair(csi::kKeptPresent, 4)));
  for (const VolumeSnapshotContent& record : Records()) {
    const csi::KeptSnapshot kept = csi::ReadKept(record);
    if (kept.state == csi::kKeptGone) {
      EXPECT_EQ(kept.backup, "velero/nightly");
      EXPECT_THAT(kept.text, AllOf(HasSubstr("the snapshot of PVC shop/"), HasSubstr(lost),
                                   HasSubstr("is gone: "), HasSubstr("can not find snapshot")));
    }
  }
}

TEST_F(KeptReconcilerTest, ASnapshotWithoutASizeIsKnownByItsTime) {
  Driver().size_bytes = 0;
  Keep({"data"});
  bed_.api.SetField(Records().front().key(), {"status", "creationTime"},
                    absl::ToUnixNanos(bed_.clock.Now() - absl::Minutes(10)));
  EXPECT_EQ(Only().state, csi::kKeptUnchecked);  // Too young for its time to prove anything.
  LookAfter(kKeptAskedFirst);
  EXPECT_EQ(Only().state, csi::kKeptPresent);
}

TEST_F(KeptReconcilerTest, ADriverThatDoesNotListIsNeverCalledGood) {
  Driver().lists_snapshots = false;
  Keep({"data"});
  EXPECT_EQ(Only().state, csi::kKeptUnchecked);
  for (const absl::Duration step : {kKeptAskedFirst, kKeptAskedEvery}) {
    LookAfter(step);
    EXPECT_EQ(Only().state, csi::kKeptUnlisted);
  }
  bed_.api.Remove(objects::Backup::Key("velero", "nightly"));
  LookAfter(absl::Minutes(10));
  LookAfter(kMissingGracePeriod + absl::Minutes(5));
  EXPECT_THAT(Records(), IsEmpty());
}

TEST_F(KeptReconcilerTest, AnErrorOfTheDriverIsNoLossAndIsReported) {
  Keep({"data"});
  Driver().Refuse("ListSnapshots", "Unavailable", "the array is busy");
  LookAfter(kKeptAskedFirst);
  EXPECT_EQ(Only().state, csi::kKeptUnknown);
  EXPECT_THAT(Only().text, HasSubstr("the array is busy"));
  bed_.cluster.LetDriverWork();  // The sidecar asks again by itself.
  EXPECT_EQ(Only().state, csi::kKeptPresent);
}

TEST_F(KeptReconcilerTest, ASnapshotThatIsThereAndNotReadyIsReported) {
  Keep({"data"});
  Driver().AddFault({.method = "ListSnapshots", .not_ready = true});
  LookAfter(kKeptAskedFirst);
  EXPECT_EQ(Only().state, csi::kKeptNotReady);
}

// One record for each snapshot at any time, and the driver is asked to delete nothing.
TEST_F(KeptReconcilerTest, LooksLeaveOneRecordAndDeleteNothing) {
  Keep({"data"});
  for (int day = 0; day < 4; ++day) {
    // So the sidecar sees the deletion, and does what the policy says.
    bed_.api.SetField(Records().front().key(), {"metadata", "finalizers"},
                      Json::array({objects::kContentBoundProtectionFinalizer}));
    LookAfter(kKeptAskedEvery);
    ASSERT_THAT(Records(), SizeIs(1));
    EXPECT_EQ(Records().front().deletion_policy(), "Retain");
  }
  EXPECT_THAT(bed_.api.All(VolumeSnapshotContentType()), SizeIs(1));
  EXPECT_EQ(Driver().CallCount("DeleteSnapshot"), 0);
  EXPECT_THAT(Driver().snapshots(), SizeIs(1));
}

TEST_F(KeptReconcilerTest, BetweenTwoLooksThereIsAPauseAndTheRestOfTheDay) {
  Keep({"a", "b"});
  const absl::Time began = bed_.clock.Now() + kKeptAskedFirst;
  LookAfter(kKeptAskedFirst);
  EXPECT_EQ(bed_.clock.Now(), began + 2 * kKeptPause);
  const std::vector<VolumeSnapshotContent> records = Records();
  LookAfter(kKeptAskedEvery - absl::Minutes(1));
  EXPECT_EQ(Records(), records);
}

// A backup that fails deletes its snapshots, and so does one that is being deleted.
TEST_F(KeptReconcilerTest, WithoutAnArchiveTheStorageIsNotAsked) {
  Archive("data");
  for (const char* phase : {"InProgress", "Failed", "Deleting"}) {
    SCOPED_TRACE(phase);
    SetBackup(phase);
    const std::vector<VolumeSnapshotContent> records = Records();
    EXPECT_THAT(records, SizeIs(1));
    LookAfter(kKeptAskedFirst);
    EXPECT_EQ(Records(), records);
  }
}

TEST_F(KeptReconcilerTest, ARecordGoesWithItsBackup) {
  Keep({"data"});
  bed_.api.Remove(objects::Backup::Key("velero", "nightly"));
  Driver().RemoveSnapshot(*Driver().snapshots().begin());
  LookAfter(absl::Minutes(1));
  LookAfter(absl::Minutes(30));
  LookAfter(absl::ZeroDuration());
  EXPECT_THAT(Records(), SizeIs(1));  // Velero may be installed again just now.
  LookAfter(kMissingGracePeriod + absl::Minutes(5));
  LookAfter(absl::ZeroDuration());
  EXPECT_THAT(Records(), IsEmpty());
}

// Its label may be that of a longer name, so whether its Backup is there is never known.
TEST_F(KeptReconcilerTest, TheRecordOfABackupWithALongNameGoesAfterAnHour) {
  Keep({"data"});
  bed_.api.SetField(Records().front().key(), {"metadata", "annotations", objects::kBackupNameLabel},
                    std::string(63, 'n'));
  LookAfter(absl::ZeroDuration());
  LookAfter(kMissingGracePeriod + absl::Minutes(5));
  EXPECT_THAT(Records(), IsEmpty());
}

// Another cluster let the backup expire, without the driver.
TEST_F(KeptReconcilerTest, TheLastRecordOfASnapshotThatItsBackupLeftStaysUntilItIsGone) {
  Keep({"data"});
  LookAfter(kKeptAskedFirst);
  LookWithoutBackup(60);
  EXPECT_EQ(Only().state, csi::kKeptLeft);
  const std::string uid = Records().front().uid();
  kept_.emplace(bed_.env);  // The controller was started again: it does not ask for all at once.
  LookWithoutBackup(3);
  EXPECT_EQ(Records().front().uid(), uid);
  SetBackup("Completed");  // Velero read it from the bucket again.
  LookAfter(absl::Minutes(10));
  EXPECT_EQ(Only().state, csi::kKeptPresent);
  LookWithoutBackup(60);
  Driver().RemoveSnapshot(*Driver().snapshots().begin());
  LookWithoutBackup(60);
  EXPECT_THAT(Records(), IsEmpty());

  Look(TakeNative());
  LookWithoutBackup(60);
  EXPECT_EQ(Only().state, csi::kKeptLeft);
}

// A driver calls a snapshot that vanished an error; another one was removed from the cluster.
TEST_F(KeptReconcilerTest, ALastRecordWithoutAnAnswerIsMadeOnceAndEndsAfterAWeek) {
  for (const bool has_sidecar : {true, false}) {
    SetBackup("InProgress");
    bed_.cluster.strict = false;
    Keep({has_sidecar ? "a" : "b"});
    LookAfter(kKeptAskedFirst);
    Driver().Refuse("ListSnapshots", "Internal", "the lookup failed");
    bed_.cluster.sidecar_runs = has_sidecar;
    LookWithoutBackup(6);
    const std::string uid = Records().front().uid();
    LookWithoutBackup(6 * 24);
    EXPECT_EQ(Only().state, has_sidecar ? csi::kKeptUnknown : csi::kKeptUnchecked);
    EXPECT_EQ(Records().front().uid(), uid);
    LookWithoutBackup(24);
    EXPECT_THAT(Records(), IsEmpty()) << has_sidecar;
    bed_.cluster.LetDriverWork();
  }
}

TEST_F(KeptReconcilerTest, ARecordIsNotDroppedForOneThatIsBeingDeleted) {
  Keep({"data"});
  const k8s::ObjectKey first = Records().front().key();
  bed_.api.SetField(first, {"metadata", "finalizers"}, Json::array({"example.com/hold"}));
  LookAfter(kKeptAskedFirst);
  ASSERT_THAT(Records(), SizeIs(2));
  LookAfter(kKeptAskedEvery);
  EXPECT_THAT(Records(), SizeIs(2));
  bed_.api.Remove(first);
  LookAfter(absl::Hours(1));
  EXPECT_EQ(Only().state, csi::kKeptPresent);
}

// Else a sidecar that is away for a week would look as if it had been asked today.
TEST_F(KeptReconcilerTest, ARecordWaitsForItsAnswer) {
  Keep({"data"});
  bed_.cluster.sidecar_runs = false;
  LookAfter(kKeptAskedFirst);
  const VolumeSnapshotContent asked = Records().back();
  EXPECT_EQ(csi::ReadKept(asked).state, csi::kKeptUnchecked);
  for (int day = 0; day < 3; ++day) {
    LookAfter(kKeptAskedEvery);
    EXPECT_EQ(Records().back().uid(), asked.uid());
  }
  bed_.cluster.sidecar_runs = true;
  bed_.cluster.Resync();
  EXPECT_EQ(Only().state, csi::kKeptPresent);
}

TEST_F(KeptReconcilerTest, WhatNoBackupOfThePluginKeepsGetsNoRecord) {
  const auto spoil = [this](const char* claim, auto change) {
    SCOPED_TRACE(claim);
    Archive(claim);
    for (const VolumeSnapshotContent& record : Records()) {
      bed_.api.Remove(record.key());
    }
    Json content = ContentOf(claim).json();
    change(content);
    Look(content);
    EXPECT_THAT(Records(), IsEmpty());
  };
  spoil("restored",
        [](Json& content) { content["metadata"]["labels"][objects::kRestoreNameLabel] = "r"; });
  spoil("unready", [](Json& content) { content["status"]["readyToUse"] = false; });
  spoil("unbound", [](Json& content) { content["spec"]["volumeSnapshotRef"].erase("uid"); });
  spoil("another", [](Json& content) { content["spec"]["volumeSnapshotRef"]["uid"] = "other"; });
  spoil("of-no-plugin", [this](Json&) {
    bed_.api.Mutate({VolumeSnapshotType(), "shop", "velero-of-no-plugin"}, [](Json& snapshot) {
      snapshot["metadata"]["labels"].erase(objects::kCsiDeltaLabel);
    });
  });
  spoil("of-a-moved-group",
        [](Json& content) { content["metadata"]["labels"][objects::kMovedGroupLabel] = "anchor"; });
  spoil("member-of-a-moved-group", [this](Json&) {
    bed_.api.Mutate({VolumeSnapshotType(), "shop", "velero-member-of-a-moved-group"},
                    [](Json& snapshot) {
                      snapshot["metadata"]["annotations"][objects::kMemberClaimAnnotation] = "log";
                    });
  });
  spoil("of-a-group-to-be-moved", [this](Json&) { MakeMember("of-a-group-to-be-moved", "true"); });
  bed_.env.velero_namespaces = {"velero-two"};
  spoil("of-another-velero", [](Json&) {});
}

TEST_F(KeptReconcilerTest, OneThatVelerosOwnActionTookAndKeepsHasARecord) {
  const struct {
    const char* claim;
    const char* phase;
    bool moves_data;
    const char* served;
  } kCases[] = {{"moved", "InProgress", true, "velero"},
                {"over", "Completed", false, "velero"},
                {"of-another-velero", "InProgress", false, "velero-two"}};
  for (const auto& one : kCases) {
    bed_.env.velero_namespaces = {one.served};
    SetBackup(one.phase, one.moves_data);
    Archive(one.claim, true);
    EXPECT_THAT(Records(), IsEmpty()) << one.claim;
  }
  bed_.env.velero_namespaces = {"velero"};
  SetBackup("InProgress");
  Archive("data", true);
  EXPECT_EQ(Only().backup, "velero/nightly");
  EXPECT_THAT(Only().text, HasSubstr("PVC shop/data "));
}

TEST_F(KeptReconcilerTest, AMemberOfAGroupThatStaysHasARecord) {
  Archive("member");
  for (const VolumeSnapshotContent& record : Records()) {
    bed_.api.Remove(record.key());
  }
  MakeMember("member", "");
  Look(ContentOf("member").json());
  EXPECT_THAT(Only().text, HasSubstr("PVC shop/member "));
}

TEST_F(KeptReconcilerTest, ANativeSnapshotThatLonghornDeletedIsGone) {
  const Json native = TakeNative();
  Look(native);
  SetBackup("Completed");
  LookAfter(absl::ZeroDuration());
  EXPECT_EQ(Only().state, csi::kKeptPresent);
  EXPECT_THAT(Only().text, HasSubstr("PVC shop/data (longhorn-system/csd-"));
  LookAfter(kKeptAskedEvery);
  LookAfter(absl::ZeroDuration());
  EXPECT_EQ(Only().state, csi::kKeptPresent);
  Look(native);  // The controller was started again.
  EXPECT_THAT(Records(), SizeIs(1));
  bed_.api.Remove({kNatives, "longhorn-system", kNative});
  LookAfter(kKeptAskedEvery);
  LookAfter(absl::ZeroDuration());
  EXPECT_EQ(Only().state, csi::kKeptGone);
}

TEST_F(KeptReconcilerTest, ANativeSnapshotHasTheStateThatLonghornShows) {
  const struct {
    const char* field;
    Json value;
    const char* state;
  } kCases[] = {{"markRemoved", true, csi::kKeptGone}, {"readyToUse", false, csi::kKeptNotReady}};
  for (const auto& one : kCases) {
    SCOPED_TRACE(one.field);
    Look(TakeNative());
    bed_.api.SetField({kNatives, "longhorn-system", kNative}, {"status", one.field}, one.value);
    LookAfter(absl::ZeroDuration());
    EXPECT_EQ(Only().state, one.state);
    bed_.api.Remove(Records().front().key());
  }
  // Longhorn makes one again, with another uid, for what its engine still has.
  Look(TakeNative());
  bed_.api.SetField({kNatives, "longhorn-system", kNative}, {"metadata", "uid"}, "another");
  LookAfter(absl::ZeroDuration());
  EXPECT_EQ(Only().state, csi::kKeptGone);
}

}  // namespace
}  // namespace csidelta::datamover::kept_reconciler_test
