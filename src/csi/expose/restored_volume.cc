#include "csi/expose/restored_volume.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "csi/driver_error.h"
#include "csi/drop.h"
#include "csi/expose/claim_provisioning.h"
#include "csi/expose/claim_release.h"
#include "csi/expose/exposed_snapshot.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/storage_class.h"

namespace csidelta::csi {
namespace {

using objects::PersistentVolume;
using objects::PersistentVolumeClaim;
using objects::StorageClass;
using objects::VolumeMode;

constexpr std::size_t kRefusalBytesMax = 400;
// Their parameter "encrypted" means LUKS on the node, whose header is no part of the device.
constexpr absl::string_view kLuksDrivers[] = {"driver.longhorn.io", "rbd.csi.ceph.com",
                                              "csi.scaleway.com"};
constexpr int64_t kLuksHeaderBytes = 16 << 20;

// A device of the class has so many bytes less than were requested.
int64_t HeaderBytes(const StorageClass& storage_class) {
  const std::string driver = storage_class.provisioner();
  const bool is_luks = absl::c_any_of(
      kLuksDrivers, [&](absl::string_view name) { return absl::EndsWith(driver, name); });
  return is_luks && storage_class.is_encrypted() ? kLuksHeaderBytes : 0;
}

k8s::ObjectKey OwnClaimKey(const RestoreRequest& request) {
  return PersistentVolumeClaim::Key(request.mover_namespace, request.name);
}

std::string TargetText(const RestoreRequest& request) {
  return absl::StrCat("claim ", request.target_namespace, "/", request.target_claim);
}

absl::Status Refuse(const RestoreRequest& request, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(TargetText(request), " ", why));
}

k8s::ObjectKey TargetKey(const RestoreRequest& request) {
  return PersistentVolumeClaim::Key(request.target_namespace, request.target_claim);
}

// The volume is marked as one that was filled for this very restore.
bool IsMarked(const PersistentVolume& volume, const RestoreRequest& request) {
  return volume.Annotation(objects::kVolumeOfAnnotation) == request.name;
}

// --- Preparing

class Preparation {
 public:
  Preparation(const CallContext& ctx, k8s::ApiClient& api, const RestoreRequest& request)
      : ctx_(ctx), api_(api), request_(request) {}

  absl::StatusOr<RestoredVolume> Run();

 private:
  RestoredVolume Wait(std::string for_what);
  RestoredVolume AwaitTarget(std::string for_what);
  absl::Status CheckTarget(const PersistentVolumeClaim& target);
  absl::StatusOr<PersistentVolumeClaim> EnsureClaim(const PersistentVolumeClaim& target);
  absl::StatusOr<RestoredVolume> InspectClaim(const PersistentVolumeClaim& target,
                                              const std::string& driver, bool waits_for_pod);

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const RestoreRequest& request_;
  RestoredVolume result_;
  bool retains_volumes_ = false;  // by the class of the target
};

absl::StatusOr<RestoredVolume> Preparation::Run() {
  ASSIGN_OR_RETURN(const auto target,
                   objects::Find<PersistentVolumeClaim>(ctx_, api_, TargetKey(request_)));
  if (!target.has_value()) {
    if (!request_.target_uid.empty()) {
      return Refuse(request_, "was deleted");
    }
    return AwaitTarget(absl::StrCat(TargetText(request_), " to be made"));
  }
  result_.is_target_there = true;
  RETURN_IF_ERROR(CheckTarget(*target));
  result_.storage_class = target->storage_class().value_or("");
  ASSIGN_OR_RETURN(const StorageClass storage_class,
                   ReadStorageClass(ctx_, api_, result_.storage_class));
  if (storage_class.name().empty()) {
    return Refuse(request_, absl::StrCat("has the storage class \"", result_.storage_class,
                                         "\", which cannot be provisioned: none exists "
                                         "of that name; ",
                                         ClassRemediation(result_.storage_class)));
  }
  retains_volumes_ = storage_class.retains_volumes();
  result_.size_bytes =
      std::max(result_.size_bytes, request_.size_bytes_least + HeaderBytes(storage_class));
  const std::string driver = storage_class.provisioner();
  if (HasNoBlockDevices(driver)) {
    return Refuse(request_, absl::StrCat("cannot be filled: driver ", driver,
                                         " serves file systems only; map its storage class to "
                                         "one with block devices in the restore"));
  }
  const bool waits_for_pod = storage_class.waits_for_first_consumer();
  if (waits_for_pod && !request_.ignore_delay_binding) {
    const std::string node = target->selected_node();
    if (node.empty()) {
      return AwaitTarget(absl::StrCat("a Pod that uses ", TargetText(request_),
                                      " to be scheduled; restore.ignoreDelayBinding in the "
                                      "settings fills it before"));
    }
    result_.node_affinity = objects::NodeSelector::OfNode(node);
  }
  return request_.is_without_claim
             ? Wait(absl::StrCat(ToString(OwnClaimKey(request_)), " to be made"))
             : InspectClaim(*target, driver, waits_for_pod);
}

RestoredVolume Preparation::Wait(std::string for_what) {
  result_.state = RestoredVolume::State::kWaiting;
  result_.waiting_for = std::move(for_what);
  return result_;
}

RestoredVolume Preparation::AwaitTarget(std::string for_what) {
  result_.awaits_target = true;
  return Wait(std::move(for_what));
}

absl::Status Preparation::CheckTarget(const PersistentVolumeClaim& target) {
  if (!request_.target_uid.empty() && request_.target_uid != target.uid()) {
    return Refuse(request_, "was deleted and made again");
  }
  if (target.is_being_deleted()) {
    return Refuse(request_, "is being deleted");
  }
  if (!target.volume_name().empty()) {
    return Refuse(request_, absl::StrCat("has a volume already, ", target.volume_name(),
                                         ": delete the claim and restore it again"));
  }
  result_.target_uid = target.uid();
  result_.size_bytes = std::max(target.requested_bytes().value_or(0), request_.size_bytes_least);
  return result_.size_bytes > 0 ? absl::OkStatus() : Refuse(request_, "requests no size");
}

absl::StatusOr<PersistentVolumeClaim> Preparation::EnsureClaim(
    const PersistentVolumeClaim& target) {
  const k8s::ObjectKey key = OwnClaimKey(request_);
  ASSIGN_OR_RETURN(const auto found, objects::Find<PersistentVolumeClaim>(ctx_, api_, key));
  if (found.has_value()) {
    if (found->is_being_deleted() || !found->HasLabels(request_.labels)) {
      return Refuse(request_, absl::StrCat("cannot be filled: ", ToString(key),
                                           " is being deleted, or not managed by csi-delta"));
    }
    if (retains_volumes_) {
      RETURN_IF_ERROR(HoldForItsVolume(ctx_, api_, *found));
    }
    return *found;
  }
  PersistentVolumeClaim claim =
      PersistentVolumeClaim::Make(request_.mover_namespace, request_.name);
  if (retains_volumes_) {
    claim.SetFinalizers({objects::kVolumeFinalizer});
  }
  claim.SetLabels(request_.labels);
  claim.SetAnnotation(objects::kMoverClaimNamespaceAnnotation, request_.target_namespace);
  claim.SetAnnotation(objects::kMoverClaimAnnotation, request_.target_claim);
  if (request_.owner.has_value()) {
    claim.SetOwners({*request_.owner});
  }
  claim.SetAccessModes(TransferModes(target.mode(), target.access_modes()));
  claim.SetMode(VolumeMode::kBlock);
  claim.SetStorageClass(result_.storage_class);
  // The provisioner reports one that is missing.
  if (const std::optional<std::string> attributes = target.attributes_class();
      attributes.has_value()) {
    claim.SetAttributesClass(*attributes);
  }
  claim.SetRequestedBytes(result_.size_bytes);
  return objects::Create(ctx_, api_, claim);
}

absl::StatusOr<RestoredVolume> Preparation::InspectClaim(const PersistentVolumeClaim& target,
                                                         const std::string& driver,
                                                         bool waits_for_pod) {
  ASSIGN_OR_RETURN(const PersistentVolumeClaim claim, EnsureClaim(target));
  const std::string phase = claim.phase();
  if (phase == "Lost") {
    return Refuse(request_, "cannot be filled: its new volume was lost");
  }
  if (phase == "Bound") {
    ASSIGN_OR_RETURN(const std::string foreign, WhyVolumeIsForeign(ctx_, api_, claim, driver));
    if (!foreign.empty()) {  // Whose data would be written over?
      return Refuse(request_, absl::StrCat("cannot be filled: ", ToString(OwnClaimKey(request_)),
                                           " was bound to what was there before: ", foreign));
    }
    result_.volume_name = claim.volume_name();
    result_.state = RestoredVolume::State::kReady;
    return result_;
  }
  ASSIGN_OR_RETURN(const std::string refusal, LastProvisioningError(ctx_, api_, claim));
  if (IsDefiniteRefusal(refusal)) {
    return Refuse(request_,
                  absl::StrCat("cannot be filled: driver ", driver, " refuses a volume for it (",
                               RequestText(claim), "): ", refusal.substr(0, kRefusalBytesMax)));
  }
  if (!waits_for_pod || !refusal.empty()) {
    Wait(absl::StrCat(ToString(OwnClaimKey(request_)), " to get a volume",
                      refusal.empty() ? "" : ": ", refusal.substr(0, kRefusalBytesMax)));
  }
  result_.state = waits_for_pod ? RestoredVolume::State::kReady : RestoredVolume::State::kWaiting;
  return result_;
}

// --- Rebinding

// The volume is the target's for good, with the policy that its class wants.
absl::Status RemoveMarks(const CallContext& ctx, k8s::ApiClient& api,
                         const PersistentVolume& volume) {
  const std::string policy = volume.Annotation(objects::kReclaimPolicyAnnotation);
  objects::Patch patch = objects::Patch()
                             .RemoveAnnotation(objects::kVolumeOfAnnotation)
                             .RemoveAnnotation(objects::kReclaimPolicyAnnotation);
  if (policy == "Delete" || policy == "Retain") {
    patch.SetReclaimPolicy(policy);
  }
  return objects::Apply(ctx, api, volume.key(), patch);
}

class VolumeRebinding {
 public:
  VolumeRebinding(const CallContext& ctx, k8s::ApiClient& api, const RestoreRequest& request,
                  std::string volume_name)
      : ctx_(ctx), api_(api), request_(request), volume_name_(std::move(volume_name)) {}

  absl::StatusOr<RebindResult> Run();

 private:
  static RebindResult Wait(std::string for_what) {
    return {.is_done = false, .waiting_for = std::move(for_what)};
  }

  // Returns what is waited for; "" once the PVC is gone and the volume is retained.
  absl::StatusOr<std::string> DetachClaim();

  // The claim may go only when it does not take the data along.
  absl::Status Retain(const PersistentVolumeClaim& claim);

  // --- A volume object of another mode

  // Returns what is waited for; "" once the object `name` alone stands for the volume.
  absl::StatusOr<std::string> Replace();
  absl::Status DeleteObject(const PersistentVolume& volume);

  // The same volume, to be mounted. Still of the claim that is gone, so that no controller binds it
  // yet.
  absl::StatusOr<PersistentVolume> Clone(const PersistentVolume& old);

  // --- Both ends name each other

  absl::StatusOr<RebindResult> Bind();
  absl::Status Reserve(const PersistentVolume& volume);

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const RestoreRequest& request_;
  const std::string volume_name_;
  std::string final_name_;
  PersistentVolumeClaim target_;
};

absl::StatusOr<RebindResult> VolumeRebinding::Run() {
  ASSIGN_OR_RETURN(const auto target,
                   objects::Find<PersistentVolumeClaim>(ctx_, api_, TargetKey(request_)));
  if (!target.has_value() || target->uid() != request_.target_uid || target->is_being_deleted()) {
    return Refuse(request_, "was deleted while its data was restored");
  }
  target_ = *target;
  final_name_ = target_.mode() == VolumeMode::kBlock ? volume_name_ : request_.name;
  const std::string has = target_.volume_name();
  if (!has.empty() && has != final_name_) {
    return Refuse(request_,
                  absl::StrCat("got another volume, ", has, ", while its data was restored"));
  }
  ASSIGN_OR_RETURN(const std::string waits_for_claim, DetachClaim());
  if (!waits_for_claim.empty()) {
    return Wait(waits_for_claim);
  }
  if (target_.mode() != VolumeMode::kBlock) {
    ASSIGN_OR_RETURN(const std::string waits_for_volume, Replace());
    if (!waits_for_volume.empty()) {
      return Wait(waits_for_volume);
    }
  }
  return Bind();
}

absl::StatusOr<std::string> VolumeRebinding::DetachClaim() {
  const k8s::ObjectKey key = OwnClaimKey(request_);
  ASSIGN_OR_RETURN(const auto claim, objects::Find<PersistentVolumeClaim>(ctx_, api_, key));
  if (!claim.has_value()) {
    return "";
  }
  if (!claim->is_being_deleted()) {
    RETURN_IF_ERROR(Retain(*claim));
    RETURN_IF_ERROR(csi::DeleteObject(ctx_, api_, IdOf(*claim)));
  }
  ASSIGN_OR_RETURN(const auto left, objects::Find<PersistentVolumeClaim>(ctx_, api_, key));
  return left.has_value() ? absl::StrCat(ToString(key), " to be gone") : "";
}

absl::Status VolumeRebinding::Retain(const PersistentVolumeClaim& claim) {
  ASSIGN_OR_RETURN(const auto volume,
                   objects::Find<PersistentVolume>(ctx_, api_, "", volume_name_));
  if (!volume.has_value() || volume->pvc_uid() != claim.uid()) {
    return Refuse(request_, absl::StrCat("cannot get its volume ", volume_name_,
                                         ", which was deleted or is another claim's"));
  }
  objects::Patch patch = objects::Patch().SetReclaimPolicy("Retain").SetAnnotation(
      objects::kVolumeOfAnnotation, request_.name);
  patch.RemoveLabel(objects::kExcludeFromBackupLabel);
  if (volume->Annotation(objects::kReclaimPolicyAnnotation).empty()) {
    patch.SetAnnotation(objects::kReclaimPolicyAnnotation, volume->reclaim_policy());
  }
  ASSIGN_OR_RETURN(
      const auto retained,
      objects::Apply<PersistentVolume>(ctx_, api_, PersistentVolume::Key("", volume_name_), patch));
  return retained.is_retained()
             ? absl::OkStatus()
             : Refuse(request_, absl::StrCat("cannot get its volume ", volume_name_,
                                             ", which cannot be retained"));
}

absl::StatusOr<std::string> VolumeRebinding::Replace() {
  ASSIGN_OR_RETURN(const auto old, objects::Find<PersistentVolume>(ctx_, api_, "", volume_name_));
  ASSIGN_OR_RETURN(const auto made, objects::Find<PersistentVolume>(ctx_, api_, "", request_.name));
  if (!made.has_value()) {
    if (!old.has_value()) {
      return Refuse(request_,
                    absl::StrCat("cannot get its volume ", volume_name_, ", which was deleted"));
    }
    ASSIGN_OR_RETURN(const PersistentVolume clone, Clone(*old));
    const absl::Status created = objects::Create(ctx_, api_, clone).status();
    if (!created.ok() && !absl::IsAlreadyExists(created)) {
      return created;
    }
  }
  if (!old.has_value()) {
    return "";
  }
  // The attachment keeps the old object until the volume is detached. With two objects attached,
  // the detachment of the first would cut off the second.
  RETURN_IF_ERROR(DeleteObject(*old));
  ASSIGN_OR_RETURN(const auto left, objects::Find<PersistentVolume>(ctx_, api_, "", volume_name_));
  return left.has_value() ? absl::StrCat("volume ", volume_name_, " to be detached and gone") : "";
}

absl::Status VolumeRebinding::DeleteObject(const PersistentVolume& volume) {
  if (volume.is_being_deleted()) {
    return absl::OkStatus();
  }
  if (!IsMarked(volume, request_) || !volume.is_retained()) {
    return Refuse(request_, absl::StrCat("cannot get its volume ", volume_name_,
                                         ", which another client has changed meanwhile"));
  }
  return csi::DeleteObject(ctx_, api_, IdOf(volume));
}

absl::StatusOr<PersistentVolume> VolumeRebinding::Clone(const PersistentVolume& old) {
  PersistentVolume clone = old.CopyAs(request_.name);
  clone.SetMode(VolumeMode::kFilesystem);
  ASSIGN_OR_RETURN(const StorageClass storage_class,
                   ReadStorageClass(ctx_, api_, target_.storage_class().value_or("")));
  if (const std::string file_system =
          request_.file_system.empty() ? storage_class.file_system() : request_.file_system;
      !file_system.empty()) {
    clone.SetFileSystem(file_system);
  }
  if (const std::vector<std::string> options = storage_class.mount_options(); !options.empty()) {
    clone.SetMountOptions(options);
  }
  return clone;
}

absl::StatusOr<RebindResult> VolumeRebinding::Bind() {
  ASSIGN_OR_RETURN(const auto volume, objects::Find<PersistentVolume>(ctx_, api_, "", final_name_));
  if (!volume.has_value() || volume->is_being_deleted()) {
    return Refuse(request_,
                  absl::StrCat("cannot get its volume ", final_name_, ", which was deleted"));
  }
  const bool is_bound = target_.phase() == "Bound";
  const bool is_managed = IsMarked(*volume, request_);
  if (is_bound) {
    RETURN_IF_ERROR(is_managed ? RemoveMarks(ctx_, api_, *volume) : absl::OkStatus());
    return RebindResult{.is_done = true, .waiting_for = ""};
  }
  if (!is_managed) {
    return Refuse(request_, absl::StrCat("cannot get its volume ", final_name_,
                                         ", which is not managed by csi-delta"));
  }
  RETURN_IF_ERROR(Reserve(*volume));
  if (target_.volume_name().empty()) {
    RETURN_IF_ERROR(
        objects::Apply(ctx_, api_, TargetKey(request_),
                       objects::Patch().IfUid(request_.target_uid).SetVolumeName(final_name_)));
  }
  return Wait(absl::StrCat(TargetText(request_), " to be bound to volume ", final_name_));
}

absl::Status VolumeRebinding::Reserve(const PersistentVolume& volume) {
  if (volume.pvc_uid() == request_.target_uid) {
    return absl::OkStatus();
  }
  objects::Patch patch =
      objects::Patch()
          .SetPvc(request_.target_namespace, request_.target_claim, request_.target_uid)
          .SetLabels(target_.selected_labels());
  if (const std::vector<std::string> modes = target_.access_modes(); !modes.empty()) {
    patch.SetAccessModes(modes);
  }
  return objects::Apply(ctx_, api_, PersistentVolume::Key("", final_name_), patch);
}

// --- Removing

absl::Status SetReclaimPolicy(const CallContext& ctx, k8s::ApiClient& api,
                              const PersistentVolume& volume, const char* policy) {
  if (volume.reclaim_policy() == policy || objects::IsAlias(volume)) {
    return absl::OkStatus();  // The data of an alias is another volume's.
  }
  return k8s::IgnoreNotFound(
      objects::Apply(ctx, api, volume.key(), objects::Patch().SetReclaimPolicy(policy)));
}

// A volume whose claim is gone: the driver drops it because of its policy.
absl::Status DropVolume(const CallContext& ctx, k8s::ApiClient& api, const RestoreRequest& request,
                        const std::string& name) {
  ASSIGN_OR_RETURN(const auto volume, objects::Find<PersistentVolume>(ctx, api, "", name));
  return volume.has_value() && !volume->is_being_deleted() && IsMarked(*volume, request)
             ? SetReclaimPolicy(ctx, api, *volume, "Delete")
             : absl::OkStatus();
}

absl::Status RemoveClaim(const CallContext& ctx, k8s::ApiClient& api,
                         const RestoreRequest& request) {
  ASSIGN_OR_RETURN(const auto claim,
                   objects::Find<PersistentVolumeClaim>(ctx, api, OwnClaimKey(request)));
  if (!claim.has_value() || !claim->HasLabels(request.labels) || objects::IsAlias(*claim)) {
    return absl::OkStatus();
  }
  if (const std::string name = claim->volume_name(); !name.empty()) {
    ASSIGN_OR_RETURN(const auto volume, objects::Find<PersistentVolume>(ctx, api, "", name));
    if (volume.has_value() && volume->pvc_uid() == claim->uid()) {
      RETURN_IF_ERROR(SetReclaimPolicy(ctx, api, *volume, "Delete"));
    }
  }
  return claim->is_being_deleted() ? absl::OkStatus() : DeleteObject(ctx, api, IdOf(*claim));
}

}  // namespace

absl::StatusOr<RestoredVolume> PrepareVolume(const CallContext& ctx, k8s::ApiClient& api,
                                             const RestoreRequest& request) {
  CSIDELTA_CHECK(!request.name.empty() && !request.labels.empty());
  return Preparation(ctx, api, request).Run();
}

absl::StatusOr<RebindResult> RebindVolume(const CallContext& ctx, k8s::ApiClient& api,
                                          const RestoreRequest& request,
                                          const std::string& volume_name) {
  CSIDELTA_CHECK(!request.name.empty());  // It marks the volume; "" marks every one.
  return VolumeRebinding(ctx, api, request, volume_name).Run();
}

absl::Status RemoveRestoredVolume(const CallContext& ctx, k8s::ApiClient& api,
                                  const RestoreRequest& request, const std::string& volume_name) {
  // Else any PVC of the name would be deleted, and every volume count as marked.
  CSIDELTA_CHECK(!request.name.empty() && !request.labels.empty());
  RETURN_IF_ERROR(RemoveClaim(ctx, api, request));
  if (volume_name.empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto target,
                   objects::Find<PersistentVolumeClaim>(ctx, api, TargetKey(request)));
  // A target that names the volume is bound to it, or will be, however slow the binder is: a PVC
  // names no other volume than its first.
  const std::string named = target.has_value() && target->uid() == request.target_uid
                                ? target->volume_name()
                                : std::string();
  if (named == volume_name || named == request.name) {
    ASSIGN_OR_RETURN(const auto given, objects::Find<PersistentVolume>(ctx, api, "", named));
    return given.has_value() && IsMarked(*given, request) ? RemoveMarks(ctx, api, *given)
                                                          : absl::OkStatus();
  }
  // Two objects of one volume: only one of them may have the driver drop it.
  ASSIGN_OR_RETURN(const auto old, objects::Find<PersistentVolume>(ctx, api, "", volume_name));
  ASSIGN_OR_RETURN(const auto clone, objects::Find<PersistentVolume>(ctx, api, "", request.name));
  if (old.has_value() && !old->is_being_deleted() && clone.has_value() &&
      IsMarked(*clone, request)) {
    RETURN_IF_ERROR(DeleteObject(ctx, api, IdOf(*clone)));
    return DropVolume(ctx, api, request, volume_name);
  }
  RETURN_IF_ERROR(DropVolume(ctx, api, request, volume_name));
  return DropVolume(ctx, api, request, request.name);
}

}  // namespace csidelta::csi
