#include "longhorn/native_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/support/native_bed.h"
#include "tests/support/status_matchers.h"

namespace csidelta::longhorn::native_snapshot_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr char kName[] = "csd-0123";

bool IsDnsLabel(const std::string& name) {
  return !name.empty() && name.size() <= 63 && absl::ascii_islower(name.front()) &&
         absl::ascii_isalnum(name.back()) &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
         });
}

TEST(NativeSnapshotNameTest, IsADnsLabelAndAnotherOneForEachBackupAndVolume) {
  std::mt19937 random(20261126);
  std::set<std::string> uids = {""};
  while (uids.size() < 50) {
    std::string uid(random() % 300, '\0');
    for (char& byte : uid) {
      byte = static_cast<char>(random());
    }
    uids.insert(uid);
  }
  std::set<std::string> names;
  for (const std::string& backup : uids) {
    for (const std::string& volume : uids) {
      const std::string name = NativeSnapshotName(backup, volume);
      EXPECT_TRUE(IsDnsLabel(name)) << name;
      EXPECT_EQ(name, NativeSnapshotName(backup, volume));
      EXPECT_TRUE(IsNativeSnapshotName(name)) << name;
      names.insert(name);
    }
  }
  EXPECT_EQ(names.size(), uids.size() * uids.size());
}

TEST(NativeSnapshotNameTest, IsKnownByItsForm) {
  const std::string digits(40, 'a');
  EXPECT_TRUE(IsNativeSnapshotName("csd-" + digits));
  for (const std::string& other :
       {std::string(), std::string("csd-"), digits, "csd-" + digits.substr(1), "csd-a" + digits,
        "csx-" + digits, "csd-" + std::string(40, 'A'), "csd-" + std::string(40, 'g')}) {
    EXPECT_FALSE(IsNativeSnapshotName(other)) << other;
  }
}

class NativeSnapshotTest : public testing::Test {
 protected:
  ~NativeSnapshotTest() override { bed_.ExpectNoWritesToLonghorn(); }

  CallContext Soon() { return bed_.ctx.WithTimeout(absl::Seconds(30)); }
  absl::StatusOr<Snapshot> Create() { return CreateNative(Soon(), bed_.api(), request_, kName); }
  Snapshot Get(const std::string& name = kName) {
    return Snapshot::Of(bed_.api().Find(support::NativeBed::SnapshotKey(name)).value_or(Json()))
        .value();
  }
  Volume FindVolume() {
    return Volume::Of(bed_.api().Find(support::NativeBed::VolumeKey()).value_or(Json())).value();
  }
  absl::Status Remove(const std::string& uid) {
    return RemoveNative(Soon(), bed_.api(), support::NativeBed::SnapshotKey(kName), uid);
  }

  support::NativeBed bed_;
  NativeRequest request_{.namespace_name = support::kLonghornNamespace,
                         .volume = support::kLonghornVolume,
                         .velero_namespace = "velero",
                         .backup_name = std::string(80, 'b'),
                         .backup_uid = "backup-uid",
                         .pvc_namespace = "shop",
                         .pvc_name = "data",
                         .pvc_uid = "pvc-uid"};
};

TEST_F(NativeSnapshotTest, IsRequestedWithLabelsAndNothingOfLonghorns) {
  const Json object = MakeNativeSnapshot(request_, kName);
  EXPECT_THAT(*FindJson(object, {"metadata"}), SizeIs(3)) << "name, namespace, labels";
  EXPECT_EQ(k8s::Label(object, objects::kCsiDeltaLabel), "velero");
  EXPECT_EQ(k8s::Label(object, objects::kBackupNameLabel).size(), 63u);
  EXPECT_EQ(k8s::Label(object, objects::kLonghornVolumeLabel), "") << "the webhook sets it";
  const auto labels = GetStringMap(object, {"spec", "labels"});
  EXPECT_EQ(labels.at("csi-delta-claim"), "shop/data");
  for (const auto& [key, value] : labels) {
    EXPECT_THAT(absl::StrCat(key, value), AllOf(Not(HasSubstr("=")), Not(HasSubstr("\n"))));
  }
  EXPECT_FALSE(labels.contains("RecurringJob")) << "a job would count and delete it";
  EXPECT_THAT(Create(), IsOk());
  EXPECT_EQ(Get().Label(objects::kLonghornVolumeLabel), support::kLonghornVolume);
}

TEST_F(NativeSnapshotTest, IsAdmittedWhateverBackupAndPvcAreCalled) {
  std::mt19937 random(20261126);
  const auto any_name = [&](std::size_t bytes_max) {
    constexpr absl::string_view kFirst = "abcdefghijklmnopqrstuvwxyz0123456789";
    std::string name(1 + random() % bytes_max, 'x');
    for (std::size_t i = 0; i < name.size(); ++i) {
      const bool is_end = i == 0 || i + 1 == name.size() || name[i - 1] == '.';
      const std::size_t choice = random() % (is_end ? 36 : 38);
      name[i] = choice < 36 ? kFirst[choice] : choice == 36 ? '-' : '.';
      if (name[i] == '.' && name[i - 1] == '-') {
        name[i] = 'z';
      }
    }
    return name;
  };
  for (int i = 0; i < 100; ++i) {
    request_.backup_name = any_name(253);
    request_.pvc_namespace = any_name(63);
    request_.pvc_name = any_name(253);
    request_.backup_uid = absl::StrCat("uid-", i);
    const std::string name = NativeSnapshotName(request_.backup_uid, FindVolume().uid());
    EXPECT_THAT(CreateNative(Soon(), bed_.api(), request_, name), IsOk())
        << request_.backup_name << " " << request_.pvc_name;
    EXPECT_TRUE(IsDnsLabel(name)) << name;
    EXPECT_TRUE(IsNativeOf(Get(name), request_));
  }
}

TEST_F(NativeSnapshotTest, AnotherOneOfTheNameIsNotTaken) {
  ASSERT_THAT(Create(), IsOk());
  request_.backup_uid = "other";
  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(kName)));
  EXPECT_THAT(RemoveNativeOf(Soon(), bed_.api(), request_, kName), IsOk());
  EXPECT_FALSE(Get().is_being_deleted());
}

TEST_F(NativeSnapshotTest, AManagerThatStaysAwayIsNamedOnce) {
  bed_.longhorn.StopManager();
  EXPECT_THAT(Create(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("does longhorn-manager run?"), HasSubstr("tried for 29 s"),
                             HasSubstr("failed calling webhook"))));
  EXPECT_THAT(bed_.Snapshots(), SizeIs(0));
}

TEST_F(NativeSnapshotTest, ARefusalIsNotRetried) {
  request_.volume = "nosuch";
  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nosuch")));
  EXPECT_EQ(bed_.Count("create", "snapshots"), 1);
}

TEST_F(NativeSnapshotTest, IsTakenThenReadyThenGone) {
  const auto made = Create();
  ASSERT_THAT(made, IsOk());
  const auto state = [&] {
    const Snapshot now = Get();
    return StateOf(&now, made->uid());
  };
  EXPECT_EQ(state(), NativeState::kPending);
  EXPECT_FALSE(TakenAt(Get()).has_value());
  bed_.Pass(absl::Milliseconds(500));
  EXPECT_EQ(state(), NativeState::kTaken);
  EXPECT_EQ(TakenAt(Get()), Get().requested_at());
  bed_.Pass(absl::Seconds(6));
  EXPECT_EQ(state(), NativeState::kReady);
  EXPECT_EQ(TakenAt(Get()), Get().taken_at());
  const Snapshot ready = Get();
  EXPECT_EQ(StateOf(&ready, "another uid"), NativeState::kGone);
  EXPECT_EQ(StateOf(nullptr, made->uid()), NativeState::kGone);
  ASSERT_THAT(Remove(made->uid()), IsOk());
  EXPECT_EQ(state(), NativeState::kGone) << "it lingers, for it is the newest";
}

// Of what a Snapshot can say while it is waited for.
TEST(NativeStateTest, AnErrorIsNoEnd) {
  Json object = {{"metadata", {{"name", "x"}, {"uid", "u"}}},
                 {"status", {{"error", "engine is not running"}, {"readyToUse", false}}}};
  const auto state = [&] {
    const Snapshot snapshot = Snapshot::Of(object).value();
    return StateOf(&snapshot, "u");
  };
  EXPECT_EQ(state(), NativeState::kPending);
  SetJson(object, {"status", "requestedTime"}, "2026-10-01T02:00:00Z");
  EXPECT_EQ(state(), NativeState::kTaken) << "though the error stays beside it";
  SetJson(object, {"status", "markRemoved"}, true);
  EXPECT_EQ(state(), NativeState::kGone);
}

TEST_F(NativeSnapshotTest, RemovalLeavesAnotherUidAlone) {
  ASSERT_THAT(Create(), IsOk());
  EXPECT_THAT(Remove("another uid"), IsOk());
  EXPECT_FALSE(Get().is_being_deleted());
  EXPECT_THAT(Remove(""), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_FALSE(Get().is_being_deleted()) << "without a uid, whichever has the name would go";
}

TEST_F(NativeSnapshotTest, RemovalBeforeItWasTakenCancelsIt) {
  const auto made = Create();
  ASSERT_THAT(made, IsOk());
  ASSERT_THAT(Remove(made->uid()), IsOk());
  bed_.Pass(absl::Minutes(1));
  EXPECT_FALSE(bed_.EngineHas(kName));
  EXPECT_THAT(bed_.Snapshots(), SizeIs(0));
  EXPECT_THAT(Remove(made->uid()), IsOk()) << "gone already";
}

TEST_F(NativeSnapshotTest, RemovalOfADetachedVolumesIsAskedForAndNotAwaited) {
  const auto made = Create();
  ASSERT_THAT(made, IsOk());
  bed_.Pass(absl::Seconds(6));
  bed_.Do([&] { bed_.longhorn.Detach(support::kLonghornVolume); });
  bed_.Pass(absl::Seconds(10));
  const absl::Time asked_at = bed_.clock.Now();
  EXPECT_THAT(Remove(made->uid()), IsOk());
  EXPECT_EQ(bed_.clock.Now(), asked_at);
  bed_.Pass(absl::Minutes(1));
  EXPECT_TRUE(Get().is_being_deleted()) << "until another client attaches the volume";
}

TEST_F(NativeSnapshotTest, RemovalWaitsForAManagerThatIsAway) {
  const auto made = Create();
  ASSERT_THAT(made, IsOk());
  bed_.longhorn.StopManager();
  bed_.on_call = [this](const support::ApiCall& call, const Json*) {
    if (call.verb == "delete" && bed_.Count("delete", call.plural) == 20) {
      bed_.longhorn.StartManager();
    }
    return absl::OkStatus();
  };
  EXPECT_THAT(Remove(made->uid()), IsOk());
}

TEST_F(NativeSnapshotTest, RemovalThatACloneForbidsIsRetriedThenNamed) {
  const auto made = Create();
  ASSERT_THAT(made, IsOk());
  bed_.PatchVolume({{"metadata", {{"labels", {{longhorn_stand_in::kLinkedCloneLabel, kName}}}}}});
  EXPECT_THAT(Remove(made->uid()),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("denied the request"),
                             HasSubstr("later: kubectl -n longhorn-system delete "
                                       "snapshots.longhorn.io csd-0123"))));
  EXPECT_GT(bed_.Count("delete", "snapshots"), 20);
}

// What survives of it is the name, and what the engine keeps.
TEST_F(NativeSnapshotTest, OneWhoseObjectLonghornMadeAgainIsKnown) {
  const std::string name = NativeSnapshotName("backup-uid", "volume-uid");
  ASSERT_THAT(CreateNative(Soon(), bed_.api(), request_, name), IsOk());
  bed_.Pass(absl::Seconds(6));
  const Snapshot made = Get(name);
  EXPECT_FALSE(IsNativeMadeAgain(made));
  bed_.Do([&] {  // As a user that deletes it by force.
    const k8s::ObjectKey key = support::NativeBed::SnapshotKey(name);
    ASSERT_THAT(bed_.api().Delete({}, key, {}), IsOk());
    ASSERT_THAT(bed_.api().Patch({}, key, k8s::PatchKind::kMerge,
                                 {{"metadata", {{"finalizers", nullptr}}}}, ""),
                IsOk());
    ASSERT_FALSE(bed_.api().Find(key).has_value());
  });
  bed_.AddSnapshot("newer");  // Longhorn looks when its engine's list has changed.
  const Snapshot again = Get(name);
  EXPECT_NE(again.uid(), made.uid());
  EXPECT_FALSE(again.is_to_be_taken());
  EXPECT_TRUE(IsNativeMadeAgain(again));
  EXPECT_EQ(again.EngineLabel(objects::kLonghornEngineBackupLabel),
            made.Label(objects::kBackupNameLabel));
  EXPECT_EQ(StateOf(&again, made.uid()), NativeState::kGone) << "for its backup, and its restore";
}

// Longhorn gives a clone's first snapshot the name of its source's, and makes an object for it as
// soon as no other has the name: after each native restore whose backup is deleted.
TEST_F(NativeSnapshotTest, TheFirstSnapshotOfACloneIsNotALostOne) {
  const std::string name = NativeSnapshotName("backup-uid", "volume-uid");
  const auto made = CreateNative(Soon(), bed_.api(), request_, name);
  ASSERT_THAT(made, IsOk());
  bed_.Pass(absl::Seconds(6));
  bed_.AddSnapshot("newer");
  bed_.Do([&] {
    bed_.longhorn.AddVolume("clone", support::kLonghornVolumeBytes);
    const k8s::ObjectKey key = {longhorn_stand_in::VolumeType(), support::kLonghornNamespace,
                                "clone"};
    ASSERT_THAT(bed_.api().Patch({}, key, k8s::PatchKind::kMerge,
                                 {{"spec", {{"dataSource", "snap://pvc-1/" + name}}}}, ""),
                IsOk());
    bed_.longhorn.Attach("clone");
  });
  bed_.Pass(absl::Minutes(5));
  bed_.Do([&] {
    ASSERT_THAT(bed_.api().Delete({}, support::NativeBed::SnapshotKey(name), {}), IsOk());
  });
  bed_.Pass(absl::Minutes(5));
  const Snapshot of_clone = Get(name);
  ASSERT_EQ(of_clone.volume(), "clone");
  EXPECT_NE(of_clone.uid(), made->uid());
  EXPECT_FALSE(IsNativeMadeAgain(of_clone));
}

TEST_F(NativeSnapshotTest, RemovalThatTheRolesForbidIsNotRetried) {
  const auto made = Create();
  ASSERT_THAT(made, IsOk());
  bed_.api().Forbid("delete", "snapshots");
  EXPECT_THAT(Remove(made->uid()), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(bed_.Count("delete", "snapshots"), 1);
}

TEST_F(NativeSnapshotTest, AVolumeHasRoomUntilTheEngineRefuses) {
  bed_.PatchVolume({{"spec", {{"snapshotMaxCount", 2}}}});
  EXPECT_THAT(RequireRoom(Soon(), bed_.api(), FindVolume(), kName), IsOk());
  bed_.AddSnapshot("one");
  EXPECT_THAT(RequireRoom(Soon(), bed_.api(), FindVolume(), kName), IsOk());
  bed_.AddSnapshot("two");
  EXPECT_THAT(RequireRoom(Soon(), bed_.api(), FindVolume(), kName),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("Volume pvc-1 has 2 snapshots (0 marked as removed), its "
                                       "snapshotMaxCount is 2"),
                             HasSubstr("csi-delta longhorn prune --volume pvc-1 --keep-last"))));
  EXPECT_THAT(RequireRoom(Soon(), bed_.api(), FindVolume(), "two"), IsOk()) << "it has its place";
}

// The engine counts the head, and what is marked as removed.
TEST_F(NativeSnapshotTest, NoVolumeHasMoreThan249) {
  for (int i = 0; i < 248; ++i) {
    Json snapshot =
        support::MakeObject("longhorn.io/v1beta2", "Snapshot", support::kLonghornNamespace,
                            absl::StrCat("s", i), {{objects::kLonghornVolumeLabel, "pvc-1"}});
    SetJson(snapshot, {"status", "markRemoved"}, true);
    bed_.api().Seed(Snapshot::Type(), snapshot);
  }
  EXPECT_THAT(RequireRoom(Soon(), bed_.api(), FindVolume(), kName), IsOk());
  bed_.api().Seed(
      Snapshot::Type(),
      support::MakeObject("longhorn.io/v1beta2", "Snapshot", support::kLonghornNamespace, "s248",
                          {{objects::kLonghornVolumeLabel, "pvc-1"}}));
  EXPECT_THAT(RequireRoom(Soon(), bed_.api(), FindVolume(), kName),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("248 marked as removed")));
}

// As the engines of both kinds of volumes say it.
TEST(RoomTest, OnlyARefusalOfAFullVolumeIsForWantOfRoom) {
  for (const char* const error :
       {"snapshot count usage 250 is equal or larger than snapshotMaxCount 250",
        "rpc error: code = Unknown desc = snapshot count 2 is equal or larger than "
        "snapshotMaxCount 2",
        "snapshot count total is already too big: 250",
        "snapshot free space 0 is not enough for head file 4096", "too many active disks: 251"}) {
    EXPECT_TRUE(IsForWantOfRoom(error)) << error;
  }
  for (const char* const error :
       {"", "engine pvc-1-e-0 is not running. Waiting for the volume to be attached",
        "snapshot creation delayed: volume engine pvc-1-e-0 is upgrading from image  to v1.12.1",
        "lost track of the corresponding snapshot info inside volume engine",
        "failed to snapshot all replicas: file name too long"}) {
    EXPECT_FALSE(IsForWantOfRoom(error)) << error;
  }
}

// A rule that keeps as many as the volume may have would free nothing.
TEST(RoomTest, TheAdviceKeepsFewerThanTheVolumeMayHave) {
  const auto advice = [](const Json& spec) {
    return HowToMakeRoom(Volume::Of({{"metadata", {{"name", "pvc-1"}}}, {"spec", spec}}).value());
  };
  EXPECT_EQ(advice(Json::object()),
            "free places with: csi-delta longhorn prune --volume pvc-1 --keep-last 100");
  for (const auto& [count_max, kept] :
       {std::pair(250, 100), std::pair(200, 100), std::pair(30, 15), std::pair(2, 1)}) {
    EXPECT_THAT(advice({{"snapshotMaxCount", count_max}}),
                EndsWith(absl::StrCat(" --keep-last ", kept)));
  }
  EXPECT_THAT(advice({{"snapshotMaxCount", 1}}), EndsWith(" --keep-last 1"));
}

TEST(UsableVolumeTest, AVolumeWithoutDataOfItsOwnIsRefused) {
  const auto volume = [](const Json& patch) {
    Json object = {{"metadata", {{"name", "pvc-1"}}},
                   {"status", {{"state", "attached"}, {"robustness", "healthy"}}}};
    object.merge_patch(patch);
    return RequireUsable(Volume::Of(object).value());
  };
  EXPECT_THAT(volume(Json::object()), IsOk());
  EXPECT_THAT(volume({{"status", {{"robustness", "degraded"}}}}), IsOk());
  EXPECT_THAT(volume({{"status", {{"cloneStatus", {{"state", "completed"}}}}}}), IsOk());
  const struct {
    Json patch;
    const char* want;
  } cases[] = {
      {{{"metadata", {{"deletionTimestamp", "2026-10-01T02:00:00Z"}}}}, "is being deleted"},
      {{{"status", {{"robustness", "faulted"}}}}, "faulted"},
      {{{"spec", {{"Standby", true}}}}, "standby"},
      {{{"status", {{"restoreRequired", true}}}}, "being restored"},
      {{{"status", {{"cloneStatus", {{"state", "initiated"}}}}}}, "clone"},
      {{{"status", {{"cloneStatus", {{"state", "failed"}}}}}}, "clone"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(volume(test.patch),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("Longhorn's Volume pvc-1 is"), HasSubstr(test.want))));
  }
}

}  // namespace
}  // namespace csidelta::longhorn::native_snapshot_test
