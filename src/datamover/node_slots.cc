#include "datamover/node_slots.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

// "0/3 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 2 node(s) had volume
// node affinity conflict." Of each node the scheduler names the first filter that it did not pass,
// and the Pods that are there are the last one: without them such a node would take the Pod.
constexpr char kOtherPodsOnly[] = "anti-affinity";

// null where the scheduler has not found that no node takes it.
const Json* UnschedulableOf(const Json& pod) {
  const Json* conditions = FindJson(pod, {"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) {
    return nullptr;
  }
  const auto found =
      std::find_if(conditions->begin(), conditions->end(), [](const Json& condition) {
        return GetString(condition, {"type"}) == "PodScheduled" &&
               GetString(condition, {"status"}) == "False" &&
               GetString(condition, {"reason"}) == "Unschedulable";
      });
  return found == conditions->end() ? nullptr : &*found;
}

// The nodes that a Pod is tied to, as it names them; "" where it may run anywhere.
std::string NodesOf(const Json& pod) {
  const Json* nodes = FindJson(
      pod, {"spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"});
  return nodes == nullptr ? "" : DumpJson(*nodes);
}

}  // namespace

bool HasEnded(const Json& pod) {
  const std::string phase = GetString(pod, {"status", "phase"});
  return phase == "Succeeded" || phase == "Failed";
}

int SlotChooser::Choose(const Json& pod, const std::vector<Json>& pods, int slots, absl::Time now) {
  const std::string name = k8s::Name(pod);
  const std::string nodes = NodesOf(pod);
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
  for (const Json& other : pods) {
    given_.erase(k8s::Name(other));
    int slot = -1;
    if (!HasEnded(other) && absl::SimpleAtoi(k8s::Label(other, objects::kSlotLabel), &slot)) {
      count(slot, NodesOf(other));
    }
  }
  std::erase_if(given_, [now](const auto& given) { return now - given.second.at >= kHeldFor; });
  for (const auto& [other, given] : given_) {
    count(given.slot, given.nodes);
  }
  const int freest = static_cast<int>(std::min_element(users.begin(), users.end()) - users.begin());
  given_[name] = {.slot = freest, .nodes = nodes, .at = now};
  return freest;
}

void SetSlot(Json& pod, int slot) {
  const std::string value = absl::StrCat(slot);
  SetJson(pod, {"metadata", "labels", objects::kSlotLabel}, value);
  Json term = {{"topologyKey", "kubernetes.io/hostname"}};
  SetJson(term, {"labelSelector", "matchLabels", objects::kSlotLabel}, value);
  Json terms = Json::array({std::move(term)});
  const Json* others = FindJson(pod, {"spec", "affinity", "podAntiAffinity",
                                      "requiredDuringSchedulingIgnoredDuringExecution"});
  if (others != nullptr && others->is_array()) {
    terms.insert(terms.end(), others->begin(), others->end());
  }
  SetJson(pod,
          {"spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"},
          std::move(terms));
}

bool WaitsForSlot(const Json& pod, const std::vector<Json>& pods) {
  const std::string slot = k8s::Label(pod, objects::kSlotLabel);
  const Json* unschedulable = UnschedulableOf(pod);
  return !slot.empty() && IsUnschedulable(pod) &&
         absl::StrContains(GetString(*unschedulable, {"message"}), kOtherPodsOnly) &&
         std::any_of(pods.begin(), pods.end(), [&](const Json& other) {
           return k8s::Label(other, objects::kSlotLabel) == slot && !HasEnded(other) &&
                  !GetString(other, {"spec", "nodeName"}).empty();
         });
}

bool IsUnschedulable(const Json& pod) {
  return GetString(pod, {"spec", "nodeName"}).empty() && UnschedulableOf(pod) != nullptr;
}

}  // namespace csidelta::datamover
