#pragma once

#include <memory>

#include "velero/item_action.h"

namespace csidelta::plugin {

// Actions in name only, for a host that asks whether a name is registered and needs nothing done
// under it. Their selector matches no item, so the host runs neither; one that did would get the
// item back byte for byte.
//
// A host that runs an action under a name it knows itself does more than that around the call: it
// then fails claims without a volume when a resource policy is given, and takes every other volume
// off its list of skipped ones, saved or not.
std::unique_ptr<velero::BackupItemAction> MakePlaceholderBackupAction();
std::unique_ptr<velero::RestoreItemAction> MakePlaceholderRestoreAction();

}  // namespace csidelta::plugin
