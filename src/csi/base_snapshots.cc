#include "csi/base_snapshots.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/base_index.h"
#include "csi/driver_rules.h"
#include "csi/drop.h"
#include "csi/snapshot_need.h"
#include "objects/client.h"
#include "objects/data_transfer.h"
#include "objects/event.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"

namespace csidelta::csi {
namespace {

using objects::VolumeSnapshotContent;

// A claim that was moved to another name is still the same volume.
bool SameVolume(const BaseOwner& a, const BaseOwner& b) {
  return a.velero_namespace == b.velero_namespace && a.location == b.location &&
         a.claim_uid == b.claim_uid && a.cluster == b.cluster;
}

bool IsOlder(const BaseSnapshot& a, const BaseSnapshot& b) {
  const auto age = [](const BaseSnapshot& base) {
    return std::pair(base.snapshot_taken_at.value_or(absl::InfinitePast()),
                     base.created_at.value_or(absl::InfinitePast()));
  };
  return age(a) < age(b);
}

// The upload's uid, from the task "du-<uid>" that the content was made for.
std::string UploadOf(const VolumeSnapshotContent& content) {
  const std::string task = content.Label(objects::kMoverTaskLabel);
  absl::string_view uid = task;
  return absl::ConsumePrefix(&uid, "du-") ? std::string(uid) : "";
}

std::optional<int64_t> SizeOf(const VolumeSnapshotContent& content) {
  int64_t bytes = 0;
  return absl::SimpleAtoi(content.Annotation(objects::kSourceSizeAnnotation), &bytes) && bytes > 0
             ? std::optional(bytes)
             : content.restore_size_bytes();
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
    RETURN_IF_ERROR(DropBase(ctx, env, base.content_name).status());
    CSIDELTA_LOG(kInfo, "an older base snapshot is dropped",
                 {"volume_snapshot_content", base.content_name}, {"driver", base.driver},
                 {"snapshot_handle", base.snapshot_handle});
  }
  return absl::OkStatus();
}

// A base has a VolumeSnapshot only while it is being read, or if a user made one.
absl::StatusOr<std::vector<Finding>> WhyItStays(const CallContext& ctx, const Environment& env,
                                                const VolumeSnapshotContent& content) {
  ASSIGN_OR_RETURN(const auto snapshot, FindSnapshotOf(ctx, env.api, content));
  if (!snapshot.has_value()) {
    return std::vector<Finding>();
  }
  ASSIGN_OR_RETURN(const PvcsBySource pvcs,
                   ListPvcsBySource(ctx, env.api, snapshot->namespace_name()));
  PopulationReader populations(ctx, env.api, &env);
  return NeedsOf(*snapshot, &content, pvcs, populations, Requester::kBaseCleanUp);
}

// Whether an upload of the base's volume to its location is under way. An error, also one about the
// kind, tells nothing: an upload may be under way.
absl::StatusOr<bool> MayBeCompared(const CallContext& ctx, const Environment& env,
                                   const BaseSnapshot& base) {
  const auto uploads = objects::List<objects::DataUpload>(
      ctx, env.api, base.owner.velero_namespace,
      {.label_selector = absl::StrCat(objects::kPvcUidLabel, "=", base.owner.claim_uid)});
  RETURN_IF_ERROR(Annotate(uploads.status(),
                           absl::StrCat("base snapshot ", base.content_name, " stays: whether an ",
                                        "upload is compared with it is not known")));
  return std::any_of(uploads->begin(), uploads->end(), [&](const auto& upload) {
    return !upload.is_over() && upload.storage_location() == base.owner.location;
  });
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

BaseSnapshot ReadBase(const VolumeSnapshotContent& content) {
  const std::optional<absl::Time> snapshot_taken_at = content.taken_at();
  return {
      .content_name = content.name(),
      .owner = {.velero_namespace = content.Annotation(objects::kMoverVeleroNamespaceLabel),
                .location = content.Annotation(objects::kMoverLocationAnnotation),
                .claim_namespace = content.Annotation(objects::kMoverClaimNamespaceAnnotation),
                .claim = content.Annotation(objects::kMoverClaimAnnotation),
                .claim_uid = content.Annotation(objects::kMoverClaimUidAnnotation),
                .cluster = content.Annotation(objects::kMoverClusterAnnotation)},
      .driver = content.driver(),
      .snapshot_handle = content.handle_or_source(),
      .snapshot_taken_at = snapshot_taken_at.has_value()
                               ? snapshot_taken_at
                               : ParseRfc3339(content.Annotation(objects::kMoverTakenAtAnnotation)),
      .created_at = content.created_at(),
      .is_needed = content.Label(objects::kBaseNeededLabel) == "true",
      .upload = UploadOf(content),
      .size_bytes = SizeOf(content)};
}

void ReduceToBase(VolumeSnapshotContent& content) {
  content.ReduceTo({objects::kBaseNeededLabel, objects::kMoverTaskLabel,
                    objects::kMoverVeleroNamespaceLabel, objects::kMoverLocationAnnotation,
                    objects::kMoverClaimNamespaceAnnotation, objects::kMoverClaimAnnotation,
                    objects::kMoverClaimUidAnnotation, objects::kMoverClusterAnnotation,
                    objects::kMoverTakenAtAnnotation, objects::kSourceSizeAnnotation});
}

k8s::WatchedObjects BaseContents() {
  return {.type = VolumeSnapshotContent::Type(),
          .label_selector = absl::StrCat(objects::kBaseLabel, "=true")};
}

absl::Status KeepAsBase(const CallContext& ctx, const Environment& env,
                        absl::string_view content_name, const BaseOwner& owner, bool is_needed) {
  auto patch = objects::Patch().SetLabel(objects::kBaseLabel, "true");
  if (is_needed) {
    patch.SetLabel(objects::kBaseNeededLabel, "true");
  }
  RETURN_IF_ERROR(
      objects::Apply(ctx, env.api, VolumeSnapshotContent::Key("", content_name), patch));
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
  ASSIGN_OR_RETURN(const auto contents,
                   objects::List<VolumeSnapshotContent>(
                       ctx, env.api, "", {.label_selector = BaseContents().label_selector}));
  std::vector<BaseSnapshot> bases;
  for (const VolumeSnapshotContent& content : contents) {
    BaseSnapshot base = ReadBase(content);
    if (!content.is_being_deleted() &&
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

void EmitBaseEvent(const CallContext& ctx, k8s::ApiClient& api, const BaseOwner& owner,
                   k8s::EventType type, absl::string_view reason, absl::string_view message,
                   absl::string_view component) {
  const auto pvc =
      objects::Find<objects::PersistentVolumeClaim>(ctx, api, owner.claim_namespace, owner.claim);
  absl::Status status = pvc.status();
  if (pvc.ok() && (!pvc->has_value() || (*pvc)->uid() != owner.claim_uid)) {
    return;
  }
  if (status.ok()) {
    status = objects::EmitEvent(ctx, api, **pvc, type, reason, message, component);
  }
  if (!status.ok()) {
    CSIDELTA_LOG(kWarn, "the event was not written", {"namespace", owner.claim_namespace},
                 {"pvc", owner.claim}, {"error", std::string(status.message())});
  }
}

absl::StatusOr<bool> DropBaseForRoom(const CallContext& ctx, const Environment& env,
                                     absl::string_view claim_uid, absl::string_view driver_error,
                                     absl::string_view component) {
  ASSIGN_OR_RETURN(std::vector<BaseSnapshot> bases, ListBases(ctx, env, ""));
  std::erase_if(bases, [claim_uid](const auto& base) { return base.owner.claim_uid != claim_uid; });
  std::sort(bases.begin(), bases.end(), IsOlder);
  absl::Status not_known;
  for (const BaseSnapshot& base : bases) {
    const absl::StatusOr<bool> may_be_compared = MayBeCompared(ctx, env, base);
    not_known.Update(may_be_compared.status());
    if (may_be_compared.value_or(true)) {
      continue;
    }
    ASSIGN_OR_RETURN(const bool was_dropped, DropBase(ctx, env, base.content_name));
    if (!was_dropped) {
      continue;
    }
    const std::string limits = LimitsText(RulesOf(base.driver));
    CSIDELTA_LOG(kWarn, "a base snapshot is dropped: the driver has no room for the next snapshot",
                 {"namespace", base.owner.claim_namespace}, {"pvc", base.owner.claim},
                 {"volume_snapshot_content", base.content_name}, {"driver", base.driver},
                 {"error", std::string(driver_error)});
    EmitBaseEvent(ctx, env.api, base.owner, k8s::EventType::kNormal, "BaseDropped",
                  absl::StrCat("the base snapshot ", base.content_name, " was dropped: driver ",
                               base.driver, " has no room for the next snapshot: ", driver_error,
                               limits.empty() ? "" : absl::StrCat("; the driver ", limits),
                               "; the next backup to ", base.owner.location, " is a full one"),
                  component);
    return true;
  }
  RETURN_IF_ERROR(not_known);
  return false;
}

absl::StatusOr<bool> DropBase(const CallContext& ctx, const Environment& env,
                              absl::string_view content_name) {
  ASSIGN_OR_RETURN(const auto content,
                   objects::Find<VolumeSnapshotContent>(ctx, env.api, "", content_name));
  if (!content.has_value() || content->is_being_deleted()) {
    return true;
  }
  if (content->Label(objects::kBaseLabel) != "true") {
    return absl::FailedPreconditionError(absl::StrCat("VolumeSnapshotContent ", content_name,
                                                      " is not a base snapshot of csi-delta"));
  }
  ASSIGN_OR_RETURN(const std::vector<Finding> needs, WhyItStays(ctx, env, *content));
  if (!needs.empty()) {
    CSIDELTA_LOG(kInfo, "a base snapshot is left for later",
                 {"volume_snapshot_content", content->name()}, {"reason", needs.front().message});
    return false;
  }
  RETURN_IF_ERROR(DeleteContent(ctx, env.api, *content));
  return true;
}

}  // namespace csidelta::csi
