#pragma once

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "objects/object.h"

namespace csidelta::objects {

// Velero's; velero::ParseRestore() reads its spec as a whole.
class Restore : public ObjectOf<Restore> {
 public:
  static constexpr KindName kKind = {"velero.io", "v1", "restores", "Restore"};

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

  // New, InProgress, Completed, PartiallyFailed, ...; "" for a new one.
  std::string phase() const { return Text({"status", "phase"}); }
  // Velero is done with it, whatever became of it.
  bool is_over() const {
    const std::string now = phase();
    return now == "Completed" || now == "PartiallyFailed" || now == "Failed" ||
           now == "FailedValidation";
  }
  std::string failure_reason() const { return Text({"status", "failureReason"}); }
};

}  // namespace csidelta::objects
