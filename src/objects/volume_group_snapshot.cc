#include "objects/volume_group_snapshot.h"

#include <algorithm>
#include <utility>

#include "base/rfc3339.h"
#include "base/status_macros.h"

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

absl::StatusOr<VolumeGroupSnapshot> VolumeGroupSnapshot::Of(Json json) {
  RETURN_IF_ERROR(CheckKind(json, "VolumeGroupSnapshot"));
  return VolumeGroupSnapshot(std::move(json));
}

std::string VolumeGroupSnapshot::bound_content() const {
  return GetString(json(), {"status", "boundVolumeGroupSnapshotContentName"});
}

bool VolumeGroupSnapshot::is_ready() const { return GetBool(json(), {"status", "readyToUse"}); }

std::optional<absl::Time> VolumeGroupSnapshot::taken_at() const {
  return ParseRfc3339(GetString(json(), {"status", "creationTime"}));
}

std::optional<SnapshotError> VolumeGroupSnapshot::error() const { return ErrorOf(json()); }

bool VolumeGroupSnapshot::Selects(const Labels& labels) const {
  const Json* const selector = FindJson(json(), {"spec", "source", "selector"});
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

}  // namespace csidelta::objects
