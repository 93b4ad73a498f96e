#include "snapshots/group_creation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "csi/group/take_group.h"
#include "csi/snapshot_class.h"
#include "objects/keys.h"
#include "objects/volume_group_snapshot.h"
#include "snapshots/quota.h"

namespace csidelta::snapshots {
using objects::VolumeGroupSnapshot;

absl::StatusOr<GroupChoice> ChooseGroup(const CallContext& ctx, k8s::ApiClient& api,
                                        const std::vector<SnapshotSource>& sources) {
  const std::string driver = sources.front().driver;
  for (const SnapshotSource& source : sources) {
    if (source.driver.empty() || source.driver != driver) {
      return absl::UnimplementedError(
          driver.empty() || source.driver.empty()
              ? "the driver of the volumes may not be read"
              : absl::StrCat("the volumes are of several drivers: ", driver, ", ", source.driver));
    }
  }
  absl::StatusOr<objects::GroupKinds> kinds = objects::FindGroupKinds(ctx, api);
  if (absl::IsNotFound(kinds.status()) || absl::IsPermissionDenied(kinds.status())) {
    return absl::UnimplementedError(kinds.status().message());
  }
  RETURN_IF_ERROR(kinds.status());
  absl::StatusOr<csi::SnapshotClassChoice> choice =
      csi::ChooseGroupSnapshotClass({.driver = driver}, kinds->classes);
  if (absl::IsNotFound(choice.status())) {
    return absl::UnimplementedError(choice.status().message());
  }
  RETURN_IF_ERROR(choice.status());
  return GroupChoice{.version = kinds->version, .class_name = std::move(choice->name)};
}

bool GroupExists(const CallContext& ctx, k8s::ApiClient& api, const GroupChoice& choice,
                 const std::string& namespace_name, const std::string& name) {
  return api.Get(ctx, VolumeGroupSnapshot::Key(choice.version, namespace_name, name)).ok();
}

absl::StatusOr<std::vector<csi::TakenSnapshot>> CreateGroup(const CallContext& ctx,
                                                            k8s::ApiClient& api, Random& random,
                                                            const GroupCreationRequest& request) {
  CSIDELTA_CHECK(!request.sources.empty() && !request.name.empty());
  const std::string namespace_name = request.sources.front().pvc.namespace_name();
  std::vector<std::string> not_checked;
  const absl::Status allowed =
      CheckQuotas(ctx, api, namespace_name, static_cast<int>(request.sources.size()));
  if (absl::IsPermissionDenied(allowed)) {
    not_checked.push_back(absl::StrCat("quotas not checked: ", allowed.message()));
  } else if (!csi::OutOfRoom(allowed).has_value() ||
             !GroupExists(ctx, api, request.choice, namespace_name, request.name)) {
    RETURN_IF_ERROR(allowed);  // No room is made for one that cannot be made.
  }
  csi::TakeGroupRequest take{
      .rules = PersonRules(request.timeout, request.on_full),
      .lock = LockOf(request.sources, request.name, request.waits_for_others, random),
      .object = VolumeGroupSnapshot::Make(request.choice.version, namespace_name, request.name),
      .what = absl::StrCat("the group ", request.name),
      .mark_label = objects::kPersonsGroupLabel,
      .mark = request.name,
      .members = {},
      .member_labels = CreationLabels(request.name, request.schedule),
      .member_annotations = CreationAnnotations(request.workload, request.note),
      .members_have_asked_at = true,
      .missing_hint = not_checked.empty() ? "" : "; a quota may have no room for them",
      .on_taken = request.on_taken};
  take.object.SetLabels(take.member_labels);
  take.object.SetAnnotations(take.member_annotations);
  take.object.SetClassName(request.choice.class_name);
  take.object.SetSelector(take.mark_label, take.mark);
  for (const SnapshotSource& source : request.sources) {
    take.members.push_back({.pvc = source.pvc.name(), .pvc_uid = source.pvc.uid()});
  }
  ASSIGN_OR_RETURN(csi::TakenGroup taken, csi::TakeGroup(ctx, api, take));
  std::vector<csi::TakenSnapshot> snapshots;
  snapshots.reserve(request.sources.size());
  for (const SnapshotSource& source : request.sources) {
    snapshots.push_back(std::move(taken.members[source.pvc.uid()]));
  }
  std::vector<std::string>& notes = snapshots.front().not_checked;
  notes = std::move(taken.not_checked);
  notes.insert(notes.end(), not_checked.begin(), not_checked.end());
  return snapshots;
}

}  // namespace csidelta::snapshots
