#include "velero/storage_location.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace csidelta::velero {
namespace {

// A text field; the first that is something else makes `status` an error.
std::string Text(const Json& object, JsonPath path, absl::Status& status) {
  const Json* value = FindJson(object, path);
  if (value != nullptr && !value->is_null() && !value->is_string() && status.ok()) {
    status = absl::InvalidArgumentError(absl::StrCat(absl::StrJoin(path, "."), ": not a string"));
  }
  return GetString(object, path);
}

absl::StatusOr<SecretKeyName> ReadSecretKey(absl::string_view field, std::string name,
                                            std::string key) {
  if (name.empty() != key.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ": names ", name.empty() ? "a key without a Secret" : "a Secret without its key"));
  }
  return SecretKeyName{.name = std::move(name), .key = std::move(key)};
}

absl::StatusOr<std::string> CleanPrefix(absl::string_view prefix) {
  const std::vector<absl::string_view> segments = absl::StrSplit(prefix, '/', absl::SkipEmpty());
  for (const absl::string_view segment : segments) {
    if (segment == "." || segment == "..") {
      return absl::InvalidArgumentError(
          absl::StrCat("spec.objectStorage.prefix: has \"", segment, "\" in it"));
    }
  }
  return absl::StrJoin(segments, "/");
}

absl::StatusOr<StorageLocation> Read(const Json& object) {
  absl::Status status;
  StorageLocation location;
  location.name = Text(object, {"metadata", "name"}, status);
  location.namespace_name = Text(object, {"metadata", "namespace"}, status);
  location.provider = Text(object, {"spec", "provider"}, status);
  location.bucket = Text(object, {"spec", "objectStorage", "bucket"}, status);
  const std::string prefix = Text(object, {"spec", "objectStorage", "prefix"}, status);
  const std::string ca_cert = Text(object, {"spec", "objectStorage", "caCert"}, status);
  const std::string access_mode = Text(object, {"spec", "accessMode"}, status);
  const std::string ca_name = Text(object, {"spec", "objectStorage", "caCertRef", "name"}, status);
  const std::string ca_key = Text(object, {"spec", "objectStorage", "caCertRef", "key"}, status);
  const std::string secret_name = Text(object, {"spec", "credential", "name"}, status);
  const std::string secret_key = Text(object, {"spec", "credential", "key"}, status);
  RETURN_IF_ERROR(status);
  location.config = GetStringMap(object, {"spec", "config"});
  location.read_only = access_mode == "ReadOnly";
  if (!location.read_only && !access_mode.empty() && access_mode != "ReadWrite") {
    return absl::InvalidArgumentError("spec.accessMode: neither ReadOnly nor ReadWrite");
  }
  if (location.bucket.empty()) {
    return absl::InvalidArgumentError("spec.objectStorage.bucket: missing");
  }
  ASSIGN_OR_RETURN(location.prefix, CleanPrefix(prefix));
  if (!absl::Base64Unescape(ca_cert, &location.ca_cert_pem)) {
    return absl::InvalidArgumentError("spec.objectStorage.caCert: not base64");
  }
  ASSIGN_OR_RETURN(location.ca_cert_ref,
                   ReadSecretKey("spec.objectStorage.caCertRef", ca_name, ca_key));
  ASSIGN_OR_RETURN(location.credential, ReadSecretKey("spec.credential", secret_name, secret_key));
  return location;
}

}  // namespace

std::string StorageLocation::Config(const std::string& setting) const {
  const auto found = config.find(setting);
  return found == config.end() ? std::string() : found->second;
}

bool StorageLocation::Flag(const std::string& setting) const {
  const std::string value = Config(setting);
  return value == "1" || absl::EqualsIgnoreCase(value, "t") ||
         absl::EqualsIgnoreCase(value, "true");
}

absl::StatusOr<StorageLocation> ParseStorageLocation(const Json& object) {
  absl::StatusOr<StorageLocation> location = Read(object);
  if (!location.ok()) {
    return Annotate(location.status(), absl::StrCat("BackupStorageLocation ",
                                                    GetString(object, {"metadata", "namespace"}),
                                                    "/", GetString(object, {"metadata", "name"})));
  }
  return location;
}

}  // namespace csidelta::velero
