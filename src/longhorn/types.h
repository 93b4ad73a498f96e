#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "k8s/api_client.h"
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
// Of a Volume that does not tell, which is one of before Longhorn 1.6.
inline constexpr int64_t kSnapshotMaxCountDefault = 250;
// A snapshot as CSI and the source of a clone name it: snap://VOLUME/SNAPSHOT.
inline constexpr char kSnapshotHandlePrefix[] = "snap://";
// Where Longhorn lives unless it was installed elsewhere. It ignores its kinds in other namespaces.
inline constexpr char kDefaultNamespace[] = "longhorn-system";

// A snapshot of a volume: asked for by its creation, or made by Longhorn for one that its engine
// has. Dies with its volume.
class Snapshot : public objects::ObjectOf<Snapshot> {
 public:
  static constexpr objects::KindName kKind = {kGroup, kVersion, "snapshots", "Snapshot"};

  // Spec.
  std::string volume() const;   // the name of a Volume
  bool is_to_be_taken() const;  // createSnapshot: Longhorn takes it if it has none
  std::map<std::string, std::string> engine_labels() const;  // written once, when it is taken
  // One of those; of an object that Longhorn made for what the engine had, its status may tell.
  std::string EngineLabel(const char* key) const;
  std::string job() const;  // the RecurringJob that took it, by its engine labels; ""

  // Status. Taken, ready and gone are far apart: see each.
  std::optional<absl::Time> requested_at() const;  // the engine accepted it; Longhorn ≥ 1.12
  std::optional<absl::Time> taken_at() const;      // by the engine, to a second
  bool is_ready() const;                           // not removed and not being deleted
  bool is_marked_removed() const;                  // stays in the chain until it is purged
  bool is_user_created() const;                    // false: of a rebuild or an expansion
  std::string parent() const;                      // "" for the oldest
  std::vector<std::string> children() const;       // what was taken next, or volume-head
  bool is_newest() const;                          // volume-head is among them
  int64_t size_bytes() const;                      // in its own file now; 0 where not known
  int64_t restore_size_bytes() const;              // of the volume now, not when it was taken
  // What Longhorn last had to say, "" for nothing. It waits for an attachment, among others, so
  // this is not the end of anything.
  std::string error() const;

 private:
  using ObjectOf::ObjectOf;
};

// A volume. Its name is the handle of the PersistentVolume.
class Volume : public objects::ObjectOf<Volume> {
 public:
  static constexpr objects::KindName kKind = {kGroup, kVersion, "volumes", "Volume"};

  // Spec.
  std::optional<int64_t> size_bytes() const;
  std::optional<int64_t> snapshot_count_max() const;  // nothing before Longhorn 1.6
  bool is_standby() const;                            // follows a volume of another cluster

  // Status.
  std::string state() const;        // attached, detached, attaching, ...; "" while it is new
  std::string robustness() const;   // healthy, degraded, faulted, unknown; ""
  std::string node() const;         // that it is attached to; ""
  bool is_being_restored() const;   // from a backup of Longhorn, or waits for that
  bool is_migrating() const;        // from one node to another, while it is attached
  std::string clone_state() const;  // "" for one that is not cloned, else initiated, completed, ...
  // The Snapshot that its data is or was copied from, where it was made of one; "".
  std::string cloned_from() const;
  // The Snapshot that it stands on for as long as it exists; "" unless it is a linked clone.
  std::string linked_to() const;
  std::string pvc_namespace() const;  // of the PVC that it is or was bound to; ""
  std::string pvc_name() const;

 private:
  using ObjectOf::ObjectOf;
};

// What takes snapshots or backups of volumes, and deletes old ones of its own, by the clock.
// A setting of Longhorn, which it makes in its namespace when it starts.
class Setting : public objects::ObjectOf<Setting> {
 public:
  static constexpr objects::KindName kKind = {kGroup, kVersion, "settings", "Setting"};

  std::string value() const { return Text({"value"}); }

 private:
  using ObjectOf::ObjectOf;
};

class RecurringJob : public objects::ObjectOf<RecurringJob> {
 public:
  static constexpr objects::KindName kKind = {kGroup, kVersion, "recurringjobs", "RecurringJob"};

  std::string task() const { return Text({"spec", "task"}); }
  int64_t retained() const { return Number({"spec", "retain"}); }  // snapshots of a volume
  std::vector<std::string> groups() const;
  // Whether it runs for the volume: by the volume's label with its name, or with a group of it. A
  // volume without any such label gets that of the group "default" from Longhorn.
  bool AppliesTo(const Volume& volume) const;

 private:
  using ObjectOf::ObjectOf;
};

// A backup of Longhorn, on its backup target.
class Backup : public objects::ObjectOf<Backup> {
 public:
  static constexpr objects::KindName kKind = {kGroup, kVersion, "backups", "Backup"};

  std::string snapshot() const;  // that it is or was made of; ""
  std::string volume() const;    // "" while it is new
  std::string target() const;    // "" before Longhorn 1.8, which knew one
  std::string state() const;     // "", Pending, InProgress, Completed, Error, Unknown, Deleting
  bool is_completed() const { return state() == "Completed"; }
  // Its snapshot is not read any more.
  bool is_over() const;
  std::optional<absl::Time> snapshot_taken_at() const;

 private:
  using ObjectOf::ObjectOf;
};

}  // namespace csidelta::longhorn
