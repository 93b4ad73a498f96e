#include "cli/mover/trial_needs.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "csi/expose/exposed_snapshot.h"
#include "csi/expose/metadata_service.h"
#include "csi/snapshot_class.h"
#include "datamover/mover_environment.h"
#include "objects/backup_storage_location.h"
#include "objects/client.h"
#include "objects/cluster.h"
#include "objects/core.h"
#include "objects/differential_snapshot.h"
#include "objects/persistent_volume.h"
#include "objects/protected_volume.h"
#include "objects/volume_snapshot.h"
#include "objects/workload.h"

namespace csidelta::cli {
namespace {

using objects::BackupStorageLocation;
using objects::Deployment;
using objects::Namespace;
using objects::PersistentVolume;
using objects::PersistentVolumeClaim;

constexpr absl::string_view kDefaultLocation =
    "default";  // by Velero's server, where none is marked
constexpr char kVeleroServer[] = "velero";
constexpr char kCsiFeature[] = "EnableCSI";
constexpr char kPluginImage[] = "velero-plugin-for-csi-delta";

absl::Status CheckNamespace(const CallContext& ctx, k8s::ApiClient& api,
                            const TrialRequest& request) {
  ASSIGN_OR_RETURN(const std::optional<Namespace> there,
                   objects::Find<Namespace>(ctx, api, Namespace::Key("", request.namespace_name)));
  return there.has_value() ? absl::OkStatus()
                           : absl::NotFoundError(absl::StrCat(
                                 "namespace ", request.namespace_name,
                                 " does not exist; kubectl get namespaces lists those that do"));
}

// The location that Velero chooses, otherwise null.
const BackupStorageLocation* ChosenLocation(const std::vector<BackupStorageLocation>& locations,
                                            const TrialRequest& request) {
  const absl::string_view name =
      request.location.empty() ? kDefaultLocation : absl::string_view(request.location);
  const BackupStorageLocation* named = nullptr;
  for (const BackupStorageLocation& location : locations) {
    if (request.location.empty() && location.is_default()) {
      return &location;
    }
    named = location.name() == name ? &location : named;
  }
  return named;
}

absl::Status CheckLocation(const CallContext& ctx, k8s::ApiClient& api,
                           const TrialRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<BackupStorageLocation> locations,
                   objects::List<BackupStorageLocation>(ctx, api, request.velero_namespace));
  if (locations.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "namespace ", request.velero_namespace,
        " has no BackupStorageLocation; velero backup-location create makes one, or name Velero's "
        "namespace by --velero-namespace"));
  }
  const BackupStorageLocation* const location = ChosenLocation(locations, request);
  if (location == nullptr) {
    return absl::FailedPreconditionError(
        request.location.empty()
            ? std::string("no BackupStorageLocation is the default; name one by --location")
            : absl::StrCat("BackupStorageLocation ", request.location,
                           " does not exist in namespace ", request.velero_namespace,
                           "; velero backup-location get lists them"));
  }
  return location->phase() == "Available"
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(
                   "BackupStorageLocation ", location->name(), " is not Available: ",
                   location->message().empty() ? "Velero has not looked at it yet"
                                               : location->message(),
                   "; velero backup-location get tells when it is, or name another one by "
                   "--location"));
}

// Velero's server, as far as its Deployment has the usual name.
absl::Status CheckServer(const CallContext& ctx, k8s::ApiClient& api, const TrialRequest& request,
                         TrialNeeds& needs) {
  ASSIGN_OR_RETURN(const std::optional<Deployment> server,
                   objects::Find<Deployment>(
                       ctx, api, Deployment::Key(request.velero_namespace, kVeleroServer)));
  if (!server.has_value()) {
    return absl::OkStatus();
  }
  if (!absl::StrContains(absl::StrJoin(server->arguments(), " "), kCsiFeature)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Velero's server runs without --features=EnableCSI, so it takes no CSI snapshots; add the "
        "flag to the arguments of deployment ",
        request.velero_namespace, "/", kVeleroServer));
  }
  bool has_plugin = false;
  for (const objects::DeployedContainer& container : server->init_containers()) {
    has_plugin = has_plugin || absl::StrContains(container.image, kPluginImage);
  }
  if (!has_plugin) {
    needs.notes.push_back(absl::StrCat(
        "Velero has no init container of an image named ", kPluginImage,
        ": without the plugin the data of deleted backups stays; velero plugin add installs it"));
  }
  return absl::OkStatus();
}

absl::Status CheckMover(const CallContext& ctx, k8s::ApiClient& api, const TrialRequest& request) {
  ASSIGN_OR_RETURN(
      const std::optional<objects::Lease> lease,
      objects::Find<objects::Lease>(
          ctx, api, objects::Lease::Key(request.mover_namespace, datamover::kMoverLease)));
  const std::string next =
      absl::StrCat("helm install csi-delta deploy/chart --namespace ", request.mover_namespace,
                   " --create-namespace installs it, or name its namespace by --mover-namespace");
  if (!lease.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the data mover is not installed in namespace ", request.mover_namespace, "; ", next));
  }
  return !lease->HolderWithin(datamover::kLeaseAgeMax, ctx.clock->Now()).empty()
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(
                   "no controller of the data mover runs in namespace ", request.mover_namespace,
                   "; kubectl get pods --namespace ", request.mover_namespace, " shows why"));
}

// PVCs by the driver of their volumes.
using PvcsByDriver = std::map<std::string, std::vector<std::string>>;

absl::StatusOr<PvcsByDriver> ReadPvcs(const CallContext& ctx, k8s::ApiClient& api,
                                      const TrialRequest& request, TrialNeeds& needs) {
  ASSIGN_OR_RETURN(const std::vector<PersistentVolumeClaim> pvcs,
                   objects::List<PersistentVolumeClaim>(ctx, api, request.namespace_name));
  PvcsByDriver by_driver;
  for (const PersistentVolumeClaim& pvc : pvcs) {
    if (!pvc.is_bound()) {
      needs.notes.push_back(absl::StrCat("PVC ", pvc.name(), " is not bound, and is left out"));
      continue;
    }
    ASSIGN_OR_RETURN(
        const std::optional<PersistentVolume> volume,
        objects::Find<PersistentVolume>(ctx, api, PersistentVolume::Key("", pvc.volume_name())));
    const std::string driver = volume.has_value() ? volume->driver() : "";
    if (driver.empty()) {
      needs.notes.push_back(
          absl::StrCat("the volume of PVC ", pvc.name(), " has no CSI driver, and is left out"));
    } else if (csi::HasNoBlockDevices(driver)) {
      needs.notes.push_back(absl::StrCat("driver ", driver, " of PVC ", pvc.name(),
                                         " makes no block devices, so the data mover cannot read "
                                         "it: it is left out"));
    } else {
      by_driver[driver].push_back(pvc.name());
      needs.pvcs.insert(pvc.name());
    }
  }
  if (pvcs.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("namespace ", request.namespace_name,
                     " has no PVC, so there is nothing to back up; name the namespace of an "
                     "application that has one"));
  }
  if (by_driver.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no PVC of namespace ", request.namespace_name,
                     " can be moved: ", absl::StrJoin(needs.notes, "; "),
                     "; name the namespace of an application with CSI volumes"));
  }
  return by_driver;
}

absl::Status CheckSnapshotClass(const std::string& driver,
                                const std::vector<objects::VolumeSnapshotClass>& classes) {
  const absl::Status status = csi::ChooseSnapshotClass({.driver = driver}, classes).status();
  return status.ok() ? status
                     : absl::FailedPreconditionError(
                           absl::StrCat(status.message(),
                                        "; kubectl label volumesnapshotclass CLASS "
                                        "velero.io/csi-volumesnapshot-class=true labels it"));
}

void ReportChangedBlocks(const CallContext& ctx, k8s::ApiClient& api, const std::string& driver,
                         TrialNeeds& needs) {
  const absl::Status status = csi::FindMetadataService(ctx, api, driver).status();
  if (status.ok()) {
    return;
  }
  const bool may_be_asked = objects::List<objects::DifferentialSnapshot>(ctx, api, "").ok();
  needs.notes.push_back(
      may_be_asked && absl::IsNotFound(status)
          ? absl::StrCat("driver ", driver,
                         " has no SnapshotMetadataService: its list of changed blocks is requested "
                         "by a DifferentialSnapshot, if csi-delta diffsnap runs alongside it")
          : absl::StrCat("driver ", driver, " does not list changed blocks (", status.message(),
                         "): each backup reads whole volumes, and uploads only what changed"));
}

// A PVC has one snapshot to compare the next backup with: that of the newest backup.
void ReportEarlierBackups(const CallContext& ctx, k8s::ApiClient& api, const TrialRequest& request,
                          TrialNeeds& needs) {
  const absl::StatusOr<std::vector<objects::ProtectedVolume>> records =
      objects::List<objects::ProtectedVolume>(ctx, api, request.velero_namespace);
  if (request.keeps_backups || !records.ok()) {
    return;
  }
  const bool has_backups = absl::c_any_of(*records, [&](const objects::ProtectedVolume& record) {
    return record.spec().pvc_namespace == request.namespace_name &&
           record.status().last_good.has_value();
  });
  if (has_backups) {
    needs.notes.push_back(absl::StrCat(
        "namespace ", request.namespace_name,
        " has backups already: its next backup will read whole volumes, once, because the snapshot "
        "that it is compared with goes with the backups of the try; --keep leaves them"));
  }
}

}  // namespace

absl::StatusOr<TrialNeeds> CheckTrialNeeds(const CallContext& ctx, k8s::ApiClient& api,
                                           const TrialRequest& request) {
  TrialNeeds needs;
  RETURN_IF_ERROR(CheckNamespace(ctx, api, request));
  RETURN_IF_ERROR(CheckLocation(ctx, api, request));
  RETURN_IF_ERROR(CheckServer(ctx, api, request, needs));
  RETURN_IF_ERROR(CheckMover(ctx, api, request));
  ASSIGN_OR_RETURN(const PvcsByDriver by_driver, ReadPvcs(ctx, api, request, needs));
  ASSIGN_OR_RETURN(const std::vector<objects::VolumeSnapshotClass> classes,
                   objects::List<objects::VolumeSnapshotClass>(ctx, api, ""));
  for (const auto& [driver, pvcs] : by_driver) {
    RETURN_IF_ERROR(CheckSnapshotClass(driver, classes));
    ReportChangedBlocks(ctx, api, driver, needs);
  }
  ReportEarlierBackups(ctx, api, request, needs);
  return needs;
}

}  // namespace csidelta::cli
