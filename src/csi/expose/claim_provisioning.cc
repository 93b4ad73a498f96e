#include "csi/expose/claim_provisioning.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/quantity.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/event.h"

namespace csidelta::csi {
namespace {

using objects::Event;
using objects::PersistentVolume;
using objects::PersistentVolumeClaim;
using objects::StorageClass;

constexpr char kProvisioningFailed[] = "ProvisioningFailed";
constexpr char kWaitsForConsumer[] = "WaitForFirstConsumer";

constexpr char kInTreePrefix[] = "kubernetes.io/";
constexpr char kNoProvisioner[] = "kubernetes.io/no-provisioner";

ClassFit FitOf(const StorageClass& storage_class, absl::string_view driver) {
  if (IsProvisionerOf(storage_class.provisioner(), driver)) {
    return {};
  }
  return {
      .kind = ClassFit::Kind::kNever,
      .text = absl::StrCat("the storage class ", storage_class.name(), " is of driver ",
                           storage_class.provisioner(), ", and the snapshot of driver ", driver)};
}

absl::StatusOr<std::vector<Event>> EventsOf(const CallContext& ctx, k8s::ApiClient& api,
                                            const PersistentVolumeClaim& claim,
                                            absl::string_view more_fields) {
  return objects::List<Event>(
      ctx, api, claim.namespace_name(),
      {.field_selector = absl::StrCat("involvedObject.uid=", claim.uid(), more_fields)});
}

// The newest event of this reason ("": of any) for the object with this uid; null if not found.
// Borrowed from `events`.
const Event* Newest(const std::vector<Event>& events, absl::string_view uid,
                    absl::string_view reason) {
  const Event* newest = nullptr;
  for (const Event& event : events) {
    if (event.involved_uid() == uid && (reason.empty() || event.reason() == reason) &&
        (newest == nullptr || event.last_seen_at() >= newest->last_seen_at())) {
      newest = &event;
    }
  }
  return newest;
}

std::string NewestMessage(const std::vector<Event>& events, absl::string_view uid,
                          absl::string_view reason) {
  const Event* const newest = Newest(events, uid, reason);
  return newest == nullptr ? "" : newest->message();
}

// "Reason: message"; "" if not found.
std::string NewestEvent(const std::vector<Event>& events, absl::string_view uid) {
  const Event* const newest = Newest(events, uid, "");
  return newest == nullptr ? "" : absl::StrCat(newest->reason(), ": ", newest->message());
}

}  // namespace

absl::StatusOr<std::string> LastProvisioningError(const CallContext& ctx, k8s::ApiClient& api,
                                                  const PersistentVolumeClaim& claim) {
  ASSIGN_OR_RETURN(const std::vector<Event> events,
                   EventsOf(ctx, api, claim, absl::StrCat(",reason=", kProvisioningFailed)));
  return NewestMessage(events, claim.uid(), kProvisioningFailed);
}

absl::StatusOr<ProvisioningStatus> ReadProvisioningStatus(const CallContext& ctx,
                                                          k8s::ApiClient& api,
                                                          const PersistentVolumeClaim& pvc) {
  ASSIGN_OR_RETURN(const std::vector<Event> events, EventsOf(ctx, api, pvc, ""));
  return ProvisioningStatus{
      .last_failure = NewestMessage(events, pvc.uid(), kProvisioningFailed),
      .waits_for_first_consumer = !NewestMessage(events, pvc.uid(), kWaitsForConsumer).empty(),
      .last_message = NewestEvent(events, pvc.uid())};
}

std::vector<std::string> TransferModes(objects::VolumeMode mode,
                                       const std::vector<std::string>& modes) {
  const bool is_writable = !modes.empty() && modes != std::vector<std::string>{"ReadOnlyMany"};
  return mode == objects::VolumeMode::kBlock && is_writable
             ? modes
             : std::vector<std::string>{"ReadWriteOnce"};
}

std::string PvcText(absl::string_view namespace_name, absl::string_view name) {
  return absl::StrCat("PVC ", namespace_name, "/", name);
}

std::string PvcText(const PersistentVolumeClaim& pvc) {
  return PvcText(pvc.namespace_name(), pvc.name());
}

std::string RequestText(const PersistentVolumeClaim& pvc) {
  return absl::StrCat(FormatBinaryQuantity(pvc.requested_bytes().value_or(0)), ", ",
                      absl::StrJoin(pvc.access_modes(), " and "), ", mode ", ToString(pvc.mode()));
}

bool IsProvisionerOf(absl::string_view provisioner, absl::string_view driver) {
  return driver.empty() || provisioner.empty() || provisioner == driver ||
         (absl::StartsWith(provisioner, kInTreePrefix) && provisioner != kNoProvisioner);
}

absl::StatusOr<StorageClass> ReadStorageClass(const CallContext& ctx, k8s::ApiClient& api,
                                              absl::string_view name) {
  if (name.empty()) {
    return StorageClass();
  }
  ASSIGN_OR_RETURN(auto found, objects::Find<StorageClass>(ctx, api, "", name));
  return found.value_or(StorageClass());
}

absl::StatusOr<ClassFit> FitOfClass(const CallContext& ctx, k8s::ApiClient& api,
                                    const std::optional<std::string>& storage_class,
                                    absl::string_view driver) {
  if (!storage_class.has_value()) {
    return ClassFit();
  }
  if (storage_class->empty()) {
    return ClassFit{.kind = ClassFit::Kind::kNever,
                    .text = "its storage class is \"\", for which no provisioner makes volumes"};
  }
  ASSIGN_OR_RETURN(const auto found, objects::Find<StorageClass>(ctx, api, "", *storage_class));
  return found.has_value()
             ? FitOf(*found, driver)
             : ClassFit{.kind = ClassFit::Kind::kMissing,
                        .text = absl::StrCat("there is no storage class ", *storage_class)};
}

std::string ClassRemediation(absl::string_view storage_class) {
  return storage_class.empty()
             ? "give it another class by a resource modifier in the restore (velero restore create "
               "--resource-modifier-configmap): add /spec/storageClassName"
             : "map its storage class to one of that driver in the restore (ConfigMap labelled "
               "velero.io/change-storage-class: RestoreItemAction)";
}

absl::StatusOr<std::string> WhyVolumeIsForeign(const CallContext& ctx, k8s::ApiClient& api,
                                               const PersistentVolumeClaim& claim,
                                               absl::string_view driver) {
  const std::string name = claim.volume_name();
  ASSIGN_OR_RETURN(const auto volume, objects::Get<PersistentVolume>(ctx, api, "", name));
  const std::string owner = volume.pvc_uid();
  if (!owner.empty() && owner != claim.uid()) {
    return absl::StrCat("volume ", name, " belongs to another claim");
  }
  // Provisioners name a volume after its claim; the clocks of two API servers may differ.
  const bool is_named_after_it = !claim.uid().empty() && absl::StrContains(name, claim.uid());
  const auto made = volume.created_at();
  const auto asked = claim.created_at();
  if (!is_named_after_it && made.has_value() && asked.has_value() && *made < *asked) {
    return absl::StrCat("volume ", name, " is older than the claim");
  }
  if (!is_named_after_it && !volume.is_provisioned()) {
    return absl::StrCat("volume ", name, " was made by no provisioner");
  }
  const std::string volume_driver = volume.driver();
  if (!driver.empty() && !absl::StartsWith(driver, kInTreePrefix) && !volume_driver.empty() &&
      volume_driver != driver) {
    return absl::StrCat("volume ", name, " is of driver ", volume_driver, ", not of ", driver);
  }
  return std::string();
}

}  // namespace csidelta::csi
