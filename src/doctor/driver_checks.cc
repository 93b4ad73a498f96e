#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/human_text.h"
#include "csi/driver_rules.h"
#include "csi/expose/exposed_snapshot.h"
#include "csi/expose/metadata_service.h"
#include "csi/snapshot_class.h"
#include "doctor/checks.h"
#include "incremental/sources/csi_metadata_source.h"
#include "objects/client.h"
#include "objects/differential_snapshot.h"
#include "objects/keys.h"
#include "objects/node.h"
#include "objects/persistent_volume.h"
#include "objects/storage_class.h"
#include "objects/volume_snapshot.h"

namespace csidelta::doctor {
namespace {

using objects::PersistentVolume;
using objects::PersistentVolumeClaim;
using objects::VolumeSnapshotContent;

constexpr absl::Duration kListingTimeMax = absl::Seconds(20);

std::string ClaimName(const PersistentVolumeClaim& claim) {
  return absl::StrCat(claim.namespace_name(), "/", claim.name());
}

std::set<std::string> DriversInUse(CheckContext& context) {
  std::set<std::string> drivers;
  for (const CsiVolume& volume : CsiVolumes(context)) {
    drivers.insert(volume.driver);
  }
  return drivers;
}

}  // namespace

std::vector<CsiVolume> CsiVolumes(CheckContext& context) {
  std::map<std::string, std::string> drivers;  // by volume
  for (const PersistentVolume& pv : context.List<PersistentVolume>()) {
    drivers.emplace(pv.name(), pv.driver());
  }
  std::vector<CsiVolume> volumes;
  for (PersistentVolumeClaim& claim : context.List<PersistentVolumeClaim>()) {
    const auto driver = drivers.find(claim.volume_name());
    if (driver != drivers.end() && !driver->second.empty()) {
      volumes.push_back({.claim = std::move(claim), .driver = driver->second});
    }
  }
  return volumes;
}

void CheckDriverObject(CheckContext& context) {
  const auto& registered = context.cache().List(kCsiDriverKind.Type());
  if (!context.IsKnown("csidrivers", registered.status())) {
    return;
  }
  std::set<std::string> drivers = DriversInUse(context);
  const auto classes = context.cache().List<objects::VolumeSnapshotClass>();
  for (const auto& one : classes.value_or(std::vector<objects::VolumeSnapshotClass>())) {
    drivers.insert(one.driver());
  }
  for (const std::string& driver : drivers) {
    if (!context.cache().Find(kCsiDriverKind.Type(), "", driver).ok()) {
      context.Warn(
          absl::StrCat("driver ", driver), "has no CSIDriver object: is it installed?",
          "install it, or expect no snapshots of its volumes; delete VolumeSnapshotClasses "
          "of it that a restore brought: deletions of backups leave contents");
    }
  }
}

void CheckDriverStorageClass(CheckContext& context) {
  const auto& classes = context.cache().List(objects::StorageClass::Type());
  if (!context.IsKnown("storageclasses", classes.status())) {
    return;
  }
  std::map<std::string, std::vector<std::string>> missing;
  for (const CsiVolume& volume : CsiVolumes(context)) {
    const std::string name = volume.claim.storage_class().value_or("");
    if (name.empty() || !context.cache().Find(objects::StorageClass::Type(), "", name).ok()) {
      missing[name].push_back(ClaimName(volume.claim));
    }
  }
  for (const auto& [name, claims] : missing) {
    context.Warn(
        name.empty() ? "PVCs without a storage class" : absl::StrCat("storage class ", name),
        absl::StrCat(name.empty() ? "no volume can be made from their snapshots: "
                                  : "is gone, but these PVCs name it: ",
                     Listed(claims)),
        "name an intermediate storage class in the mover's settings");
  }
}

void CheckDriverSnapshotClass(CheckContext& context) {
  const auto classes = context.cache().List<objects::VolumeSnapshotClass>();
  if (!context.IsKnown("volumesnapshotclasses", classes.status())) {
    return;
  }
  for (const std::string& driver : DriversInUse(context)) {
    const auto choice = csi::ChooseSnapshotClass({.driver = driver}, *classes);
    if (choice.ok()) {
      context.Good(absl::StrCat("driver ", driver),
                   absl::StrCat("is snapshotted with class ", choice->name));
    } else {
      context.Fault(
          absl::StrCat("driver ", driver), std::string(choice.status().message()),
          "kubectl label volumesnapshotclass CLASS velero.io/csi-volumesnapshot-class=true; the "
          "driver's own page has such a class");
    }
  }
}

void CheckDriverChangedBlocks(CheckContext& context) {
  const bool has_differential =
      !absl::IsNotFound(context.cache().List(objects::DifferentialSnapshot::Type()).status());
  for (const std::string& driver : DriversInUse(context)) {
    const std::string subject = absl::StrCat("driver ", driver);
    const absl::Status status =
        csi::FindMetadataService(context.ctx(), context.cache().api(), driver).status();
    if (status.ok()) {
      context.Good(subject, "lists changed blocks, by its SnapshotMetadataService");
    } else if (!absl::IsNotFound(status)) {
      context.Warn(subject, std::string(status.message()),
                   "correct the SnapshotMetadataService; until then whole volumes are read");
    } else if (has_differential) {
      context.Note(subject, "has no SnapshotMetadataService; it is asked by a DifferentialSnapshot",
                   "run csi-delta diffsnap alongside it, if no service serves them yet");
    } else {
      context.Note(subject, "does not list changed blocks: every backup reads whole volumes",
                   "install its csi-snapshot-metadata sidecar, or csi-delta diffsnap");
    }
  }
}

void CheckDriverMetadataService(CheckContext& context) {
  for (const std::string& driver : DriversInUse(context)) {
    const auto service = csi::FindMetadataService(context.ctx(), context.cache().api(), driver);
    if (!service.ok()) {
      continue;  // CheckDriverChangedBlocks has told.
    }
    const absl::Status status = incremental::ReachMetadataService(context.ctx(), *service);
    const std::string subject = absl::StrCat("service ", service->address, " of driver ", driver);
    if (absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status)) {
      context.Fault(subject, absl::StrCat("its certificate is not trusted: ", status.message()),
                    absl::StrCat("renew spec.caCert of the SnapshotMetadataService, or the "
                                 "certificate; if it has another name, annotate the object: ",
                                 objects::kMetadataServerNameAnnotation));
    } else if (!status.ok()) {
      context.Warn(subject, absl::StrCat("is not reached from here: ", status.message()),
                   "nothing, if you are outside the cluster; else look at its sidecar");
    } else {
      context.Good(subject, "answers, with a certificate that is trusted");
    }
  }
}

void CheckDriverBlockDevice(CheckContext& context) {
  std::map<std::string, std::vector<std::string>> claims;
  for (const CsiVolume& volume : CsiVolumes(context)) {
    if (csi::HasNoBlockDevices(volume.driver)) {
      claims[volume.driver].push_back(ClaimName(volume.claim));
    }
  }
  for (const auto& [driver, names] : claims) {
    context.Warn(absl::StrCat("driver ", driver),
                 absl::StrCat("shares files and makes no block devices, which the mover needs: ",
                              Listed(names)),
                 absl::StrCat("leave them to the file system backup by a volume policy: ",
                              csi::ExcludingPolicyRule(driver)));
  }
}

void CheckDriverSnapshotLimit(CheckContext& context) {
  for (const std::string& driver : DriversInUse(context)) {
    const std::string limits = csi::LimitsText(csi::RulesOf(driver));
    if (!limits.empty()) {
      context.Note(
          absl::StrCat("driver ", driver), limits,
          "leave room for the base that the mover may keep of each volume and location; it "
          "drops one that is in the way of its PVC, and you delete your own snapshots: "
          "docs/csi-drivers.md");
    }
  }
}

// Only the driver knows: the csi-snapshotter does not ask it again for a content that was Ready
// once.
void CheckDriverZones(CheckContext& context) {
  const std::vector<objects::Node> nodes = context.List<objects::Node>();
  std::set<std::pair<std::string, std::string>> seen;  // class and affinity: few among many volumes
  std::map<std::string, std::string> examples;         // by class
  for (const PersistentVolume& volume : context.List<PersistentVolume>()) {
    const objects::NodeSelector affinity = volume.node_affinity();
    if (volume.driver().empty() ||
        !seen.emplace(volume.storage_class(), affinity.ToText()).second) {
      continue;
    }
    const auto other = absl::c_find_if(
        nodes, [&](const objects::Node& node) { return !node.IsSelectedBy(affinity); });
    if (other != nodes.end()) {
      examples.emplace(volume.storage_class(),
                       absl::StrCat(volume.name(), " cannot be used on node ", other->name()));
    }
  }
  for (const auto& storage_class : context.List<objects::StorageClass>()) {
    const auto example = examples.find(storage_class.name());
    if (example != examples.end() && !storage_class.waits_for_first_consumer()) {
      context.Note(
          absl::StrCat("storage class ", storage_class.name()),
          absl::StrCat("it binds at once, and its volumes serve some nodes only (", example->second,
                       "): data is restored into a volume before it is known where its "
                       "Pod runs, which may then never start"),
          "restore into a class with volumeBindingMode WaitForFirstConsumer");
    }
  }
}

void CheckDriverSnapshots(CheckContext& context) {
  const std::vector<VolumeSnapshotContent> contents = context.List<VolumeSnapshotContent>();
  if (contents.empty()) {
    return;
  }
  if (!context.options().list_snapshots) {
    context.Note("", "not known, because no CSI driver was asked",
                 "run csi-delta doctor --csi-address unix:///csi/csi.sock where the controller of "
                 "the driver runs");
    return;
  }
  const absl::StatusOr<diffsnap::StoredSnapshots> stored =
      context.options().list_snapshots(context.ctx().WithTimeout(kListingTimeMax));
  if (!stored.ok()) {
    context.Unknown("", stored.status(), "see the log of the driver's controller");
    return;
  }
  int64_t asked = 0;
  std::vector<std::string> lost;
  for (const VolumeSnapshotContent& content : contents) {
    const std::string handle = content.handle_or_source();
    if (content.driver() != stored->driver || handle.empty()) {
      continue;
    }
    ++asked;
    if (stored->handles.contains(handle)) {
      continue;
    }
    // It may have been deleted since the contents were listed.
    const absl::StatusOr<std::optional<VolumeSnapshotContent>> now =
        objects::Find<VolumeSnapshotContent>(context.ctx(), context.cache().api(), content.key());
    if (!context.IsKnown(content.name(), now.status())) {
      return;
    }
    if (now->has_value() && !(*now)->is_being_deleted()) {
      lost.push_back(absl::StrCat(content.name(), " of VolumeSnapshot ",
                                  content.snapshot_namespace(), "/", content.snapshot_name()));
    }
  }
  const std::string subject = absl::StrCat("driver ", stored->driver);
  if (lost.empty()) {
    context.Good(subject, absl::StrCat("has the snapshots of all ",
                                       Counted(asked, "VolumeSnapshotContent")));
    return;
  }
  context.Fault(
      subject,
      absl::StrCat("does not have the snapshots of ",
                   Counted(std::ssize(lost), "VolumeSnapshotContent"), ": ", Listed(lost)),
      "nothing can be restored from them: back up their PVCs again, and look in the "
      "storage for what deleted them");
}

void CheckVolumesNotCsi(CheckContext& context) {
  std::vector<std::string> names;
  for (const PersistentVolume& pv : context.List<PersistentVolume>()) {
    if (pv.driver().empty()) {
      names.push_back(pv.name());
    }
  }
  if (!names.empty()) {
    context.Note("", absl::StrCat("volumes of no CSI driver: ", Listed(names)),
                 "back them up with Velero's file system backup");
  }
}

void CheckClaimsUnbound(CheckContext& context) {
  std::vector<std::string> names;
  for (const PersistentVolumeClaim& claim : context.List<PersistentVolumeClaim>()) {
    if (claim.phase() != "Bound") {
      names.push_back(ClaimName(claim));
    }
  }
  if (!names.empty()) {
    context.Note("", absl::StrCat("PVCs without a volume, which no backup has: ", Listed(names)),
                 "nothing, if they were never used");
  }
}

}  // namespace csidelta::doctor
