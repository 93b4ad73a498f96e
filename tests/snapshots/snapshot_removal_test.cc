// How a VolumeSnapshot is deleted on request: the tables of snapshots/snapshot_removal.h, and the
// races.
#include "snapshots/snapshot_removal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "csi/snapshot_state.h"
#include "objects/keys.h"
#include "snapshots/snapshot_inventory.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::snapshots::snapshot_removal_test {
namespace {

using support::ActionBed;
using support::ApiCall;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = csi::ContentReading::Kind;

struct ActionRow {
  const char* content;
  Kind kind;
  bool names_it;
  const char* policy;
  bool with_data;
  DataAction action;
};

TEST(SnapshotRemovalTest, ActionsFollowTheirTable) {
  const std::vector<ActionRow> rows = {
      {"", Kind::kUnknown, false, "", false, DataAction::kNone},
      {"", Kind::kUnknown, false, "", true, DataAction::kNone},
      {"c", Kind::kUnknown, false, "", false, DataAction::kUnknown},
      {"c", Kind::kUnknown, false, "", true, DataAction::kUnknown},
      {"c", Kind::kGone, false, "", true, DataAction::kContentGone},
      {"c", Kind::kPresent, false, "Delete", false, DataAction::kNotItsOwn},
      {"c", Kind::kPresent, false, "Retain", true, DataAction::kNotItsOwn},
      {"c", Kind::kPresent, true, "Delete", false, DataAction::kDeleted},
      {"c", Kind::kPresent, true, "Delete", true, DataAction::kDeleted},
      {"c", Kind::kPresent, true, "Retain", true, DataAction::kDeleted},
      {"c", Kind::kPresent, true, "Retain", false, DataAction::kKept},
  };
  for (const ActionRow& row : rows) {
    SnapshotEntry entry;
    entry.content = row.content;
    entry.content_kind = row.kind;
    entry.is_named_by_content = row.names_it;
    entry.deletion_policy = row.policy;
    EXPECT_EQ(ActionOf(entry, row.with_data), row.action)
        << ToString(row.action) << (row.with_data ? " with data" : "");
  }
}

SnapshotEntry Entry(const std::string& name, absl::Duration age,
                    csi::SnapshotState state = csi::SnapshotState::kReady) {
  SnapshotEntry entry;
  entry.namespace_name = "shop";
  entry.name = name;
  entry.pvc = "data";
  entry.status.state = state;
  entry.asked_at = absl::FromUnixSeconds(1'700'000'000) - age;
  return entry;
}

Finding Keep() { return {.code = "Keep", .message = "labelled keep"}; }

struct VerdictRow {
  csi::SnapshotState state;
  std::vector<Finding> kept_for;
  RemovalOptions options;
  RemovalVerdict verdict;
};

TEST(SnapshotRemovalTest, VerdictsFollowTheirTable) {
  using enum csi::SnapshotState;
  using enum RemovalVerdict;
  const std::vector<VerdictRow> rows = {
      {kDeleting, {}, {.with_data = false, .last_too = false}, kBeingDeleted},
      {kDeleting, {Keep()}, {.with_data = false, .last_too = false}, kBeingDeleted},
      {kDeleting, {}, {.with_data = true, .last_too = false}, kDelete},
      {kDeleting, {Keep()}, {.with_data = true, .last_too = false}, kProtected},
      {kReady, {Keep()}, {.with_data = false, .last_too = false}, kProtected},
      {kReady, {Keep()}, {.with_data = true, .last_too = true}, kProtected},
      {kReady, {csi::LastReadyProtection()}, {.with_data = false, .last_too = false}, kProtected},
      {kReady, {csi::LastReadyProtection()}, {.with_data = false, .last_too = true}, kDelete},
      {kReady,
       {csi::LastReadyProtection(), Keep()},
       {.with_data = false, .last_too = true},
       kProtected},
      {kReady, {}, {.with_data = false, .last_too = false}, kDelete},
      {kError, {}, {.with_data = false, .last_too = false}, kDelete},
      {kLost, {}, {.with_data = false, .last_too = false}, kDelete},
      {kCreating, {}, {.with_data = false, .last_too = false}, kDelete},
      {kUploading, {}, {.with_data = false, .last_too = false}, kDelete},
      {kUnverified, {}, {.with_data = false, .last_too = false}, kDelete},
  };
  for (const VerdictRow& row : rows) {
    Inventory inventory;
    inventory.entries = {Entry("it", absl::Hours(2), row.state), Entry("other", absl::Hours(1))};
    inventory.entries[0].kept_for_person = row.kept_for;
    const std::vector<PlannedRemoval> plan = PlanRemoval(inventory, {0}, row.options);
    ASSERT_EQ(plan.size(), 1u);
    EXPECT_EQ(plan[0].verdict, row.verdict) << ToString(row.state);
    EXPECT_EQ(plan[0].kept_for.empty(), row.verdict != kProtected);
  }
}

TEST(SnapshotRemovalTest, AllReadyOnesTogetherAreTheLast) {
  Inventory inventory;
  inventory.entries = {Entry("new", absl::Hours(1)), Entry("old", absl::Hours(2)),
                       Entry("failed", absl::Hours(0), csi::SnapshotState::kError)};
  std::vector<PlannedRemoval> plan = PlanRemoval(inventory, {1, 2, 0}, {});
  EXPECT_EQ(plan[0].verdict, RemovalVerdict::kDelete);
  EXPECT_EQ(plan[1].verdict, RemovalVerdict::kDelete);
  EXPECT_EQ(plan[2].verdict, RemovalVerdict::kProtected);
  ASSERT_EQ(plan[2].kept_for.size(), 1u);
  EXPECT_EQ(plan[2].kept_for[0].code, "LastReady");
  plan = PlanRemoval(inventory, {1, 2, 0}, {.with_data = false, .last_too = true});
  EXPECT_EQ(plan[2].verdict, RemovalVerdict::kDelete);
  // Where the others could not be read, it is not guessed.
  inventory.is_last_ready_known = false;
  EXPECT_EQ(PlanRemoval(inventory, {0, 1}, {})[0].verdict, RemovalVerdict::kDelete);
}

// VolumeSnapshot shop/orders.
class OrdersTest : public testing::Test {
 protected:
  SnapshotEntry Read() {
    const absl::StatusOr<Inventory> inventory = ReadInventory(bed_.ctx, bed_.api,
                                                              {.namespace_name = "shop",
                                                               .label_selector = "",
                                                               .names = {"orders"},
                                                               .mover_namespace = "csi-delta",
                                                               .now = bed_.clock.Now()});
    EXPECT_THAT(inventory, IsOk());
    return inventory->entries.at(0);
  }
  absl::StatusOr<Removal> Remove(const SnapshotEntry& entry, bool with_data = false,
                                 csi::Requester requester = csi::Requester::kPerson) {
    return RemoveAsRead(
        bed_.ctx, bed_.api, {entry},
        {.requester = requester, .with_data = with_data, .mover_namespace = "csi-delta"});
  }
  void AdvanceAtWatch() {
    bed_.api.SetInterceptor([this](const ApiCall& call, const Json*) {
      if (call.verb == "watch") {
        bed_.clock.Advance(absl::Minutes(1));
      }
      return absl::OkStatus();
    });
  }

  ActionBed bed_;
};

// One VolumeSnapshot shop/orders with its content, as it was read.
class RemoveAsReadTest : public OrdersTest {
 protected:
  RemoveAsReadTest() {
    Json snapshot = support::MakeSnapshotObject("shop", "orders", "c");
    SetJson(snapshot, {"metadata", "creationTimestamp"}, "2023-11-14T20:13:20Z");
    SetJson(snapshot, {"status", "readyToUse"}, true);
    bed_.api.Seed(VolumeSnapshotType(), snapshot);
    bed_.api.Seed(VolumeSnapshotContentType(),
                  support::MakeContentObject("c", "shop", "orders", "h"));
  }

  void SetPolicy(const char* policy) {
    bed_.api.SetField(VolumeSnapshotContentKey("c"), {"spec", "deletionPolicy"}, policy);
  }
  std::string Policy() const {
    return GetString(bed_.api.Find(VolumeSnapshotContentKey("c")).value_or(Json()),
                     {"spec", "deletionPolicy"});
  }
  bool IsThere() const { return bed_.api.Find(VolumeSnapshotKey("shop", "orders")).has_value(); }

  // What happens just before the API server sees the first deletion.
  void BeforeDelete(std::function<void()> what) {
    bed_.api.SetInterceptor([this, what = std::move(what)](const ApiCall& call, const Json*) {
      if (call.verb == "delete" && call.plural == "volumesnapshots" && !has_happened_) {
        has_happened_ = true;
        what();
      }
      return absl::OkStatus();
    });
  }

  bool has_happened_ = false;
};

TEST_F(RemoveAsReadTest, DeletesWhatWasRead) {
  EXPECT_EQ(Remove(Read())->end, Removal::End::kRequested);
  EXPECT_FALSE(IsThere());
  EXPECT_EQ(bed_.api.CallCount("patch", "*"), 0);
}

TEST_F(RemoveAsReadTest, AKeepLabelThatWasSetMeanwhileWins) {
  for (const csi::Requester requester : {csi::Requester::kPerson, csi::Requester::kPrune}) {
    has_happened_ = false;
    bed_.api.Mutate(VolumeSnapshotKey("shop", "orders"), [](Json& snapshot) {
      EraseJson(snapshot, {"metadata", "labels"});
    });
    const SnapshotEntry entry = Read();
    BeforeDelete([this] {
      bed_.api.SetField(VolumeSnapshotKey("shop", "orders"),
                        {"metadata", "labels", objects::kKeepLabel}, "true");
    });
    const absl::StatusOr<Removal> removal = Remove(entry, false, requester);
    ASSERT_THAT(removal, IsOk());
    EXPECT_EQ(removal->end, Removal::End::kKept);
    ASSERT_EQ(removal->kept_for.size(), 1u);
    EXPECT_EQ(removal->kept_for[0].code, "Keep");
    EXPECT_TRUE(IsThere());
  }
}

TEST_F(RemoveAsReadTest, AChangeThatProtectsNothingIsNoHindrance) {
  const SnapshotEntry entry = Read();
  BeforeDelete([this] {
    bed_.api.SetField(VolumeSnapshotKey("shop", "orders"), {"metadata", "annotations", "note"},
                      "changed");
  });
  ASSERT_THAT(Remove(entry), IsOk());
  EXPECT_FALSE(IsThere());
}

TEST_F(RemoveAsReadTest, AnotherOneOfTheSameNameIsLeftAlone) {
  const SnapshotEntry entry = Read();
  BeforeDelete([this] {
    bed_.api.Remove(VolumeSnapshotKey("shop", "orders"));
    Json another = support::MakeSnapshotObject("shop", "orders", "");
    SetJson(another, {"metadata", "uid"}, "another-uid");
    bed_.api.Seed(VolumeSnapshotType(), another);
  });
  EXPECT_EQ(Remove(entry)->end, Removal::End::kGone);
  EXPECT_TRUE(IsThere());
}

TEST_F(RemoveAsReadTest, OneThatIsGoneIsDone) {
  const SnapshotEntry entry = Read();
  bed_.api.Remove(VolumeSnapshotKey("shop", "orders"));
  EXPECT_EQ(Remove(entry)->end, Removal::End::kGone);
}

TEST_F(RemoveAsReadTest, OneThatChangesAgainAndAgainIsAnError) {
  const SnapshotEntry entry = Read();
  bed_.api.FailNext("delete", "volumesnapshots", absl::AbortedError("conflict"), 100);
  EXPECT_THAT(Remove(entry), StatusIs(absl::StatusCode::kAborted, HasSubstr("shop/orders")));
  EXPECT_TRUE(IsThere());
}

TEST_F(RemoveAsReadTest, AsPruneWhatCannotBeReadAgainStays) {
  const SnapshotEntry entry = Read();
  BeforeDelete([this] {
    bed_.api.SetField(VolumeSnapshotKey("shop", "orders"), {"metadata", "labels", "a"}, "b");
    bed_.api.Forbid("get", "volumesnapshotcontents");
  });
  EXPECT_THAT(Remove(entry, false, csi::Requester::kPrune),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_TRUE(IsThere());
}

TEST_F(RemoveAsReadTest, WithDataMakesThePolicyDeleteFirst) {
  SetPolicy("Retain");
  const SnapshotEntry entry = Read();
  bed_.api.ClearCalls();
  BeforeDelete([this] { EXPECT_EQ(Policy(), "Delete"); });
  ASSERT_THAT(Remove(entry, true), IsOk());
  std::vector<std::string> verbs;
  for (const ApiCall& call : bed_.api.calls()) {
    verbs.push_back(call.verb + " " + call.plural);
  }
  EXPECT_THAT(verbs, ElementsAre("get volumesnapshotcontents", "patch volumesnapshotcontents",
                                 "delete volumesnapshots", "get volumesnapshots",
                                 "patch volumesnapshotcontents", "delete volumesnapshotcontents"));
}

TEST_F(RemoveAsReadTest, WithDataLeavesAPolicyThatIsDeleteAlready) {
  ASSERT_THAT(Remove(Read(), true), IsOk());
  EXPECT_EQ(bed_.api.CallCount("patch", "*"), 0);
  EXPECT_FALSE(IsThere());
}

TEST_F(RemoveAsReadTest, WithDataPutsThePolicyBackWhereTheSnapshotStays) {
  SetPolicy("Retain");
  const SnapshotEntry entry = Read();
  bed_.api.Forbid("delete", "volumesnapshots");
  EXPECT_THAT(Remove(entry, true), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(Policy(), "Retain");
  bed_.api.ClearFaults();
  BeforeDelete([this] {
    bed_.api.SetField(VolumeSnapshotKey("shop", "orders"),
                      {"metadata", "labels", objects::kKeepLabel}, "true");
  });
  EXPECT_EQ(Remove(entry, true)->end, Removal::End::kKept);
  EXPECT_EQ(Policy(), "Retain");
}

TEST_F(RemoveAsReadTest, WithDataPutsThePolicyBackThoughItWasStopped) {
  SetPolicy("Retain");
  const SnapshotEntry entry = Read();
  std::stop_source stop;
  CallContext ctx = bed_.ctx;
  ctx.stop = stop.get_token();
  bed_.api.OnEvent("volumesnapshotcontents",
                   [&](support::FakeApiClient&, const k8s::WatchEvent&) { stop.request_stop(); });
  EXPECT_THAT(RemoveAsRead(ctx, bed_.api, {entry},
                           {.requester = csi::Requester::kPerson,
                            .with_data = true,
                            .mover_namespace = "csi-delta"}),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_TRUE(IsThere());
  EXPECT_EQ(Policy(), "Retain");
}

TEST_F(RemoveAsReadTest, WithDataPutsThePolicyBackWhereTheAnswerWasLost) {
  SetPolicy("Retain");
  const SnapshotEntry entry = Read();
  bed_.api.FailNext("patch", "volumesnapshotcontents", absl::UnavailableError("lost"), 1,
                    support::Fault::kAnswerLost);
  EXPECT_THAT(Remove(entry, true), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(Policy(), "Retain");
}

TEST_F(RemoveAsReadTest, WithDataSaysWhereThePolicyCouldNotBePutBack) {
  SetPolicy("Retain");
  const SnapshotEntry entry = Read();
  BeforeDelete([this] {
    bed_.api.Forbid("delete", "volumesnapshots");
    bed_.api.Forbid("patch", "volumesnapshotcontents");
  });
  EXPECT_THAT(Remove(entry, true), StatusIs(absl::StatusCode::kPermissionDenied,
                                            HasSubstr("is Delete now, and was Retain")));
}

TEST_F(RemoveAsReadTest, WithDataLeavesTheContentOfAnotherAlone) {
  SetPolicy("Retain");
  const SnapshotEntry entry = Read();
  bed_.api.SetField(VolumeSnapshotContentKey("c"), {"spec", "volumeSnapshotRef", "namespace"},
                    "bank");
  EXPECT_THAT(Remove(entry, true),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("belongs to bank/orders")));
  EXPECT_TRUE(IsThere());
  EXPECT_EQ(Policy(), "Retain");
}

TEST_F(RemoveAsReadTest, AKeptContentGoesAfterItsSnapshot) {
  SetPolicy("Retain");
  const SnapshotEntry entry = Read();
  ASSERT_THAT(Remove(entry), IsOk());
  ASSERT_THAT(RemoveKeptContent(bed_.ctx, bed_.api, entry), IsOk());
  EXPECT_FALSE(bed_.api.Find(VolumeSnapshotContentKey("c")).has_value());
  EXPECT_THAT(RemoveKeptContent(bed_.ctx, bed_.api, entry), IsOk());  // Nothing is left to do.
}

TEST_F(RemoveAsReadTest, AKeptContentStaysWhereItsSnapshotDoes) {
  SetPolicy("Retain");
  const SnapshotEntry entry = Read();
  AdvanceAtWatch();
  EXPECT_THAT(
      RemoveKeptContent(bed_.ctx.WithTimeout(absl::Seconds(10)), bed_.api, entry),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("VolumeSnapshot shop/orders")));
  EXPECT_EQ(bed_.api.CallCount("delete", "*"), 0);
}

// Its policy may have become Delete, and its name another's: then its deletion would be that of the
// data, or of a stranger's content.
TEST_F(RemoveAsReadTest, AContentThatIsNotKeptIsNotDeleted) {
  SetPolicy("Retain");
  const SnapshotEntry entry = Read();
  bed_.api.Remove(VolumeSnapshotKey("shop", "orders"));
  SetPolicy("Delete");
  EXPECT_THAT(RemoveKeptContent(bed_.ctx, bed_.api, entry), IsOk());
  SetPolicy("Retain");
  bed_.api.SetField(VolumeSnapshotContentKey("c"), {"spec", "volumeSnapshotRef", "uid"},
                    "another-uid");
  EXPECT_THAT(RemoveKeptContent(bed_.ctx, bed_.api, entry), IsOk());
  EXPECT_EQ(bed_.api.CallCount("delete", "*"), 0);
}

TEST_F(RemoveAsReadTest, AContentThatBecomesDeletableMeanwhileIsNotDeleted) {
  SetPolicy("Retain");
  const SnapshotEntry entry = Read();
  bed_.api.Remove(VolumeSnapshotKey("shop", "orders"));
  bed_.api.SetInterceptor([this](const ApiCall& call, const Json*) {
    if (call.verb == "delete" && call.plural == "volumesnapshotcontents") {
      SetPolicy("Delete");
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(RemoveKeptContent(bed_.ctx, bed_.api, entry), IsOk());
  EXPECT_TRUE(bed_.api.Find(VolumeSnapshotContentKey("c")).has_value());
  EXPECT_EQ(bed_.api.CallCount("delete", "volumesnapshotcontents"), 1);
}

TEST_F(RemoveAsReadTest, TheWaitEndsWhenTheContentIsGoneToo) {
  const SnapshotEntry entry = Read();
  ASSERT_THAT(Remove(entry), IsOk());
  bool is_content_gone = false;
  bed_.api.SetInterceptor([&](const ApiCall& call, const Json*) {
    if (call.verb == "watch" && call.plural == "volumesnapshotcontents") {
      is_content_gone = bed_.api.Remove(VolumeSnapshotContentKey("c"));
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(AwaitRemoval(bed_.ctx, bed_.api, entry, false), IsOk());
  EXPECT_FALSE(is_content_gone);
  EXPECT_THAT(AwaitRemoval(bed_.ctx, bed_.api, entry, true), IsOk());
  EXPECT_TRUE(is_content_gone);
}

TEST_F(RemoveAsReadTest, AWaitThatRunsOutSaysWhatItWaitedFor) {
  bed_.api.SetField(VolumeSnapshotKey("shop", "orders"), {"metadata", "finalizers"},
                    Json::array({"storage/in-use"}));
  const SnapshotEntry entry = Read();
  ASSERT_THAT(Remove(entry), IsOk());
  AdvanceAtWatch();
  EXPECT_THAT(
      AwaitRemoval(bed_.ctx.WithTimeout(absl::Seconds(10)), bed_.api, entry, true),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("shop/orders is not gone yet"), HasSubstr("storage/in-use"))));
  bed_.api.Remove(VolumeSnapshotKey("shop", "orders"));
  bed_.api.SetField(VolumeSnapshotContentKey("c"), {"status", "error", "message"},
                    "volume is busy");
  EXPECT_THAT(AwaitRemoval(bed_.ctx.WithTimeout(absl::Seconds(10)), bed_.api, entry, true),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("VolumeSnapshotContent c"), HasSubstr("volume is busy"))));
}

// With the snapshot controller, the sidecar and a driver at work.
class RemovalWithDriverTest : public OrdersTest {
 protected:
  SnapshotEntry Take(const char* policy) {
    cluster_.class_policy = policy;
    Json snapshot = support::MakeSnapshotObject("shop", "orders", "");
    EraseJson(snapshot, {"metadata", "uid"});
    EXPECT_THAT(bed_.api.Create(bed_.ctx, VolumeSnapshotType(), "shop", snapshot), IsOk());
    return Read();
  }
  support::FakeSnapshotCluster cluster_{bed_.api};
};

TEST_F(RemovalWithDriverTest, WithThePolicyRetainOnlyTheDriversSnapshotIsLeft) {
  const SnapshotEntry entry = Take("Retain");
  EXPECT_EQ(ActionOf(entry, false), DataAction::kKept);
  ASSERT_THAT(Remove(entry), IsOk());
  EXPECT_TRUE(bed_.api.Find(VolumeSnapshotContentKey(entry.content)).has_value());
  ASSERT_THAT(RemoveKeptContent(bed_.ctx, bed_.api, entry), IsOk());
  EXPECT_THAT(bed_.api.All(VolumeSnapshotType()), IsEmpty());
  EXPECT_THAT(bed_.api.All(VolumeSnapshotContentType()), IsEmpty());
  EXPECT_THAT(cluster_.driver().snapshots(), ElementsAre(entry.handle));
}

TEST_F(RemovalWithDriverTest, WithDataNothingIsLeftThoughTheControllerSeesThePolicyBefore) {
  cluster_.sees_policies_late = true;
  const SnapshotEntry entry = Take("Retain");
  ASSERT_THAT(Remove(entry, /*with_data=*/true), IsOk());
  EXPECT_THAT(bed_.api.All(VolumeSnapshotContentType()), IsEmpty());
  EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
}

TEST_F(RemovalWithDriverTest, WhoMayNotDeleteContentsLeavesItToTheController) {
  const SnapshotEntry entry = Take("Retain");
  bed_.api.Forbid("delete", "volumesnapshotcontents");
  EXPECT_THAT(Remove(entry, /*with_data=*/true), IsOk());
}

TEST_F(RemovalWithDriverTest, TheWaitNamesWhatTheSidecarReports) {
  const SnapshotEntry entry = Take("Delete");
  for (const char* type : {"Warning", "Normal"}) {
    Json event = support::MakeObject("v1", "Event", "default", absl::StrCat("e-", type));
    SetJson(event, {"involvedObject", "uid"}, entry.content_uid);
    SetJson(event, {"type"}, type);
    SetJson(event, {"reason"}, "SnapshotDeleteError");
    SetJson(event, {"message"}, absl::StrCat(type, ": Failed to delete snapshot"));
    bed_.api.Seed(EventType(), event);
  }
  cluster_.driver().Refuse("DeleteSnapshot", "Internal", "the pool is busy");
  ASSERT_THAT(Remove(entry), IsOk());
  AdvanceAtWatch();
  EXPECT_THAT(AwaitRemoval(bed_.ctx.WithTimeout(absl::Seconds(10)), bed_.api, entry, true),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("SnapshotDeleteError: Warning: Failed to delete snapshot")));
  bed_.api.ClearFaults();
  cluster_.LetDriverWork();
  EXPECT_THAT(AwaitRemoval(bed_.ctx, bed_.api, entry, true), IsOk());
  EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
}

}  // namespace
}  // namespace csidelta::snapshots::snapshot_removal_test
