#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "objects/object.h"
#include "objects/persistent_volume.h"

// The objects of snapshot.storage.k8s.io/v1.
namespace csidelta::objects {

inline constexpr char kSnapshotGroup[] = "snapshot.storage.k8s.io";

// An error that the sidecar wrote: status.error.
struct SnapshotError {
  std::string message;  // never empty
  std::optional<absl::Time> time;
};

// Nothing when there is no status.error.
std::optional<SnapshotError> ErrorOf(const Json& object);

// The common base of VolumeSnapshot, its content and their groups.
template <typename Kind>
class SnapshotObject : public ObjectOf<Kind> {
 public:
  bool is_ready() const { return this->Flag({"status", "readyToUse"}); }
  // When status.readyToUse was written last, by metadata.managedFields; nothing when it is not
  // ready or that was not recorded.
  std::optional<absl::Time> ready_at() const;
  std::optional<SnapshotError> error() const { return ErrorOf(this->json()); }
  // Of error(); "" when none exists.
  std::string error_message() const;
  // Whether both have the same spec.source.
  bool HasSourceOf(const Kind& other) const;
  // Leaves out who wrote which field, but for what ready_at() reads, and what kubectl applied last:
  // most of an object.
  void DropWriters();
};

class VolumeSnapshot : public SnapshotObject<VolumeSnapshot> {
 public:
  static constexpr KindName kKind = {kSnapshotGroup, "v1", "volumesnapshots", "VolumeSnapshot"};

  // Spec: either is set.
  std::string source_pvc() const { return Text({"spec", "source", "persistentVolumeClaimName"}); }
  // For a snapshot that exists already.
  std::string source_content() const {
    return Text({"spec", "source", "volumeSnapshotContentName"});
  }
  std::string class_name() const { return Text({"spec", "volumeSnapshotClassName"}); }
  void SetSourcePvc(absl::string_view pvc) {
    Set({"spec", "source"}, {{"persistentVolumeClaimName", pvc}});
  }
  void SetSourceContent(absl::string_view content) {
    Set({"spec", "source"}, {{"volumeSnapshotContentName", content}});
  }
  void SetClassName(absl::string_view name) { Set({"spec", "volumeSnapshotClassName"}, name); }
  void RemoveClassName() { Remove({"spec", "volumeSnapshotClassName"}); }

  // Status. A new VolumeSnapshot reports neither ready nor unready.
  bool is_said_unready() const;
  // "" while it is not bound.
  std::string bound_content() const { return Text({"status", "boundVolumeSnapshotContentName"}); }
  std::optional<absl::Time> taken_at() const { return TimeAt({"status", "creationTime"}); }
  // As it is written there; "".
  std::string taken_at_text() const { return Text({"status", "creationTime"}); }
  // Nothing when unknown, which drivers also write as 0.
  std::optional<int64_t> restore_size_bytes() const {
    return QuantityAt({"status", "restoreSize"});
  }
  // Name of the VolumeGroupSnapshot that the controller knows it as a member of; "".
  std::string group_snapshot() const { return Text({"status", "volumeGroupSnapshotName"}); }
  // The same; else the name of group_owner(), for a controller that writes no such status; "".
  std::string group_name() const;

  // The VolumeGroupSnapshot that owns it, in the version that the controller wrote.
  std::optional<OwnerReference> group_owner() const;
  bool IsMemberOf(absl::string_view group_snapshot_uid) const;
};

class VolumeSnapshotContent : public SnapshotObject<VolumeSnapshotContent> {
 public:
  static constexpr KindName kKind = {kSnapshotGroup, "v1", "volumesnapshotcontents",
                                     "VolumeSnapshotContent", false};

  std::string driver() const { return Text({"spec", "driver"}); }
  std::string deletion_policy() const { return Text({"spec", "deletionPolicy"}); }
  // The driver keeps the snapshot when the content is deleted.
  bool is_retained() const { return deletion_policy() == "Retain"; }
  std::string class_name() const { return Text({"spec", "volumeSnapshotClassName"}); }
  bool is_pre_provisioned() const { return !source_handle().empty(); }  // for an existing snapshot
  // Whether spec.volumeSnapshotRef names this VolumeSnapshot, by its uid if it has one.
  bool Names(const VolumeSnapshot& snapshot) const;
  // The same, and only by its uid: true of a bound one alone.
  bool IsOf(const VolumeSnapshot& snapshot) const {
    return !snapshot_uid().empty() && Names(snapshot);
  }
  // Of spec.volumeSnapshotRef.
  std::string snapshot_namespace() const {
    return Text({"spec", "volumeSnapshotRef", "namespace"});
  }
  std::string snapshot_name() const { return Text({"spec", "volumeSnapshotRef", "name"}); }
  // "" before a static one is bound.
  std::string snapshot_uid() const { return Text({"spec", "volumeSnapshotRef", "uid"}); }
  // Of the volume that it was taken of; nothing when not recorded.
  std::optional<VolumeMode> source_mode() const {
    return ParseVolumeMode(Text({"spec", "sourceVolumeMode"}));
  }
  // A volume of the other mode may be made of it.
  bool allows_mode_change() const;
  // Of the volume that it was taken of; "" when pre-provisioned.
  std::string source_volume() const { return Text({"spec", "source", "volumeHandle"}); }
  // The handle that it was made for; "" unless pre-provisioned.
  std::string source_handle() const { return Text({"spec", "source", "snapshotHandle"}); }

  void SetDriver(absl::string_view driver) { Set({"spec", "driver"}, driver); }
  void SetDeletionPolicy(absl::string_view policy) { Set({"spec", "deletionPolicy"}, policy); }
  void SetClassName(absl::string_view name) { Set({"spec", "volumeSnapshotClassName"}, name); }
  void RemoveClassName() { Remove({"spec", "volumeSnapshotClassName"}); }
  void SetSourceMode(VolumeMode mode) { Set({"spec", "sourceVolumeMode"}, ToString(mode)); }
  // For a snapshot that the driver has already.
  void SetSourceHandle(absl::string_view handle) {
    Set({"spec", "source"}, {{"snapshotHandle", handle}});
  }
  // The VolumeSnapshot that may bind to it.
  void SetSnapshot(absl::string_view namespace_name, absl::string_view name);
  // The same where another one may have been bound: what else is said of that stays.
  void ReplaceSnapshot(absl::string_view namespace_name, absl::string_view name);

  // "" until the driver gave it.
  std::string handle() const { return Text({"status", "snapshotHandle"}); }
  // The same, or source_handle() of one whose status is not written yet.
  std::string handle_or_source() const;
  // Of the group snapshot that it is of, by its driver; "".
  std::string group_handle() const { return Text({"status", "volumeGroupSnapshotHandle"}); }
  std::optional<absl::Time> taken_at() const;  // the instant that the driver says
  // Nothing when unknown, which drivers also write as 0.
  std::optional<int64_t> restore_size_bytes() const;

  // Its name, node, handle, time and size, without anything else.
  VolumeSnapshotContent Essence() const;
  // Leaves its name and times, these labels and annotations, and of spec and status its driver, its
  // handles and its size.
  void ReduceTo(const std::set<absl::string_view>& labels_and_annotations);
};

class VolumeSnapshotClass : public ObjectOf<VolumeSnapshotClass> {
 public:
  static constexpr KindName kKind = {kSnapshotGroup, "v1", "volumesnapshotclasses",
                                     "VolumeSnapshotClass", false};

  std::string driver() const { return Text({"driver"}); }
  std::string deletion_policy() const { return Text({"deletionPolicy"}); }
  std::string Parameter(absl::string_view key) const { return Text({"parameters", key}); }
};

}  // namespace csidelta::objects
