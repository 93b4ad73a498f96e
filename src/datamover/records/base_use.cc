#include "datamover/records/base_use.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/driver_rules.h"
#include "datamover/presence.h"
#include "objects/backup.h"
#include "objects/backup_storage_location.h"
#include "objects/client.h"
#include "objects/data_deletion.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/volume_snapshot.h"
#include "objects/volume_task.h"

namespace csidelta::datamover {
namespace {

constexpr absl::string_view kPvcBeingDeleted = "PvcBeingDeleted";
constexpr absl::string_view kPvcWaitsToGrow = "PvcWaitsToGrow";

bool IsSuperseded(const csi::BaseSnapshot& base, const objects::LastGoodBackup& last_good) {
  const std::optional<absl::Time> taken_at = base.taken_at();
  return !base.upload.empty() && last_good.upload != base.upload && taken_at.has_value() &&
         last_good.taken_at.has_value() && *last_good.taken_at > *taken_at;
}

// Whether the record describes the very upload that left the base.
bool IsOfLastGood(const csi::BaseSnapshot& base, const BaseInfo& info) {
  return info.last_good.has_value() && !base.upload.empty() &&
         info.last_good->upload == base.upload;
}

// The rule of the driver that a base breaks, as the end of a sentence. `does`: "grows".
std::string RuleText(absl::string_view driver, csi::DriverAnswer answer, absl::string_view does) {
  switch (answer) {
    case csi::DriverAnswer::kYes:
      return "";
    case csi::DriverAnswer::kNo:
      return absl::StrCat("; ", driver, " ", does, " no volume that has snapshots");
    case csi::DriverAnswer::kUnknown:
      break;
  }
  return absl::StrCat("; it is not known whether ", driver, " ", does,
                      " volumes that have snapshots");
}

using Names = std::set<std::pair<std::string, std::string>>;  // namespace, name

// What of the cluster tells whether bases are of use; nothing where the kind is not served.
struct Surroundings {
  std::optional<std::map<std::string, objects::PersistentVolumeClaim>> pvcs;  // by uid
  std::optional<Names> locations;
  std::optional<Names> backups;
  // By Velero's namespace and name.
  std::map<std::pair<std::string, std::string>, objects::ProtectedVolumeStatus> records;
  std::set<std::string> deleted_snapshots;
  std::set<std::string> uploading;   // uids of PVCs
  bool has_unreadable_task = false;  // It may be an upload of any PVC.
  std::set<std::string> need_bases;  // drivers
};

// Nothing where the kind is not served.
template <typename Kind>
absl::StatusOr<std::optional<std::vector<Kind>>> ListKind(ListObjects list,
                                                          absl::string_view namespace_name) {
  const absl::StatusOr<std::vector<objects::Object>> found = list(Kind::Type(), namespace_name);
  if (absl::IsNotFound(found.status())) {
    return std::optional<std::vector<Kind>>();
  }
  RETURN_IF_ERROR(found.status());
  return std::optional(objects::AllFrom<Kind>(*found));
}

template <typename Kind>
absl::Status AddNames(ListObjects list, const std::string& namespace_name,
                      std::optional<Names>& names) {
  ASSIGN_OR_RETURN(const auto found, ListKind<Kind>(list, namespace_name));
  if (found.has_value()) {
    names = names.value_or(Names());
    for (const Kind& one : *found) {
      names->emplace(namespace_name, one.name());
    }
  }
  return absl::OkStatus();
}

absl::Status ReadVelero(ListObjects list, const std::string& space, Surroundings& all) {
  RETURN_IF_ERROR(AddNames<objects::BackupStorageLocation>(list, space, all.locations));
  RETURN_IF_ERROR(AddNames<objects::Backup>(list, space, all.backups));
  ASSIGN_OR_RETURN(const auto records, ListKind<objects::ProtectedVolume>(list, space));
  for (const auto& record : records.value_or(std::vector<objects::ProtectedVolume>())) {
    all.records[{space, record.name()}] = record.status();
  }
  ASSIGN_OR_RETURN(const auto deletions, ListKind<objects::DataDeletion>(list, space));
  for (const auto& deletion : deletions.value_or(std::vector<objects::DataDeletion>())) {
    if (deletion.phase() == objects::DeletionPhase::kCompleted) {
      all.deleted_snapshots.insert(deletion.spec().snapshot_id);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Surroundings> ReadSurroundings(const BaseListRequest& request, ListObjects list) {
  Surroundings all;
  ASSIGN_OR_RETURN(const auto pvcs, ListKind<objects::PersistentVolumeClaim>(list, ""));
  if (pvcs.has_value()) {
    all.pvcs.emplace();
    for (const objects::PersistentVolumeClaim& pvc : *pvcs) {
      all.pvcs->emplace(pvc.uid(), pvc);
    }
  }
  for (const std::string& space : request.velero_namespaces) {
    RETURN_IF_ERROR(ReadVelero(list, space, all));
  }
  ASSIGN_OR_RETURN(const auto tasks, ListKind<objects::VolumeTask>(list, request.mover_namespace));
  for (const objects::VolumeTask& task : tasks.value_or(std::vector<objects::VolumeTask>())) {
    const absl::StatusOr<objects::VolumeTaskSpec> spec = task.spec();
    all.has_unreadable_task |= !spec.ok();
    if (spec.ok() && spec->kind == objects::TaskKind::kUpload) {
      all.uploading.insert(spec->volume.claim_uid);
    }
  }
  return all;
}

absl::Duration MissingFor(const std::optional<Names>& names, const std::string& space,
                          const std::string& name) {
  return names.has_value() && !names->contains({space, name}) ? absl::InfiniteDuration()
                                                              : absl::ZeroDuration();
}

BaseInfo InfoOf(const csi::BaseSnapshot& base, const BaseListRequest& request,
                const Surroundings& all) {
  const csi::BaseOwner& owner = base.owner;
  BaseInfo info = {
      .now = request.now,
      .age_max = request.settings.base_age_max,
      .is_kept = KeepsBase(request.settings, base.driver) || all.need_bases.contains(base.driver),
      .location_missing_for = MissingFor(all.locations, owner.velero_namespace, owner.location)};
  if (all.pvcs.has_value()) {
    const auto pvc = all.pvcs->find(owner.claim_uid);
    ReadPvc(pvc == all.pvcs->end() ? std::nullopt : std::optional(pvc->second), owner, info);
  }
  const auto record = all.records.find(
      {owner.velero_namespace, objects::ProtectedVolume::NameOf(owner.claim_uid, owner.location)});
  if (record == all.records.end()) {
    return info;
  }
  info.last_good = record->second.last_good;
  info.deleted_upload = record->second.deleted_backup.value_or(objects::DeletedBackup()).upload;
  if (info.last_good.has_value()) {
    info.backup_missing_for =
        MissingFor(all.backups, owner.velero_namespace, info.last_good->backup);
    info.snapshot_is_deleted = all.deleted_snapshots.contains(info.last_good->snapshot_id);
  }
  return info;
}

absl::StatusOr<std::vector<csi::BaseSnapshot>> ReadBases(const BaseListRequest& request,
                                                         ListObjects list) {
  ASSIGN_OR_RETURN(const std::vector<objects::Object> listed,
                   list(objects::VolumeSnapshotContent::Type(), ""));
  std::vector<csi::BaseSnapshot> bases;
  for (const auto& content : objects::AllFrom<objects::VolumeSnapshotContent>(listed)) {
    if (content.Label(objects::kBaseLabel) != "true" || content.is_being_deleted()) {
      continue;
    }
    csi::BaseSnapshot base = csi::ReadBase(content);
    if (request.velero_namespaces.contains(base.owner.velero_namespace) &&
        (request.cluster.empty() || base.owner.cluster == request.cluster)) {
      bases.push_back(std::move(base));
    }
  }
  return bases;
}

}  // namespace

void ReadPvc(const std::optional<objects::PersistentVolumeClaim>& pvc, const csi::BaseOwner& owner,
             BaseInfo& info) {
  info.pvc_is_gone = !pvc.has_value() || pvc->uid() != owner.claim_uid;
  if (info.pvc_is_gone) {
    return;
  }
  info.pvc_is_being_deleted = pvc->is_being_deleted();
  const std::optional<int64_t> capacity_bytes = pvc->capacity_bytes();
  info.pvc_waits_to_grow =
      capacity_bytes.has_value() && pvc->requested_bytes().value_or(0) > *capacity_bytes;
}

bool IsInTheWay(const Finding& useless) {
  return useless.code == kPvcBeingDeleted || useless.code == kPvcWaitsToGrow;
}

std::optional<Finding> WhyUseless(const csi::BaseSnapshot& base, const BaseInfo& info) {
  const bool is_of_last_good = IsOfLastGood(base, info);
  const std::optional<absl::Time> taken_at = base.taken_at();
  if (info.pvc_is_gone) {
    return Finding{"PvcGone", "its PVC was deleted"};
  }
  const csi::DriverRules rules = csi::RulesOf(base.driver);
  if (info.pvc_is_being_deleted) {
    return Finding{kPvcBeingDeleted, absl::StrCat("its PVC is being deleted",
                                                  RuleText(base.driver, rules.deletes, "deletes"))};
  }
  if (info.pvc_waits_to_grow && rules.grows != csi::DriverAnswer::kYes) {
    return Finding{kPvcWaitsToGrow, absl::StrCat("its PVC waits to grow",
                                                 RuleText(base.driver, rules.grows, "grows"))};
  }
  if (info.location_missing_for >= kMissingGracePeriod) {
    return Finding{"LocationGone", "its BackupStorageLocation was not found"};
  }
  if (!info.is_kept) {
    return Finding{"DriverKeepsNone",
                   "no base is kept for its driver, by drivers.*.keepBase or by default"};
  }
  if (is_of_last_good && info.snapshot_is_deleted) {
    return Finding{"SnapshotDeleted", "its repository snapshot was deleted"};
  }
  if (info.last_good.has_value() && IsSuperseded(base, *info.last_good)) {
    return Finding{"Superseded", "a newer backup of the PVC was completed without it"};
  }
  if ((is_of_last_good && info.backup_missing_for >= kMissingGracePeriod) ||
      (!base.upload.empty() && base.upload == info.deleted_upload)) {
    return Finding{"BackupGone", "its Backup was not found"};
  }
  if (taken_at.has_value() && info.now - *taken_at > info.age_max) {
    return Finding{"TooOld", "it is older than the setting bases.maxAge"};
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<ListedBase>> ListBasesWithUse(const BaseListRequest& request,
                                                         ListObjects list) {
  ASSIGN_OR_RETURN(const std::vector<csi::BaseSnapshot> bases, ReadBases(request, list));
  if (bases.empty()) {
    return std::vector<ListedBase>();
  }
  ASSIGN_OR_RETURN(Surroundings all, ReadSurroundings(request, list));
  for (const csi::BaseSnapshot& base : bases) {
    if (base.is_needed) {
      all.need_bases.insert(base.driver);
    }
  }
  std::vector<ListedBase> listed;
  listed.reserve(bases.size());
  for (const csi::BaseSnapshot& base : bases) {
    listed.push_back(
        {.base = base,
         .useless = WhyUseless(base, InfoOf(base, request, all)),
         .is_in_use = all.has_unreadable_task || all.uploading.contains(base.owner.claim_uid)});
  }
  std::sort(listed.begin(), listed.end(), [](const ListedBase& a, const ListedBase& b) {
    return std::tie(a.base.owner.claim_namespace, a.base.owner.claim, a.base.content_name) <
           std::tie(b.base.owner.claim_namespace, b.base.owner.claim, b.base.content_name);
  });
  return listed;
}

}  // namespace csidelta::datamover
