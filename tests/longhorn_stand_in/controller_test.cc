#include "tests/support/longhorn/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "k8s/object.h"
#include "tests/support/longhorn/fake_longhorn.h"
#include "tests/support/longhorn/kinds.h"
#include "tests/support/status_matchers.h"

// What clients cannot see, or only with the fake's clock; the rest is
// tests/contract/longhorn_contract.
namespace csidelta::longhorn_stand_in::controller_test {
namespace {

using support::IsOk;
using testing::HasSubstr;

constexpr char kNamespace[] = "longhorn-system";

// Whether as proposed.
class ControllerTest : public testing::TestWithParam<bool> {
 protected:
  ControllerTest() : longhorn_({.as_proposed = GetParam()}) {
    longhorn_.AddVolume("pvc-1");
    longhorn_.Attach("pvc-1");
    longhorn_.Pass(absl::Seconds(10));
  }
  static k8s::ObjectKey Key(const std::string& name) { return {SnapshotType(), kNamespace, name}; }
  absl::Status Create(const std::string& name, const std::string& volume = "pvc-1") {
    return longhorn_.api()
        .Create({}, SnapshotType(), kNamespace,
                {{"apiVersion", kApiVersion},
                 {"kind", "Snapshot"},
                 {"metadata", {{"name", name}}},
                 {"spec", {{"volume", volume}, {"createSnapshot", true}}}})
        .status();
  }
  void Take(const std::string& name, const std::string& volume = "pvc-1") {
    ASSERT_THAT(Create(name, volume), IsOk());
    longhorn_.Pass(kMonitorInterval + absl::Seconds(1));
    ASSERT_TRUE(GetBool(Get(name), {"status", "readyToUse"})) << DumpJson(Get(name));
  }
  absl::Status Delete(const std::string& name) { return longhorn_.api().Delete({}, Key(name), {}); }
  Json Get(const std::string& name) { return longhorn_.api().Find(Key(name)).value_or(Json()); }
  std::string ErrorOf(const std::string& name) { return GetString(Get(name), {"status", "error"}); }
  Json Volume(const std::string& name = "pvc-1") {
    return longhorn_.api().Find({VolumeType(), kNamespace, name}).value_or(Json());
  }
  void SetMaxCount(int count) {
    EXPECT_THAT(
        longhorn_.api().Patch({}, {VolumeType(), kNamespace, "pvc-1"}, k8s::PatchKind::kMerge,
                              {{"spec", {{"snapshotMaxCount", count}}}}, ""),
        IsOk());
  }
  bool EngineHas(const std::string& name, const std::string& volume = "pvc-1") {
    bool has = false;
    longhorn_.engines().Handle(volume, [&](Engine& engine) { has = engine.Has(name); });
    return has;
  }
  void PatchEngine(const Json& patch, const char* subresource) {
    EXPECT_THAT(longhorn_.api().Patch({}, {EngineType(), kNamespace, EngineName("pvc-1")},
                                      k8s::PatchKind::kMerge, patch, subresource),
                IsOk());
  }

  FakeLonghorn longhorn_;
};

TEST_P(ControllerTest, ASnapshotIsRequestedInATenthToHalfASecond) {
  ASSERT_THAT(Create("one"), IsOk());
  longhorn_.Pass(absl::Milliseconds(100));
  EXPECT_FALSE(EngineHas("one"));
  longhorn_.Pass(absl::Milliseconds(400));
  EXPECT_TRUE(EngineHas("one"));
  EXPECT_NE(GetString(Get("one"), {"status", "requestedTime"}), "");
  EXPECT_EQ(GetString(Get("one"), {"status", "creationTime"}), "");
}

// Seen in four of five runs of longhorn-manager 5ddaa369.
TEST_P(ControllerTest, TheTicketOfASnapshotGoesAfterItIsReady) {
  const auto has_ticket = [&] {
    const Json attachment =
        longhorn_.api().Find({AttachmentType(), kNamespace, "pvc-1"}).value_or(Json());
    return FindJson(attachment, {"spec", "attachmentTickets", TicketOf("one")}) != nullptr;
  };
  ASSERT_THAT(Create("one"), IsOk());
  for (int i = 0; i < 100 && !GetBool(Get("one"), {"status", "readyToUse"}); ++i) {
    longhorn_.Pass(absl::Milliseconds(100));
  }
  EXPECT_TRUE(has_ticket());
  longhorn_.Pass(absl::Seconds(1));
  EXPECT_FALSE(has_ticket());
}

TEST_P(ControllerTest, ABusyEngineTakesAndRemovesOneAfterTheOther) {
  longhorn_.SetSwitches({.cut_time = absl::Seconds(1), .removal_time = absl::Seconds(3)});
  const auto count = [&] {
    int there = 0;
    for (int i = 0; i < 20; ++i) {
      there += EngineHas(absl::StrCat("s-", i)) ? 1 : 0;
    }
    return there;
  };
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(Create(absl::StrCat("s-", i)), IsOk());
  }
  longhorn_.Pass(absl::Seconds(10));
  EXPECT_THAT(count(), testing::AllOf(testing::Ge(9), testing::Le(11)));
  longhorn_.Pass(absl::Seconds(20));
  EXPECT_EQ(count(), 20);
  Take("newest");
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(Delete(absl::StrCat("s-", i)), IsOk());
  }
  longhorn_.Pass(absl::Seconds(30));
  EXPECT_THAT(count(), testing::AllOf(testing::Ge(8), testing::Le(12)));
  longhorn_.Pass(absl::Minutes(1));
  EXPECT_EQ(count(), 0);
}

// The three ends that were seen on longhorn-manager 5ddaa369.
TEST_P(ControllerTest, ARestoredStatusEndsAsTheSwitchSaysAndAlwaysTakesASnapshot) {
  using End = RestoredStatusEnd;
  for (const End end : {End::kStays, End::kReplaced, End::kRemoved}) {
    longhorn_.SetSwitches({.restored_status_end = end});
    const std::string name = absl::StrCat("restored-", static_cast<int>(end));
    ASSERT_THAT(Create(name), IsOk());
    const std::string uid = k8s::Uid(Get(name));
    ASSERT_THAT(longhorn_.api().Patch(
                    {}, Key(name), k8s::PatchKind::kMerge,
                    {{"status", {{"creationTime", "2026-01-02T03:04:05Z"}, {"readyToUse", true}}}},
                    "status"),
                IsOk());
    longhorn_.Pass(absl::Seconds(30));
    EXPECT_TRUE(EngineHas(name)) << name;
    bool is_removed = false;
    longhorn_.engines().Handle("pvc-1",
                               [&](Engine& engine) { is_removed = engine.IsRemoved(name); });
    EXPECT_EQ(is_removed, end == End::kRemoved) << name;
    EXPECT_EQ(k8s::Uid(Get(name)) == uid, end == End::kStays) << name;
    EXPECT_EQ(GetBool(Get(name), {"status", "readyToUse"}), end != End::kRemoved) << name;
    EXPECT_EQ(GetBool(Get(name), {"spec", "createSnapshot"}), end == End::kStays) << name;
  }
}

TEST_P(ControllerTest, TheEngineIsAskedFirstAndTakesNoSecondOne) {
  longhorn_.engines().Handle("pvc-1", [&](Engine& engine) {
    EXPECT_THAT(engine.TakeSnapshot("one", true, {{"made", "first"}}, longhorn_.now()), IsOk());
  });
  Take("one");
  EXPECT_EQ(GetString(Get("one"), {"status", "labels", "made"}), "first");
  EXPECT_EQ(ErrorOf("one"), "");
}

TEST_P(ControllerTest, AtRestNothingIsQueuedAndEachRunningEngineIsCalledOncePerInterval) {
  longhorn_.AddVolume("pvc-2");  // detached
  Take("one");
  longhorn_.Pass(absl::Seconds(30));
  const int64_t queued = longhorn_.controller().queued();
  const int64_t calls = longhorn_.engines().call_count("pvc-1");
  longhorn_.api().ClearCalls();
  longhorn_.Pass(20 * kMonitorInterval);
  EXPECT_EQ(longhorn_.controller().queued(), queued);
  EXPECT_EQ(longhorn_.engines().call_count("pvc-1"), calls + 20);
  EXPECT_EQ(longhorn_.engines().call_count("pvc-2"), 0);
  EXPECT_EQ(longhorn_.api().calls().size(), 0);
}

TEST_P(ControllerTest, OnlyTheEntriesThatChangedAreQueued) {
  const auto queued_by_one_more = [this](const std::string& name) {
    longhorn_.Pass(absl::Seconds(30));
    const int64_t before = longhorn_.controller().queued();
    Take(name);
    return longhorn_.controller().queued() - before;
  };
  Take("one");
  const int64_t after_one = queued_by_one_more("two");
  for (int i = 0; i < 10; ++i) {
    Take(absl::StrCat("s", i));
  }
  EXPECT_EQ(queued_by_one_more("last"), after_one) << "its own, and its parent's";
}

TEST_P(ControllerTest, AnEngineThatIsBeingUpgradedTakesAndRemovesNone) {
  Take("one");
  Take("two");
  PatchEngine({{"spec", {{"image", "engine:new"}}}}, "");
  ASSERT_THAT(Create("three"), IsOk());
  ASSERT_THAT(Delete("one"), IsOk());
  longhorn_.Pass(absl::Seconds(10));
  EXPECT_THAT(ErrorOf("three"), HasSubstr("snapshot creation delayed: volume engine pvc-1-e-0 is "
                                          "upgrading from image "));
  EXPECT_THAT(ErrorOf("one"), HasSubstr("snapshot deletion delayed: volume engine pvc-1-e-0 is "
                                        "upgrading from image "));
  EXPECT_FALSE(EngineHas("three"));
  PatchEngine({{"status", {{"currentImage", "engine:new"}}}}, "status");
  longhorn_.Pass(absl::Seconds(15));
  EXPECT_EQ(Get("one"), Json());
  EXPECT_TRUE(GetBool(Get("three"), {"status", "readyToUse"}));
}

TEST_P(ControllerTest, WithPurgingDisabledADeletedOneLingersUntouchedUntilItIsEnabled) {
  Take("one");
  Take("two");
  longhorn_.SetSwitches({.purge_is_disabled = true});
  ASSERT_THAT(Delete("one"), IsOk());
  longhorn_.Pass(absl::Minutes(1));
  EXPECT_TRUE(k8s::BeingDeleted(Get("one")));
  EXPECT_FALSE(GetBool(Get("one"), {"status", "readyToUse"}));
  EXPECT_TRUE(EngineHas("one"));
  longhorn_.SetSwitches({.purge_is_disabled = false});
  longhorn_.Pass(absl::Seconds(15));
  EXPECT_EQ(Get("one"), Json());
  EXPECT_FALSE(EngineHas("one"));
}

TEST_P(ControllerTest, UpTo110ADeletionAttachesADetachedVolume) {
  Take("one");
  Take("two");
  longhorn_.Detach("pvc-1");
  longhorn_.Pass(absl::Seconds(5));
  ASSERT_EQ(GetString(Volume(), {"status", "state"}), "detached");
  longhorn_.SetSwitches({.attaches_to_delete = true});
  ASSERT_THAT(Delete("one"), IsOk());
  longhorn_.Pass(absl::Seconds(20));
  EXPECT_EQ(Get("one"), Json());
  EXPECT_FALSE(EngineHas("one"));
  EXPECT_EQ(GetString(Volume(), {"status", "state"}), "detached");
}

TEST_P(ControllerTest, AFaultedVolumeIsSalvagedAndFaultsAgain) {
  const std::string name(kSnapshotNameBytesMax + 1, 'n');
  ASSERT_THAT(Create(name), IsOk());
  longhorn_.Pass(absl::Milliseconds(300));
  EXPECT_THAT(ErrorOf(name), HasSubstr("file name too long"));
  int faults = 0;
  for (int i = 0; i < 300; ++i) {
    const bool was_faulted = GetString(Volume(), {"status", "robustness"}) == "faulted";
    longhorn_.Pass(absl::Milliseconds(100));
    faults += !was_faulted && GetString(Volume(), {"status", "robustness"}) == "faulted" ? 1 : 0;
  }
  EXPECT_THAT(faults, testing::AllOf(testing::Ge(3), testing::Le(4))) << "one in about 8 s";
}

TEST_P(ControllerTest, ARefusedSnapshotIsRetriedAndALaterFaultIsShown) {
  Take("one");
  SetMaxCount(1);
  longhorn_.Pass(2 * kMonitorInterval);
  const std::string bad(kSnapshotNameBytesMax + 1, 'n');
  ASSERT_THAT(Create(bad), IsOk());
  longhorn_.Pass(absl::Seconds(2));
  EXPECT_THAT(ErrorOf(bad), HasSubstr("snapshotMaxCount"));
  SetMaxCount(2);  // Nothing else changes that would make it due.
  bool was_faulted = false;
  for (int i = 0; i < 400 && !was_faulted; ++i) {
    longhorn_.Pass(absl::Milliseconds(100));
    was_faulted = GetString(Volume(), {"status", "robustness"}) == "faulted";
  }
  EXPECT_TRUE(was_faulted);
}

TEST_P(ControllerTest, TheNewestThatLingersGoesWithItsVolume) {
  Take("one");
  ASSERT_THAT(Delete("one"), IsOk());
  longhorn_.Pass(absl::Minutes(1));
  ASSERT_TRUE(k8s::BeingDeleted(Get("one")));
  ASSERT_THAT(longhorn_.api().Delete({}, {VolumeType(), kNamespace, "pvc-1"}, {}), IsOk());
  longhorn_.Pass(absl::Seconds(5));
  EXPECT_EQ(Get("one"), Json());
  EXPECT_EQ(Volume(), Json());
}

TEST_P(ControllerTest, AVolumeGoesAfterItsLastSnapshotHoweverLateThatGoes) {
  Take("one");
  ASSERT_THAT(longhorn_.api().Delete({}, {VolumeType(), kNamespace, "pvc-1"}, {}), IsOk());
  ASSERT_THAT(Delete("one"), IsOk());
  bool has_failed = false;  // The removal of the finalizer does, when its ticket is gone already.
  longhorn_.api().SetInterceptor([&](const support::ApiCall& call, const Json*) {
    const bool fails = !has_failed && call.verb == "patch" && call.plural == "snapshots" &&
                       call.subresource.empty();
    has_failed = has_failed || fails;
    return fails ? absl::UnavailableError("away") : absl::OkStatus();
  });
  longhorn_.Pass(absl::Seconds(20));
  EXPECT_TRUE(has_failed);
  EXPECT_EQ(Get("one"), Json());
  EXPECT_EQ(Volume(), Json());
}

TEST_P(ControllerTest, AtMostFivePurgesRunAtATime) {
  int most = 0;
  for (int i = 2; i <= 9; ++i) {
    const std::string volume = absl::StrCat("pvc-", i);
    longhorn_.AddVolume(volume);
    longhorn_.Attach(volume);
    longhorn_.Pass(absl::Seconds(3));
    Take(absl::StrCat(volume, "-a"), volume);
    Take(absl::StrCat(volume, "-b"), volume);
    longhorn_.engines().Handle(volume, [](Engine& engine) { engine.Write(0, "x"); });
  }
  for (int i = 2; i <= 9; ++i) {
    ASSERT_THAT(Delete(absl::StrCat("pvc-", i, "-a")), IsOk());
  }
  for (int i = 0; i < 200; ++i) {
    longhorn_.Pass(absl::Milliseconds(100));
    most = std::max(most, longhorn_.engines().purging_count());
  }
  EXPECT_EQ(most, kPurgesMax);
  for (int i = 2; i <= 9; ++i) {
    EXPECT_EQ(Get(absl::StrCat("pvc-", i, "-a")), Json());
  }
}

TEST_P(ControllerTest, APurgeWaitsForAPlaceHoweverLongThatTakes) {
  Take("one");
  Take("two");
  for (int i = 2; i < 2 + kPurgesMax; ++i) {
    longhorn_.AddVolume(absl::StrCat("pvc-", i));
    longhorn_.engines().Handle(absl::StrCat("pvc-", i), [&](Engine& engine) {
      EXPECT_THAT(engine.StartPurge(longhorn_.now()), IsOk());
    });
  }
  ASSERT_THAT(Delete("one"), IsOk());
  longhorn_.Pass(absl::Minutes(1));
  EXPECT_TRUE(EngineHas("one"));
  longhorn_.engines().Handle("pvc-2", [&](Engine& engine) { engine.Advance(longhorn_.now()); });
  longhorn_.Pass(absl::Seconds(10));
  EXPECT_FALSE(EngineHas("one"));
}

TEST_P(ControllerTest, AManagerThatStartsAgainGoesOn) {
  Take("one");
  longhorn_.StopManager();
  longhorn_.Pass(absl::Minutes(1));
  longhorn_.StartManager();
  Take("two");
  EXPECT_EQ(GetString(Get("two"), {"status", "parent"}), "one");
  ASSERT_THAT(Delete("one"), IsOk());
  longhorn_.Pass(absl::Seconds(10));
  EXPECT_EQ(Get("one"), Json());
}

TEST_P(ControllerTest, AConflictIsTriedAgain) {
  ASSERT_THAT(Create("one"), IsOk());
  longhorn_.Pass(absl::Seconds(1));
  longhorn_.api().FailNext("patch", "snapshots", absl::AbortedError("conflict"), 2);
  longhorn_.Pass(kMonitorInterval + absl::Seconds(1));
  EXPECT_TRUE(GetBool(Get("one"), {"status", "readyToUse"}));
}

TEST_P(ControllerTest, TheSyncIsSkippedWhileTheListIsInError) {
  Take("one");
  PatchEngine({{"status", {{"snapshotsError", "no answer"}, {"snapshots", {{"one", nullptr}}}}}},
              "status");
  longhorn_.Pass(absl::Seconds(1));
  EXPECT_EQ(ErrorOf("one"), "lost track of the corresponding snapshot info inside volume engine");
  EXPECT_FALSE(GetBool(Get("one"), {"status", "readyToUse"}));
  EXPECT_FALSE(k8s::BeingDeleted(Get("one")));
  longhorn_.Pass(kMonitorInterval + absl::Seconds(1));
  EXPECT_TRUE(GetBool(Get("one"), {"status", "readyToUse"})) << "updated by the monitor";
  EXPECT_EQ(ErrorOf("one"), "");
}

TEST_P(ControllerTest, ASnapshotThatTheEngineListsIsShownAndNotTaken) {
  const Json entry = {{"name", "one"}, {"created", "2026-01-02T03:04:05Z"}, {"usercreated", true}};
  PatchEngine({{"status", {{"snapshots", {{"one", entry}}}}}}, "status");
  ASSERT_THAT(Create("one"), IsOk());
  longhorn_.Pass(absl::Seconds(1));
  EXPECT_EQ(GetString(Get("one"), {"status", "creationTime"}), "2026-01-02T03:04:05Z");
  EXPECT_TRUE(GetBool(Get("one"), {"status", "readyToUse"}));
  EXPECT_FALSE(EngineHas("one"));
}

TEST_P(ControllerTest, TheOwnerDistinguishesAVolumeFromALaterOneOfTheName) {
  ASSERT_THAT(Create("one"), IsOk());
  const std::string uid = k8s::Uid(Volume());
  longhorn_.Pass(absl::Seconds(10));
  ASSERT_THAT(longhorn_.api().Delete({}, {VolumeType(), kNamespace, "pvc-1"}, {}), IsOk());
  ASSERT_THAT(Delete("one"), IsOk());
  longhorn_.Pass(absl::Seconds(20));
  ASSERT_EQ(Volume(), Json());
  longhorn_.AddVolume("pvc-1");
  ASSERT_THAT(Create("two"), IsOk());
  EXPECT_NE(k8s::Uid(Volume()), uid);
  EXPECT_EQ(GetString(Get("two")["metadata"]["ownerReferences"][0], {"uid"}), k8s::Uid(Volume()));
}

TEST_P(ControllerTest, RemovalIsAskedOfTheEngineOnceAndPurgingWhenNoneIsUnderWay) {
  Take("one");
  Take("two");
  longhorn_.engines().Handle("pvc-1", [&](Engine& engine) {
    EXPECT_THAT(engine.StartPurge(longhorn_.now()), IsOk());  // Before "one" is marked.
  });
  ASSERT_THAT(Delete("one"), IsOk());
  longhorn_.Pass(absl::Milliseconds(300));
  bool is_marked = false;
  longhorn_.engines().Handle("pvc-1", [&](Engine& engine) { is_marked = engine.IsRemoved("one"); });
  EXPECT_TRUE(is_marked);
  EXPECT_FALSE(Get("one").is_null());
  longhorn_.Pass(absl::Seconds(15));
  EXPECT_FALSE(EngineHas("one"));
  EXPECT_EQ(Get("one"), Json());
}

INSTANTIATE_TEST_SUITE_P(Modes, ControllerTest, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "AsProposed" : "Today");
});

// A cluster whose objects say what its engines have; nothing is to be done.
class FullCluster {
 public:
  static constexpr int kVolumes = 1000;
  static constexpr int kSnapshots = 30;  // of each volume

  FullCluster() {
    for (int i = 0; i < kVolumes; ++i) {
      AddVolume(absl::StrCat("pvc-", i));
    }
  }

  void TellAll(Controller& controller) const {
    k8s::Informer({}, {&controller.volumes()}).OnAll(volumes_);
    k8s::Informer({}, {&controller.engines()}).OnAll(engine_objects_);
    k8s::Informer({}, {&controller.attachments()}).OnAll(attachments_);
    k8s::Informer({}, {&controller.snapshots()}).OnAll(snapshots_);
  }

  support::FakeClock clock;
  support::FakeApiClient api{clock};
  Engines engines;

 private:
  static Json Metadata(const std::string& name) {
    return {{"name", name},
            {"namespace", kNamespace},
            {"uid", absl::StrCat("u-", name)},
            {"resourceVersion", "1"},
            {"finalizers", Json::array({kFinalizer})}};
  }

  void AddVolume(const std::string& name) {
    EngineRecord engine{.volume = name,
                        .resource_version = "1",
                        .image = "engine:1",
                        .is_running = true,
                        .current_image = "engine:1",
                        .size_bytes = 1 << 20,
                        .is_purging = false,
                        .snapshots_error = {},
                        .entries = {}};
    engines.Ensure(name, engine.size_bytes);
    engines.Handle(name, [&](Engine& process) {
      process.Start();
      for (int i = 0; i < kSnapshots; ++i) {
        process.TakeSnapshot(absl::StrCat(name, "-", i), true, {}, clock.Now()).IgnoreError();
      }
      engine.entries = process.Entries();
    });
    volumes_.push_back({{"metadata", Metadata(name)},
                        {"spec", {{"size", absl::StrCat(engine.size_bytes)}}},
                        {"status", {{"state", "attached"}, {"robustness", "healthy"}}}});
    engine_objects_.push_back({{"metadata", Metadata(EngineName(name))},
                               {"spec", {{"volumeName", name}, {"image", engine.image}}},
                               {"status", StatusJson(engine)}});
    attachments_.push_back(
        {{"metadata", Metadata(name)},
         {"spec", {{"volume", name}, {"attachmentTickets", {{"csi-1", {{"id", "csi-1"}}}}}}}});
    for (const auto& [snapshot, entry] : engine.entries) {
      if (snapshot != kVolumeHead) {
        AddSnapshot(snapshot, engine, entry);
      }
    }
  }

  void AddSnapshot(const std::string& name, const EngineRecord& engine, const ChainEntry& entry) {
    const std::string taken_at = FormatRfc3339Seconds(entry.taken_at);
    snapshots_.push_back(
        {{"metadata", Metadata(name)},
         {"spec", {{"volume", engine.volume}, {"createSnapshot", true}}},
         {"status", StatusJson(SnapshotStatus{.parent = entry.parent,
                                              .children = entry.children,
                                              .is_removed = false,
                                              .is_user_created = true,
                                              .requested_time = taken_at,
                                              .creation_time = taken_at,
                                              .size_bytes = entry.size_bytes,
                                              .restore_size_bytes = engine.size_bytes,
                                              .labels = entry.labels,
                                              .error = {},
                                              .is_ready = true})}});
  }

  std::vector<Json> volumes_;
  std::vector<Json> engine_objects_;
  std::vector<Json> attachments_;
  std::vector<Json> snapshots_;
};

TEST(FullClusterTest, AtRestWith30000ObjectsNothingIsQueuedAndEachEngineIsCalledOncePerInterval) {
  FullCluster cluster;
  Controller controller(cluster.api, cluster.engines, cluster.clock, {});
  cluster.TellAll(controller);
  const CallContext ctx{.deadline = absl::InfiniteDuration(), .stop = {}, .clock = &cluster.clock};
  cluster.clock.Advance(kReactionTime);
  controller.Work(ctx);  // All that was listed is looked at once.
  EXPECT_LE(controller.queued(), FullCluster::kVolumes * (2 * FullCluster::kSnapshots + 5));
  const int64_t queued = controller.queued();
  constexpr int kRounds = 2;
  const absl::Time end = cluster.clock.Now() + kRounds * kMonitorInterval;
  for (absl::Time next; (next = controller.Work(ctx)) <= end;) {
    cluster.clock.Advance(next - cluster.clock.Now());
  }
  EXPECT_EQ(controller.queued(), queued);
  EXPECT_THAT(cluster.api.calls(), testing::IsEmpty());
  for (int i = 0; i < FullCluster::kVolumes; ++i) {
    ASSERT_EQ(cluster.engines.call_count(absl::StrCat("pvc-", i)), kRounds);
  }
}

}  // namespace
}  // namespace csidelta::longhorn_stand_in::controller_test
