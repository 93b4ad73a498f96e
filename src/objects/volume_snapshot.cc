#include "objects/volume_snapshot.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/rfc3339.h"
#include "objects/keys.h"
#include "objects/volume_group_snapshot.h"

namespace csidelta::objects {
namespace {

constexpr char kLastAppliedAnnotation[] = "kubectl.kubernetes.io/last-applied-configuration";

}  // namespace

template <typename Kind>
std::optional<absl::Time> SnapshotObject<Kind>::ready_at() const {
  return is_ready() ? this->WrittenAt({"f:status", "f:readyToUse"}) : std::nullopt;
}

std::optional<SnapshotError> ErrorOf(const Json& object) {
  const Json* const error = FindJson(object, {"status", "error"});
  if (error == nullptr || !error->is_object()) {
    return std::nullopt;
  }
  std::string message = GetString(*error, {"message"});
  return SnapshotError{
      .message = message.empty() ? "an error without a message" : std::move(message),
      .time = ParseRfc3339(GetString(*error, {"time"}))};
}

template <typename Kind>
std::string SnapshotObject<Kind>::error_message() const {
  const std::optional<SnapshotError> found = error();
  return found.has_value() ? found->message : "";
}

template <typename Kind>
bool SnapshotObject<Kind>::HasSourceOf(const Kind& other) const {
  const Json* const mine = this->Find({"spec", "source"});
  const Json* const its = FindJson(other.json(), {"spec", "source"});
  return mine != nullptr && its != nullptr && *mine == *its;
}

template <typename Kind>
void SnapshotObject<Kind>::DropWriters() {
  Json kept = Json::array();
  for (const Json& entry : this->ArrayAt({"metadata", "managedFields"})) {
    if (FindJson(entry, {"fieldsV1", "f:status", "f:readyToUse"}) != nullptr) {
      kept.push_back({{"time", GetString(entry, {"time"})},
                      {"fieldsV1", {{"f:status", {{"f:readyToUse", Json::object()}}}}}});
    }
  }
  this->Set({"metadata", "managedFields"}, std::move(kept));
  this->RemoveAnnotation(kLastAppliedAnnotation);
}

template class SnapshotObject<VolumeSnapshot>;
template class SnapshotObject<VolumeSnapshotContent>;
template class SnapshotObject<VolumeGroupSnapshot>;
template class SnapshotObject<VolumeGroupSnapshotContent>;

bool VolumeSnapshot::is_said_unready() const {
  const Json* const ready = Find({"status", "readyToUse"});
  return ready != nullptr && *ready == false;
}

std::optional<OwnerReference> VolumeSnapshot::group_owner() const {
  for (OwnerReference& owner : owners()) {
    if (IsGroupSnapshot(owner)) {
      return std::move(owner);
    }
  }
  return std::nullopt;
}

std::string VolumeSnapshot::group_name() const {
  const std::optional<OwnerReference> owner =
      group_snapshot().empty() ? group_owner() : std::nullopt;
  return owner.has_value() ? owner->name : group_snapshot();
}

bool VolumeSnapshot::IsMemberOf(absl::string_view group_snapshot_uid) const {
  const std::vector<OwnerReference> all = owners();
  return std::any_of(all.begin(), all.end(), [&](const OwnerReference& owner) {
    return IsGroupSnapshot(owner) && owner.uid == group_snapshot_uid;
  });
}

bool VolumeSnapshotContent::Names(const VolumeSnapshot& snapshot) const {
  const std::string uid = snapshot_uid();
  return snapshot_namespace() == snapshot.namespace_name() && snapshot_name() == snapshot.name() &&
         (uid.empty() || uid == snapshot.uid());
}

bool VolumeSnapshotContent::allows_mode_change() const {
  // What the provisioner reads as true.
  constexpr std::array<absl::string_view, 6> kTrue = {"1", "t", "T", "true", "TRUE", "True"};
  const std::string value = Annotation(kModeChangeAnnotation);
  return std::find(kTrue.begin(), kTrue.end(), value) != kTrue.end();
}

std::string VolumeSnapshotContent::handle_or_source() const {
  const std::string known = handle();
  return known.empty() ? source_handle() : known;
}

void VolumeSnapshotContent::SetSnapshot(absl::string_view namespace_name, absl::string_view name) {
  Set({"spec", "volumeSnapshotRef"}, {{"apiVersion", VolumeSnapshot::kKind.ApiVersion()},
                                      {"kind", VolumeSnapshot::kKind.kind},
                                      {"namespace", namespace_name},
                                      {"name", name}});
}

void VolumeSnapshotContent::ReplaceSnapshot(absl::string_view namespace_name,
                                            absl::string_view name) {
  Remove({"spec", "volumeSnapshotRef", "uid"});
  Remove({"spec", "volumeSnapshotRef", "resourceVersion"});
  Set({"spec", "volumeSnapshotRef", "name"}, name);
  Set({"spec", "volumeSnapshotRef", "namespace"}, namespace_name);
}

VolumeSnapshotContent VolumeSnapshotContent::Essence() const {
  VolumeSnapshotContent essence;
  essence.Set({"metadata"}, PickAt("metadata", {"name"}));
  essence.Set({"status"}, PickAt("status", {"snapshotHandle", "creationTime", "restoreSize"}));
  if (const std::string node = Label(kManagedByLabel); !node.empty()) {
    essence.SetLabel(kManagedByLabel, node);
  }
  return essence;
}

void VolumeSnapshotContent::ReduceTo(const std::set<absl::string_view>& labels_and_annotations) {
  const auto is_unneeded = [&](const auto& entry) {
    return !labels_and_annotations.contains(entry.first);
  };
  auto labels = this->labels();
  auto annotations = this->annotations();
  std::erase_if(labels, is_unneeded);
  std::erase_if(annotations, is_unneeded);
  Set({"metadata"}, PickAt("metadata", {"name", "creationTimestamp", "deletionTimestamp"}));
  SetLabels(labels);
  SetAnnotations(annotations);
  Set({"spec"}, PickAt("spec", {"driver", "source"}));
  Set({"status"}, PickAt("status", {"snapshotHandle", "creationTime", "restoreSize"}));
}

std::optional<absl::Time> VolumeSnapshotContent::taken_at() const {
  const int64_t nanoseconds = Number({"status", "creationTime"});
  return nanoseconds > 0 ? std::optional(absl::FromUnixNanos(nanoseconds)) : std::nullopt;
}

std::optional<int64_t> VolumeSnapshotContent::restore_size_bytes() const {
  const int64_t size_bytes = Number({"status", "restoreSize"});
  return size_bytes > 0 ? std::optional(size_bytes) : std::nullopt;
}

}  // namespace csidelta::objects
