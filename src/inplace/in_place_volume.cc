#include "inplace/in_place_volume.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/expose/claim_provisioning.h"
#include "csi/lock.h"
#include "inplace/restore_guard.h"
#include "objects/client.h"
#include "objects/copy_record.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/workload.h"

namespace csidelta::inplace {
namespace {

using objects::PersistentVolume;
using objects::PersistentVolumeClaim;

constexpr char kRightsAdvice[] =
    "its chart gives it these rights with the setting restore.intoExistingVolumes";

std::string TargetText(const InPlaceRequest& request) {
  return csi::PvcText(request.target_namespace, request.target_claim);
}

absl::Status Refuse(const InPlaceRequest& request, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat(TargetText(request), " is not restored: ", why));
}

k8s::ObjectKey TargetKey(const InPlaceRequest& request) {
  return PersistentVolumeClaim::Key(request.target_namespace, request.target_claim);
}

k8s::ObjectKey AliasClaimKey(const InPlaceRequest& request) {
  return PersistentVolumeClaim::Key(request.mover_namespace, request.name);
}

k8s::ObjectKey AliasKey(const InPlaceRequest& request) {
  return PersistentVolume::Key("", request.name);
}

// The name is of this transfer alone.
bool IsOwn(const objects::Object& object, const InPlaceRequest& request) {
  return objects::IsAlias(object) &&
         object.Annotation(objects::kMoverClaimNamespaceAnnotation) == request.target_namespace &&
         object.Annotation(objects::kMoverClaimAnnotation) == request.target_claim;
}

// True if the record is that of this transfer.
bool IsOwnRecord(const std::optional<objects::CopyRecord>& record, const InPlaceRequest& request) {
  return record.has_value() && !record->id.empty() && record->id == request.transfer_uid;
}

// The PVC, if it is the one that was named, with the volume that was.
absl::StatusOr<PersistentVolumeClaim> ReadTarget(const CallContext& ctx, k8s::ApiClient& api,
                                                 const InPlaceRequest& request) {
  ASSIGN_OR_RETURN(const auto found,
                   objects::Find<PersistentVolumeClaim>(ctx, api, TargetKey(request)));
  if (!found.has_value()) {
    return Refuse(request, "it does not exist");
  }
  const PersistentVolumeClaim& pvc = *found;
  if (pvc.uid() != request.target_uid) {
    return Refuse(request, absl::StrCat("it is not the one that was named, of uid ",
                                        request.target_uid, ": that was deleted"));
  }
  if (pvc.is_being_deleted() || !pvc.is_bound()) {
    return Refuse(request, pvc.is_being_deleted() ? "it is being deleted" : "it has no volume");
  }
  if (pvc.volume_name() != request.target_volume) {
    return Refuse(request, absl::StrCat("it has volume ", pvc.volume_name(),
                                        ", where spec.targetVolume.pv names \"",
                                        request.target_volume, "\""));
  }
  return pvc;
}

absl::Status CheckUnused(const CallContext& ctx, k8s::ApiClient& api,
                         const InPlaceRequest& request) {
  ASSIGN_OR_RETURN(const std::string use,
                   ReadUse(ctx, api, request.target_namespace, request.target_claim));
  return use.empty() ? absl::OkStatus()
                     : Refuse(request, absl::StrCat("a Pod started to use it: ", use));
}

// Without a right nothing changes by waiting.
absl::Status RefuseForbidden(const InPlaceRequest& request, const absl::Status& status) {
  return absl::IsPermissionDenied(status)
             ? Refuse(request,
                      absl::StrCat("what is against it may not be read by the data mover: ",
                                   status.message(), "; ", kRightsAdvice))
             : status;
}

// One read of the objects, and as many steps as can be taken now.
class InPlaceExposure {
 public:
  InPlaceExposure(const CallContext& ctx, k8s::ApiClient& api, const InPlaceRequest& request)
      : ctx_(ctx), api_(api), request_(request) {}

  absl::StatusOr<InPlaceVolume> Run();

 private:
  InPlaceVolume Wait(std::string for_what);

  // Its volume, if another PersistentVolume may stand for that as well.
  absl::StatusOr<PersistentVolume> ReadVolume(const PersistentVolumeClaim& pvc);
  absl::Status CheckInTime() const;

  // A user who may change the PVC wants this very DataDownload, and still does.
  bool IsWanted(const PersistentVolumeClaim& pvc) const {
    return pvc.Annotation(objects::kMayWriteAnnotation) == request_.transfer_uid;
  }

  // The DataDownload is made first: before that it has no uid.
  absl::StatusOr<InPlaceVolume> AwaitConsent();

  // The guard of every in-place restore. What may not be read could be against it. Returns what
  // another operation does with the PVC, as long as nothing else is against it; "": nothing is.
  absl::StatusOr<std::string> CheckAll(const PersistentVolumeClaim& pvc) const;

  // What else could have the volume on a node, to be waited for; "": nothing. A volume has one
  // PersistentVolume, but nothing keeps people from making more.
  absl::StatusOr<std::string> OtherUseOf(const PersistentVolume& volume) const;

  // Of `record` how far it is.
  absl::Status Announce(const PersistentVolumeClaim& pvc, objects::CopyRecord record) const;

  // By this the two that are made are known to be this restore's, and no volume of their own.
  void Mark(objects::Object& object, absl::string_view volume) const;

  // It has no class, so that no provisioner and no other PVC binds it.
  absl::StatusOr<PersistentVolume> MakeAlias(const PersistentVolumeClaim& pvc,
                                             const PersistentVolume& volume) const;
  absl::StatusOr<PersistentVolumeClaim> EnsureClaim(const PersistentVolume& alias) const;
  absl::StatusOr<InPlaceVolume> GoOn(const PersistentVolumeClaim& pvc,
                                     const PersistentVolume& alias);

  // From here on a Pod may write.
  absl::Status RecordBegin(const PersistentVolumeClaim& pvc) const;

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const InPlaceRequest& request_;
  InPlaceVolume result_;
};

absl::StatusOr<InPlaceVolume> InPlaceExposure::Run() {
  if (request_.target_namespace == request_.mover_namespace) {
    return Refuse(request_, "what is in the data mover's namespace is its own");
  }
  ASSIGN_OR_RETURN(const PersistentVolumeClaim pvc, ReadTarget(ctx_, api_, request_));
  ASSIGN_OR_RETURN(const PersistentVolume volume, ReadVolume(pvc));
  ASSIGN_OR_RETURN(auto alias, objects::Find<PersistentVolume>(ctx_, api_, AliasKey(request_)));
  const std::optional<objects::CopyRecord> record = ParseCopyRecord(pvc);
  const bool is_announced = IsOwnRecord(record, request_) && !record->has_ended;
  if (alias.has_value() && is_announced && record->has_written) {
    // Of one that is written into already nothing else matters: it is partly old.
    RETURN_IF_ERROR(CheckUnused(ctx_, api_, request_));
  } else {
    RETURN_IF_ERROR(CheckInTime());
    if (!IsWanted(pvc)) {
      return AwaitConsent();
    }
    ASSIGN_OR_RETURN(const std::string busy, CheckAll(pvc));
    if (!busy.empty()) {
      return Wait(absl::StrCat("the PVC to be free: ", busy));
    }
  }
  ASSIGN_OR_RETURN(const std::string other, OtherUseOf(volume));
  if (!other.empty()) {
    return Wait(other);
  }
  if (!is_announced) {
    RETURN_IF_ERROR(Announce(pvc, {.has_begun = record.has_value() && record->has_begun}));
    // A user that began before the record was visible appears in the next read.
    return Wait("a second look at what uses the PVC");
  }
  if (!alias.has_value()) {
    ASSIGN_OR_RETURN(alias, MakeAlias(pvc, volume));
  }
  return GoOn(pvc, *alias);
}

InPlaceVolume InPlaceExposure::Wait(std::string for_what) {
  result_.waiting_for = std::move(for_what);
  return result_;
}

absl::StatusOr<PersistentVolume> InPlaceExposure::ReadVolume(const PersistentVolumeClaim& pvc) {
  ASSIGN_OR_RETURN(const auto found,
                   objects::Find<PersistentVolume>(ctx_, api_, "", pvc.volume_name()));
  if (!found.has_value()) {
    return Refuse(request_,
                  absl::StrCat("PersistentVolume ", pvc.volume_name(), " does not exist"));
  }
  const PersistentVolume& volume = *found;
  if (volume.pvc_uid() != pvc.uid() || volume.handle().empty() || objects::IsAlias(volume)) {
    return Refuse(request_, absl::StrCat("PersistentVolume ", volume.name(),
                                         " is not its own, or not of a CSI driver"));
  }
  result_.volume_name = volume.name();
  result_.storage_class = pvc.storage_class().value_or("");
  return volume;
}

absl::Status InPlaceExposure::CheckInTime() const {
  return ctx_.clock->Now() < request_.start_before
             ? absl::OkStatus()
             : Refuse(request_, absl::StrCat("it is too late: it was to begin before ",
                                             FormatRfc3339(request_.start_before),
                                             "; run csi-delta restore --upload again"));
}

absl::StatusOr<InPlaceVolume> InPlaceExposure::AwaitConsent() {
  const std::string wanted = absl::StrCat("the uid of DataDownload ", request_.transfer,
                                          " in its annotation ", objects::kMayWriteAnnotation);
  if (ctx_.clock->Now() < request_.consent_before) {
    return Wait(absl::StrCat(TargetText(request_), " to have ", wanted));
  }
  return Refuse(request_, absl::StrCat("it does not have ", wanted,
                                       "; csi-delta restore --upload writes it"));
}

absl::StatusOr<std::string> InPlaceExposure::CheckAll(const PersistentVolumeClaim& pvc) const {
  ASSIGN_OR_RETURN(const RestoreSurroundings around,
                   ReadRestoreSurroundings(ctx_, api_, request_.target_namespace));
  ASSIGN_OR_RETURN(RestoreInfo info,
                   ReadPvcInfo(ctx_, api_, request_.target_namespace, request_.target_claim));
  std::vector<std::string> hidden = around.not_checked;
  hidden.insert(hidden.end(), info.not_checked.begin(), info.not_checked.end());
  if (!hidden.empty()) {
    return Refuse(request_, absl::StrCat("what is against it may not be read by the data mover: ",
                                         absl::StrJoin(hidden, "; "), "; ", kRightsAdvice));
  }
  if (!info.pvc.has_value() || info.pvc->resource_version() != pvc.resource_version()) {
    return absl::AbortedError(absl::StrCat(TargetText(request_), " was just changed"));
  }
  info.own_transfer = request_.transfer_uid;
  const absl::Status refused = RefusalStatus(request_.target_namespace, request_.target_claim,
                                             CheckRestore(around, info).refusals);
  if (!refused.ok() && !csi::IsVolumeBusy(refused)) {
    return absl::FailedPreconditionError(refused.message());
  }
  return std::string(refused.message());
}

absl::StatusOr<std::string> InPlaceExposure::OtherUseOf(const PersistentVolume& volume) const {
  ASSIGN_OR_RETURN(const auto volumes, objects::List<PersistentVolume>(ctx_, api_, ""));
  for (const PersistentVolume& one : volumes) {
    const std::string name = one.name();
    if (name != volume.name() && name != request_.name && one.driver() == volume.driver() &&
        one.handle() == volume.handle()) {
      return absl::StrCat("PersistentVolume ", name, ", of the same volume as ", volume.name(),
                          ", to be gone");
    }
  }
  ASSIGN_OR_RETURN(const auto attachments,
                   objects::List<objects::VolumeAttachment>(ctx_, api_, ""));
  for (const objects::VolumeAttachment& attachment : attachments) {
    if (attachment.volume_name() == volume.name()) {
      return absl::StrCat("volume ", volume.name(), " to be detached from node ",
                          attachment.node_name());
    }
  }
  return std::string();
}

absl::Status InPlaceExposure::Announce(const PersistentVolumeClaim& pvc,
                                       objects::CopyRecord record) const {
  record.from = request_.transfer;
  record.id = request_.transfer_uid;
  record.upload = request_.upload;
  record.at = ctx_.clock->Now();
  return objects::Apply(ctx_, api_, TargetKey(request_), CopyRecordPatch(pvc, &record));
}

void InPlaceExposure::Mark(objects::Object& object, absl::string_view volume) const {
  object.SetLabel(objects::kExcludeFromBackupLabel, "true");
  object.SetAnnotation(objects::kAliasOfAnnotation, volume);
  object.SetAnnotation(objects::kMoverClaimNamespaceAnnotation, request_.target_namespace);
  object.SetAnnotation(objects::kMoverClaimAnnotation, request_.target_claim);
}

absl::StatusOr<PersistentVolume> InPlaceExposure::MakeAlias(const PersistentVolumeClaim& pvc,
                                                            const PersistentVolume& volume) const {
  PersistentVolume alias = volume.AliasAs(request_.name);
  Mark(alias, volume.name());
  alias.ReserveFor(request_.mover_namespace, request_.name);
  alias.SetReclaimPolicy("Retain");
  alias.SetStorageClass("");
  alias.SetMode(objects::VolumeMode::kBlock);
  alias.SetAccessModes(csi::TransferModes(pvc.mode(), volume.access_modes()));
  return objects::CreateOrGet(ctx_, api_, alias);
}

absl::StatusOr<PersistentVolumeClaim> InPlaceExposure::EnsureClaim(
    const PersistentVolume& alias) const {
  ASSIGN_OR_RETURN(auto found,
                   objects::Find<PersistentVolumeClaim>(ctx_, api_, AliasClaimKey(request_)));
  if (found.has_value()) {
    return *std::move(found);
  }
  if (!alias.pvc_uid().empty()) {
    // Of one that another client deleted: the volume is reserved for the name again.
    RETURN_IF_ERROR(
        objects::Apply(ctx_, api_, AliasKey(request_), objects::Patch().ForgetPvcUid()));
  }
  PersistentVolumeClaim claim =
      PersistentVolumeClaim::Make(request_.mover_namespace, request_.name);
  Mark(claim, result_.volume_name);
  if (request_.owner.has_value()) {
    claim.SetOwners({*request_.owner});
  }
  claim.SetMode(objects::VolumeMode::kBlock);
  claim.SetVolumeName(request_.name);
  claim.SetStorageClass("");
  claim.SetAccessModes(alias.access_modes());
  claim.SetRequestedQuantity(alias.capacity());
  return objects::Create(ctx_, api_, claim);
}

absl::StatusOr<InPlaceVolume> InPlaceExposure::GoOn(const PersistentVolumeClaim& pvc,
                                                    const PersistentVolume& alias) {
  if (!IsOwn(alias, request_) || alias.is_being_deleted() ||
      alias.Annotation(objects::kAliasOfAnnotation) != pvc.volume_name() || !alias.is_retained()) {
    return Refuse(request_, absl::StrCat("PersistentVolume ", request_.name,
                                         " is being deleted, or is not one of this restore"));
  }
  ASSIGN_OR_RETURN(const PersistentVolumeClaim claim, EnsureClaim(alias));
  if (!IsOwn(claim, request_) || claim.is_being_deleted() || claim.volume_name() != request_.name) {
    return Refuse(request_, absl::StrCat(ToString(AliasClaimKey(request_)),
                                         " is being deleted, or is not one of this restore"));
  }
  if (claim.phase() != "Bound") {
    return Wait(absl::StrCat(ToString(AliasClaimKey(request_)), " to be bound"));
  }
  RETURN_IF_ERROR(RecordBegin(pvc));
  return result_;
}

absl::Status InPlaceExposure::RecordBegin(const PersistentVolumeClaim& pvc) const {
  return ParseCopyRecord(pvc)->has_written
             ? absl::OkStatus()
             : Announce(pvc, {.has_begun = true, .has_written = true});
}

// True if a managed object still exists after its deletion was requested.
absl::StatusOr<bool> DeleteOwn(const CallContext& ctx, k8s::ApiClient& api,
                               const InPlaceRequest& request, const k8s::ObjectKey& key) {
  ASSIGN_OR_RETURN(const auto found, objects::Find<objects::Object>(ctx, api, key));
  if (!found.has_value() || !IsOwn(*found, request)) {
    return false;
  }
  if (!found->is_being_deleted()) {
    RETURN_IF_ERROR(k8s::IgnoreGone(api.Delete(ctx, key, {.uid = found->uid()})));
  }
  ASSIGN_OR_RETURN(const auto left, objects::Find<objects::Object>(ctx, api, key));
  return left.has_value() && left->uid() == found->uid();
}

// Ends record and consent, as far as they are of this transfer.
absl::Status EndRecord(const CallContext& ctx, k8s::ApiClient& api, const InPlaceRequest& request,
                       bool is_whole) {
  ASSIGN_OR_RETURN(const auto found,
                   objects::Find<PersistentVolumeClaim>(ctx, api, TargetKey(request)));
  if (!found.has_value()) {
    return absl::OkStatus();
  }
  const PersistentVolumeClaim& pvc = *found;
  std::optional<objects::CopyRecord> record = ParseCopyRecord(pvc);
  const bool is_own = IsOwnRecord(record, request);
  const bool is_partly_old = is_own && !is_whole && record->has_begun;
  const bool consents = pvc.Annotation(objects::kMayWriteAnnotation) == request.transfer_uid;
  if (!consents && (!is_own || (is_partly_old && record->has_ended))) {
    return absl::OkStatus();
  }
  objects::Patch patch = objects::Patch().IfUid(pvc.uid()).IfVersion(pvc.resource_version());
  if (is_own) {  // Another's record stays.
    record->has_ended = true;
    patch = CopyRecordPatch(pvc, is_partly_old ? &*record : nullptr);
    if (is_whole) {
      patch.SetAnnotation(objects::kRestoredAtAnnotation, FormatRfc3339Seconds(ctx.clock->Now()));
    }
  }
  if (consents) {
    patch.RemoveAnnotation(objects::kMayWriteAnnotation);
  }
  return k8s::IgnoreNotFound(objects::Apply(ctx, api, TargetKey(request), patch));
}

// True if the record of the PVC says that this transfer writes.
absl::StatusOr<bool> HasLiveRecord(const CallContext& ctx, k8s::ApiClient& api,
                                   const InPlaceRequest& request) {
  ASSIGN_OR_RETURN(const auto pvc,
                   objects::Find<PersistentVolumeClaim>(ctx, api, TargetKey(request)));
  const std::optional<objects::CopyRecord> record =
      pvc.has_value() ? ParseCopyRecord(*pvc) : std::nullopt;
  return IsOwnRecord(record, request) && record->has_begun && !record->has_ended;
}

// True if an object exists that a worker could write through.
absl::StatusOr<bool> IsExposed(const CallContext& ctx, k8s::ApiClient& api,
                               const InPlaceRequest& request) {
  ASSIGN_OR_RETURN(const auto alias, objects::Find<objects::Object>(ctx, api, AliasKey(request)));
  return alias.has_value() && IsOwn(*alias, request) ? absl::StatusOr<bool>(true)
                                                     : HasLiveRecord(ctx, api, request);
}

}  // namespace

absl::StatusOr<InPlaceVolume> ExposeInPlace(const CallContext& ctx, k8s::ApiClient& api,
                                            const InPlaceRequest& request) {
  CSIDELTA_CHECK(!request.name.empty() && !request.mover_namespace.empty());
  absl::StatusOr<InPlaceVolume> volume = InPlaceExposure(ctx, api, request).Run();
  return volume.ok() ? std::move(volume) : RefuseForbidden(request, volume.status());
}

absl::Status CheckInPlace(const CallContext& ctx, k8s::ApiClient& api,
                          const InPlaceRequest& request) {
  RETURN_IF_ERROR(CheckSameTarget(ctx, api, request));
  return RefuseForbidden(request, CheckUnused(ctx, api, request));
}

absl::Status CheckSameTarget(const CallContext& ctx, k8s::ApiClient& api,
                             const InPlaceRequest& request) {
  return RefuseForbidden(request, ReadTarget(ctx, api, request).status());
}

absl::StatusOr<std::string> HideInPlace(const CallContext& ctx, k8s::ApiClient& api,
                                        const InPlaceRequest& request, const InPlaceEnd& end) {
  CSIDELTA_CHECK(!request.name.empty() && !request.mover_namespace.empty());
  if (end.may_still_write) {
    ASSIGN_OR_RETURN(const bool is_exposed, IsExposed(ctx, api, request));
    if (is_exposed) {
      return "the worker to end, which may still write";
    }
  }
  ASSIGN_OR_RETURN(const bool has_claim, DeleteOwn(ctx, api, request, AliasClaimKey(request)));
  ASSIGN_OR_RETURN(const bool has_volume, DeleteOwn(ctx, api, request, AliasKey(request)));
  if ((has_claim || has_volume) && !end.is_fenced) {
    return absl::StrCat(
        has_claim ? ToString(AliasClaimKey(request)) : absl::StrCat("volume ", request.name),
        " to be detached and gone");
  }
  RETURN_IF_ERROR(EndRecord(ctx, api, request, end.is_whole));
  return std::string();
}

}  // namespace csidelta::inplace
