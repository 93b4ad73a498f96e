#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "k8s/api_client.h"
#include "objects/volume_group_snapshot.h"
#include "velero/item_action.h"

// What the actions on snapshots and on groups of them say to Velero. All pure.
namespace csidelta::backupitemactions {

velero::ResourceIdentifier Identify(const k8s::ObjectKey& key);

// Adds `annotations` to those of `object`.
void AddAnnotations(const Json& annotations, Json& object);

// Adds when `object` says that it was ready.
void AddReadyTime(Json& object);

// "84ms", csi::FreezeWindow() in whole milliseconds and not too few; "unknown".
std::string FreezeWindowText(const objects::VolumeGroupSnapshot& group);

// `changed` where it differs from `item`: an item that did not change goes back byte for byte.
std::optional<Json> IfChanged(const Json& item, Json changed);

// Completed with this error.
velero::OperationProgress Failed(velero::OperationProgress progress, std::string error);
// Not completed, for the reason told.
velero::OperationProgress NotYet(velero::OperationProgress progress, std::string description);

}  // namespace csidelta::backupitemactions
