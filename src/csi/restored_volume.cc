#include "csi/restored_volume.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/quantity.h"
#include "base/status_macros.h"
#include "csi/claim_provisioning.h"
#include "csi/exposed_snapshot.h"
#include "csi/in_place_volume.h"
#include "csi/owned_content.h"
#include "csi/snapshot_types.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

constexpr std::size_t kRefusalBytesMax = 400;

k8s::ObjectKey OwnClaimKey(const RestoreRequest& request) {
  return ClaimKey(request.mover_namespace, request.name);
}

std::string TargetText(const RestoreRequest& request) {
  return absl::StrCat("claim ", request.target_namespace, "/", request.target_claim);
}

absl::Status Refuse(const RestoreRequest& request, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(TargetText(request), " ", why));
}

bool IsBlock(const Json& target) { return GetString(target, {"spec", "volumeMode"}) == "Block"; }

int64_t RequestedBytes(const Json& claim) {
  return ParseQuantity(GetString(claim, {"spec", "resources", "requests", "storage"})).value_or(0);
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
  absl::Status CheckTarget(const Json& target);
  absl::StatusOr<std::optional<Json>> ReadClass(const Json& target);
  void PinTo(const std::string& node);
  absl::StatusOr<Json> EnsureClaim(const Json& target);

  // Those of the target; one that is only read afterwards is written first.
  static Json WritableModes(const Json& target);
  absl::StatusOr<RestoredVolume> LookAtClaim(const Json& target, const std::string& driver,
                                             bool waits_for_pod);

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const RestoreRequest& request_;
  RestoredVolume result_;
};

absl::StatusOr<RestoredVolume> Preparation::Run() {
  ASSIGN_OR_RETURN(
      const std::optional<Json> target,
      k8s::Find(ctx_, api_, ClaimKey(request_.target_namespace, request_.target_claim)));
  if (!target.has_value()) {
    if (!request_.target_uid.empty()) {
      return Refuse(request_, "was deleted");
    }
    return AwaitTarget(absl::StrCat(TargetText(request_), " to be made"));
  }
  result_.is_target_there = true;
  RETURN_IF_ERROR(CheckTarget(*target));
  ASSIGN_OR_RETURN(const std::optional<Json> storage_class, ReadClass(*target));
  if (!storage_class.has_value()) {
    return Refuse(request_, absl::StrCat("has the storage class \"", result_.storage_class,
                                         "\", which nobody can make a volume of: there is none "
                                         "of that name; map it to another one in the restore"));
  }
  const std::string driver = GetString(*storage_class, {"provisioner"});
  if (HasNoBlockDevices(driver)) {
    return Refuse(request_, absl::StrCat("cannot be filled: driver ", driver,
                                         " serves file systems only; map its storage class to "
                                         "one with block devices in the restore"));
  }
  const bool waits_for_pod =
      GetString(*storage_class, {"volumeBindingMode"}) == "WaitForFirstConsumer";
  if (waits_for_pod && !request_.ignore_delay_binding) {
    const std::string node = k8s::Annotation(*target, objects::kSelectedNodeAnnotation);
    if (node.empty()) {
      return AwaitTarget(absl::StrCat("a Pod that uses ", TargetText(request_),
                                      " to be scheduled; restore.ignoreDelayBinding in the "
                                      "settings fills it before"));
    }
    PinTo(node);
  }
  return request_.is_without_claim
             ? Wait(absl::StrCat(ToString(OwnClaimKey(request_)), " to be made"))
             : LookAtClaim(*target, driver, waits_for_pod);
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

absl::Status Preparation::CheckTarget(const Json& target) {
  if (!request_.target_uid.empty() && request_.target_uid != k8s::Uid(target)) {
    return Refuse(request_, "was deleted and made anew");
  }
  if (k8s::BeingDeleted(target)) {
    return Refuse(request_, "is being deleted");
  }
  if (!GetString(target, {"spec", "volumeName"}).empty()) {
    return Refuse(request_,
                  absl::StrCat("has a volume already, ", GetString(target, {"spec", "volumeName"}),
                               ": delete the claim and restore it again"));
  }
  result_.target_uid = k8s::Uid(target);
  result_.size_bytes = std::max(RequestedBytes(target), request_.size_bytes_least);
  return result_.size_bytes > 0 ? absl::OkStatus() : Refuse(request_, "requests no size");
}

absl::StatusOr<std::optional<Json>> Preparation::ReadClass(const Json& target) {
  result_.storage_class = GetString(target, {"spec", "storageClassName"});
  if (result_.storage_class.empty()) {
    return std::optional<Json>();
  }
  return k8s::Find(
      ctx_, api_,
      {.type = StorageClassType(), .namespace_name = "", .name = result_.storage_class});
}

void Preparation::PinTo(const std::string& node) {
  result_.node_affinity = objects::NodeSelector::OfNode(node);
}

absl::StatusOr<Json> Preparation::EnsureClaim(const Json& target) {
  const k8s::ObjectKey key = OwnClaimKey(request_);
  ASSIGN_OR_RETURN(const std::optional<Json> found, k8s::Find(ctx_, api_, key));
  if (found.has_value()) {
    if (k8s::BeingDeleted(*found) || !objects::Object(*found).HasLabels(request_.labels)) {
      return Refuse(request_, absl::StrCat("cannot be filled: ", ToString(key),
                                           " is being deleted, or somebody else's"));
    }
    return *found;
  }
  Json claim = {{"apiVersion", "v1"},
                {"kind", "PersistentVolumeClaim"},
                {"metadata",
                 {{"name", request_.name},
                  {"namespace", request_.mover_namespace},
                  {"labels", request_.labels},
                  {"annotations",
                   {{objects::kMoverClaimNamespaceAnnotation, request_.target_namespace},
                    {objects::kMoverClaimAnnotation, request_.target_claim}}}}}};
  if (request_.owner.has_value()) {
    claim["metadata"]["ownerReferences"] = Json::array({objects::ToJson(*request_.owner)});
  }
  claim["spec"] = {{"accessModes", WritableModes(target)},
                   {"volumeMode", "Block"},
                   {"storageClassName", result_.storage_class}};
  SetJson(claim, {"spec", "resources", "requests", "storage"}, absl::StrCat(result_.size_bytes));
  return api_.Create(ctx_, PersistentVolumeClaimType(), request_.mover_namespace, claim);
}

Json Preparation::WritableModes(const Json& target) {
  const Json* modes = FindJson(target, {"spec", "accessModes"});
  const Json only_read = Json::array({"ReadOnlyMany"});
  return modes == nullptr || !modes->is_array() || modes->empty() || *modes == only_read
             ? Json::array({"ReadWriteOnce"})
             : *modes;
}

absl::StatusOr<RestoredVolume> Preparation::LookAtClaim(const Json& target,
                                                        const std::string& driver,
                                                        bool waits_for_pod) {
  ASSIGN_OR_RETURN(const Json claim, EnsureClaim(target));
  const std::string phase = GetString(claim, {"status", "phase"});
  if (phase == "Lost") {
    return Refuse(request_, "cannot be filled: its new volume was lost");
  }
  if (phase == "Bound") {
    ASSIGN_OR_RETURN(const std::string foreign, WhyVolumeIsForeign(ctx_, api_, claim, driver));
    if (!foreign.empty()) {  // Whose data would be written over?
      return Refuse(request_, absl::StrCat("cannot be filled: ", ToString(OwnClaimKey(request_)),
                                           " was bound to what was there before: ", foreign));
    }
    result_.volume_name = GetString(claim, {"spec", "volumeName"});
    result_.state = RestoredVolume::State::kReady;
    return result_;
  }
  ASSIGN_OR_RETURN(const std::string refusal, LastProvisioningError(ctx_, api_, claim));
  if (IsDefiniteRefusal(refusal)) {
    return Refuse(request_, absl::StrCat("cannot be filled: driver ", driver,
                                         " makes no block device for it: ",
                                         refusal.substr(0, kRefusalBytesMax)));
  }
  if (waits_for_pod) {
    result_.state = RestoredVolume::State::kReady;
    return result_;
  }
  return Wait(absl::StrCat(ToString(OwnClaimKey(request_)), " to get a volume",
                           refusal.empty() ? "" : ": ", refusal.substr(0, kRefusalBytesMax)));
}

// --- Handing over

// The volume is the target's for good, with the policy that its class wants.
absl::Status TakeMarksOff(const CallContext& ctx, k8s::ApiClient& api, const Json& volume) {
  const std::string policy = k8s::Annotation(volume, objects::kReclaimPolicyAnnotation);
  Json patch;
  SetJson(patch, {"metadata", "annotations"},
          {{objects::kVolumeOfAnnotation, nullptr}, {objects::kReclaimPolicyAnnotation, nullptr}});
  if (policy == "Delete" || policy == "Retain") {
    SetJson(patch, {"spec", "persistentVolumeReclaimPolicy"}, policy);
  }
  return api.Patch(ctx, VolumeKey(k8s::Name(volume)), k8s::PatchKind::kMerge, patch, "").status();
}

class HandingOver {
 public:
  HandingOver(const CallContext& ctx, k8s::ApiClient& api, const RestoreRequest& request,
              std::string volume_name)
      : ctx_(ctx), api_(api), request_(request), volume_name_(std::move(volume_name)) {}

  absl::StatusOr<HandOver> Run();

 private:
  static HandOver Wait(std::string for_what) {
    return {.is_done = false, .waiting_for = std::move(for_what)};
  }

  // What is waited for; "" when the claim is gone and the volume kept.
  absl::StatusOr<std::string> LetClaimGo();

  // The claim may go only when it does not take the data along.
  absl::Status Retain(const Json& claim);

  // --- A volume object of another mode

  // What is waited for; "" when the object `name` stands for the volume alone.
  absl::StatusOr<std::string> Replace();
  absl::Status DeleteObject(const Json& volume);

  // The same volume, to be mounted. Still of the claim that is gone, so that nobody binds it yet.
  absl::StatusOr<Json> Clone(const Json& old);

  // --- Both ends name each other

  absl::StatusOr<HandOver> Bind();
  absl::Status Reserve(const Json& volume);

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const RestoreRequest& request_;
  const std::string volume_name_;
  std::string final_name_;
  Json target_;
};

absl::StatusOr<HandOver> HandingOver::Run() {
  ASSIGN_OR_RETURN(
      const std::optional<Json> target,
      k8s::Find(ctx_, api_, ClaimKey(request_.target_namespace, request_.target_claim)));
  if (!target.has_value() || k8s::Uid(*target) != request_.target_uid ||
      k8s::BeingDeleted(*target)) {
    return Refuse(request_, "was deleted while its data was restored");
  }
  target_ = *target;
  final_name_ = IsBlock(target_) ? volume_name_ : request_.name;
  const std::string has = GetString(target_, {"spec", "volumeName"});
  if (!has.empty() && has != final_name_) {
    return Refuse(request_,
                  absl::StrCat("got another volume, ", has, ", while its data was restored"));
  }
  ASSIGN_OR_RETURN(const std::string waits_for_claim, LetClaimGo());
  if (!waits_for_claim.empty()) {
    return Wait(waits_for_claim);
  }
  if (!IsBlock(target_)) {
    ASSIGN_OR_RETURN(const std::string waits_for_volume, Replace());
    if (!waits_for_volume.empty()) {
      return Wait(waits_for_volume);
    }
  }
  return Bind();
}

absl::StatusOr<std::string> HandingOver::LetClaimGo() {
  const k8s::ObjectKey key = OwnClaimKey(request_);
  ASSIGN_OR_RETURN(const std::optional<Json> claim, k8s::Find(ctx_, api_, key));
  if (!claim.has_value()) {
    return "";
  }
  if (!k8s::BeingDeleted(*claim)) {
    RETURN_IF_ERROR(Retain(*claim));
    RETURN_IF_ERROR(k8s::IgnoreNotFound(
        api_.Delete(ctx_, key, {.uid = k8s::Uid(*claim), .resource_version = ""})));
  }
  ASSIGN_OR_RETURN(const std::optional<Json> left, k8s::Find(ctx_, api_, key));
  return left.has_value() ? absl::StrCat(ToString(key), " to be gone") : "";
}

absl::Status HandingOver::Retain(const Json& claim) {
  ASSIGN_OR_RETURN(const std::optional<Json> volume,
                   k8s::Find(ctx_, api_, VolumeKey(volume_name_)));
  if (!volume.has_value() || GetString(*volume, {"spec", "claimRef", "uid"}) != k8s::Uid(claim)) {
    return Refuse(request_, absl::StrCat("cannot get its volume ", volume_name_,
                                         ", which was deleted or is another claim's"));
  }
  Json patch = {{"spec", {{"persistentVolumeReclaimPolicy", "Retain"}}}};
  SetJson(patch, {"metadata", "annotations", objects::kVolumeOfAnnotation}, request_.name);
  if (k8s::Annotation(*volume, objects::kReclaimPolicyAnnotation).empty()) {
    SetJson(patch, {"metadata", "annotations", objects::kReclaimPolicyAnnotation},
            GetString(*volume, {"spec", "persistentVolumeReclaimPolicy"}));
  }
  ASSIGN_OR_RETURN(const Json retained,
                   api_.Patch(ctx_, VolumeKey(volume_name_), k8s::PatchKind::kMerge, patch, ""));
  return GetString(retained, {"spec", "persistentVolumeReclaimPolicy"}) == "Retain"
             ? absl::OkStatus()
             : Refuse(request_, absl::StrCat("cannot get its volume ", volume_name_,
                                             ", which cannot be retained"));
}

absl::StatusOr<std::string> HandingOver::Replace() {
  ASSIGN_OR_RETURN(const std::optional<Json> old, k8s::Find(ctx_, api_, VolumeKey(volume_name_)));
  ASSIGN_OR_RETURN(const std::optional<Json> made, k8s::Find(ctx_, api_, VolumeKey(request_.name)));
  if (!made.has_value()) {
    if (!old.has_value()) {
      return Refuse(request_,
                    absl::StrCat("cannot get its volume ", volume_name_, ", which was deleted"));
    }
    ASSIGN_OR_RETURN(const Json clone, Clone(*old));
    const absl::Status created = api_.Create(ctx_, PersistentVolumeType(), "", clone).status();
    if (!created.ok() && !absl::IsAlreadyExists(created)) {
      return created;
    }
  }
  if (!old.has_value()) {
    return "";
  }
  // What attached it holds the old object until it is detached, and a volume that is attached by
  // two objects would be detached under the feet of the second.
  RETURN_IF_ERROR(DeleteObject(*old));
  ASSIGN_OR_RETURN(const std::optional<Json> left, k8s::Find(ctx_, api_, VolumeKey(volume_name_)));
  return left.has_value() ? absl::StrCat("volume ", volume_name_, " to be detached and gone") : "";
}

absl::Status HandingOver::DeleteObject(const Json& volume) {
  if (k8s::BeingDeleted(volume)) {
    return absl::OkStatus();
  }
  if (k8s::Annotation(volume, objects::kVolumeOfAnnotation) != request_.name ||
      GetString(volume, {"spec", "persistentVolumeReclaimPolicy"}) != "Retain") {
    return Refuse(request_, absl::StrCat("cannot get its volume ", volume_name_,
                                         ", which somebody has changed meanwhile"));
  }
  return k8s::IgnoreNotFound(api_.Delete(ctx_, VolumeKey(volume_name_),
                                         {.uid = k8s::Uid(volume), .resource_version = ""}));
}

absl::StatusOr<Json> HandingOver::Clone(const Json& old) {
  Json metadata = {{"name", request_.name}};
  for (const char* kept : {"labels", "annotations"}) {  // Finalizers are their controllers' to set.
    if (const Json* value = FindJson(old, {"metadata", kept}); value != nullptr) {
      metadata[kept] = *value;
    }
  }
  Json clone = {{"apiVersion", "v1"}, {"kind", "PersistentVolume"}, {"metadata", metadata}};
  clone["spec"] = old["spec"];
  clone["spec"]["volumeMode"] = "Filesystem";
  EraseJson(clone, {"spec", "csi", "volumeAttributes", kProvisionerIdentity});
  ASSIGN_OR_RETURN(const std::optional<Json> storage_class,
                   k8s::Find(ctx_, api_,
                             {.type = StorageClassType(),
                              .namespace_name = "",
                              .name = GetString(target_, {"spec", "storageClassName"})}));
  const Json& parameters = storage_class.has_value() ? *storage_class : target_;
  std::string file_system = request_.file_system;
  for (const char* key : {"csi.storage.k8s.io/fstype", "fstype"}) {
    file_system = file_system.empty() ? GetString(parameters, {"parameters", key}) : file_system;
  }
  if (!file_system.empty() && clone["spec"].contains("csi")) {
    clone["spec"]["csi"]["fsType"] = file_system;
  }
  if (const Json* options = FindJson(parameters, {"mountOptions"}); options != nullptr) {
    clone["spec"]["mountOptions"] = *options;
  }
  return clone;
}

absl::StatusOr<HandOver> HandingOver::Bind() {
  ASSIGN_OR_RETURN(const std::optional<Json> volume, k8s::Find(ctx_, api_, VolumeKey(final_name_)));
  if (!volume.has_value() || k8s::BeingDeleted(*volume)) {
    return Refuse(request_,
                  absl::StrCat("cannot get its volume ", final_name_, ", which was deleted"));
  }
  const bool is_bound = GetString(target_, {"status", "phase"}) == "Bound";
  const bool is_ours = k8s::Annotation(*volume, objects::kVolumeOfAnnotation) == request_.name;
  if (is_bound) {
    RETURN_IF_ERROR(is_ours ? TakeMarksOff(ctx_, api_, *volume) : absl::OkStatus());
    return HandOver{.is_done = true, .waiting_for = ""};
  }
  if (!is_ours) {
    return Refuse(request_, absl::StrCat("cannot get its volume ", final_name_,
                                         ", which is not ours to give"));
  }
  RETURN_IF_ERROR(Reserve(*volume));
  if (GetString(target_, {"spec", "volumeName"}).empty()) {
    const Json patch = {{"metadata", {{"uid", request_.target_uid}}},
                        {"spec", {{"volumeName", final_name_}}}};
    RETURN_IF_ERROR(api_.Patch(ctx_, ClaimKey(request_.target_namespace, request_.target_claim),
                               k8s::PatchKind::kMerge, patch, "")
                        .status());
  }
  return Wait(absl::StrCat(TargetText(request_), " to be bound to volume ", final_name_));
}

absl::Status HandingOver::Reserve(const Json& volume) {
  if (GetString(volume, {"spec", "claimRef", "uid"}) == request_.target_uid) {
    return absl::OkStatus();
  }
  Json patch;
  SetJson(patch, {"spec", "claimRef"},
          {{"apiVersion", "v1"},
           {"kind", "PersistentVolumeClaim"},
           {"namespace", request_.target_namespace},
           {"name", request_.target_claim},
           {"uid", request_.target_uid},
           {"resourceVersion", nullptr}});
  if (const Json* modes = FindJson(target_, {"spec", "accessModes"}); modes != nullptr) {
    SetJson(patch, {"spec", "accessModes"}, *modes);
  }
  for (const auto& [key, value] : GetStringMap(target_, {"spec", "selector", "matchLabels"})) {
    SetJson(patch, {"metadata", "labels", key}, value);
  }
  return api_.Patch(ctx_, VolumeKey(final_name_), k8s::PatchKind::kMerge, patch, "").status();
}

// --- Removing

absl::Status SetReclaimPolicy(const CallContext& ctx, k8s::ApiClient& api, const Json& volume,
                              const char* policy) {
  if (GetString(volume, {"spec", "persistentVolumeReclaimPolicy"}) == policy || IsAlias(volume)) {
    return absl::OkStatus();  // The data of an alias is another volume's.
  }
  return k8s::IgnoreNotFound(api.Patch(ctx, VolumeKey(k8s::Name(volume)), k8s::PatchKind::kMerge,
                                       {{"spec", {{"persistentVolumeReclaimPolicy", policy}}}}, "")
                                 .status());
}

// A volume whose claim is gone: the driver drops it because of its policy.
absl::Status DropVolume(const CallContext& ctx, k8s::ApiClient& api, const RestoreRequest& request,
                        const std::string& name) {
  ASSIGN_OR_RETURN(const std::optional<Json> volume, k8s::Find(ctx, api, VolumeKey(name)));
  if (!volume.has_value() || k8s::BeingDeleted(*volume) ||
      k8s::Annotation(*volume, objects::kVolumeOfAnnotation) != request.name) {
    return absl::OkStatus();
  }
  return SetReclaimPolicy(ctx, api, *volume, "Delete");
}

absl::Status RemoveClaim(const CallContext& ctx, k8s::ApiClient& api,
                         const RestoreRequest& request) {
  ASSIGN_OR_RETURN(const std::optional<Json> claim, k8s::Find(ctx, api, OwnClaimKey(request)));
  if (!claim.has_value() || !objects::Object(*claim).HasLabels(request.labels) || IsAlias(*claim)) {
    return absl::OkStatus();
  }
  if (const std::string name = GetString(*claim, {"spec", "volumeName"}); !name.empty()) {
    ASSIGN_OR_RETURN(const std::optional<Json> volume, k8s::Find(ctx, api, VolumeKey(name)));
    if (volume.has_value() && GetString(*volume, {"spec", "claimRef", "uid"}) == k8s::Uid(*claim)) {
      RETURN_IF_ERROR(SetReclaimPolicy(ctx, api, *volume, "Delete"));
    }
  }
  return k8s::BeingDeleted(*claim)
             ? absl::OkStatus()
             : k8s::IgnoreNotFound(api.Delete(ctx, OwnClaimKey(request),
                                              {.uid = k8s::Uid(*claim), .resource_version = ""}));
}

}  // namespace

absl::StatusOr<RestoredVolume> PrepareVolume(const CallContext& ctx, k8s::ApiClient& api,
                                             const RestoreRequest& request) {
  return Preparation(ctx, api, request).Run();
}

absl::StatusOr<HandOver> HandVolumeOver(const CallContext& ctx, k8s::ApiClient& api,
                                        const RestoreRequest& request,
                                        const std::string& volume_name) {
  return HandingOver(ctx, api, request, volume_name).Run();
}

absl::Status RemoveRestoredVolume(const CallContext& ctx, k8s::ApiClient& api,
                                  const RestoreRequest& request, const std::string& volume_name) {
  RETURN_IF_ERROR(RemoveClaim(ctx, api, request));
  if (volume_name.empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::optional<Json> target,
                   k8s::Find(ctx, api, ClaimKey(request.target_namespace, request.target_claim)));
  // What names it is bound to it, or will be, however slow the binder is: a PVC names no other
  // volume than its first.
  const std::string named = target.has_value() && k8s::Uid(*target) == request.target_uid
                                ? GetString(*target, {"spec", "volumeName"})
                                : std::string();
  if (named == volume_name || named == request.name) {
    ASSIGN_OR_RETURN(const std::optional<Json> given, k8s::Find(ctx, api, VolumeKey(named)));
    const bool is_marked =
        given.has_value() && k8s::Annotation(*given, objects::kVolumeOfAnnotation) == request.name;
    return is_marked ? TakeMarksOff(ctx, api, *given) : absl::OkStatus();
  }
  // Two objects of one volume: only one of them may have the driver drop it.
  ASSIGN_OR_RETURN(const std::optional<Json> old, k8s::Find(ctx, api, VolumeKey(volume_name)));
  ASSIGN_OR_RETURN(const std::optional<Json> clone, k8s::Find(ctx, api, VolumeKey(request.name)));
  if (old.has_value() && !k8s::BeingDeleted(*old) && clone.has_value() &&
      k8s::Annotation(*clone, objects::kVolumeOfAnnotation) == request.name) {
    RETURN_IF_ERROR(k8s::IgnoreNotFound(api.Delete(
        ctx, VolumeKey(request.name), {.uid = k8s::Uid(*clone), .resource_version = ""})));
    return DropVolume(ctx, api, request, volume_name);
  }
  RETURN_IF_ERROR(DropVolume(ctx, api, request, volume_name));
  return DropVolume(ctx, api, request, request.name);
}

}  // namespace csidelta::csi
