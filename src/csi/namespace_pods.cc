#include "csi/namespace_pods.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/snapshot_types.h"

namespace csidelta::csi {
namespace {

constexpr absl::string_view kNoClaim = "";

// Whether a volume of `pod` is the claim, or any claim for kNoClaim.
bool UsesAnyClaim(const Json& pod, absl::string_view claim_name) {
  const Json* volumes = FindJson(pod, {"spec", "volumes"});
  if (volumes == nullptr || !volumes->is_array()) {
    return false;
  }
  for (const Json& volume : *volumes) {
    const std::string used = GetString(volume, {"persistentVolumeClaim", "claimName"});
    if (claim_name.empty() ? !used.empty() : used == claim_name) {
      return true;
    }
  }
  return false;
}

Json Trim(const Json& pod) {
  Json trimmed = Json::object();
  SetJson(trimmed, {"metadata"}, pod["metadata"]);
  EraseJson(trimmed, {"metadata", "managedFields"});
  SetJson(trimmed, {"spec", "volumes"}, pod["spec"]["volumes"]);
  SetJson(trimmed, {"status", "phase"}, GetString(pod, {"status", "phase"}));
  return trimmed;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const std::vector<Json>>> NamespacePods::Get(
    const CallContext& ctx, const std::string& backup_uid, const std::string& namespace_name) {
  return pods_.Get(ctx, absl::StrCat(backup_uid, "/", namespace_name),
                   [&]() -> absl::StatusOr<std::vector<Json>> {
                     ASSIGN_OR_RETURN(const k8s::ObjectList list,
                                      api_.List(ctx, PodType(), namespace_name, {}));
                     std::vector<Json> pods;
                     for (const Json& pod : list.items) {
                       if (UsesAnyClaim(pod, kNoClaim) && pod.contains("metadata")) {
                         pods.push_back(Trim(pod));
                       }
                     }
                     return pods;
                   });
}

bool UsesClaim(const Json& pod, const std::string& claim_name) {
  return !claim_name.empty() && UsesAnyClaim(pod, claim_name);
}

}  // namespace csidelta::csi
