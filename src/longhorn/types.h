#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "objects/keys.h"
#include "objects/object.h"

// Longhorn's objects that we read, of longhorn.io/v1beta2, as objects/object.h has its
// kinds. The fields are those of Longhorn 1.9 to 1.13 (k8s/crds.yaml of longhorn-manager); older
// ones lack some. Longhorn serves no other version since 1.10.
namespace csidelta::longhorn {

inline constexpr char kGroup[] = "longhorn.io";
inline constexpr char kVersion[] = "v1beta2";
// Not served since Longhorn 1.9, unknown to it since 1.10; archives of older ones hold it.
inline constexpr char kDroppedVersion[] = "v1beta1";
// Volume::clone_state() of one that needs its source no more.
inline constexpr char kCloneCompleted[] = "completed";
// Of one whose data is copied, and that waits for its other replicas.
inline constexpr char kCloneAwaitsHealth[] = "copy-completed-awaiting-healthy";
// Of one whose copy failed; Longhorn tries again for as long as attempts are left.
inline constexpr char kCloneFailed[] = "failed";
// Of a Volume that does not tell, which is one of before Longhorn 1.6.
inline constexpr int64_t kSnapshotMaxCountDefault = 250;
// A snapshot as CSI and the source of a clone name it: snap://VOLUME/SNAPSHOT.
inline constexpr char kSnapshotHandlePrefix[] = "snap://";
// The source of a clone of a whole volume: vol://VOLUME.
inline constexpr char kVolumeHandlePrefix[] = "vol://";
// Where Longhorn lives unless it was installed elsewhere. It ignores its kinds in other namespaces.
inline constexpr char kDefaultNamespace[] = "longhorn-system";

// A snapshot of a volume: asked for by its creation, or made by Longhorn for one that its engine
// has. Dies with its volume.
class Snapshot : public objects::ObjectOf<Snapshot> {
 public:
  static constexpr objects::KindName kKind = {kGroup, kVersion, "snapshots", "Snapshot"};

  // Spec.
  std::string volume() const { return Text({"spec", "volume"}); }  // the name of a Volume
  // By createSnapshot: Longhorn takes it if it has none.
  bool is_to_be_taken() const { return Flag({"spec", "createSnapshot"}); }
  std::map<std::string, std::string> engine_labels() const {  // written once, when it is taken
    return GetStringMap(json(), {"spec", "labels"});
  }
  // One of those; of an object that Longhorn made for what the engine had, its status may tell.
  std::string EngineLabel(const char* key) const;
  // The RecurringJob that took it, by its engine labels; "".
  std::string job() const { return EngineLabel("RecurringJob"); }

  // Status. Taken, ready and gone are far apart: see each.
  // When the engine accepted it; Longhorn ≥ 1.12.
  std::optional<absl::Time> requested_at() const { return TimeAt({"status", "requestedTime"}); }
  // By the engine, to a second.
  std::optional<absl::Time> taken_at() const { return TimeAt({"status", "creationTime"}); }
  bool is_ready() const {  // not removed and not being deleted
    return Flag({"status", "readyToUse"}) && !is_marked_removed() && !is_being_deleted();
  }
  // It stays in the chain until it is purged.
  bool is_marked_removed() const { return Flag({"status", "markRemoved"}); }
  // False: of a rebuild or an expansion.
  bool is_user_created() const { return Flag({"status", "userCreated"}); }
  std::string parent() const { return Text({"status", "parent"}); }  // "" for the oldest
  std::vector<std::string> children() const;  // what was taken next, or volume-head
  bool is_newest() const;                     // volume-head is among them
  // In its own file now; 0 where not known.
  int64_t size_bytes() const { return Number({"status", "size"}); }
  // Of the volume now, not when it was taken.
  int64_t restore_size_bytes() const { return Number({"status", "restoreSize"}); }
  // What Longhorn last had to say, "" for nothing. It waits for an attachment, among others, so
  // this is not the end of anything.
  std::string error() const { return Text({"status", "error"}); }
};

// A volume. Its name is the handle of the PersistentVolume.
class Volume : public objects::ObjectOf<Volume> {
 public:
  static constexpr objects::KindName kKind = {kGroup, kVersion, "volumes", "Volume"};

  // Spec.
  std::optional<int64_t> size_bytes() const;
  std::optional<int64_t> snapshot_count_max() const;  // nothing before Longhorn 1.6
  // It follows a volume of another cluster.
  bool is_standby() const { return Flag({"spec", "Standby"}); }

  // Status.
  // Such as attached, detached, attaching; "" while it is new.
  std::string state() const { return Text({"status", "state"}); }
  // One of healthy, degraded, faulted, unknown; "".
  std::string robustness() const { return Text({"status", "robustness"}); }
  // From a backup of Longhorn, or it waits for that.
  bool is_being_restored() const { return Flag({"status", "restoreRequired"}); }
  bool is_migrating() const;  // from one node to another, while it is attached
  // "" for one that is not cloned, else initiated, completed, ...
  std::string clone_state() const { return Text({"status", "cloneStatus", "state"}); }
  // The Snapshot that its data is or was copied from, where it was made of one; "".
  std::string cloned_from() const;
  // What its data is or was copied from, as written: "snap://VOLUME/SNAPSHOT", "vol://VOLUME"; "".
  std::string data_source() const { return Text({"spec", "dataSource"}); }
  // The Volume of that source; "".
  std::string cloned_from_volume() const;
  int64_t clone_attempts() const { return Number({"status", "cloneStatus", "attemptCount"}); }
  // The URL of the backup of Longhorn that its data comes from; "".
  std::string from_backup() const { return Text({"spec", "fromBackup"}); }
  bool has_begun_restore() const { return Flag({"status", "restoreInitiated"}); }
  // The Snapshot that it stands on for as long as it exists; "" unless it is a linked clone.
  std::string linked_to() const { return Label(objects::kLonghornLinkedCloneLabel); }
  // Of the PVC that it is or was bound to; "".
  std::string pvc_namespace() const { return Text({"status", "kubernetesStatus", "namespace"}); }
  std::string pvc_name() const { return Text({"status", "kubernetesStatus", "pvcName"}); }
};

// What takes snapshots or backups of volumes, and deletes old ones of its own, by the clock.
// A setting of Longhorn, which it makes in its namespace when it starts.
class Setting : public objects::ObjectOf<Setting> {
 public:
  static constexpr objects::KindName kKind = {kGroup, kVersion, "settings", "Setting"};

  std::string value() const { return Text({"value"}); }
};

class RecurringJob : public objects::ObjectOf<RecurringJob> {
 public:
  static constexpr objects::KindName kKind = {kGroup, kVersion, "recurringjobs", "RecurringJob"};

  std::string task() const { return Text({"spec", "task"}); }
  int64_t retained() const { return Number({"spec", "retain"}); }  // snapshots of a volume
  std::vector<std::string> groups() const { return Texts({"spec", "groups"}); }
  // Whether it runs for the volume: by the volume's label with its name, or with a group of it. A
  // volume without any such label gets that of the group "default" from Longhorn.
  bool AppliesTo(const Volume& volume) const;
};

// A backup of Longhorn, on its backup target.
class Backup : public objects::ObjectOf<Backup> {
 public:
  static constexpr objects::KindName kKind = {kGroup, kVersion, "backups", "Backup"};

  std::string snapshot() const;  // that it is or was made of; ""
  std::string volume() const { return Text({"status", "volumeName"}); }  // "" while it is new
  // "" before Longhorn 1.8, which knew one
  std::string target() const { return Text({"status", "backupTargetName"}); }
  // "", Pending, InProgress, Completed, Error, Unknown, Deleting
  std::string state() const { return Text({"status", "state"}); }
  bool is_completed() const { return state() == "Completed"; }
  // Its snapshot is not read any more.
  bool is_over() const;
  std::optional<absl::Time> snapshot_taken_at() const {
    return TimeAt({"status", "snapshotCreatedAt"});
  }
};

}  // namespace csidelta::longhorn
