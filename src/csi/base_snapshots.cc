#include "csi/base_snapshots.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/claim_provisioning.h"
#include "csi/owned_content.h"
#include "csi/snapshot_types.h"
#include "csi/static_content.h"

namespace csidelta::csi {
namespace {

constexpr char kVeleroNamespaceAnnotation[] = "mover.csi-delta.io/velero-namespace";
constexpr char kLocationAnnotation[] = "mover.csi-delta.io/location";
constexpr char kClaimUidAnnotation[] = "mover.csi-delta.io/claim-uid";
constexpr char kClusterAnnotation[] = "mover.csi-delta.io/cluster";
constexpr char kNeededLabel[] = "mover.csi-delta.io/base-needed";

// A claim that was moved to another name is still the same volume.
bool SameVolume(const BaseOwner& a, const BaseOwner& b) {
  return a.velero_namespace == b.velero_namespace && a.location == b.location &&
         a.claim_uid == b.claim_uid && a.cluster == b.cluster;
}

bool IsOlder(const BaseSnapshot& a, const BaseSnapshot& b) {
  const auto age = [](const BaseSnapshot& base) {
    return std::pair(base.cut_at.value_or(absl::InfinitePast()),
                     base.created_at.value_or(absl::InfinitePast()));
  };
  return age(a) < age(b);
}

absl::Status DropAllBut(const CallContext& ctx, const Environment& env, const BaseOwner& owner,
                        absl::string_view kept) {
  ASSIGN_OR_RETURN(const std::vector<BaseSnapshot> bases,
                   ListBases(ctx, env, owner.velero_namespace));
  for (const BaseSnapshot& base : bases) {
    if (base.content_name == kept || !SameVolume(base.owner, owner)) {
      continue;
    }
    RETURN_IF_ERROR(DropBase(ctx, env, base.content_name));
    CSIDELTA_LOG(kInfo, "an older base snapshot is dropped",
                 {"volume_snapshot_content", base.content_name}, {"driver", base.driver},
                 {"snapshot_handle", base.snapshot_handle});
  }
  return absl::OkStatus();
}

}  // namespace

std::map<std::string, std::string> OwnerAnnotations(const BaseOwner& owner) {
  return {{kVeleroNamespaceAnnotation, owner.velero_namespace},
          {kLocationAnnotation, owner.location},
          {kClaimNamespaceAnnotation, owner.claim_namespace},
          {kClaimAnnotation, owner.claim},
          {kClaimUidAnnotation, owner.claim_uid},
          {kClusterAnnotation, owner.cluster}};
}

BaseSnapshot ReadBase(const Json& content) {
  const std::optional<absl::Time> cut_at = CutTime(content);
  return {.content_name = Name(content),
          .owner = {.velero_namespace = Annotation(content, kVeleroNamespaceAnnotation),
                    .location = Annotation(content, kLocationAnnotation),
                    .claim_namespace = Annotation(content, kClaimNamespaceAnnotation),
                    .claim = Annotation(content, kClaimAnnotation),
                    .claim_uid = Annotation(content, kClaimUidAnnotation),
                    .cluster = Annotation(content, kClusterAnnotation)},
          .driver = GetString(content, {"spec", "driver"}),
          .snapshot_handle = HandleOf(content),
          .cut_at =
              cut_at.has_value() ? cut_at : FromRfc3339(Annotation(content, kMoverCutAtAnnotation)),
          .created_at = FromRfc3339(GetString(content, {"metadata", "creationTimestamp"})),
          .is_needed = Label(content, kNeededLabel) == "true"};
}

absl::Status KeepAsBase(const CallContext& ctx, const Environment& env,
                        absl::string_view content_name, const BaseOwner& owner, bool is_needed) {
  Json patch;
  SetJson(patch, {"metadata", "labels", kBaseLabel}, "true");
  if (is_needed) {
    SetJson(patch, {"metadata", "labels", kNeededLabel}, "true");
  }
  RETURN_IF_ERROR(
      env.api.Patch(ctx, VolumeSnapshotContentKey(content_name), k8s::PatchKind::kMerge, patch, "")
          .status());
  return DropAllBut(ctx, env, owner, content_name);
}

absl::Status DropBases(const CallContext& ctx, const Environment& env, const BaseOwner& owner) {
  return DropAllBut(ctx, env, owner, "");
}

absl::StatusOr<bool> NeedsBases(const CallContext& ctx, const Environment& env,
                                absl::string_view driver) {
  ASSIGN_OR_RETURN(const std::vector<BaseSnapshot> bases, ListBases(ctx, env, ""));
  return std::any_of(bases.begin(), bases.end(), [driver](const BaseSnapshot& base) {
    return base.driver == driver && base.is_needed;
  });
}

absl::StatusOr<std::vector<BaseSnapshot>> ListBases(const CallContext& ctx, const Environment& env,
                                                    absl::string_view velero_namespace) {
  ASSIGN_OR_RETURN(
      const k8s::ObjectList contents,
      env.api.List(ctx, VolumeSnapshotContentType(), "",
                   {.label_selector = absl::StrCat(kBaseLabel, "=true"), .field_selector = ""}));
  std::vector<BaseSnapshot> bases;
  for (const Json& content : contents.items) {
    BaseSnapshot base = ReadBase(content);
    if (!BeingDeleted(content) &&
        (velero_namespace.empty() || base.owner.velero_namespace == velero_namespace)) {
      bases.push_back(std::move(base));
    }
  }
  return bases;
}

absl::StatusOr<std::optional<BaseSnapshot>> FindBase(const CallContext& ctx, const Environment& env,
                                                     const BaseOwner& owner) {
  ASSIGN_OR_RETURN(const std::vector<BaseSnapshot> bases,
                   ListBases(ctx, env, owner.velero_namespace));
  std::optional<BaseSnapshot> newest;
  for (const BaseSnapshot& base : bases) {
    if (SameVolume(base.owner, owner) && (!newest.has_value() || IsOlder(*newest, base))) {
      newest = base;
    }
  }
  return newest;
}

absl::Status DropBase(const CallContext& ctx, const Environment& env,
                      absl::string_view content_name) {
  const absl::StatusOr<Json> content = env.api.Get(ctx, VolumeSnapshotContentKey(content_name));
  if (absl::IsNotFound(content.status()) || (content.ok() && BeingDeleted(*content))) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(content.status());
  if (Label(*content, kBaseLabel) != "true") {
    return absl::FailedPreconditionError(
        absl::StrCat("VolumeSnapshotContent ", content_name, " is no base snapshot of ours"));
  }
  return DropWithSnapshot(ctx, env.api, *content);
}

}  // namespace csidelta::csi
