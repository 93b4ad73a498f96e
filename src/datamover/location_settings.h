#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "objects/backup_storage_location.h"

// What becomes of each key of a location's spec.config: none is passed over in silence.
namespace csidelta::datamover {

struct LocationSetting {
  enum class Use { kSupported, kIgnored, kRejected };

  absl::string_view key;
  Use use = Use::kRejected;
  absl::string_view how;  // for people: docs/data-mover-settings.md has it
};

// All that Velero's plugin for AWS takes, and what Velero puts there itself.
absl::Span<const LocationSetting> LocationSettings();

// FAILED_PRECONDITION, naming the key and what to do, when one is refused, unknown or has a value
// that Velero's plugin would not take. Pure.
absl::Status CheckLocationSettings(const objects::BackupStorageLocation& location);

}  // namespace csidelta::datamover
