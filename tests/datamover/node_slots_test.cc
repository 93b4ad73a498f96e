#include "datamover/node_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "objects/keys.h"
#include "tests/support/typed.h"

namespace csidelta::datamover::node_slots_test {
namespace {

using support::As;

Json Pod(int slot, const std::string& node = "", const std::string& phase = "Running") {
  auto made = As<objects::Pod>({{"metadata", {{"name", "p"}}}, {"spec", Json::object()}});
  SetSlot(made, slot);
  Json pod = made.json();
  SetJson(pod, {"spec", "nodeName"}, node);
  SetJson(pod, {"status", "phase"}, phase);
  return pod;
}

Json Named(const std::string& name) { return {{"metadata", {{"name", name}}}}; }

// As the worker of a volume that only one node has.
Json TiedTo(const std::string& node, Json pod) {
  const Json requirement = {
      {"key", "kubernetes.io/hostname"}, {"operator", "In"}, {"values", Json::array({node})}};
  SetJson(
      pod, {"spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"},
      {{"nodeSelectorTerms", Json::array({{{"matchExpressions", Json::array({requirement})}}})}});
  return pod;
}

constexpr absl::Time kNow = absl::UnixEpoch();

int Choose(SlotChooser& slots, const Json& pod, const std::vector<Json>& pods, int count,
           absl::Time now = kNow) {
  return slots.Choose(As<objects::Pod>(pod), support::AllAs<objects::Pod>(pods), count, now);
}

int FreestSlot(const std::vector<Json>& pods, int count) {
  SlotChooser slots;
  return Choose(slots, Named("new"), pods, count);
}

bool Waits(const Json& pod, const std::vector<Json>& pods) {
  return WaitsForSlot(As<objects::Pod>(pod), support::AllAs<objects::Pod>(pods));
}

bool FitsNowhere(const Json& pod) { return IsUnschedulable(As<objects::Pod>(pod)); }

TEST(NodeSlotsTest, TheFreestSlotIsTaken) {
  EXPECT_EQ(FreestSlot({}, 2), 0);
  EXPECT_EQ(FreestSlot({Pod(0)}, 2), 1);
  EXPECT_EQ(FreestSlot({Pod(0), Pod(1)}, 2), 0);
  EXPECT_EQ(FreestSlot({Pod(0), Pod(1), Pod(0)}, 3), 2);
  EXPECT_EQ(FreestSlot({Pod(0, "n", "Succeeded"), Pod(1)}, 2), 0);
  EXPECT_EQ(FreestSlot({Pod(7), Json::object(), Json{{"metadata", 3}}}, 1), 0);
}

TEST(NodeSlotsTest, SlotsOfPodsThatAreBeingMadeCount) {
  SlotChooser slots;
  EXPECT_EQ(Choose(slots, Named("a"), {}, 2), 0);
  EXPECT_EQ(Choose(slots, Named("b"), {}, 2), 1) << "a is not listed yet";
  EXPECT_EQ(Choose(slots, Named("b"), {}, 2), 1) << "its own is not another's";
  Json listed = Pod(0);
  listed["metadata"]["name"] = "a";
  EXPECT_EQ(Choose(slots, Named("c"), {listed}, 2), 0) << "a counts once";
  EXPECT_EQ(Choose(slots, Named("d"), {}, 3, kNow + SlotChooser::kHeldFor), 0)
      << "they were never made";
}

TEST(NodeSlotsTest, APodCountsForACallerWhoListedBeforeItWasMade) {
  SlotChooser slots;
  EXPECT_EQ(Choose(slots, Named("a"), {}, 3), 0);
  Json listed = Pod(0);
  listed["metadata"]["name"] = "a";
  EXPECT_EQ(Choose(slots, Named("b"), {listed}, 3), 1);
  EXPECT_EQ(Choose(slots, Named("c"), {}, 3), 2) << "its list is older than a";
  EXPECT_EQ(Choose(slots, Named("d"), {}, 3, kNow + SlotChooser::kHeldOnceListed), 0)
      << "a is over";
}

// Else it waits on its node for a slot that the cluster has free, while one is free there.
TEST(NodeSlotsTest, OfAPodThatIsTiedToANodeThePodsOfThatNodeCount) {
  const auto choose = [](const std::string& node, const std::vector<Json>& pods) {
    SlotChooser slots;
    return Choose(slots, TiedTo(node, Named("new")), pods, 2);
  };
  const std::vector<Json> pods = {TiedTo("node-2", Pod(0)),
                                  TiedTo("node-2", Pod(0)),
                                  TiedTo("node-1", Pod(1)),
                                  Pod(1),
                                  Pod(1),
                                  Pod(1)};
  EXPECT_EQ(choose("node-1", pods), 0);
  EXPECT_EQ(choose("node-2", pods), 1);
  EXPECT_EQ(choose("node-3", pods), 0) << "the one that the fewest of all have";
  EXPECT_EQ(FreestSlot(pods, 2), 0) << "it may run anywhere";
  SlotChooser slots;
  EXPECT_EQ(Choose(slots, TiedTo("node-1", Named("a")), {}, 2), 0);
  EXPECT_EQ(Choose(slots, TiedTo("node-2", Named("b")), {Pod(1)}, 2), 0)
      << "a, which is not listed yet, is of another node";
  EXPECT_EQ(Choose(slots, TiedTo("node-1", Named("c")), {Pod(1), Pod(1), Pod(1)}, 2), 1);
}

TEST(NodeSlotsTest, APodKeepsAwayFromItsOwnSlot) {
  auto pod = As<objects::Pod>({{"spec",
                                {{"affinity",
                                  {{"podAntiAffinity",
                                    {{"requiredDuringSchedulingIgnoredDuringExecution",
                                      Json::array({{{"topologyKey", "zone"}}})}}}}}}}});
  SetSlot(pod, 1);
  EXPECT_EQ(pod.Label(objects::kSlotLabel), "1");
  const Json* terms = FindJson(pod.json(), {"spec", "affinity", "podAntiAffinity",
                                            "requiredDuringSchedulingIgnoredDuringExecution"});
  ASSERT_NE(terms, nullptr);
  ASSERT_EQ(terms->size(), 2U) << "what the settings ask for stays";
  EXPECT_EQ(GetString((*terms)[0], {"topologyKey"}), "kubernetes.io/hostname");
  EXPECT_EQ(GetString((*terms)[0], {"labelSelector", "matchLabels", objects::kSlotLabel}), "1");
}

Json Unschedulable(Json pod, const std::string& why) {
  SetJson(pod, {"status", "conditions"},
          Json::array({{{"type", "PodScheduled"},
                        {"status", "False"},
                        {"reason", "Unschedulable"},
                        {"message", why}}}));
  return pod;
}

constexpr char kOthersOnly[] =
    "0/3 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 2 node(s) had volume "
    "node affinity conflict. preemption: 0/3 nodes are available.";

TEST(NodeSlotsTest, APodThatOnlyWaitsForItsSlotIsKnown) {
  const Json pod = Unschedulable(Pod(0), kOthersOnly);
  EXPECT_TRUE(Waits(pod, {Pod(0), Pod(0, "node-1")}));
  EXPECT_FALSE(Waits(pod, {Pod(0), Pod(1, "node-1")}));
  EXPECT_FALSE(Waits(pod, {Pod(0, "node-1", "Failed")}));
  EXPECT_FALSE(Waits(Unschedulable(Pod(0, "node-2"), kOthersOnly), {Pod(0, "node-1")}));
}

TEST(NodeSlotsTest, APodThatFitsOnNoNodeDoesNotWaitForItsSlot) {
  for (const char* why :
       {"0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.",
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) had volume node affinity "
        "conflict.",
        "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No "
        "preemption victims found for incoming pod.",
        "0/3 nodes are available: 3 node(s) had untolerated taint {a: b}."}) {
    const Json pod = Unschedulable(Pod(0), why);
    EXPECT_FALSE(Waits(pod, {Pod(0), Pod(0, "node-1")})) << why;
    EXPECT_TRUE(FitsNowhere(pod)) << why;
  }
}

TEST(NodeSlotsTest, WhatTheSchedulerHasNotLookedAtIsNotUnschedulable) {
  EXPECT_FALSE(FitsNowhere(Pod(0)));
  EXPECT_FALSE(Waits(Pod(0), {Pod(0, "node-1")}));
  EXPECT_FALSE(FitsNowhere(Unschedulable(Pod(0, "node-2"), kOthersOnly)));
  Json gated = Unschedulable(Pod(0), kOthersOnly);
  gated["status"]["conditions"][0]["reason"] = "SchedulingGated";
  EXPECT_FALSE(FitsNowhere(gated));
  EXPECT_FALSE(FitsNowhere(Json{{"status", {{"conditions", Json::array({3})}}}}));
}

}  // namespace
}  // namespace csidelta::datamover::node_slots_test
