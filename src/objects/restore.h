#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "objects/keys.h"
#include "objects/object.h"

namespace csidelta::objects {

inline constexpr absl::Duration kResourceTimeoutDefault = absl::Minutes(10);  // Velero's own

// Velero's.
class Restore : public ObjectOf<Restore> {
 public:
  static constexpr KindName kKind = {"velero.io", "v1", "restores", "Restore"};

  // As that of a Backup.
  absl::Status Validate() const;

  // Of one namespace of a Backup, into another one.
  static Restore OfNamespace(absl::string_view velero_namespace, absl::string_view name,
                             absl::string_view backup, absl::string_view from,
                             absl::string_view into) {
    Restore restore = ObjectOf::Make(velero_namespace, name);
    restore.Set({"spec"}, {{"backupName", backup},
                           {"includedNamespaces", Json::array({from})},
                           {"namespaceMapping", {{from, into}}}});
    return restore;
  }

  // Where each namespace of the Backup is restored, if elsewhere.
  std::map<std::string, std::string> namespace_mapping() const {
    return GetStringMap(json(), {"spec", "namespaceMapping"});
  }

  std::string backup_name() const { return Text({"spec", "backupName"}); }
  // PVCs are restored without data.
  bool is_without_data() const { return FlagIfSet({"spec", "restorePVs"}) == false; }
  absl::Duration resource_timeout() const {
    return TimeoutAt({"metadata", "annotations", kResourceTimeoutAnnotation},
                     kResourceTimeoutDefault);
  }
  // Where what was in `namespace_in_backup` is restored.
  std::string MapNamespace(absl::string_view namespace_in_backup) const;

  // New, InProgress, Completed, PartiallyFailed, ...; "" for a new one.
  std::string phase() const { return Text({"status", "phase"}); }
  // Velero is done with it, whatever became of it.
  bool is_over() const {
    const std::string now = phase();
    return now == "Completed" || now == "PartiallyFailed" || now == "Failed" ||
           now == "FailedValidation";
  }
  // It makes objects, or will. From then on Velero waits for what plugins do with them.
  bool RestoresItems() const;
  std::string failure_reason() const { return Text({"status", "failureReason"}); }
};

}  // namespace csidelta::objects
