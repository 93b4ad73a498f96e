#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/object.h"
#include "objects/patch.h"
#include "objects/persistent_volume.h"

namespace csidelta::objects {

// Velero's own default, for servers that leave the field empty.
inline constexpr absl::Duration kCsiSnapshotTimeoutDefault = absl::Minutes(10);

// Of a Backup or a Restore.
inline bool IsFinalPhase(absl::string_view phase) {
  return phase == "Completed" || phase == "PartiallyFailed" || phase == "Failed" ||
         phase == "FailedValidation";
}

// Velero's.
class Backup : public ObjectOf<Backup> {
 public:
  static constexpr KindName kKind = {"velero.io", "v1", "backups", "Backup"};

  // INVALID_ARGUMENT, naming the field, if it has no name or namespace. The same if a field that
  // decides what is done has the wrong type or is not a duration. Pure.
  absl::Status Validate() const;
  // The backups that a Schedule makes: without a name of their own. As Parse().
  static absl::StatusOr<Backup> OfSchedule(const Object& schedule);

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

  // Spec. Not set: Velero decides, which means yes.
  std::optional<bool> snapshot_volumes() const { return FlagIfSet({"spec", "snapshotVolumes"}); }
  bool snapshot_move_data() const { return Flag({"spec", "snapshotMoveData"}); }
  std::string data_mover() const { return Text({"spec", "datamover"}); }  // "", "velero": Velero's
  bool is_full() const { return Text({"spec", "backupType"}) == kFullBackup; }  // Velero 1.19
  // Its volumes are moved by csi-delta, unless a policy says otherwise.
  bool is_moved_by_us() const { return snapshot_move_data() && data_mover() == kDataMoverName; }
  std::string storage_location() const { return Text({"spec", "storageLocation"}); }
  std::string volume_group_label_key() const {
    return Text({"spec", "volumeGroupSnapshotLabelKey"});
  }
  absl::Duration csi_snapshot_timeout() const {
    return TimeoutAt({"spec", "csiSnapshotTimeout"}, kCsiSnapshotTimeoutDefault);
  }
  // Zero where it does not tell.
  absl::Duration item_operation_timeout() const {
    return TimeoutAt({"spec", "itemOperationTimeout"}, absl::ZeroDuration());
  }
  bool defaults_to_fs_backup() const;
  // Names of ConfigMaps with volume policies in its namespace; "" for none. Rules of the global one
  // come after the backup's own.
  std::string resource_policy_config_map() const;
  std::string global_policy_config_map() const { return Annotation(kGlobalVolumePolicyAnnotation); }
  std::vector<std::string> included_resources() const {
    return Texts({"spec", "includedResources"});
  }
  std::vector<std::string> excluded_resources() const {
    return Texts({"spec", "excludedResources"});
  }
  // Whether it takes what is in this namespace. Patterns of Velero 1.18 count: `*` and `?`. A
  // pattern with other signs counts as a match: the answer is yes when in doubt.
  bool IncludesNamespace(absl::string_view name) const;

  // New, InProgress, Completed, PartiallyFailed, Failed, ...; "" for a new one.
  std::string phase() const { return Text({"status", "phase"}); }
  // Velero calls the actions a second time for the items of finished operations: nothing is
  // created then, and an operation returned is an error.
  bool is_finalizing() const {
    return phase() == "Finalizing" || phase() == "FinalizingPartiallyFailed";
  }
  // It can be restored, in whole or in part.
  bool has_archive() const { return phase() == "Completed" || phase() == "PartiallyFailed"; }
  // Velero's final phase of the backup.
  bool is_finished() const { return IsFinalPhase(phase()); }
  // Velero is done with it, whatever became of it, or deletes it.
  bool is_over() const { return is_finished() || phase() == "Deleting"; }
  // Velero has passed all of its items: what goes on reads snapshots, and no volume.
  bool has_left_volumes() const {
    return is_over() || is_finalizing() || absl::StartsWith(phase(), "WaitingForPluginOperations");
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

// A PVC that a restore left without data, because it existed before.
struct PvcWithoutData {
  std::string namespace_name = {};
  std::string name = {};
  std::string uid = {};
  std::string command = {};  // brings its data
};
inline constexpr std::size_t kPvcsWithoutDataMax = 150;  // An annotation holds 256 KiB.

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

  // The target of each namespace of the Backup that is restored elsewhere.
  std::map<std::string, std::string> namespace_mapping() const {
    return GetStringMap(json(), {"spec", "namespaceMapping"});
  }

  std::string backup_name() const { return Text({"spec", "backupName"}); }
  // Objects that exist are made as they were in the backup; else they stay as they are.
  bool updates_existing() const { return Text({"spec", "existingResourcePolicy"}) == "update"; }
  // Whether its resources may bring Pods: all, Pods, kinds that make them, kinds of operators.
  bool RestoresPods() const;
  // By its annotation kWithoutDataAnnotation; what cannot be read counts as none.
  std::vector<PvcWithoutData> pvcs_without_data() const;
  // Whether `pvc` is that PVC, and no restore has written into its volume since.
  bool IsStillWithoutData(const PvcWithoutData& left, const PersistentVolumeClaim& pvc) const;
  Patch PatchOfPvcsWithoutData(const std::vector<PvcWithoutData>& pvcs) const;
  // PVCs are restored without data.
  bool is_without_data() const { return FlagIfSet({"spec", "restorePVs"}) == false; }
  // Velero changes each item by rules of the user, after the last action saw it. The default
  // modifiers of a server (Velero 1.19) are not seen here.
  bool has_resource_modifier() const { return !Text({"spec", "resourceModifier", "name"}).empty(); }
  // The namespace that the objects of `namespace_in_backup` are restored into.
  std::string MapNamespace(absl::string_view namespace_in_backup) const;

  // New, InProgress, Completed, PartiallyFailed, ...; "" for a new one.
  std::string phase() const { return Text({"status", "phase"}); }
  // Velero is done with it, whatever became of it.
  bool is_over() const { return IsFinalPhase(phase()); }
  // It makes objects, or will. From then on Velero waits for what plugins do with them.
  bool RestoresItems() const;
  std::string failure_reason() const { return Text({"status", "failureReason"}); }
};

}  // namespace csidelta::objects
