#include "backupitemactions/item_results.h"

#include <utility>

#include "absl/time/time.h"
#include "base/rfc3339.h"
#include "csi/group_lifecycle.h"
#include "csi/snapshot_types.h"
#include "objects/keys.h"

namespace csidelta::backupitemactions {

velero::ResourceIdentifier Identify(const k8s::ObjectKey& key) {
  return {.group = key.type.group,
          .resource = key.type.plural,
          .namespace_name = key.namespace_name,
          .name = key.name};
}

void AddAnnotations(const Json& annotations, Json& object) {
  for (const auto& [key, value] : annotations.items()) {
    SetJson(object, {"metadata", "annotations", key}, value);
  }
}

void AddReadyTime(Json& object) {
  if (const auto ready_at = csi::ReadyTime(object); ready_at.has_value()) {
    SetJson(object, {"metadata", "annotations", objects::kReadyAtAnnotation},
            FormatRfc3339(*ready_at));
  }
}

std::string FreezeWindowText(const objects::VolumeGroupSnapshot& group) {
  const auto window = csi::FreezeWindow(group);
  return window.has_value() ? absl::FormatDuration(absl::Ceil(*window, absl::Milliseconds(1)))
                            : "unknown";
}

std::optional<Json> IfChanged(const Json& item, Json changed) {
  return changed == item ? std::nullopt : std::optional(std::move(changed));
}

velero::OperationProgress Failed(velero::OperationProgress progress, std::string error) {
  progress.completed = true;
  progress.description = error;
  progress.error = std::move(error);
  return progress;
}

velero::OperationProgress NotYet(velero::OperationProgress progress, std::string description) {
  progress.description = std::move(description);
  return progress;
}

}  // namespace csidelta::backupitemactions
