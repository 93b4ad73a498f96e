#include "objects/volume_group_snapshot.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "objects/client.h"

namespace csidelta::objects {
namespace {

using Labels = std::map<std::string, std::string>;

bool Names(const Json& requirement, const std::string& value) {
  const Json* const values = FindJson(requirement, {"values"});
  return values != nullptr && values->is_array() &&
         std::any_of(values->begin(), values->end(),
                     [&](const Json& one) { return one.is_string() && one == value; });
}

bool Meets(const Labels& labels, const Json& requirement) {
  const auto label = labels.find(GetString(requirement, {"key"}));
  const bool exists = label != labels.end();
  const std::string how = GetString(requirement, {"operator"});
  if (how == "In") {
    return exists && Names(requirement, label->second);
  }
  if (how == "NotIn") {
    return !exists || !Names(requirement, label->second);
  }
  if (how == "DoesNotExist") {
    return !exists;
  }
  return how != "Exists" || exists;
}

}  // namespace

bool IsGroupSnapshot(const OwnerReference& owner) {
  return owner.kind == VolumeGroupSnapshot::kKind.kind &&
         absl::StartsWith(owner.api_version, absl::StrCat(kGroupSnapshotGroup, "/"));
}

template <typename Kind>
std::string GroupObject<Kind>::version() const {
  const std::string text = this->api_version();
  absl::string_view version = text;
  return absl::ConsumePrefix(&version, absl::StrCat(kGroupSnapshotGroup, "/"))
             ? std::string(version)
             : "v1";
}

template class GroupObject<VolumeGroupSnapshot>;
template class GroupObject<VolumeGroupSnapshotContent>;

std::string VolumeGroupSnapshotContent::handle_or_source() const {
  const std::string known = handle();
  return known.empty()
             ? Text({"spec", "source", "groupSnapshotHandles", "volumeGroupSnapshotHandle"})
             : known;
}

std::vector<GroupMember> VolumeGroupSnapshotContent::members() const {
  std::vector<GroupMember> members;
  for (const char* const list : {"volumeSnapshotInfoList", "volumeSnapshotHandlePairList"}) {
    for (const Json& entry : ArrayAt({"status", list})) {
      GroupMember member{.volume_handle = GetString(entry, {"volumeHandle"}),
                         .snapshot_handle = GetString(entry, {"snapshotHandle"})};
      if (!member.snapshot_handle.empty()) {
        members.push_back(std::move(member));
      }
    }
    if (!members.empty()) {
      return members;
    }
  }
  for (std::string& handle :
       Texts({"spec", "source", "groupSnapshotHandles", "volumeSnapshotHandles"})) {
    if (!handle.empty()) {
      members.push_back({.volume_handle = "", .snapshot_handle = std::move(handle)});
    }
  }
  return members;
}

bool VolumeGroupSnapshot::Selects(const Labels& labels) const {
  const Json* const selector = Find({"spec", "source", "selector"});
  if (selector == nullptr || !selector->is_object()) {
    return false;
  }
  const Labels wanted = GetStringMap(*selector, {"matchLabels"});
  const bool has_labels = std::all_of(wanted.begin(), wanted.end(), [&](const auto& one) {
    const auto found = labels.find(one.first);
    return found != labels.end() && found->second == one.second;
  });
  const Json* const requirements = FindJson(*selector, {"matchExpressions"});
  return has_labels && (requirements == nullptr || !requirements->is_array() ||
                        std::all_of(requirements->begin(), requirements->end(),
                                    [&](const Json& one) { return Meets(labels, one); }));
}

absl::StatusOr<GroupKinds> FindGroupKinds(const CallContext& ctx, k8s::ApiClient& api) {
  for (const char* const version : kGroupVersions) {
    absl::StatusOr<std::vector<VolumeGroupSnapshotClass>> classes = List<VolumeGroupSnapshotClass>(
        ctx, api, VolumeGroupSnapshotClass::kKind.TypeOf(version), "");
    if (absl::IsNotFound(classes.status())) {
      continue;
    }
    RETURN_IF_ERROR(classes.status());
    return GroupKinds{.version = version, .classes = *std::move(classes)};
  }
  return absl::NotFoundError(
      absl::StrCat("the cluster serves no VolumeGroupSnapshots (", kGroupSnapshotGroup,
                   "): install external-snapshotter's group kinds and enable its feature gate "
                   "CSIVolumeGroupSnapshot"));
}

}  // namespace csidelta::objects
