#include "objects/backup_storage_location.h"

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "objects/field_rules.h"

namespace csidelta::objects {
namespace {

absl::Status IsPrefix(const Json* value) {
  RETURN_IF_ERROR(IsText(value));
  const std::string prefix = value == nullptr ? "" : GetString(*value, {});
  for (const absl::string_view segment : absl::StrSplit(prefix, '/')) {
    if (segment == "." || segment == "..") {
      return absl::InvalidArgumentError(absl::StrCat("has \"", segment, "\" in it"));
    }
  }
  return absl::OkStatus();
}

absl::Status IsBase64(const Json* value) {
  RETURN_IF_ERROR(IsText(value));
  std::string decoded;
  return value == nullptr || absl::Base64Unescape(GetString(*value, {}), &decoded)
             ? absl::OkStatus()
             : absl::InvalidArgumentError("not base64");
}

absl::Status IsAccessMode(const Json* value) {
  RETURN_IF_ERROR(IsText(value));
  const std::string mode = value == nullptr ? "" : GetString(*value, {});
  return mode.empty() || mode == "ReadOnly" || mode == "ReadWrite"
             ? absl::OkStatus()
             : absl::InvalidArgumentError("neither ReadOnly nor ReadWrite");
}

absl::Status IsSecretKey(const Json* value) {
  if (value == nullptr) {
    return absl::OkStatus();
  }
  for (const char* const field : {"name", "key"}) {
    const Json* const text = FindJson(*value, {field});
    RETURN_IF_ERROR(Annotate(IsText(text == nullptr || text->is_null() ? nullptr : text), field));
  }
  const bool is_named = !GetString(*value, {"name"}).empty();
  return is_named == !GetString(*value, {"key"}).empty()
             ? absl::OkStatus()
             : absl::InvalidArgumentError(is_named ? "names a Secret without its key"
                                                   : "names a key without a Secret");
}

constexpr FieldRule kLocationRules[] = {
    {"metadata.name", IsText},
    {"metadata.namespace", IsText},
    {"spec.provider", IsText},
    {"spec.accessMode", IsAccessMode},
    {"spec.objectStorage.bucket", IsTextThatIsSet},
    {"spec.objectStorage.prefix", IsPrefix},
    {"spec.objectStorage.caCert", IsBase64},
    {"spec.objectStorage.caCertRef", IsSecretKey},
    {"spec.credential", IsSecretKey},
};

}  // namespace

absl::Status BackupStorageLocation::Validate() const {
  return Annotate(CheckFields(json(), kLocationRules),
                  absl::StrCat("BackupStorageLocation ", namespace_name(), "/", name()));
}

std::string BackupStorageLocation::prefix() const {
  const std::string prefix = Text({"spec", "objectStorage", "prefix"});
  return absl::StrJoin(absl::StrSplit(prefix, '/', absl::SkipEmpty()), "/");
}

std::string BackupStorageLocation::ca_cert_pem() const {
  std::string pem;
  absl::Base64Unescape(Text({"spec", "objectStorage", "caCert"}), &pem);
  return pem;
}

bool BackupStorageLocation::ConfigFlag(absl::string_view setting) const {
  const std::string value = Config(setting);
  return value == "1" || absl::EqualsIgnoreCase(value, "t") ||
         absl::EqualsIgnoreCase(value, "true");
}

SecretKeyName BackupStorageLocation::SecretKeyAt(JsonPath path) const {
  const Json* const found = Find(path);
  return found == nullptr ? SecretKeyName{}
                          : SecretKeyName{.name = GetString(*found, {"name"}),
                                          .key = GetString(*found, {"key"})};
}

}  // namespace csidelta::objects
