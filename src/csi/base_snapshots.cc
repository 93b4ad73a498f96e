#include "csi/base_snapshots.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/base_index.h"
#include "csi/claim_provisioning.h"
#include "csi/owned_content.h"
#include "csi/snapshot_need.h"
#include "csi/snapshot_types.h"
#include "csi/static_content.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

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
  std::optional<std::vector<BaseSnapshot>> bases;
  if (env.bases != nullptr) {
    bases = env.bases->OfClaim(owner.claim_uid);
  }
  if (!bases.has_value()) {
    ASSIGN_OR_RETURN(bases, ListBases(ctx, env, owner.velero_namespace));
  }
  for (const BaseSnapshot& base : *bases) {
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

// A base has a VolumeSnapshot only while it is being read, or where somebody made one.
absl::StatusOr<std::vector<Protection>> WhyItStays(const CallContext& ctx, const Environment& env,
                                                   const Json& content) {
  ASSIGN_OR_RETURN(const std::optional<Json> snapshot, FindSnapshotOf(ctx, env.api, content));
  if (!snapshot.has_value()) {
    return std::vector<Protection>();
  }
  ASSIGN_OR_RETURN(const PvcsBySource pvcs,
                   ListPvcsBeingFilled(ctx, env.api, k8s::Namespace(*snapshot)));
  return NeedsOf(*snapshot, &content, pvcs, Requester::kBaseCleanUp);
}

}  // namespace

std::map<std::string, std::string> OwnerAnnotations(const BaseOwner& owner) {
  return {{objects::kMoverVeleroNamespaceLabel, owner.velero_namespace},
          {objects::kMoverLocationAnnotation, owner.location},
          {objects::kMoverClaimNamespaceAnnotation, owner.claim_namespace},
          {objects::kMoverClaimAnnotation, owner.claim},
          {objects::kMoverClaimUidAnnotation, owner.claim_uid},
          {objects::kMoverClusterAnnotation, owner.cluster}};
}

BaseSnapshot ReadBase(const Json& content) {
  const std::optional<absl::Time> cut_at = CutTime(content);
  return {
      .content_name = k8s::Name(content),
      .owner = {.velero_namespace = k8s::Annotation(content, objects::kMoverVeleroNamespaceLabel),
                .location = k8s::Annotation(content, objects::kMoverLocationAnnotation),
                .claim_namespace =
                    k8s::Annotation(content, objects::kMoverClaimNamespaceAnnotation),
                .claim = k8s::Annotation(content, objects::kMoverClaimAnnotation),
                .claim_uid = k8s::Annotation(content, objects::kMoverClaimUidAnnotation),
                .cluster = k8s::Annotation(content, objects::kMoverClusterAnnotation)},
      .driver = GetString(content, {"spec", "driver"}),
      .snapshot_handle = HandleOf(content),
      .cut_at = cut_at.has_value()
                    ? cut_at
                    : ParseRfc3339(k8s::Annotation(content, objects::kMoverTakenAtAnnotation)),
      .created_at = k8s::CreatedAt(content),
      .is_needed = k8s::Label(content, objects::kBaseNeededLabel) == "true"};
}

k8s::FollowedObjects BaseContents() {
  return {.type = VolumeSnapshotContentType(),
          .namespace_name = "",
          .label_selector = absl::StrCat(objects::kBaseLabel, "=true")};
}

absl::Status KeepAsBase(const CallContext& ctx, const Environment& env,
                        absl::string_view content_name, const BaseOwner& owner, bool is_needed) {
  Json patch;
  SetJson(patch, {"metadata", "labels", objects::kBaseLabel}, "true");
  if (is_needed) {
    SetJson(patch, {"metadata", "labels", objects::kBaseNeededLabel}, "true");
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
  if (env.bases != nullptr) {
    if (const std::optional<bool> needs = env.bases->Needs(driver); needs.has_value()) {
      return *needs;
    }
  }
  ASSIGN_OR_RETURN(const std::vector<BaseSnapshot> bases, ListBases(ctx, env, ""));
  return std::any_of(bases.begin(), bases.end(), [driver](const BaseSnapshot& base) {
    return base.driver == driver && base.is_needed;
  });
}

absl::StatusOr<std::vector<BaseSnapshot>> ListBases(const CallContext& ctx, const Environment& env,
                                                    absl::string_view velero_namespace) {
  const k8s::FollowedObjects which = BaseContents();
  ASSIGN_OR_RETURN(const k8s::ObjectList contents,
                   env.api.List(ctx, which.type, "",
                                {.label_selector = which.label_selector, .field_selector = ""}));
  std::vector<BaseSnapshot> bases;
  for (const Json& content : contents.items) {
    BaseSnapshot base = ReadBase(content);
    if (!k8s::BeingDeleted(content) &&
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
  if (absl::IsNotFound(content.status()) || (content.ok() && k8s::BeingDeleted(*content))) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(content.status());
  if (k8s::Label(*content, objects::kBaseLabel) != "true") {
    return absl::FailedPreconditionError(
        absl::StrCat("VolumeSnapshotContent ", content_name, " is no base snapshot of ours"));
  }
  ASSIGN_OR_RETURN(const std::vector<Protection> needs, WhyItStays(ctx, env, *content));
  if (!needs.empty()) {
    CSIDELTA_LOG(kInfo, "a base snapshot is left for later",
                 {"volume_snapshot_content", k8s::Name(*content)},
                 {"reason", needs.front().message});
    return absl::OkStatus();
  }
  return DropWithSnapshot(ctx, env.api, *content);
}

}  // namespace csidelta::csi
