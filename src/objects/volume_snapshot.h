#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "k8s/object.h"
#include "objects/volume_mode.h"

// The objects of snapshot.storage.k8s.io/v1 as types: thin views that keep the JSON as it was read,
// unknown fields too, and name what the fields are. A value of the wrong type is taken for a
// missing one. What a driver or a user wrote into them (messages, names of classes) is returned as
// it is: printing makes it printable.
namespace csidelta::objects {

// What all kinds have in common.
class ObjectView {
 public:
  const Json& json() const { return json_; }
  std::string name() const { return k8s::Name(json_); }
  std::string namespace_name() const { return k8s::Namespace(json_); }
  std::string uid() const { return k8s::Uid(json_); }
  std::string resource_version() const { return k8s::ResourceVersion(json_); }
  std::map<std::string, std::string> labels() const {
    return GetStringMap(json_, {"metadata", "labels"});
  }
  std::string Label(absl::string_view key) const { return k8s::Label(json_, key); }
  std::string Annotation(absl::string_view key) const { return k8s::Annotation(json_, key); }
  std::optional<absl::Time> created_at() const { return k8s::CreatedAt(json_); }
  std::optional<absl::Time> deleted_at() const { return k8s::DeletedAt(json_); }
  bool is_being_deleted() const { return k8s::BeingDeleted(json_); }

 protected:
  explicit ObjectView(Json json) : json_(std::move(json)) {}
  // INVALID_ARGUMENT unless `json` is an object whose kind, where it is set, is `kind`: items of a
  // list may leave it out.
  static absl::Status CheckKind(const Json& json, absl::string_view kind);

 private:
  Json json_;
};

// Of a VolumeSnapshot, its content or their groups: when status.readyToUse was written last, from
// metadata.managedFields; nothing when it is not ready or that was not recorded.
std::optional<absl::Time> ReadyTime(const Json& object);

// An error that the sidecar wrote: status.error.
struct SnapshotError {
  std::string message;  // never empty
  std::optional<absl::Time> time;
};

// Nothing when there is no status.error.
std::optional<SnapshotError> ErrorOf(const Json& object);

class VolumeSnapshot : public ObjectView {
 public:
  static absl::StatusOr<VolumeSnapshot> Of(Json json);

  // Spec: either is set.
  std::string source_pvc() const;
  std::string source_content() const;  // for a snapshot that exists already
  std::string class_name() const;

  // Status.
  std::string bound_content() const;  // "" while it is not bound
  bool is_ready() const;
  std::optional<absl::Time> taken_at() const;
  std::optional<absl::Time> ready_at()
      const;  // by managedFields; nothing when not ready or not recorded
  std::optional<int64_t> restore_size_bytes()
      const;  // nothing when unknown, which drivers also write as 0
  std::optional<SnapshotError> error() const;
  std::string group_snapshot() const;  // name of the VolumeGroupSnapshot that it is a member of; ""

 private:
  using ObjectView::ObjectView;
};

class VolumeSnapshotContent : public ObjectView {
 public:
  static absl::StatusOr<VolumeSnapshotContent> Of(Json json);

  std::string driver() const;
  bool is_retained() const;  // deletionPolicy Retain: the driver keeps the snapshot
  std::string class_name() const;
  bool is_pre_provisioned() const;  // made for an existing snapshot
  // Whether spec.volumeSnapshotRef names this VolumeSnapshot, by its uid where it gives one.
  bool Names(const VolumeSnapshot& snapshot) const;
  std::string snapshot_namespace() const;  // of spec.volumeSnapshotRef
  std::string snapshot_name() const;
  std::string snapshot_uid() const;  // "" before a static one is bound
  // Of the volume that it was taken of; nothing when not recorded.
  std::optional<VolumeMode> source_mode() const;
  // A volume of the other mode may be made of it.
  bool allows_mode_change() const;
  // Of the volume that it was taken of; "" when pre-provisioned.
  std::string source_volume() const;
  // The handle that it was made for; "" unless pre-provisioned.
  std::string source_handle() const;

  std::string handle() const;  // "" until the driver gave it
  std::optional<absl::Time> taken_at() const;
  std::optional<int64_t> restore_size_bytes() const;

 private:
  using ObjectView::ObjectView;
};

}  // namespace csidelta::objects
