#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "objects/backup_storage_location.h"
#include "storage/location.h"

// How each key of a location's spec.config is treated: none is ignored silently.
namespace csidelta::datamover {

struct LocationSetting {
  enum class Use { kSupported, kIgnored, kRejected };

  absl::string_view key;
  Use use = Use::kRejected;
  absl::string_view how;  // for people: docs/data-mover-settings.md has it
  // Why a value, which is not "", is refused; "" if it is not. Null: every value is accepted.
  absl::string_view (*fault)(absl::string_view value) = nullptr;
  absl::string_view option = {};  // of csi-delta's -o, which takes the value; "": none
};

// Where a location of this provider stores. FAILED_PRECONDITION names the supported providers.
// Pure.
absl::StatusOr<storage::Location::Kind> StoreKindOf(const objects::BackupStorageLocation& location);

// All keys that Velero's plugin for the provider supports; of kDirectory: those of every provider.
absl::Span<const LocationSetting> LocationSettings(storage::Location::Kind kind);

// FAILED_PRECONDITION, naming the key and the next step, if a key is rejected, unknown, missing or
// has a value that cannot be honoured; or if the provider is not supported. Pure.
absl::Status CheckLocationSettings(const objects::BackupStorageLocation& location);

// FAILED_PRECONDITION if the location's objects cannot be locked. Pure.
absl::Status CheckObjectLocks(const objects::BackupStorageLocation& location);

// What csi-delta's -o says of the location, beside the fields of objects::JobRepository:
// "azure.account-name=NAME". Pure.
std::vector<std::string> StoreOptions(const objects::BackupStorageLocation& location);

}  // namespace csidelta::datamover
