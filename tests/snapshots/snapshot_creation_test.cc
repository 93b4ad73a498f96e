#include "snapshots/snapshot_creation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "csi/volume_lease.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/snapshots/take_suite.h"
#include "tests/support/await.h"
#include "tests/support/cluster_fixture.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::snapshots::snapshot_creation_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class SnapshotCreationTest : public support::ClusterFixture {
 protected:
  static CreationRequest Request(const std::string& name = "monday") {
    return PersonsRequest("shop", name);
  }
  absl::StatusOr<csi::TakenSnapshot> Create(const CreationRequest& request) {
    return CreateSnapshot(ctx_, api_, Random::Real(), request);
  }

  // As another run does, for VolumeSnapshot `name`.
  void HoldLease(const std::string& name) {
    std::string held_by;
    ASSERT_THAT(csi::VolumeLease::TakeIfFree(ctx_, api_,
                                             {.lease_namespace = "shop",
                                              .claim_namespace = "shop",
                                              .claim_name = "data",
                                              .claim_uid = "data-uid",
                                              .backup_name = "",
                                              .backup_uid = "",
                                              .holder = "another",
                                              .subject = "PVC",
                                              .snapshot_name = name},
                                             held_by),
                IsOk());
  }

  // One of another maker, not taken yet.
  Json Other(const std::string& name) const {
    Json other = support::MakeSnapshotObject("shop", name, "");
    SetJson(other, {"metadata", "creationTimestamp"}, FormatRfc3339(clock_.Now()));
    return other;
  }
  std::vector<std::string> Snapshots() const { return api_.Names(VolumeSnapshotType()); }
  void ExpectNothingLeft() {
    cluster_.LetDriverWork();
    EXPECT_EQ(api_.object_count(), 0);
    EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
  }
};

TEST_F(SnapshotCreationTest, ReturnsWhenTakenThoughNotReady) {
  cluster_.driver().AddFault({.method = "CreateSnapshot", .not_ready = true});
  CreationRequest request = Request();
  request.set = "week";
  request.workload = "StatefulSet/db";
  request.note = "before the upgrade";
  const auto creation = Create(request);
  ASSERT_THAT(creation, IsOk());
  EXPECT_EQ(csi::StatusOf(creation->snapshot, csi::ReadingOf(*creation)).state,
            csi::SnapshotState::kUploading);
  EXPECT_TRUE(csi::StatusOf(creation->snapshot, csi::ReadingOf(*creation)).taken_at.has_value());
  EXPECT_TRUE(creation->seen_taken_at.has_value());
  ASSERT_TRUE(creation->is_content_read);
  EXPECT_THAT(cluster_.driver().snapshots(), ElementsAre(creation->content.handle()));

  const Json made = *api_.Find(VolumeSnapshotKey("shop", "monday"));
  EXPECT_EQ(k8s::Label(made, objects::kMadeByLabel), "csi-delta");
  EXPECT_EQ(k8s::Label(made, objects::kSnapshotSetLabel), "week");
  EXPECT_EQ(k8s::Annotation(made, objects::kSnapshotWorkloadAnnotation), "StatefulSet/db");
  EXPECT_EQ(k8s::Annotation(made, objects::kSnapshotNoteAnnotation), "before the upgrade");
  EXPECT_FALSE(k8s::Annotation(made, objects::kSnapshotAskedAtAnnotation).empty());
  EXPECT_EQ(k8s::Label(made, objects::kCsiDeltaLabel), "") << "backups would take it for theirs";
  EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
}

TEST_F(SnapshotCreationTest, ReadyIsWaitedForWhenAsked) {
  CreationRequest request = Request();
  request.awaited = AwaitedState::kReady;
  const auto creation = Create(request);
  ASSERT_THAT(creation, IsOk());
  EXPECT_EQ(csi::StatusOf(creation->snapshot, csi::ReadingOf(*creation)).state,
            csi::SnapshotState::kReady);
  request = Request("tuesday");
  request.awaited = AwaitedState::kReady;
  cluster_.driver().AddFault({.method = "*", .not_ready = true});
  EXPECT_THAT(Create(request), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                        AllOf(HasSubstr("is taken, but not ready"),
                                              HasSubstr("snapshot show tuesday"))));
  EXPECT_THAT(Snapshots(), ElementsAre("monday", "tuesday")) << "it is taken, and stays";
}

TEST_F(SnapshotCreationTest, WithoutTheRightToReadContentsTheTimeCounts) {
  api_.Forbid("get", "volumesnapshotcontents");
  const auto creation = Create(Request());
  ASSERT_THAT(creation, IsOk());
  EXPECT_FALSE(creation->is_content_read);
  EXPECT_TRUE(csi::StatusOf(creation->snapshot, csi::ReadingOf(*creation)).taken_at.has_value());
  EXPECT_THAT(creation->not_checked, ElementsAre(HasSubstr("binding not checked")));
}

// --- One operation per volume

TEST_F(SnapshotCreationTest, AnotherThatIsBeingTakenMakesItBusy) {
  api_.Seed(VolumeSnapshotType(), Other("nightly"));
  const auto creation = Create(Request());
  EXPECT_THAT(creation, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 AllOf(HasSubstr("PVC shop/data"), HasSubstr("nightly"))));
  EXPECT_TRUE(csi::IsVolumeBusy(creation.status()));
  EXPECT_EQ(cluster_.driver().CallCount("CreateSnapshot"), 0);
  EXPECT_THAT(Snapshots(), ElementsAre("nightly"));
  EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
}

TEST_F(SnapshotCreationTest, AGroupWithoutContentThatTakesThePvcMakesItBusy) {
  Json group = support::MakeObject("groupsnapshot.storage.k8s.io/v1", "VolumeGroupSnapshot", "shop",
                                   "nightly-group");
  SetJson(group, {"metadata", "creationTimestamp"}, FormatRfc3339(clock_.Now()));
  SetJson(group, {"spec", "source", "selector"}, Json::object());
  api_.Seed(VolumeGroupSnapshotType("v1"), group);
  const auto busy = Create(Request());
  EXPECT_TRUE(csi::IsVolumeBusy(busy.status())) << busy.status();
  EXPECT_THAT(busy.status().message(), HasSubstr("VolumeGroupSnapshot nightly-group selects it"));
  EXPECT_THAT(Snapshots(), IsEmpty());
  SetJson(group, {"status", "boundVolumeGroupSnapshotContentName"}, "content");
  api_.Seed(VolumeGroupSnapshotType("v1"), group);
  EXPECT_THAT(Create(Request()), IsOk());
}

TEST_F(SnapshotCreationTest, ALeaseThatIsHeldMakesItBusyUntilItIsLongDead) {
  HoldLease("other");
  const auto busy = Create(Request());
  EXPECT_TRUE(csi::IsVolumeBusy(busy.status())) << busy.status();
  EXPECT_THAT(busy.status().message(), HasSubstr("the creation of VolumeSnapshot other"));
  EXPECT_THAT(Snapshots(), IsEmpty());
  clock_.Advance(absl::Minutes(2));
  EXPECT_THAT(Create(Request()), IsOk());
}

TEST_F(SnapshotCreationTest, TheLeaseIsOwnedByThePvc) {
  api_.OnCreate("volumesnapshots", [](support::FakeApiClient& api, const Json&) {
    const Json lease = api.All(LeaseType()).at(0);
    EXPECT_EQ(k8s::Namespace(lease), "shop");
    EXPECT_EQ(GetString(lease["metadata"]["ownerReferences"][0], {"kind"}),
              "PersistentVolumeClaim");
    EXPECT_EQ(GetString(lease["metadata"]["ownerReferences"][0], {"uid"}), "data-uid");
  });
  EXPECT_THAT(Create(Request()), IsOk());
}

TEST_F(SnapshotCreationTest, OneThatWasQuickerIsFoundAfterThePost) {
  api_.Forbid("create", "leases");
  cluster_.driver().Hold("CreateSnapshot");
  bool is_quicker = false;
  api_.SetInterceptor([&](const support::ApiCall& call, const Json*) {
    if (call.verb == "create" && call.plural == "volumesnapshots" &&
        !std::exchange(is_quicker, true)) {
      api_.Seed(VolumeSnapshotType(), Other("quicker"));
    }
    return absl::OkStatus();
  });
  const auto creation = Create(Request());
  EXPECT_TRUE(csi::IsVolumeBusy(creation.status())) << creation.status();
  EXPECT_THAT(creation.status().message(),
              AllOf(HasSubstr("quicker"), HasSubstr("monday was deleted again")));
}

// A creation that loses a race to "quicker" once the driver has taken its snapshot.
class WithdrawnSnapshotTest : public SnapshotCreationTest {
 protected:
  WithdrawnSnapshotTest() {
    api_.Forbid("create", "leases");
    api_.SetInterceptor([&](const support::ApiCall& call, const Json*) {
      if (call.verb == "create" && call.plural == "volumesnapshots") {
        api_.Seed(VolumeSnapshotType(), Other("quicker"));
      }
      return absl::OkStatus();
    });
  }
  std::string Withdrawn() {
    const auto creation = Create(Request());
    EXPECT_TRUE(csi::IsVolumeBusy(creation.status())) << creation.status();
    EXPECT_THAT(creation.status().message(), HasSubstr("monday was deleted again"));
    EXPECT_EQ(cluster_.driver().CallCount("CreateSnapshot"), 1);
    return std::string(creation.status().message());
  }
};

TEST_F(WithdrawnSnapshotTest, TakesWhatTheDriverTookAlongAlsoWhereTheClassRetains) {
  cluster_.class_policy = "Retain";
  EXPECT_THAT(Withdrawn(), Not(HasSubstr("Retain")));
  EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
  EXPECT_THAT(api_.All(VolumeSnapshotContentType()), IsEmpty());
}

TEST_F(WithdrawnSnapshotTest, SaysWhatStaysAndItsHandle) {
  cluster_.class_policy = "Retain";
  api_.Forbid("patch", "volumesnapshotcontents");
  const std::string message = Withdrawn();
  ASSERT_EQ(cluster_.driver().snapshots().size(), 1);
  EXPECT_THAT(message, AllOf(HasSubstr("says Retain, and stays"),
                             HasSubstr(*cluster_.driver().snapshots().begin()),
                             HasSubstr(k8s::Name(api_.All(VolumeSnapshotContentType()).at(0)))));
}

TEST_F(WithdrawnSnapshotTest, WhatMayNotBeReadIsNamed) {
  cluster_.class_policy = "Retain";
  api_.Forbid("patch", "volumesnapshotcontents");
  api_.Forbid("get", "volumesnapshotcontents");
  EXPECT_THAT(Withdrawn(), HasSubstr("whether the driver keeps what it took was not checked: "));
}

TEST_F(WithdrawnSnapshotTest, NeedsNoRightWhereTheClassDeletes) {
  api_.Forbid("patch", "volumesnapshotcontents");
  EXPECT_THAT(Withdrawn(), EndsWith("monday was deleted again"));
  EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
  EXPECT_EQ(api_.CallCount("patch", "volumesnapshotcontents"), 0);
}

TEST_F(SnapshotCreationTest, OneThatCameLaterIsNotWaitedFor) {
  api_.Forbid("create", "leases");
  api_.OnCreate("volumesnapshots", [&](support::FakeApiClient& api, const Json& made) {
    if (k8s::Name(made) == "monday") {
      api.Seed(VolumeSnapshotType(), Other("later"));
    }
  });
  const auto creation = Create(Request());
  ASSERT_THAT(creation, IsOk());
  EXPECT_THAT(creation->not_checked, ElementsAre(HasSubstr("Lease not taken")));
}

// --- Ends that are not well

TEST_F(SnapshotCreationTest, ARefusalEndsItAtOnceAndNothingStays) {
  cluster_.driver().Refuse("CreateSnapshot", "InvalidArgument", "the class has no pool");
  EXPECT_THAT(Create(Request()), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          AllOf(HasSubstr("the class has no pool"),
                                                HasSubstr("monday was deleted again"))));
  ExpectNothingLeft();
}

TEST_F(SnapshotCreationTest, WithoutAClassAndADefaultOneItEndsAtOnce) {
  cluster_.controller_runs = false;
  api_.OnCreate("volumesnapshots", [](support::FakeApiClient& api, const Json& made) {
    api.Mutate(VolumeSnapshotKey("shop", k8s::Name(made)), [](Json& object) {
      SetJson(object, {"status", "error", "message"},
              "Failed to set default snapshot class with error cannot find default snapshot class");
    });
  });
  CreationRequest request = Request();
  request.source.class_name = "";
  EXPECT_THAT(Create(request),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("no class for a snapshot of PVC shop/data"),
                             HasSubstr("--class"), HasSubstr("monday was deleted again"))));
  EXPECT_EQ(api_.object_count(), 0);
}

TEST_F(SnapshotCreationTest, AnotherOfTheNameIsRefusedOrJoined) {
  CreationRequest request = Request();
  request.may_join = true;
  ASSERT_THAT(Create(request), IsOk());
  const auto again = Create(request);
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->has_joined);
  EXPECT_EQ(cluster_.driver().CallCount("CreateSnapshot"), 1);

  request.may_join = false;
  EXPECT_THAT(Create(request),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("shop/monday exists already")));
  Json foreign = Other("foreign");
  SetJson(foreign, {"status", "readyToUse"}, true);
  api_.Seed(VolumeSnapshotType(), foreign);
  request = Request("foreign");
  request.may_join = true;
  EXPECT_THAT(Create(request), StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(SnapshotCreationTest, ARunThatWasKilledIsGoneOnWithByItsName) {
  // What it leaves: the Lease, and the object that the driver works on.
  cluster_.driver().Hold("CreateSnapshot");
  CreationRequest request = Request();
  request.may_join = true;
  request.awaited = AwaitedState::kNothing;
  ASSERT_THAT(Create(request), IsOk());
  HoldLease("monday");
  cluster_.LetDriverWork();
  request.awaited = AwaitedState::kTaken;
  const auto creation = Create(request);
  ASSERT_THAT(creation, IsOk());
  EXPECT_TRUE(creation->has_joined);
  EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
}

// --- Ten at once

class TenAtOnceTest : public testing::TestWithParam<bool> {};

TEST_P(TenAtOnceTest, OneIsTakenAndNineAreBusy) {
  support::FakeApiClient api;
  support::FakeSnapshotCluster cluster(api);
  if (!GetParam()) {
    api.Forbid("create", "leases");
  }
  cluster.driver().Hold("CreateSnapshot");
  cluster.Run(absl::Milliseconds(5), absl::Milliseconds(50));
  constexpr int kRuns = 10;
  std::vector<absl::StatusOr<csi::TakenSnapshot>> creations(kRuns, absl::UnknownError("not run"));
  std::atomic<int> busy = 0;
  std::vector<std::thread> runs;
  runs.reserve(kRuns);
  for (int i = 0; i < kRuns; ++i) {
    runs.emplace_back([&, i] {
      auto& creation = creations[static_cast<std::size_t>(i)];
      creation =
          CreateSnapshot({}, api, Random::Real(), PersonsRequest("shop", absl::StrCat("run-", i)));
      busy += csi::IsVolumeBusy(creation.status()) ? 1 : 0;
    });
  }
  support::Await("nine to be busy", [&] { return busy == kRuns - 1; });
  cluster.LetDriverWork();
  for (std::thread& run : runs) {
    run.join();
  }
  int taken = 0;
  for (const auto& creation : creations) {
    taken += creation.ok() ? 1 : 0;
  }
  EXPECT_EQ(taken, 1);
  if (GetParam()) {
    EXPECT_EQ(cluster.driver().snapshots().size(), 1);
    EXPECT_THAT(api.All(LeaseType()), IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(Leases, TenAtOnceTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& param) {
                           return param.param ? "Allowed" : "Forbidden";
                         });

// --- Names

TEST(SnapshotNameTest, FitsALabelValueAndKeepsTheTime) {
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  EXPECT_EQ(NameForSnapshot("data", now), "data-20231114-221320");
  const std::string long_pvc(200, 'p');
  const std::string name = NameForSnapshot(long_pvc, now);
  EXPECT_EQ(name.size(), 63);
  EXPECT_THAT(name, testing::EndsWith("-20231114-221320"));
  EXPECT_NE(name, NameForSnapshot(long_pvc + "q", now));
  EXPECT_EQ(FitName("short"), "short");
  EXPECT_EQ(FitName(std::string(63, 'a')).size(), 63);
  EXPECT_EQ(FitName(std::string(64, 'a')).size(), 63);
  // What is left of the stem does not end with a sign that a hash may not follow.
  EXPECT_THAT(FitName(absl::StrCat(std::string(53, 'a'), ".", std::string(40, 'b'))),
              testing::Not(HasSubstr(".-")));
}

}  // namespace
}  // namespace csidelta::snapshots::snapshot_creation_test
