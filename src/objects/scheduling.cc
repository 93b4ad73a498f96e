#include "objects/scheduling.h"

#include <algorithm>
#include <set>

namespace csidelta::objects {
namespace {

bool IsToleration(const Json& toleration) {
  return toleration.is_object() &&
         std::all_of(toleration.items().begin(), toleration.items().end(), [](const auto& item) {
           static const std::set<std::string> kTexts = {"key", "operator", "value", "effect"};
           return item.key() == "tolerationSeconds"
                      ? item.value().is_number_integer()
                      : kTexts.contains(item.key()) && item.value().is_string();
         });
}

}  // namespace

void ReadTolerations(JsonSection& section, const std::string& key, Tolerations& out) {
  const Json* value = section.Take(key);
  if (value == nullptr) {
    return;
  }
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), IsToleration)) {
    return section.Fail(section.PathOf(key), *value, "a list of tolerations as a Pod has them");
  }
  out = Tolerations(*value);
}

void ReadAffinity(JsonSection& section, const std::string& key, Affinity& out) {
  section.Inner(key, [&out](JsonSection& affinity) {
    Json read = Json::object();
    for (const char* kind : {"nodeAffinity", "podAffinity", "podAntiAffinity"}) {
      const Json* value = affinity.Take(kind);
      if (value != nullptr && !value->is_object()) {
        affinity.Fail(affinity.PathOf(kind), *value, "an object as a Pod has it");
      } else if (value != nullptr) {
        read[kind] = *value;
      }
    }
    out = Affinity(std::move(read));
  });
}

}  // namespace csidelta::objects
