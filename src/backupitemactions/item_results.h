#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/rfc3339.h"
#include "k8s/api_client.h"
#include "objects/keys.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"
#include "velero/item_action.h"

// What the actions on snapshots and on groups of them say to Velero. All pure.
namespace csidelta::backupitemactions {

velero::ResourceIdentifier Identify(const k8s::ObjectKey& key);

// Adds `annotations` to those of `object`.
void AddAnnotations(const std::map<std::string, std::string>& annotations, objects::Object& object);

// Adds when `object` says that it was ready.
template <typename Kind>
void AddReadyTime(objects::SnapshotObject<Kind>& object) {
  if (const std::optional<absl::Time> ready_at = object.ready_at(); ready_at.has_value()) {
    object.SetAnnotation(objects::kReadyAtAnnotation, FormatRfc3339(*ready_at));
  }
}

// "84ms", csi::FreezeWindow() in whole milliseconds and not too few; "unknown".
std::string FreezeWindowText(const objects::VolumeGroupSnapshot& group);

// `changed` where it differs from `item`: an item that did not change goes back byte for byte.
std::optional<objects::Object> IfChanged(const objects::Object& item, objects::Object changed);

// Completed with this error.
velero::OperationProgress Failed(velero::OperationProgress progress, std::string error);
// Not completed, for the reason told.
velero::OperationProgress NotYet(velero::OperationProgress progress, std::string description);

}  // namespace csidelta::backupitemactions
