#include "inplace/swap_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "inplace/volume_swap.h"
#include "objects/keys.h"
#include "tests/support/status_matchers.h"

namespace csidelta::inplace::swap_state_test {
namespace {

using objects::CsiNode;
using objects::Node;
using objects::PersistentVolume;
using objects::PersistentVolumeClaim;
using objects::SwapRecord;
using objects::SwapSide;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::HasSubstr;

constexpr char kDeletedAt[] = "2023-11-14T22:13:20Z";
const SwapRequest kMonday = {.snapshot = "monday", .snapshot_uid = "m"};

// What a case changes; null objects do not exist.
struct Objects {
  Json pvc = {{"metadata", {{"name", "data"}, {"namespace", "shop"}, {"uid", "p1"}}},
              {"spec", {{"volumeName", "pv-old"}}},
              {"status", {{"phase", "Bound"}}}};
  Json original;
  Json restored;
  Json temporary;
  SwapSide goal = SwapSide::kRestored;
  std::string snapshot_uid = "m";  // of the records
};

Json VolumeObject(const char* name, const char* policy, const char* pvc_uid) {
  return {{"metadata", {{"name", name}}},
          {"spec",
           {{"persistentVolumeReclaimPolicy", policy},
            {"claimRef", {{"namespace", "shop"}, {"name", "data"}, {"uid", pvc_uid}}}}},
          {"status", {{"phase", "Released"}}}};
}

Json TemporaryObject(const char* phase) {
  return {{"metadata",
           {{"name", "tmp"},
            {"namespace", "shop"},
            {"uid", "t"},
            {"annotations",
             {{objects::kInPlaceRecordAnnotation,
               objects::FormatTemporaryRecord(
                   {.pvc_uid = "p1", .snapshot = "monday", .snapshot_uid = "m"})}}}}},
          {"spec", {{"volumeName", "pv-new"}}},
          {"status", {{"phase", phase}}}};
}

SwapState StateOf(const Objects& o) {
  SwapState state = {.namespace_name = "shop", .pvc_name = "data"};
  if (!o.pvc.is_null()) {
    state.pvc = *PersistentVolumeClaim::Of(o.pvc);
  }
  if (!o.temporary.is_null()) {
    state.temporary = *PersistentVolumeClaim::Of(o.temporary);
  }
  const auto record = [&](SwapSide side, const char* peer) {
    return SwapRecord{.side = side,
                      .namespace_name = "shop",
                      .pvc = "data",
                      .snapshot = "monday",
                      .snapshot_uid = o.snapshot_uid,
                      .policy = "Delete",
                      .peer = peer,
                      .goal = o.goal,
                      .pvc_uid = "p1"};
  };
  if (!o.original.is_null()) {
    state.original = {.volume = *PersistentVolume::Of(o.original),
                      .record = record(SwapSide::kOriginal, "pv-new")};
  }
  if (!o.restored.is_null()) {
    state.restored = {.volume = *PersistentVolume::Of(o.restored),
                      .record = record(SwapSide::kRestored, "pv-old")};
  }
  return state;
}

struct StepCase {
  const char* what;
  std::function<void(Objects&)> change;
  SwapStep want;
};
struct RefusalCase {
  const char* what;
  std::function<void(Objects&)> change;
  const char* message;
};

using Next = std::function<absl::StatusOr<SwapStep>(const SwapState&)>;

void ExpectSteps(const Next& next, const Objects& begin, const std::vector<StepCase>& cases) {
  for (const StepCase& one : cases) {
    Objects objects = begin;
    one.change(objects);
    EXPECT_THAT(next(StateOf(objects)), IsOkAndHolds(one.want)) << one.what;
  }
}
void ExpectRefusals(const Next& next, const Objects& begin, const std::vector<RefusalCase>& cases) {
  for (const RefusalCase& one : cases) {
    Objects objects = begin;
    one.change(objects);
    EXPECT_THAT(next(StateOf(objects)),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(one.message)))
        << one.what;
  }
}

absl::StatusOr<SwapStep> RestoreMonday(const SwapState& state) {
  return NextOfRestore(state, kMonday);
}

// Both volumes have their record, and the PVC that was there before is still there.
Objects BothRecorded() {
  Objects o;
  o.original = VolumeObject("pv-old", "Retain", "p1");
  o.restored = VolumeObject("pv-new", "Retain", "t");
  return o;
}
// The PVC was made again, with the restored volume, and is bound.
Objects Restored() {
  Objects o = BothRecorded();
  o.pvc["metadata"]["uid"] = "p2";
  o.pvc["metadata"]["annotations"] = {{objects::kInPlaceRecordAnnotation, "pv-old"}};
  o.pvc["spec"]["volumeName"] = "pv-new";
  o.restored = VolumeObject("pv-new", "Delete", "p2");
  return o;
}

TEST(SwapStateTest, RowsOfPreparing) {
  ExpectSteps(RestoreMonday, {},
              {{"nothing yet", [](Objects&) {}, SwapStep::kMakeTemporary},
               {"not bound", [](Objects& o) { o.temporary = TemporaryObject("Pending"); },
                SwapStep::kAwaitTemporary},
               {"bound", [](Objects& o) { o.temporary = TemporaryObject("Bound"); },
                SwapStep::kRecordRestored},
               {"being deleted",
                [](Objects& o) {
                  o.temporary = TemporaryObject("Bound");
                  o.temporary["metadata"]["deletionTimestamp"] = kDeletedAt;
                },
                SwapStep::kAwaitTemporaryGone},
               {"recorded, not kept",
                [](Objects& o) {
                  o.temporary = TemporaryObject("Bound");
                  o.restored = VolumeObject("pv-new", "Delete", "t");
                },
                SwapStep::kRecordRestored},
               {"recorded",
                [](Objects& o) {
                  o.temporary = TemporaryObject("Bound");
                  o.restored = VolumeObject("pv-new", "Retain", "t");
                },
                SwapStep::kRecordOriginal}});
  SwapRequest request = kMonday;
  request.needs_safety_snapshot = true;
  EXPECT_THAT(NextOfRestore(StateOf({}), request), IsOkAndHolds(SwapStep::kTakeSafetySnapshot));
  EXPECT_THAT(NextOfRestore(StateOf(BothRecorded()), request),
              IsOkAndHolds(testing::Not(SwapStep::kTakeSafetySnapshot)));
}

TEST(SwapStateTest, RowsOfTheExchange) {
  ExpectSteps(RestoreMonday, BothRecorded(),
              {{"a temporary PVC", [](Objects& o) { o.temporary = TemporaryObject("Bound"); },
                SwapStep::kRemoveTemporary},
               {"the PVC of before", [](Objects&) {}, SwapStep::kRemovePvc},
               {"it is being deleted",
                [](Objects& o) { o.pvc["metadata"]["deletionTimestamp"] = kDeletedAt; },
                SwapStep::kAwaitPvcGone},
               {"it may take its volume along",
                [](Objects& o) { o.original["spec"]["persistentVolumeReclaimPolicy"] = "Delete"; },
                SwapStep::kRetain},
               {"no PVC", [](Objects& o) { o.pvc = nullptr; }, SwapStep::kReserve},
               {"reserved",
                [](Objects& o) {
                  o.pvc = nullptr;
                  o.restored["spec"]["claimRef"].erase("uid");
                },
                SwapStep::kMakePvc}});
  ExpectSteps(RestoreMonday, Restored(),
              {{"done", [](Objects&) {}, SwapStep::kDone},
               {"not bound yet",
                [](Objects& o) {
                  o.pvc["status"]["phase"] = "Pending";
                  o.restored["spec"]["persistentVolumeReclaimPolicy"] = "Retain";
                },
                SwapStep::kAwaitPvc},
               {"bound on one side",
                [](Objects& o) {
                  o.restored["spec"]["claimRef"]["uid"] = "x";
                  o.restored["spec"]["persistentVolumeReclaimPolicy"] = "Retain";
                },
                SwapStep::kAwaitPvc},
               {"still kept",
                [](Objects& o) { o.restored["spec"]["persistentVolumeReclaimPolicy"] = "Retain"; },
                SwapStep::kReturnPolicy}});
}

TEST(SwapStateTest, ARestoreIsRefusedWhereTheObjectsAreOthers) {
  ExpectRefusals(
      RestoreMonday, {},
      {{"no PVC", [](Objects& o) { o.pvc = nullptr; }, "has no volume to be replaced"},
       {"PVC going", [](Objects& o) { o.pvc["metadata"]["deletionTimestamp"] = kDeletedAt; },
        "has no volume to be replaced"},
       {"another PVC of the name",
        [](Objects& o) {
          o.temporary = TemporaryObject("Bound");
          o.pvc["metadata"]["uid"] = "p9";
        },
        "with another PVC of that name"},
       {"finished by half", [](Objects& o) { o.restored = VolumeObject("pv-old", "Delete", "p1"); },
        "--finish finishes it"}});
  ExpectRefusals(
      RestoreMonday, BothRecorded(),
      {{"another snapshot", [](Objects& o) { o.snapshot_uid = "t"; }, "is not finished"},
       {"undone", [](Objects& o) { o.goal = SwapSide::kOriginal; }, "was undone"},
       {"a foreign PVC", [](Objects& o) { o.pvc["metadata"]["uid"] = "p9"; },
        "(uid p9) was made by another program"},
       {"a foreign PVC with the restored volume",
        [](Objects& o) {
          o.pvc["metadata"]["uid"] = "p9";
          o.pvc["spec"]["volumeName"] = "pv-new";
        },
        "was made by another program"},
       {"the restored volume is gone", [](Objects& o) { o.restored = nullptr; },
        "--undo brings the original back"},
       {"the restored volume is going",
        [](Objects& o) { o.restored["metadata"]["deletionTimestamp"] = kDeletedAt; },
        "which is being deleted"},
       {"the restored volume is given up",
        [](Objects& o) { o.restored["spec"]["persistentVolumeReclaimPolicy"] = "Delete"; },
        "which is being deleted"}});
  EXPECT_THAT(NextOfRestore(StateOf({}), {.snapshot = "monday", .snapshot_uid = ""}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("does not exist")));
  Objects begun;
  begun.temporary = TemporaryObject("Bound");
  EXPECT_THAT(NextOfRestore(StateOf(begun), {.snapshot = "tuesday", .snapshot_uid = "t"}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("a restore of VolumeSnapshot monday that was begun")));
}

TEST(SwapStateTest, RowsOfUndo) {
  ExpectSteps(NextOfUndo, {},
              {{"nothing", [](Objects&) {}, SwapStep::kDone},
               {"a temporary PVC", [](Objects& o) { o.temporary = TemporaryObject("Pending"); },
                SwapStep::kRemoveTemporary},
               {"a volume with a record",
                [](Objects& o) { o.restored = VolumeObject("pv-new", "Retain", "t"); },
                SwapStep::kAbandon}});
  ExpectSteps(NextOfUndo, Restored(),
              {{"whole", [](Objects&) {}, SwapStep::kTurnBack},
               {"turned back", [](Objects& o) { o.goal = SwapSide::kOriginal; }, SwapStep::kRetain},
               {"kept",
                [](Objects& o) {
                  o.goal = SwapSide::kOriginal;
                  o.restored["spec"]["persistentVolumeReclaimPolicy"] = "Retain";
                },
                SwapStep::kRemovePvc}});
  ExpectSteps(
      NextOfUndo, BothRecorded(),
      {{"before the exchange", [](Objects& o) { o.goal = SwapSide::kOriginal; },
        SwapStep::kMarkPvc},
       {"marked",
        [](Objects& o) {
          o.goal = SwapSide::kOriginal;
          o.pvc["metadata"]["annotations"] = {{objects::kInPlaceRecordAnnotation, "pv-new"}};
        },
        SwapStep::kReturnPolicy}});
  ExpectRefusals(
      NextOfUndo, Restored(),
      {{"given up by finish",
        [](Objects& o) { o.original["spec"]["persistentVolumeReclaimPolicy"] = "Delete"; },
        "--finish ends the restore"},
       {"finished by half", [](Objects& o) { o.original = nullptr; },
        "cannot get its original volume back"}});
}

TEST(SwapStateTest, RowsOfFinish) {
  const auto clean = [](Objects& o) { o.original = nullptr; };
  ExpectSteps(NextOfFinish, Restored(),
              {{"whole", [](Objects&) {}, SwapStep::kRelease},
               {"the policy first",
                [](Objects& o) { o.restored["spec"]["persistentVolumeReclaimPolicy"] = "Retain"; },
                SwapStep::kReturnPolicy},
               {"given up",
                [](Objects& o) { o.original["spec"]["persistentVolumeReclaimPolicy"] = "Delete"; },
                SwapStep::kAwaitVolumeGone},
               {"gone", clean, SwapStep::kCleanPvc},
               {"unmarked",
                [&](Objects& o) {
                  clean(o);
                  o.pvc["metadata"].erase("annotations");
                },
                SwapStep::kCleanVolume},
               {"clean",
                [&](Objects& o) {
                  clean(o);
                  o.restored = nullptr;
                  o.pvc["metadata"].erase("annotations");
                },
                SwapStep::kDone}});
  ExpectRefusals(
      NextOfFinish, Restored(),
      {{"no PVC", [](Objects& o) { o.pvc = nullptr; }, "is not bound to its restored volume"},
       {"not bound", [](Objects& o) { o.pvc["status"]["phase"] = "Pending"; }, "is not bound"},
       {"PVC going", [](Objects& o) { o.pvc["metadata"]["deletionTimestamp"] = kDeletedAt; },
        "is not bound"},
       {"a temporary PVC", [](Objects& o) { o.temporary = TemporaryObject("Bound"); },
        "is not bound"},
       {"the old volume is used", [](Objects& o) { o.original["status"]["phase"] = "Bound"; },
        "is used by PVC"},
       {"the old volume is reserved for another",
        [](Objects& o) { o.original["spec"]["claimRef"]["name"] = "rescue"; },
        "is used by PVC shop/rescue now"}});
  ExpectRefusals(NextOfFinish, BothRecorded(),
                 {{"not exchanged", [](Objects&) {}, "is not bound to its restored volume"}});
}

TEST(SwapStateTest, TheNameOfTheTemporaryPvcFollowsFromWhatItIsFor) {
  EXPECT_EQ(TemporaryPvcName("data", "p", "s"), TemporaryPvcName("data", "p", "s"));
  EXPECT_NE(TemporaryPvcName("data", "p", "s"), TemporaryPvcName("data", "q", "s"));
  EXPECT_NE(TemporaryPvcName("data", "p", "s"), TemporaryPvcName("data", "p", "t"));
  EXPECT_LE(TemporaryPvcName(std::string(200, 'x'), "p", "s").size(), 63U);
}

// --- Which node

TEST(NodeChoiceTest, TheFirstThatHasTheDriverWhereTheVolumeCanBeUsed) {
  const auto node = [](const char* name, const char* zone, bool cordoned) {
    return *Node::Of({{"metadata", {{"name", name}, {"labels", {{"zone", zone}}}}},
                      {"spec", {{"unschedulable", cordoned}}}});
  };
  const auto has = [](const char* name, const char* driver) {
    return *CsiNode::Of({{"metadata", {{"name", name}}},
                         {"spec", {{"drivers", Json::array({{{"name", driver}}})}}}});
  };
  const auto volume = [](const Json& terms) {
    Json json = {{"spec", {{"csi", {{"driver", "d"}}}}}};
    if (!terms.is_null()) {
      SetJson(json, {"spec", "nodeAffinity", "required", "nodeSelectorTerms"}, terms);
    }
    return *PersistentVolume::Of(json);
  };
  const auto term = [](const char* kind, const char* key, const char* how, const Json& values) {
    Json requirement = {{"key", key}, {"operator", how}};
    if (!values.is_null()) {
      requirement["values"] = values;
    }
    return Json{{kind, Json::array({requirement})}};
  };
  const std::vector<Node> nodes = {node("a", "one", true), node("b", "two", false),
                                   node("c", "one", false), node("d", "one", false)};
  const std::vector<CsiNode> csi_nodes = {has("a", "d"), has("b", "d"), has("c", "d"),
                                          has("d", "other")};
  const auto choose = [&](const Json& terms) {
    return ChooseNode(volume(terms), nodes, csi_nodes);
  };
  const char* const labels = "matchExpressions";
  EXPECT_EQ(choose(nullptr), "b") << "not the cordoned one";
  EXPECT_EQ(choose(Json::array({term(labels, "zone", "In", {"one"})})), "c");
  EXPECT_EQ(choose(Json::array({term(labels, "zone", "NotIn", {"two"})})), "c");
  EXPECT_EQ(choose(Json::array({term(labels, "zone", "Exists", nullptr)})), "b");
  EXPECT_EQ(choose(Json::array({term(labels, "zone", "DoesNotExist", nullptr)})), "");
  EXPECT_EQ(choose(Json::array({term(labels, "zone", "Gt", {"1"})})), "");
  EXPECT_EQ(choose(Json::array({term("matchFields", "metadata.name", "In", {"a"})})), "a")
      << "a cordoned one where there is no other";
  EXPECT_EQ(choose(Json::array({term("matchFields", "metadata.name", "In", {"d"})})), "")
      << "it has another driver";
  EXPECT_EQ(choose(Json::array(
                {term(labels, "zone", "In", {"three"}), term(labels, "zone", "In", {"two"})})),
            "b")
      << "one term is enough";
  EXPECT_EQ(choose(Json::array({Json::object()})), "") << "an empty term selects nothing";
  EXPECT_EQ(choose(Json::array()), "");
}

}  // namespace
}  // namespace csidelta::inplace::swap_state_test
