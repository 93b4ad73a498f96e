#include "datamover/node_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::datamover::node_slots_test {
namespace {

Json Pod(int slot, const std::string& node = "", const std::string& phase = "Running") {
  Json pod = {{"metadata", {{"name", "p"}}}, {"spec", Json::object()}};
  SetSlot(pod, slot);
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

int FreestSlot(const std::vector<Json>& pods, int slots) {
  return SlotChooser().Choose(Named("new"), pods, slots, kNow);
}

TEST(NodeSlotsTest, TheFreestSlotIsTaken) {
  EXPECT_EQ(FreestSlot({}, 2), 0);
  EXPECT_EQ(FreestSlot({Pod(0)}, 2), 1);
  EXPECT_EQ(FreestSlot({Pod(0), Pod(1)}, 2), 0);
  EXPECT_EQ(FreestSlot({Pod(0), Pod(1), Pod(0)}, 3), 2);
  EXPECT_EQ(FreestSlot({Pod(0, "n", "Succeeded"), Pod(1)}, 2), 0);
  EXPECT_EQ(FreestSlot({Pod(7), Json(), Json{{"metadata", 3}}}, 1), 0);
}

TEST(NodeSlotsTest, SlotsOfPodsThatAreBeingMadeCount) {
  SlotChooser slots;
  EXPECT_EQ(slots.Choose(Named("a"), {}, 2, kNow), 0);
  EXPECT_EQ(slots.Choose(Named("b"), {}, 2, kNow), 1) << "a is not listed yet";
  EXPECT_EQ(slots.Choose(Named("b"), {}, 2, kNow), 1) << "its own is not another's";
  Json listed = Pod(0);
  listed["metadata"]["name"] = "a";
  EXPECT_EQ(slots.Choose(Named("c"), {listed}, 2, kNow), 0) << "a counts once";
  EXPECT_EQ(slots.Choose(Named("d"), {}, 3, kNow + SlotChooser::kHeldFor), 0)
      << "they were never made";
}

// Else it waits on its node for a slot that the cluster has free, while one is free there.
TEST(NodeSlotsTest, OfAPodThatIsTiedToANodeThePodsOfThatNodeCount) {
  const auto choose = [](const std::string& node, const std::vector<Json>& pods) {
    return SlotChooser().Choose(TiedTo(node, Named("new")), pods, 2, kNow);
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
  EXPECT_EQ(slots.Choose(TiedTo("node-1", Named("a")), {}, 2, kNow), 0);
  EXPECT_EQ(slots.Choose(TiedTo("node-2", Named("b")), {Pod(1)}, 2, kNow), 0)
      << "a, which is not listed yet, is of another node";
  EXPECT_EQ(slots.Choose(TiedTo("node-1", Named("c")), {Pod(1), Pod(1), Pod(1)}, 2, kNow), 1);
}

TEST(NodeSlotsTest, APodKeepsAwayFromItsOwnSlot) {
  Json pod = {{"spec",
               {{"affinity",
                 {{"podAntiAffinity",
                   {{"requiredDuringSchedulingIgnoredDuringExecution",
                     Json::array({{{"topologyKey", "zone"}}})}}}}}}}};
  SetSlot(pod, 1);
  EXPECT_EQ(k8s::Label(pod, objects::kSlotLabel), "1");
  const Json* terms = FindJson(pod, {"spec", "affinity", "podAntiAffinity",
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
  EXPECT_TRUE(WaitsForSlot(pod, {Pod(0), Pod(0, "node-1")}));
  EXPECT_FALSE(WaitsForSlot(pod, {Pod(0), Pod(1, "node-1")}));
  EXPECT_FALSE(WaitsForSlot(pod, {Pod(0, "node-1", "Failed")}));
  EXPECT_FALSE(WaitsForSlot(Unschedulable(Pod(0, "node-2"), kOthersOnly), {Pod(0, "node-1")}));
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
    EXPECT_FALSE(WaitsForSlot(pod, {Pod(0), Pod(0, "node-1")})) << why;
    EXPECT_TRUE(IsUnschedulable(pod)) << why;
  }
}

TEST(NodeSlotsTest, WhatTheSchedulerHasNotLookedAtIsNotUnschedulable) {
  EXPECT_FALSE(IsUnschedulable(Pod(0)));
  EXPECT_FALSE(WaitsForSlot(Pod(0), {Pod(0, "node-1")}));
  EXPECT_FALSE(IsUnschedulable(Unschedulable(Pod(0, "node-2"), kOthersOnly)));
  Json gated = Unschedulable(Pod(0), kOthersOnly);
  gated["status"]["conditions"][0]["reason"] = "SchedulingGated";
  EXPECT_FALSE(IsUnschedulable(gated));
  EXPECT_FALSE(IsUnschedulable(Json{{"status", {{"conditions", Json::array({3})}}}}));
}

}  // namespace
}  // namespace csidelta::datamover::node_slots_test
