#include "datamover/node_slots.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::datamover {

bool HasEnded(const Json& pod) {
  const std::string phase = GetString(pod, {"status", "phase"});
  return phase == "Succeeded" || phase == "Failed";
}

int FreestSlot(const std::vector<Json>& pods, int slots) {
  std::vector<int> users(static_cast<std::size_t>(slots), 0);
  for (const Json& pod : pods) {
    int slot = -1;
    if (!HasEnded(pod) && absl::SimpleAtoi(k8s::Label(pod, objects::kSlotLabel), &slot) &&
        slot >= 0 && slot < slots) {
      ++users[static_cast<std::size_t>(slot)];
    }
  }
  return static_cast<int>(std::min_element(users.begin(), users.end()) - users.begin());
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
  return !slot.empty() && GetString(pod, {"spec", "nodeName"}).empty() &&
         std::any_of(pods.begin(), pods.end(), [&](const Json& other) {
           return k8s::Label(other, objects::kSlotLabel) == slot && !HasEnded(other) &&
                  !GetString(other, {"spec", "nodeName"}).empty();
         });
}

}  // namespace csidelta::datamover
