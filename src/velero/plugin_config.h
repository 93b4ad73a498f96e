#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "objects/core.h"

namespace csidelta::velero {

// What becomes of claims whose group cannot be snapshotted as one.
enum class GroupFallback { kIndividual, kFail };
// What a volume group comes back as.
enum class GroupRestore { kMembers, kPreprovisioned };
// What becomes of Longhorn's own snapshot objects in a backup.
enum class LonghornItems { kSkip, kKeep };

// The settings of this plugin: one ConfigMap in Velero's namespace. Every field has a key of the
// same meaning in PluginConfigKeys() and in docs/configuration.md.
struct PluginConfig {
  // Remove what failed backups left behind, once per backup.
  bool sweep_orphans = true;
  // How long nothing may have been seen of a Backup before its volume snapshots count as orphans.
  absl::Duration orphan_grace_period = absl::Hours(24);
  // How long a restore waits to hear whether the driver still has the snapshot.
  absl::Duration restore_content_wait = absl::Minutes(1);
  // How long a delete action waits for a snapshot to be gone from the driver.
  absl::Duration deletion_wait = absl::Minutes(1);
  // A volume group that cannot be had: each claim alone, or an error.
  GroupFallback group_fallback = GroupFallback::kIndividual;
  // A volume group comes back as single volume snapshots, or as a VolumeGroupSnapshot too.
  GroupRestore group_restore = GroupRestore::kMembers;
  // Where Longhorn lives.
  std::string longhorn_namespace = "longhorn-system";
  // Leave out of restores which objects of Longhorn would do harm; off: only the worst.
  bool longhorn_guard = true;
  // Longhorn's snapshot objects stay out of backups, or are archived.
  LonghornItems longhorn_items = LonghornItems::kSkip;

  // One line per unknown key, naming the nearest known one.
  std::vector<std::string> warnings;
};

// One setting, as the documentation shows it.
struct PluginConfigKey {
  absl::string_view name;
  absl::string_view default_text;
  absl::string_view legal_form;
  absl::string_view meaning;
  bool (*read)(const std::string& value, PluginConfig& config);  // whether it is legal
};

// Every key, in the order of the documentation.
const std::vector<PluginConfigKey>& PluginConfigKeys();

// Reads the `data` of a ConfigMap. INVALID_ARGUMENT naming key, value and legal form when a known
// key has a wrong value. Unknown keys become warnings. Pure.
absl::StatusOr<PluginConfig> ParsePluginConfig(const objects::ConfigMap& config_map);

// The one ConfigMap among `config_maps` that carries both of our labels, whatever their values;
// null when none exists. Borrowed from `config_maps`. INVALID_ARGUMENT naming all of them when
// there are more. Pure.
absl::StatusOr<const objects::ConfigMap*> SelectPluginConfig(
    const std::vector<objects::ConfigMap>& config_maps);

}  // namespace csidelta::velero
