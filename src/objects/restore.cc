#include "objects/restore.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "objects/field_rules.h"

namespace csidelta::objects {
namespace {

constexpr FieldRule kRestoreRules[] = {
    {"metadata.name", IsTextThatIsSet},
    {"metadata.namespace", IsTextThatIsSet},
    {"metadata.uid", IsText},
    {"metadata.labels", IsTextMap},
    {"metadata.annotations", IsTextMap},
    {"status.phase", IsText},
    {"spec.itemOperationTimeout", IsTimeout},
    {"spec.backupName", IsText},
    {"spec.restorePVs", IsFlag},
    {"spec.namespaceMapping", IsTextMap},
};

}  // namespace

absl::Status Restore::Validate() const {
  RETURN_IF_ERROR(Annotate(CheckFields(json(), kRestoreRules), "parse Restore"));
  const Json resource_timeout = Annotation(kResourceTimeoutAnnotation);
  return Annotate(IsTimeout(&resource_timeout),
                  absl::StrCat("parse Restore: annotation ", kResourceTimeoutAnnotation));
}

std::string Restore::MapNamespace(absl::string_view namespace_in_backup) const {
  const Json* const mapped = Find({"spec", "namespaceMapping", namespace_in_backup});
  return mapped == nullptr ? std::string(namespace_in_backup) : GetString(*mapped, {});
}

bool Restore::RestoresItems() const {
  // All that a Velero of today writes afterwards; what a later one may write is waited for.
  const std::string now = phase();
  return !absl::StartsWith(now, "WaitingForPluginOperations") &&
         !absl::StartsWith(now, "Finalizing") && now != "Completed" && now != "PartiallyFailed" &&
         !absl::StartsWith(now, "Failed");
}

}  // namespace csidelta::objects
