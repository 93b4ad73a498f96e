#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "objects/backup_storage_location.h"

// How each key of a location's spec.config is treated: none is ignored silently.
namespace csidelta::datamover {

struct LocationSetting {
  enum class Use { kSupported, kIgnored, kRejected };

  absl::string_view key;
  Use use = Use::kRejected;
  absl::string_view how;  // for people: docs/data-mover-settings.md has it
};

// All keys that Velero's plugin for AWS supports, and those that Velero adds itself.
absl::Span<const LocationSetting> LocationSettings();

// FAILED_PRECONDITION, naming the key and the next step, if a key is rejected, unknown or has a
// value that Velero's plugin would reject. Pure.
absl::Status CheckLocationSettings(const objects::BackupStorageLocation& location);

}  // namespace csidelta::datamover
