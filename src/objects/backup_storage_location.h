#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "objects/object.h"

namespace csidelta::objects {

// A key of a Secret in Velero's namespace. Both "": not set.
struct SecretKeyName {
  std::string name;
  std::string key;

  friend bool operator==(const SecretKeyName&, const SecretKeyName&) = default;
};

// Velero's.
class BackupStorageLocation : public ObjectOf<BackupStorageLocation> {
 public:
  static constexpr KindName kKind = {"velero.io", "v1", "backupstoragelocations",
                                     "BackupStorageLocation"};

  // INVALID_ARGUMENT, naming location and field: a field that the project reads has the wrong type,
  // there is no bucket, or a Secret's key is half named. The same if the prefix leads out of its
  // bucket's folder, or the access mode is unknown. Pure.
  absl::Status Validate() const;

  bool is_default() const { return Flag({"spec", "default"}); }
  std::string provider() const {
    return Text({"spec", "provider"});
  }  // "aws", "velero.io/aws", ...
  std::string bucket() const { return Text({"spec", "objectStorage", "bucket"}); }
  std::string prefix() const;  // without slashes around it; may be ""
  // spec.objectStorage.caCert, decoded; "" without one.
  std::string ca_cert_pem() const;
  SecretKeyName ca_cert_ref() const { return SecretKeyAt({"spec", "objectStorage", "caCertRef"}); }
  SecretKeyName credential() const { return SecretKeyAt({"spec", "credential"}); }
  bool is_read_only() const { return Text({"spec", "accessMode"}) == "ReadOnly"; }
  std::map<std::string, std::string> config() const {
    return GetStringMap(json(), {"spec", "config"});
  }
  // The value of config[setting]; "" if it is not set.
  std::string Config(absl::string_view setting) const { return Text({"spec", "config", setting}); }
  // Of config values that are "true" or "false", as people write them.
  bool ConfigFlag(absl::string_view setting) const;

  // Available, Unavailable; "" before Velero looked.
  std::string phase() const { return Text({"status", "phase"}); }
  std::string message() const { return Text({"status", "message"}); }

 private:
  SecretKeyName SecretKeyAt(JsonPath path) const;
};

}  // namespace csidelta::objects
