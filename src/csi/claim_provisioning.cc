#include "csi/claim_provisioning.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/snapshot_types.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

constexpr char kProvisioningFailed[] = "ProvisioningFailed";
constexpr char kWaitsForConsumer[] = "WaitForFirstConsumer";

constexpr char kInTreePrefix[] = "kubernetes.io/";
constexpr char kNoProvisioner[] = "kubernetes.io/no-provisioner";

ClassFit FitOf(const Json& storage_class, absl::string_view driver) {
  if (IsProvisionerOf(GetString(storage_class, {"provisioner"}), driver)) {
    return {};
  }
  return {.kind = ClassFit::Kind::kNever,
          .text = absl::StrCat("the storage class ", k8s::Name(storage_class), " is of driver ",
                               GetString(storage_class, {"provisioner"}),
                               ", and the snapshot of driver ", driver)};
}

absl::StatusOr<k8s::ObjectList> EventsOf(const CallContext& ctx, k8s::ApiClient& api,
                                         const Json& claim, absl::string_view more_fields) {
  return api.List(
      ctx, EventType(), k8s::Namespace(claim),
      {.label_selector = "",
       .field_selector = absl::StrCat("involvedObject.uid=", k8s::Uid(claim), more_fields)});
}

// The newest message of the events with this reason for the object with this uid; "" when there is
// none.
std::string NewestMessage(const std::vector<Json>& events, absl::string_view uid,
                          absl::string_view reason) {
  std::string newest_time;
  std::string message;
  for (const Json& event : events) {
    if (GetString(event, {"involvedObject", "uid"}) != uid ||
        GetString(event, {"reason"}) != reason) {
      continue;
    }
    const std::string time = GetString(event, {"lastTimestamp"});
    if (message.empty() || time >= newest_time) {
      newest_time = time;
      message = GetString(event, {"message"});
    }
  }
  return message;
}

// "Reason: message" of the newest event for the object with this uid; "" when there is none.
std::string NewestEvent(const std::vector<Json>& events, absl::string_view uid) {
  std::string newest_time;
  std::string text;
  for (const Json& event : events) {
    const std::string time = GetString(event, {"lastTimestamp"});
    if (GetString(event, {"involvedObject", "uid"}) == uid &&
        (text.empty() || time >= newest_time)) {
      newest_time = time;
      text = absl::StrCat(GetString(event, {"reason"}), ": ", GetString(event, {"message"}));
    }
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> LastProvisioningError(const CallContext& ctx, k8s::ApiClient& api,
                                                  const Json& claim) {
  ASSIGN_OR_RETURN(const k8s::ObjectList events,
                   EventsOf(ctx, api, claim, absl::StrCat(",reason=", kProvisioningFailed)));
  return NewestMessage(events.items, k8s::Uid(claim), kProvisioningFailed);
}

absl::StatusOr<ProvisioningNews> ReadProvisioningNews(const CallContext& ctx, k8s::ApiClient& api,
                                                      const objects::PersistentVolumeClaim& pvc) {
  ASSIGN_OR_RETURN(const k8s::ObjectList events, EventsOf(ctx, api, pvc.json(), ""));
  return ProvisioningNews{
      .last_failure = NewestMessage(events.items, pvc.uid(), kProvisioningFailed),
      .waits_for_first_consumer =
          !NewestMessage(events.items, pvc.uid(), kWaitsForConsumer).empty(),
      .last_message = NewestEvent(events.items, pvc.uid())};
}

bool IsProvisionerOf(absl::string_view provisioner, absl::string_view driver) {
  return driver.empty() || provisioner.empty() || provisioner == driver ||
         (absl::StartsWith(provisioner, kInTreePrefix) && provisioner != kNoProvisioner);
}

bool IsDefiniteRefusal(absl::string_view message) {
  return absl::StrContains(message, "code = NotFound") ||
         absl::StrContains(message, "code = InvalidArgument") ||
         absl::StrContains(message, "code = OutOfRange") ||
         absl::StrContains(message, "code = Unimplemented") ||
         // Longhorn's, with "code = Internal": the snapshot or its volume is gone.
         (absl::StrContains(message, "failed to verify data source") &&
          absl::StrContains(message, "not found")) ||
         absl::StrContains(message, "is less than the size") ||
         absl::StrContains(message, "modifies the mode of the source volume");
}

absl::StatusOr<bool> WaitsForFirstConsumer(const CallContext& ctx, k8s::ApiClient& api,
                                           absl::string_view storage_class) {
  if (storage_class.empty()) {
    return false;
  }
  const absl::StatusOr<Json> found = api.Get(
      ctx, {.type = StorageClassType(), .namespace_name = "", .name = std::string(storage_class)});
  if (absl::IsNotFound(found.status())) {
    return false;
  }
  RETURN_IF_ERROR(found.status());
  return GetString(*found, {"volumeBindingMode"}) == "WaitForFirstConsumer";
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
  const absl::StatusOr<Json> found =
      api.Get(ctx, {.type = StorageClassType(), .namespace_name = "", .name = *storage_class});
  if (absl::IsNotFound(found.status())) {
    return ClassFit{.kind = ClassFit::Kind::kMissing,
                    .text = absl::StrCat("there is no storage class ", *storage_class)};
  }
  RETURN_IF_ERROR(found.status());
  return FitOf(*found, driver);
}

std::optional<std::string> StorageClassOf(const Json& claim) {
  const Json* const named = FindJson(claim, {"spec", "storageClassName"});
  return named != nullptr && named->is_string() ? std::optional(named->get<std::string>())
                                                : std::nullopt;
}

absl::StatusOr<std::string> WhyVolumeIsForeign(const CallContext& ctx, k8s::ApiClient& api,
                                               const Json& claim, absl::string_view driver) {
  const std::string name = GetString(claim, {"spec", "volumeName"});
  ASSIGN_OR_RETURN(const Json volume, api.Get(ctx, VolumeKey(name)));
  const std::string owner = GetString(volume, {"spec", "claimRef", "uid"});
  if (!owner.empty() && owner != k8s::Uid(claim)) {
    return absl::StrCat("volume ", name, " belongs to another claim");
  }
  // Provisioners name a volume after its claim; the clocks of two API servers may differ.
  const bool is_named_after_it =
      !k8s::Uid(claim).empty() && absl::StrContains(name, k8s::Uid(claim));
  const auto made = k8s::CreatedAt(volume);
  const auto asked = k8s::CreatedAt(claim);
  if (!is_named_after_it && made.has_value() && asked.has_value() && *made < *asked) {
    return absl::StrCat("volume ", name, " is older than the claim");
  }
  if (!is_named_after_it && k8s::Annotation(volume, objects::kProvisionedByAnnotation).empty()) {
    return absl::StrCat("volume ", name, " was made by no provisioner");
  }
  const std::string volume_driver = GetString(volume, {"spec", "csi", "driver"});
  if (!driver.empty() && !absl::StartsWith(driver, kInTreePrefix) && !volume_driver.empty() &&
      volume_driver != driver) {
    return absl::StrCat("volume ", name, " is of driver ", volume_driver, ", not of ", driver);
  }
  return std::string();
}

}  // namespace csidelta::csi
