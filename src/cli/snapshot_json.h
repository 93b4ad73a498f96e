#pragma once

#include "base/json.h"
#include "csi/snapshot_inventory.h"

namespace csidelta::cli {

// One object per VolumeSnapshot: name, namespace, pvc, state, conditions, asked_at, taken_at,
// ready_at, size_bytes, driver, handle, content, class, policy, set, workload, note, used_by,
// shared_with, kept_for. Pure.
Json ToJson(const csi::SnapshotEntry& entry);

}  // namespace csidelta::cli
