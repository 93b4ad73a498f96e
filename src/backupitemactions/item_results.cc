#include "backupitemactions/item_results.h"

#include <utility>

#include "csi/group/group_lifecycle.h"

namespace csidelta::backupitemactions {

velero::ResourceIdentifier Identify(const k8s::ObjectKey& key) {
  return {.group = key.type.group,
          .resource = key.type.plural,
          .namespace_name = key.namespace_name,
          .name = key.name};
}

void AddAnnotations(const std::map<std::string, std::string>& annotations,
                    objects::Object& object) {
  for (const auto& [key, value] : annotations) {
    object.SetAnnotation(key, value);
  }
}

std::string FreezeWindowText(const objects::VolumeGroupSnapshot& group) {
  const auto window = csi::FreezeWindow(group);
  return window.has_value() ? absl::FormatDuration(absl::Ceil(*window, absl::Milliseconds(1)))
                            : "unknown";
}

std::optional<objects::Object> IfChanged(const objects::Object& item, objects::Object changed) {
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
