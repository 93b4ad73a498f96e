#include "objects/workload.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace csidelta::objects {
namespace {

const Json& ArrayAt(const Json& json, JsonPath path) {
  static const Json kNone = Json::array();
  const Json* const found = FindJson(json, path);
  return found != nullptr && found->is_array() ? *found : kNone;
}

bool IsOrdinal(absl::string_view text) {
  return !text.empty() && (text == "0" || text.front() != '0') &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

}  // namespace

absl::StatusOr<Pod> Pod::Of(Json json) {
  RETURN_IF_ERROR(CheckKind(json, "Pod"));
  return Pod(std::move(json));
}

std::vector<std::string> Pod::pvcs() const {
  std::vector<std::string> names;
  for (const Json& volume : ArrayAt(json(), {"spec", "volumes"})) {
    std::string claim = GetString(volume, {"persistentVolumeClaim", "claimName"});
    if (claim.empty() && FindJson(volume, {"ephemeral", "volumeClaimTemplate"}) != nullptr) {
      claim = absl::StrCat(name(), "-", GetString(volume, {"name"}));
    }
    if (!claim.empty() && std::find(names.begin(), names.end(), claim) == names.end()) {
      names.push_back(std::move(claim));
    }
  }
  return names;
}

absl::StatusOr<StatefulSet> StatefulSet::Of(Json json) {
  RETURN_IF_ERROR(CheckKind(json, "StatefulSet"));
  return StatefulSet(std::move(json));
}

bool StatefulSet::Uses(absl::string_view pvc) const {
  for (const Json& volume : ArrayAt(json(), {"spec", "template", "spec", "volumes"})) {
    if (GetString(volume, {"persistentVolumeClaim", "claimName"}) == pvc && !pvc.empty()) {
      return true;
    }
  }
  const Json& templates = ArrayAt(json(), {"spec", "volumeClaimTemplates"});
  return std::any_of(templates.begin(), templates.end(), [&](const Json& one) {
    absl::string_view rest = pvc;
    return absl::ConsumePrefix(&rest, absl::StrCat(k8s::Name(one), "-", name(), "-")) &&
           IsOrdinal(rest);
  });
}

}  // namespace csidelta::objects
