#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "objects/object.h"

namespace csidelta::objects {

// Velero's; velero::ParseBackup() reads it as a whole.
class Backup : public ObjectOf<Backup> {
 public:
  static constexpr KindName kKind = {"velero.io", "v1", "backups", "Backup"};

  // Of one namespace, whose volumes a data mover moves. `location` "": Velero's default one.
  static Backup OfNamespace(absl::string_view velero_namespace, absl::string_view name,
                            absl::string_view of, absl::string_view data_mover,
                            absl::string_view location) {
    Backup backup = ObjectOf::Make(velero_namespace, name);
    backup.Set({"spec"}, {{"includedNamespaces", Json::array({of})},
                          {"snapshotMoveData", true},
                          {"datamover", data_mover}});
    if (!location.empty()) {
      backup.Set({"spec", "storageLocation"}, location);
    }
    return backup;
  }
  // Velero deletes it so long after it was made; else after its own default, 30 days.
  void SetTimeToLive(absl::Duration ttl) { Set({"spec", "ttl"}, absl::FormatDuration(ttl)); }

  // New, InProgress, Completed, PartiallyFailed, Failed, ...; "" for a new one.
  std::string phase() const { return Text({"status", "phase"}); }
  // Velero is done with it, whatever became of it, or deletes it.
  bool is_over() const {
    const std::string now = phase();
    return now == "Completed" || now == "PartiallyFailed" || now == "Failed" ||
           now == "FailedValidation" || now == "Deleting";
  }
  // Velero's server refused or ended it, and says why; "".
  std::string failure_reason() const { return Text({"status", "failureReason"}); }
  std::vector<std::string> validation_errors() const {
    return Texts({"status", "validationErrors"});
  }
};

// Asks Velero to delete a Backup, with its Restores and with what it has in the bucket. Velero
// removes it once that is done.
class DeleteBackupRequest : public ObjectOf<DeleteBackupRequest> {
 public:
  static constexpr KindName kKind = {"velero.io", "v1", "deletebackuprequests",
                                     "DeleteBackupRequest"};

  static DeleteBackupRequest For(const Backup& backup, absl::string_view name) {
    DeleteBackupRequest request = ObjectOf::Make(backup.namespace_name(), name);
    request.Set({"spec"}, {{"backupName", backup.name()}});
    return request;
  }

  // Velero has done what it could, without success where the request is still there.
  bool is_processed() const { return Text({"status", "phase"}) == "Processed"; }
  std::vector<std::string> errors() const { return Texts({"status", "errors"}); }
};

}  // namespace csidelta::objects
