#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "objects/object.h"

namespace csidelta::velero {

// A key of a Secret in Velero's namespace. Both "": none exists.
struct SecretKeyName {
  std::string name;
  std::string key;

  friend bool operator==(const SecretKeyName&, const SecretKeyName&) = default;
};

// What we read of Velero's BackupStorageLocation. A value; copied freely.
struct StorageLocation {
  std::string name;
  std::string namespace_name;  // Velero's own namespace
  std::string provider;        // as written: "aws", "velero.io/aws", ...
  std::string bucket;
  std::string prefix;         // without slashes around it; may be ""
  std::string ca_cert_pem;    // spec.objectStorage.caCert; "" without one
  SecretKeyName ca_cert_ref;  // spec.objectStorage.caCertRef
  SecretKeyName credential;   // spec.credential
  std::map<std::string, std::string> config;
  bool read_only = false;  // spec.accessMode

  // The value of config[setting]; "" when not set.
  std::string Config(const std::string& setting) const;
  // Of config values that are "true" or "false", as people write them.
  bool Flag(const std::string& setting) const;
};

// Reads a BackupStorageLocation as the API server returns it. INVALID_ARGUMENT, naming location and
// field, when a field that we read has the wrong type, when there is no bucket, when a Secret's key
// is half named, when a prefix leads out of its bucket's folder, or when the access mode is none
// that we know. Pure.
absl::StatusOr<StorageLocation> ParseStorageLocation(const Json& object);
inline absl::StatusOr<StorageLocation> ParseStorageLocation(const objects::Object& object) {
  return ParseStorageLocation(object.json());
}

}  // namespace csidelta::velero
