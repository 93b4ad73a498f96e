#include "datamover/node_slots.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

using objects::Pod;

// "0/3 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 2 node(s) had volume
// node affinity conflict." Of each node the scheduler names the first filter that it did not pass,
// and the Pods that are there are the last one: without them such a node would take the Pod.
constexpr char kOtherPodsOnly[] = "anti-affinity";

// Why the scheduler finds no node for a Pod; nothing where it has not found that.
std::optional<std::string> WhyUnschedulable(const Pod& pod) {
  for (objects::Condition& condition : pod.conditions()) {
    if (condition.type == "PodScheduled" && condition.status == "False" &&
        condition.reason == "Unschedulable") {
      return std::move(condition.message);
    }
  }
  return std::nullopt;
}

}  // namespace

int SlotChooser::Choose(const Pod& pod, const std::vector<Pod>& pods, int slots, absl::Time now) {
  const std::string name = pod.name();
  const std::string nodes = pod.required_nodes().ToText();
  std::vector<std::pair<int, int>> users(static_cast<std::size_t>(slots));  // there, of all
  const auto count = [&](int slot, const std::string& tied_to) {
    if (slot >= 0 && slot < slots) {
      auto& [there, of_all] = users[static_cast<std::size_t>(slot)];
      there += !nodes.empty() && tied_to == nodes ? 1 : 0;
      ++of_all;
    }
  };
  const MutexLock lock(mutex_);
  given_.erase(name);
  std::erase_if(given_, [now](const auto& given) { return now >= given.second.until; });
  std::set<std::string> listed;
  for (const Pod& other : pods) {
    listed.insert(other.name());
    const auto given = given_.find(other.name());
    if (given != given_.end()) {  // Another caller may still choose by an older list.
      given->second.until = std::min(given->second.until, now + kHeldOnceListed);
    }
    int slot = -1;
    if (other.is_active() && absl::SimpleAtoi(other.Label(objects::kSlotLabel), &slot)) {
      count(slot, other.required_nodes().ToText());
    }
  }
  for (const auto& [other, given] : given_) {
    if (!listed.contains(other)) {
      count(given.slot, given.nodes);
    }
  }
  const int freest = static_cast<int>(std::min_element(users.begin(), users.end()) - users.begin());
  given_[name] = {.slot = freest, .nodes = nodes, .until = now + kHeldFor};
  return freest;
}

void SetSlot(Pod& pod, int slot) {
  const std::string value = absl::StrCat(slot);
  pod.SetLabel(objects::kSlotLabel, value);
  pod.KeepAwayFrom(objects::kSlotLabel, value);
}

bool WaitsForSlot(const Pod& pod, const std::vector<Pod>& pods) {
  const std::string slot = pod.Label(objects::kSlotLabel);
  return !slot.empty() && IsUnschedulable(pod) &&
         absl::StrContains(*WhyUnschedulable(pod), kOtherPodsOnly) &&
         std::any_of(pods.begin(), pods.end(), [&](const Pod& other) {
           return other.Label(objects::kSlotLabel) == slot && other.is_active() &&
                  !other.node().empty();
         });
}

bool IsUnschedulable(const Pod& pod) {
  return pod.node().empty() && WhyUnschedulable(pod).has_value();
}

}  // namespace csidelta::datamover
