#include "csi/population.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "longhorn/volume_data.h"
#include "objects/client.h"
#include "objects/event.h"
#include "objects/keys.h"
#include "objects/storage_class.h"
#include "objects/swap_record.h"
#include "velero/volume_decision.h"

namespace csidelta::csi {
namespace {

using longhorn::DataState;
using objects::PersistentVolume;
using objects::PersistentVolumeClaim;
using objects::Pod;

constexpr char kCloneFailedReason[] = "VolumeCloneFailed";

struct FilledWhenBound {
  absl::string_view driver;
  absl::string_view evidence;
  absl::string_view source;  // project and file, or page, as read on 28 November 2026
};

// Only the first was run here. A driver is listed only with a source for what it does if its own
// source is deleted while it copies. docs/csi-drivers.md names the others.
constexpr std::array<FilledWhenBound, 7> kFilledWhenBound = {{
    {"hostpath.csi.k8s.io", "CreateVolume copies before it answers",
     "kubernetes-csi/csi-driver-host-path, pkg/hostpath/controllerserver.go"},
    {"rbd.csi.ceph.com",
     "CreateVolume makes a layered clone of an image that backs the snapshot; deleting the "
     "snapshot "
     "moves that image to the trash",
     "ceph/ceph-csi, design proposal rbd-snap-clone"},
    {"cephfs.csi.ceph.com", "CreateVolume answers ABORTED until the clone is complete",
     "ceph/ceph-csi, internal/cephfs/controllerserver.go and core/clone.go"},
    {"ebs.csi.aws.com",
     "CreateVolume waits for \"available\"; the volume reads at once and loads in the background; "
     "deleting a snapshot has no effect on volumes",
     "kubernetes-sigs/aws-ebs-csi-driver, pkg/cloud/cloud.go; EBS user guide, Delete an Amazon EBS "
     "snapshot"},
    {"pd.csi.storage.gke.io",
     "CreateVolume waits for the operation, and fails until disks are READY",
     "kubernetes-sigs/gcp-compute-persistent-disk-csi-driver, pkg/gce-pd-csi-driver/controller.go"},
    {"csi.vsphere.vmware.com", "CreateVolume waits for the task of vCenter that makes the volume",
     "kubernetes-sigs/vsphere-csi-driver, pkg/common/cns-lib/volume/manager.go"},
    {"topolvm.io", "CreateVolume takes a thin snapshot, which does not depend on its source",
     "topolvm/topolvm, proposal thin-snapshots-restore"},
}};

absl::Status WithoutRefusal(const absl::Status& status) {
  return absl::IsPermissionDenied(status) ? absl::OkStatus() : status;
}

bool Uses(const Pod& pod, const std::string& pvc) {
  const std::vector<std::string> pvcs = pod.pvcs();
  return std::find(pvcs.begin(), pvcs.end(), pvc) != pvcs.end();
}

bool HasMounted(const Pod& pod, const std::string& pvc) {
  return (pod.is_running() || pod.phase() == "Succeeded") && Uses(pod, pvc);
}

std::string DriverOf(const PersistentVolumeClaim& pvc) {
  std::string driver = pvc.Annotation(objects::kStorageProvisionerAnnotation);
  return driver.empty() ? pvc.Annotation(objects::kBetaStorageProvisionerAnnotation) : driver;
}

// A line for each of `volumes` that `is_copy` selects and that does not have its data.
std::vector<std::string> LinesOf(const std::vector<longhorn::Volume>& volumes,
                                 absl::FunctionRef<bool(const longhorn::Volume&)> is_copy) {
  std::vector<std::string> lines;
  for (const longhorn::Volume& volume : volumes) {
    if (is_copy(volume) && longhorn::DataStateOf(volume) != DataState::kThere) {
      lines.push_back(
          absl::StrCat(volume.pvc_name().empty()
                           ? absl::StrCat("Volume ", volume.name())
                           : absl::StrCat("PVC ", volume.pvc_namespace(), "/", volume.pvc_name()),
                       ": ", longhorn::DataText(volume)));
    }
  }
  return lines;
}

}  // namespace

bool IsFilledWhenBound(absl::string_view driver) {
  return std::any_of(
      kFilledWhenBound.begin(), kFilledWhenBound.end(), [driver](const FilledWhenBound& one) {
        return driver == one.driver || absl::EndsWith(driver, absl::StrCat(".", one.driver));
      });
}

absl::StatusOr<PopulatedVolume> VolumeOf(const CallContext& ctx, k8s::ApiClient& api,
                                         const PersistentVolumeClaim& pvc) {
  const auto volume = objects::Get<PersistentVolume>(ctx, api, "", pvc.volume_name());
  if (absl::IsPermissionDenied(volume.status())) {
    return NamedVolumeOf(pvc);
  }
  RETURN_IF_ERROR(volume.status());
  PopulatedVolume read = VolumeOf(*volume);
  read.namespace_name = pvc.namespace_name();
  read.pvc = pvc.name();
  return read;
}

PopulatedVolume NamedVolumeOf(const PersistentVolumeClaim& pvc) {
  return {.driver = DriverOf(pvc),
          .handle = pvc.volume_name(),
          .namespace_name = pvc.namespace_name(),
          .pvc = pvc.name()};
}

PopulatedVolume VolumeOf(const PersistentVolume& volume) {
  return {.driver = volume.driver(),
          .handle = volume.handle(),
          .namespace_name = volume.pvc_namespace(),
          .pvc = volume.pvc_name()};
}

absl::StatusOr<Population> PopulationReader::Read(const PopulatedVolume& volume) {
  if (volume.driver == velero::kLonghornDriver) {
    return ReadByLonghorn(volume);
  }
  ASSIGN_OR_RETURN(const bool is_filled, HasFilledWhenBoundMark(volume.driver));
  if (is_filled) {
    return Population{.state = PopulationState::kFilled};
  }
  return ReadByPods(volume, volume.driver.empty()
                                ? "its driver is not known"
                                : absl::StrCat("driver ", volume.driver,
                                               " is not known to copy before a PVC is bound"));
}

absl::StatusOr<Population> PopulationReader::ReadByLonghorn(const PopulatedVolume& volume) {
  ASSIGN_OR_RETURN(const std::optional<longhorn::Volume> found, FindVolume(volume.handle));
  if (!found.has_value()) {
    return ReadByPods(volume, no_volumes_.ok() ? absl::StrCat("Longhorn's Volume ", volume.handle,
                                                              " was not found")
                                               : std::string(no_volumes_.message()));
  }
  switch (longhorn::DataStateOf(*found)) {
    case DataState::kThere:
      return Population{.state = PopulationState::kFilled};
    case DataState::kComing:
      return Population{.state = PopulationState::kCopying, .text = longhorn::DataText(*found)};
    case DataState::kFailed:
      break;
  }
  return Population{.state = PopulationState::kFailed, .text = Failure(*found)};
}

// First by name in Longhorn's namespace, the cheapest request while it is waited for; then among
// all.
absl::StatusOr<std::optional<longhorn::Volume>> PopulationReader::FindVolume(
    const std::string& name) {
  if (!volumes_.has_value()) {
    ASSIGN_OR_RETURN(const std::string home, LonghornNamespace());
    auto found = objects::Find<longhorn::Volume>(ctx_, api_, home, name);
    RETURN_IF_ERROR(WithoutRefusal(found.status()));
    if (found.ok() && found->has_value()) {
      return found;
    }
  }
  ASSIGN_OR_RETURN(const std::vector<longhorn::Volume>* const volumes, Volumes());
  const auto* const found = volumes == nullptr ? nullptr : objects::OfName(*volumes, name);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

absl::StatusOr<std::string> PopulationReader::LonghornNamespace() {
  if (env_ == nullptr) {
    return std::string(longhorn::kDefaultNamespace);
  }
  ASSIGN_OR_RETURN(const velero::PluginConfig config, ReadPluginConfig(ctx_, *env_));
  return config.longhorn_namespace;
}

// With Longhorn's own words, which are in an Event alone.
std::string PopulationReader::Failure(const longhorn::Volume& volume) {
  std::string text = longhorn::DataText(volume);
  const auto events = objects::ReadEvents(ctx_, api_, volume.namespace_name(), volume.uid());
  std::string message;
  for (const objects::Event& event : events.value_or(std::vector<objects::Event>())) {
    if (event.reason() == kCloneFailedReason) {
      message = absl::StrCat(": ", kCloneFailedReason, ": ", event.message());
    }
  }
  return absl::StrCat(text, message);
}

absl::StatusOr<Population> PopulationReader::ReadByPods(const PopulatedVolume& volume,
                                                        const std::string& why) {
  RETURN_IF_ERROR(ReadPods(volume.namespace_name));
  const std::optional<std::vector<Pod>>& pods = pods_[volume.namespace_name];
  if (pods.has_value() && std::any_of(pods->begin(), pods->end(), [&](const Pod& pod) {
        return HasMounted(pod, volume.pvc);
      })) {
    return Population{.state = PopulationState::kFilled};
  }
  std::string waits;
  for (const Pod& pod : pods.value_or(std::vector<Pod>())) {
    const std::string reason = Uses(pod, volume.pvc) ? objects::WhyPodWaits(ctx_, api_, pod) : "";
    if (!reason.empty()) {
      waits = absl::StrCat(" (Pod ", pod.name(), " waits: ", reason, ")");
    }
  }
  return Population{
      .state = PopulationState::kUnknown,
      .text = absl::StrCat(
          "whether it has its data is not known: ", why, ", and ",
          pods.has_value() ? "no Pod that runs has mounted it" : "its Pods may not be listed",
          waits, "; keep what it is made of until a Pod runs with it",
          volume.driver.empty() || volume.driver == velero::kLonghornDriver
              ? ""
              : absl::StrCat(
                    ", or, if the driver copies before it binds: kubectl annotate csidriver ",
                    volume.driver, " ", objects::kFilledWhenBoundAnnotation, "=true"))};
}

absl::StatusOr<bool> PopulationReader::HasFilledWhenBoundMark(const std::string& driver) {
  if (driver.empty() || IsFilledWhenBound(driver)) {
    return !driver.empty();
  }
  const auto known = is_filled_when_bound_.find(driver);
  if (known != is_filled_when_bound_.end()) {
    return known->second;
  }
  const auto found = objects::Find<objects::CsiDriver>(ctx_, api_, "", driver);
  RETURN_IF_ERROR(WithoutRefusal(found.status()));
  const bool is_filled = found.ok() && found->has_value() &&
                         (*found)->Annotation(objects::kFilledWhenBoundAnnotation) == "true";
  is_filled_when_bound_.emplace(driver, is_filled);
  return is_filled;
}

absl::StatusOr<const std::vector<longhorn::Volume>*> PopulationReader::Volumes() {
  if (!volumes_.has_value() && no_volumes_.ok()) {
    absl::StatusOr<std::vector<longhorn::Volume>> listed = ListVolumes();
    // Without the kind there is another Longhorn than is known here.
    if (absl::IsPermissionDenied(listed.status()) || absl::IsNotFound(listed.status())) {
      no_volumes_ = Annotate(listed.status(), "Longhorn's Volumes cannot be read");
    } else {
      RETURN_IF_ERROR(listed.status());
      volumes_ = *std::move(listed);
    }
  }
  return volumes_.has_value() ? &*volumes_ : nullptr;
}

absl::StatusOr<std::vector<longhorn::Volume>> PopulationReader::ListVolumes() {
  ASSIGN_OR_RETURN(const std::string home, LonghornNamespace());
  if (env_ != nullptr) {
    return objects::List<longhorn::Volume>(ctx_, api_, home);
  }
  auto all = objects::List<longhorn::Volume>(ctx_, api_, "");
  return absl::IsPermissionDenied(all.status()) ? objects::List<longhorn::Volume>(ctx_, api_, home)
                                                : std::move(all);
}

absl::StatusOr<bool> PopulationReader::IsHandleGone(const std::string& driver,
                                                    absl::string_view handle) {
  if (driver != velero::kLonghornDriver ||
      !absl::ConsumePrefix(&handle, longhorn::kSnapshotHandlePrefix)) {
    return false;
  }
  ASSIGN_OR_RETURN(const std::vector<longhorn::Volume>* const volumes, Volumes());
  // An installation without a Volume is another one than that of the snapshot.
  return volumes != nullptr && !volumes->empty() &&
         std::none_of(volumes->begin(), volumes->end(), [&](const longhorn::Volume& one) {
           return one.name() == handle.substr(0, handle.find('/'));
         });
}

absl::Status PopulationReader::ReadRestored() {
  if (restored_.has_value()) {
    return absl::OkStatus();
  }
  const auto volumes = objects::List<PersistentVolume>(
      ctx_, api_, "", {.label_selector = std::string(objects::kInPlaceLabel)});
  RETURN_IF_ERROR(WithoutRefusal(volumes.status()));
  refused_ = Annotate(volumes.status(), "PVCs restored in place cannot be found");
  restored_.emplace();
  for (const PersistentVolume& volume : volumes.value_or(std::vector<PersistentVolume>())) {
    const absl::StatusOr<objects::SwapRecord> record = objects::ParseSwapRecord(volume);
    if (record.ok() && record->side == objects::SwapSide::kRestored) {
      (*restored_)[record->snapshot_uid].push_back(VolumeOf(volume));
    }
  }
  return absl::OkStatus();
}

absl::Status PopulationReader::ReadPods(const std::string& namespace_name) {
  if (pods_.contains(namespace_name)) {
    return absl::OkStatus();
  }
  auto listed = objects::List<Pod>(ctx_, api_, namespace_name);
  RETURN_IF_ERROR(WithoutRefusal(listed.status()));
  pods_.emplace(namespace_name, listed.ok() ? std::optional(*std::move(listed)) : std::nullopt);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> PopulationReader::UnfilledFromSnapshot(
    const std::string& driver, const std::string& handle, const std::string& snapshot_uid,
    std::vector<PopulatedVolume> pvcs) {
  if (driver == velero::kLonghornDriver) {
    ASSIGN_OR_RETURN(const std::vector<longhorn::Volume>* const volumes, Volumes());
    // An installation without a Volume is another one than that of the snapshot.
    if (volumes != nullptr && !volumes->empty()) {
      return LinesOf(*volumes, [&](const longhorn::Volume& volume) {
        return longhorn::IsCopiedFromSnapshot(volume, handle);
      });
    }
  }
  ASSIGN_OR_RETURN(const bool is_filled, HasFilledWhenBoundMark(driver));
  if (!is_filled && !driver.empty() && !snapshot_uid.empty()) {
    RETURN_IF_ERROR(ReadRestored());
    const std::vector<PopulatedVolume>& restored = (*restored_)[snapshot_uid];
    pvcs.insert(pvcs.end(), restored.begin(), restored.end());
  }
  std::vector<std::string> unfilled;
  for (PopulatedVolume& volume : pvcs) {
    volume.driver = driver.empty() ? volume.driver : driver;
    ASSIGN_OR_RETURN(const Population population, Read(volume));
    if (population.state != PopulationState::kFilled) {
      unfilled.push_back(
          absl::StrCat("PVC ", volume.namespace_name, "/", volume.pvc, ": ", population.text));
    }
  }
  return unfilled;
}

absl::StatusOr<std::vector<std::string>> PopulationReader::UnfilledFromHandle(
    const std::string& driver, const std::string& handle) {
  if (driver != velero::kLonghornDriver) {
    return std::vector<std::string>();
  }
  ASSIGN_OR_RETURN(const std::vector<longhorn::Volume>* const volumes, Volumes());
  if (volumes == nullptr) {
    RETURN_IF_ERROR(k8s::IgnoreNotFound(no_volumes_));
    return std::vector<std::string>();
  }
  return LinesOf(*volumes, [&](const longhorn::Volume& one) {
    return longhorn::IsCopiedFromSnapshot(one, handle) || longhorn::IsCopiedFromVolume(one, handle);
  });
}

absl::StatusOr<std::vector<std::string>> SnapshotsInside(const CallContext& ctx,
                                                         k8s::ApiClient& api,
                                                         const PopulatedVolume& volume) {
  std::vector<std::string> names;
  if (volume.driver != velero::kLonghornDriver) {
    return names;
  }
  ASSIGN_OR_RETURN(const auto contents,
                   objects::List<objects::VolumeSnapshotContent>(ctx, api, ""));
  const std::string prefix = absl::StrCat(longhorn::kSnapshotHandlePrefix, volume.handle, "/");
  for (const objects::VolumeSnapshotContent& content : contents) {
    if (content.driver() == volume.driver && absl::StartsWith(content.handle_or_source(), prefix)) {
      names.push_back(absl::StrCat(content.snapshot_namespace(), "/", content.snapshot_name()));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace csidelta::csi
