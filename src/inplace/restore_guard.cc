#include "inplace/restore_guard.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/crypto.h"
#include "base/quantity.h"
#include "base/status_macros.h"
#include "csi/expose/claim_provisioning.h"
#include "csi/lock.h"
#include "csi/population.h"
#include "csi/volume_lease.h"
#include "objects/client.h"
#include "objects/copy_record.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/swap_record.h"
#include "snapshots/promotion_check.h"
#include "snapshots/snapshot_creation.h"

namespace csidelta::inplace {
namespace {

using objects::DataDownload;
using objects::PersistentVolume;
using objects::PersistentVolumeClaim;
using objects::Pod;
using objects::StatefulSet;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;
using snapshots::kTooSmallCode;

constexpr char kReadWriteMany[] = "ReadWriteMany";
constexpr char kDeregisteringDriver[] = "csi.vsphere.vmware.com";
constexpr std::size_t kLabelHashBytes = 32;
constexpr std::size_t kSafetyHashBytes = 8;

// "kubectl scale statefulset/db --replicas=0 -n shop", or what else ends a Pod for good.
std::string EndingCommand(const Pod& pod) {
  const std::string workload = pod.workload();
  const std::vector<std::string> parts = absl::StrSplit(workload, absl::MaxSplits('/', 1));
  const std::string named = absl::StrCat(absl::AsciiStrToLower(parts[0]), "/", parts[1]);
  const bool is_scalable = parts[0] == "StatefulSet" || parts[0] == "Deployment" ||
                           parts[0] == "ReplicaSet" || parts[0] == "ReplicationController";
  return is_scalable
             ? absl::StrCat("kubectl scale ", named, " --replicas=0 -n ", pod.namespace_name())
             : absl::StrCat("kubectl delete ", named, " -n ", pod.namespace_name());
}

// One check after the other; each adds what it finds.
class RestoreChecker {
 public:
  RestoreChecker(const RestoreSurroundings& around, const RestoreInfo& info)
      : around_(around), info_(info), pvc_(csi::PvcText(around.namespace_name, info.pvc_name)) {}

  RestoreVerdict Check();

 private:
  void Refuse(absl::string_view code, std::string message) {
    verdict_.refusals.push_back({.code = code, .message = std::move(message)});
  }
  void RecordUnchecked(std::string sentence) {
    verdict_.not_checked.push_back(std::move(sentence));
  }

  const VolumeSnapshotContent* content() const {
    return info_.content.has_value() ? &*info_.content : nullptr;
  }

  void CheckState();
  void CheckBinding();
  void CheckPvc();
  void CheckVolume();
  void CheckSize();
  void CheckMode();
  void CheckShared();
  void CheckDriver();
  void CheckPods();
  void CheckStatefulSets();
  void CheckOthers();
  void CheckBackups();
  void CheckUnfinished();

  const RestoreSurroundings& around_;
  const RestoreInfo& info_;
  const std::string pvc_;
  RestoreVerdict verdict_;
};

RestoreVerdict RestoreChecker::Check() {
  CheckState();
  CheckBinding();
  CheckPvc();
  CheckVolume();
  CheckSize();
  CheckMode();
  CheckShared();
  CheckDriver();
  CheckPods();
  CheckStatefulSets();
  CheckOthers();
  CheckBackups();
  CheckUnfinished();
  return std::move(verdict_);
}

void RestoreChecker::CheckState() {
  if (info_.is_written_into) {
    return;
  }
  const csi::Usability found = csi::UsabilityOf(
      info_.snapshot,
      {.kind = info_.content_kind, .content = content(), .is_handle_gone = info_.is_handle_gone});
  if (found.kind == csi::Usability::Kind::kNotYet) {
    Refuse("NotReady",
           absl::StrCat(found.why, "; wait until csi-delta snapshot list shows it as Ready"));
  } else if (found.kind == csi::Usability::Kind::kNever) {
    Refuse("Unusable", found.why);
  }
}

void RestoreChecker::CheckBinding() {
  if (content() == nullptr) {
    return;  // Gone: CheckState() says so. Not read: noted.
  }
  if (const auto refusal = snapshots::CheckMutual(info_.snapshot, *content());
      refusal.has_value()) {
    verdict_.refusals.push_back(*refusal);
  }
}

void RestoreChecker::CheckPvc() {
  if (!info_.pvc.has_value()) {
    return Refuse("NoPvc", absl::StrCat(pvc_,
                                        " does not exist; make it of the VolumeSnapshot: csi-delta "
                                        "snapshot promote ",
                                        info_.snapshot.name(), " ", info_.pvc_name, " -n ",
                                        around_.namespace_name));
  }
  if (info_.pvc->is_being_deleted()) {
    return Refuse("PvcBeingDeleted", absl::StrCat(pvc_, " is being deleted"));
  }
  if (!info_.pvc->is_bound()) {
    Refuse("PvcNotBound",
           absl::StrCat(pvc_, " is ", info_.pvc->phase().empty() ? "new" : info_.pvc->phase(),
                        ", and has no volume whose data could be replaced; delete it, and make it "
                        "of the VolumeSnapshot with csi-delta snapshot promote"));
  }
}

void RestoreChecker::CheckVolume() {
  if (!info_.pvc.has_value() || !info_.pvc->is_bound() || !info_.is_volume_read) {
    return;
  }
  const std::string name = info_.pvc->volume_name();
  if (!info_.volume.has_value()) {
    return Refuse("VolumeNotItsOwn",
                  absl::StrCat("PersistentVolume ", name, " of ", pvc_, " does not exist"));
  }
  if (info_.volume->pvc_uid() != info_.pvc->uid()) {
    return Refuse(
        "VolumeNotItsOwn",
        absl::StrCat("PersistentVolume ", name, " is bound to ", info_.volume->pvc_namespace(), "/",
                     info_.volume->pvc_name(), " of another uid than ", pvc_));
  }
  if (content() == nullptr || content()->driver().empty()) {
    return;
  }
  const std::string driver = info_.volume->driver();
  if (driver != content()->driver()) {
    Refuse("OtherDriver",
           absl::StrCat("the volume of ", pvc_, " is of ",
                        driver.empty() ? "no CSI driver" : absl::StrCat("driver ", driver),
                        ", the VolumeSnapshot of driver ", content()->driver(),
                        "; make a new PVC of it with csi-delta snapshot promote"));
  }
}

void RestoreChecker::CheckSize() {
  const int64_t of_content = content() == nullptr ? 0 : content()->restore_size_bytes().value_or(0);
  const int64_t needed = std::max(info_.snapshot.restore_size_bytes().value_or(0), of_content);
  const std::optional<int64_t> room = info_.volume.has_value() ? info_.volume->capacity_bytes()
                                      : info_.pvc.has_value()  ? info_.pvc->capacity_bytes()
                                                               : std::nullopt;
  if (!info_.pvc.has_value() || !info_.pvc->is_bound()) {
    return;
  }
  if (needed == 0 || !room.has_value()) {
    return RecordUnchecked(absl::StrCat("size not checked: the ",
                                        needed == 0 ? "VolumeSnapshot" : "volume of the PVC",
                                        " does not say how large it is"));
  }
  if (needed > *room) {
    Refuse(kTooSmallCode,
           absl::StrCat("its volume has ", FormatBinaryQuantity(*room), ", less than the ",
                        FormatBinaryQuantity(needed), " that ", NameText(info_.snapshot.key()),
                        " needs; let the PVC request that much, where its StorageClass can "
                        "expand it"));
  }
}

void RestoreChecker::CheckMode() {
  if (!info_.pvc.has_value() || content() == nullptr) {
    return;
  }
  if (!content()->source_mode().has_value()) {
    return RecordUnchecked("volume mode not checked: the VolumeSnapshotContent does not say it");
  }
  if (*content()->source_mode() != info_.pvc->mode()) {
    Refuse("OtherMode",
           absl::StrCat("the source volume was in mode ", ToString(*content()->source_mode()), ", ",
                        pvc_, " is in mode ", ToString(info_.pvc->mode()),
                        "; make a new PVC of it with csi-delta snapshot promote"));
  }
}

// Such a volume is a share, which several nodes may have mounted, or not a block device at all.
void RestoreChecker::CheckShared() {
  if (!info_.is_written_into || !info_.pvc.has_value() ||
      info_.pvc->mode() != objects::VolumeMode::kFilesystem) {
    return;
  }
  std::vector<std::string> modes = info_.pvc->access_modes();
  if (info_.volume.has_value()) {
    const std::vector<std::string> of_volume = info_.volume->access_modes();
    modes.insert(modes.end(), of_volume.begin(), of_volume.end());
  }
  if (std::find(modes.begin(), modes.end(), kReadWriteMany) != modes.end()) {
    Refuse("SharedVolume",
           absl::StrCat(pvc_, " is in mode Filesystem and ", kReadWriteMany,
                        ": its volume is not written into; restore the backup into a new PVC"));
  }
}

void RestoreChecker::CheckDriver() {
  if (info_.is_written_into && info_.volume.has_value() &&
      info_.volume->driver() == kDeregisteringDriver) {
    Refuse("UnsafeDriver",
           absl::StrCat("the data mover does not write into volumes of ", kDeregisteringDriver,
                        " in place: its syncer deregisters the disk of any PersistentVolume that "
                        "is deleted; restore into a new PVC"));
  }
}

void RestoreChecker::CheckPods() {
  if (!around_.pods.has_value()) {
    return;
  }
  if (const auto users = UsersOf(*around_.pods, info_.pvc_name); !users.empty()) {
    Refuse("InUse", UseText(users));
  }
}

void RestoreChecker::CheckStatefulSets() {
  if (!around_.stateful_sets.has_value()) {
    return;
  }
  for (const StatefulSet& set : *around_.stateful_sets) {
    const std::optional<int64_t> ordinal = set.OrdinalOf(info_.pvc_name);
    if (!ordinal.has_value()) {
      continue;
    }
    const std::string text = absl::StrCat("StatefulSet ", set.name());
    if (*ordinal >= set.first_ordinal() && *ordinal - set.first_ordinal() < set.replicas()) {
      Refuse("StatefulSetMakes",
             absl::StrCat(text, " has ", set.replicas(), " replicas and would make ", pvc_,
                          " again, empty; kubectl scale statefulset/", set.name(), " --replicas=",
                          *ordinal - set.first_ordinal(), " -n ", around_.namespace_name));
    } else if (set.deletes_when_scaled()) {
      Refuse("StatefulSetDeletes",
             absl::StrCat(text, " deletes the PVCs of Pods that it scales away, ", pvc_,
                          " too; kubectl patch statefulset ", set.name(), " -n ",
                          around_.namespace_name,
                          R"( -p '{"spec":{"persistentVolumeClaimRetentionPolicy":)"
                          R"({"whenScaled":"Retain"}}}')"));
    }
  }
}

void RestoreChecker::CheckOthers() {
  const std::optional<objects::CopyRecord> copy =
      info_.pvc.has_value() ? ParseCopyRecord(*info_.pvc) : std::nullopt;
  if (copy.has_value() && objects::IsWrittenByMover(*copy, info_.own_transfer) &&
      !info_.is_transfer_over) {
    return Refuse(kBusyCode, objects::WrittenByMoverText(*copy, *info_.pvc));
  }
  if (!info_.lease_held_for.empty()) {
    return Refuse(kBusyCode, absl::StrCat("another operation on ", pvc_,
                                          " is under way: ", info_.lease_held_for));
  }
  if (!around_.snapshots.has_value()) {
    return;
  }
  for (const VolumeSnapshot& one : *around_.snapshots) {
    const bool is_own =
        info_.pvc.has_value() && one.name() == SafetySnapshotName(*info_.pvc, info_.snapshot);
    if (one.source_pvc() == info_.pvc_name && csi::IsBeingTaken(one, around_.now) && !is_own) {
      return Refuse(kBusyCode, absl::StrCat("a snapshot of ", pvc_,
                                            " is being taken: VolumeSnapshot ", one.name()));
    }
  }
}

void RestoreChecker::CheckBackups() {
  if (!around_.backups.has_value()) {
    return;
  }
  for (const objects::Backup& backup : *around_.backups) {
    if (!backup.has_left_volumes() && backup.IncludesNamespace(around_.namespace_name)) {
      Refuse("InBackup", absl::StrCat("backup ", backup.namespace_name(), "/", backup.name(),
                                      " is ", backup.phase().empty() ? "New" : backup.phase(),
                                      " and includes namespace ", around_.namespace_name,
                                      "; wait until it has taken its snapshots"));
    }
  }
}

void RestoreChecker::CheckUnfinished() {
  if (info_.unfinished.has_value()) {
    const std::string command = absl::StrCat("csi-delta snapshot restore --into ", info_.pvc_name,
                                             " -n ", around_.namespace_name);
    Refuse("Unfinished",
           absl::StrCat(pvc_, " was restored from VolumeSnapshot ", info_.unfinished->snapshot,
                        ", and its volume of before is still kept; ", command,
                        " --finish deletes that, --undo brings it back"));
  }
}

// --- Reading

void AddUnchecked(const absl::Status& status, absl::string_view what,
                  std::vector<std::string>& notes) {
  notes.push_back(absl::StrCat(what, " not checked: ", status.message()));
}

// Nothing, and a note, where it may not be read, or the kind is not served.
template <typename T>
absl::StatusOr<std::optional<T>> OrNote(absl::StatusOr<T> read, absl::string_view what,
                                        std::vector<std::string>& notes) {
  if (absl::IsPermissionDenied(read.status()) || absl::IsNotFound(read.status())) {
    AddUnchecked(read.status(), what, notes);
    return std::optional<T>();
  }
  RETURN_IF_ERROR(read.status());
  return std::optional<T>(*std::move(read));
}

absl::Status ReadBackups(const CallContext& ctx, k8s::ApiClient& api, RestoreSurroundings& around) {
  constexpr absl::string_view kWhat = "Velero backups";
  ASSIGN_OR_RETURN(const std::optional<std::vector<objects::Backup>> all,
                   OrNote(objects::List<objects::Backup>(ctx, api, ""), kWhat, around.not_checked));
  if (!all.has_value()) {
    return absl::OkStatus();
  }
  around.backups.emplace();
  for (const objects::Backup& backup : *all) {
    if (const absl::Status status = backup.Validate(); !status.ok()) {
      AddUnchecked(status, kWhat, around.not_checked);
    } else if (!backup.has_left_volumes()) {
      around.backups->push_back(backup);
    }
  }
  return absl::OkStatus();
}

// Reads what belongs to one PVC.
class RestoreInfoReader {
 public:
  RestoreInfoReader(const CallContext& ctx, k8s::ApiClient& api, const VolumeSnapshot& snapshot,
                    absl::string_view pvc_name)
      : ctx_(ctx), api_(api), info_{.snapshot = snapshot, .pvc_name = std::string(pvc_name)} {}

  absl::StatusOr<RestoreInfo> Read() {
    RETURN_IF_ERROR(ReadContent());
    ASSIGN_OR_RETURN(info_.pvc, objects::Find<PersistentVolumeClaim>(ctx_, api_, namespace_name(),
                                                                     info_.pvc_name));
    if (info_.pvc.has_value()) {
      RETURN_IF_ERROR(ReadVolume());
      RETURN_IF_ERROR(ReadLease());
      ASSIGN_OR_RETURN(info_.is_transfer_over, IsTransferOver(ctx_, api_, *info_.pvc));
    }
    RETURN_IF_ERROR(ReadUnfinished());
    return std::move(info_);
  }

 private:
  std::string namespace_name() const { return info_.snapshot.namespace_name(); }

  absl::Status ReadContent() {
    if (info_.snapshot.bound_content().empty()) {
      return absl::OkStatus();
    }
    const k8s::ObjectKey key = VolumeSnapshotContent::Key("", info_.snapshot.bound_content());
    ASSIGN_OR_RETURN(auto found, OrNote(objects::Find<VolumeSnapshotContent>(ctx_, api_, key),
                                        "binding, driver and volume mode", info_.not_checked));
    if (found.has_value()) {
      info_.content = *std::move(found);
      info_.content_kind = info_.content.has_value() ? csi::ContentReading::Kind::kPresent
                                                     : csi::ContentReading::Kind::kGone;
    }
    if (info_.content.has_value()) {
      ASSIGN_OR_RETURN(info_.is_handle_gone,
                       csi::PopulationReader(ctx_, api_)
                           .IsHandleGone(info_.content->driver(), info_.content->handle()));
    }
    return absl::OkStatus();
  }

  absl::Status ReadVolume() {
    if (info_.pvc->volume_name().empty()) {
      return absl::OkStatus();
    }
    const k8s::ObjectKey key = PersistentVolume::Key("", info_.pvc->volume_name());
    ASSIGN_OR_RETURN(auto found, OrNote(objects::Find<PersistentVolume>(ctx_, api_, key),
                                        "PersistentVolume", info_.not_checked));
    info_.is_volume_read = found.has_value();
    info_.volume = std::move(found).value_or(std::nullopt);
    return absl::OkStatus();
  }

  absl::Status ReadLease() {
    // By an earlier run of this restore it may be, with a safety snapshot or without.
    const std::string safety = SafetySnapshotName(*info_.pvc, info_.snapshot);
    for (const std::string& own : {safety, absl::StrCat(csi::kRestoreHolderPrefix, safety)}) {
      const absl::StatusOr<std::string> held_for =
          csi::VolumeLease::HeldForOther(ctx_, api_,
                                         {.lease_namespace = namespace_name(),
                                          .claim_namespace = namespace_name(),
                                          .claim_name = info_.pvc_name,
                                          .claim_uid = info_.pvc->uid(),
                                          .holder = "",
                                          .snapshot_name = own});
      if (absl::IsPermissionDenied(held_for.status())) {
        AddUnchecked(held_for.status(), "Lease", info_.not_checked);
        return absl::OkStatus();
      }
      RETURN_IF_ERROR(held_for.status());
      info_.lease_held_for = *held_for;
      if (held_for->empty()) {
        return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadUnfinished() {
    const auto list = objects::List<PersistentVolume>(
        ctx_, api_, "",
        {.label_selector = absl::StrCat(objects::kInPlaceLabel, "=",
                                        RestoreLabelValue(namespace_name(), info_.pvc_name))});
    ASSIGN_OR_RETURN(const auto noted,
                     OrNote(list, "earlier restores into the PVC", info_.not_checked));
    for (const PersistentVolume& volume : noted.value_or(std::vector<PersistentVolume>())) {
      ASSIGN_OR_RETURN(const objects::SwapRecord record, ParseSwapRecord(volume));
      info_.unfinished = {.volume = volume.name(), .snapshot = record.snapshot};
    }
    return absl::OkStatus();
  }

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  RestoreInfo info_;
};

}  // namespace

absl::StatusOr<bool> IsTransferOver(const CallContext& ctx, k8s::ApiClient& api,
                                    const PersistentVolumeClaim& pvc) {
  const std::optional<objects::CopyRecord> record = ParseCopyRecord(pvc);
  if (!record.has_value() || !objects::IsWrittenByMover(*record, "")) {
    return false;
  }
  const objects::RecordedDownload named = objects::DownloadOf(*record);
  if (named.name.empty()) {
    return false;
  }
  const auto found = objects::Find<DataDownload>(ctx, api, named.namespace_name, named.name);
  if (absl::IsPermissionDenied(found.status())) {
    return false;
  }
  RETURN_IF_ERROR(found.status());
  if (found->has_value() && (*found)->uid() == record->id && !(*found)->is_over()) {
    return false;
  }
  // Removed or ended by another client it may have left a worker.
  const auto volumes = objects::List<PersistentVolume>(ctx, api, "");
  if (absl::IsPermissionDenied(volumes.status())) {
    return false;
  }
  RETURN_IF_ERROR(volumes.status());
  return std::none_of(volumes->begin(), volumes->end(), [&](const PersistentVolume& volume) {
    return volume.Annotation(objects::kAliasOfAnnotation) == pvc.volume_name();
  });
}

absl::Status CheckNotWrittenByMover(const CallContext& ctx, k8s::ApiClient& api,
                                    const PersistentVolumeClaim& pvc) {
  const std::optional<objects::CopyRecord> record = ParseCopyRecord(pvc);
  if (!record.has_value() || !objects::IsWrittenByMover(*record, "")) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const bool is_over, IsTransferOver(ctx, api, pvc));
  return is_over ? absl::OkStatus()
                 : absl::FailedPreconditionError(objects::WrittenByMoverText(*record, pvc));
}

RestoreVerdict CheckRestore(const RestoreSurroundings& around, const RestoreInfo& info) {
  return RestoreChecker(around, info).Check();
}

absl::Status RefusalStatus(absl::string_view namespace_name, absl::string_view pvc_name,
                           const std::vector<Finding>& refusals) {
  if (refusals.empty()) {
    return absl::OkStatus();
  }
  const std::string text =
      absl::StrCat(csi::PvcText(namespace_name, pvc_name),
                   " is not restored: ", absl::StrJoin(MessagesOf(refusals), "; and "));
  const bool is_busy_alone = std::all_of(refusals.begin(), refusals.end(),
                                         [](const Finding& one) { return one.code == kBusyCode; });
  return is_busy_alone ? csi::AsVolumeBusy(absl::FailedPreconditionError(text))
                       : absl::FailedPreconditionError(text);
}

bool IsTooSmallAlone(const std::vector<Finding>& refusals) {
  return !refusals.empty() && std::all_of(refusals.begin(), refusals.end(), [](const Finding& one) {
    return one.code == kTooSmallCode;
  });
}

std::vector<const Pod*> UsersOf(const std::vector<Pod>& pods, absl::string_view pvc_name) {
  std::vector<const Pod*> users;
  for (const Pod& pod : pods) {
    const std::vector<std::string> pvcs = pod.pvcs();
    if (pod.is_active() && std::find(pvcs.begin(), pvcs.end(), pvc_name) != pvcs.end()) {
      users.push_back(&pod);
    }
  }
  return users;
}

std::string UseText(const std::vector<const Pod*>& users) {
  CSIDELTA_CHECK(!users.empty());
  const Pod& first = *users.front();
  const std::string phase = first.phase();
  return absl::StrCat(first.workload(), " uses it (Pod ", first.name(), " is ",
                      phase.empty() ? "new" : phase,
                      users.size() > 1 ? absl::StrCat(", and ", users.size() - 1, " more") : "",
                      "); ", EndingCommand(first));
}

absl::StatusOr<std::string> ReadUse(const CallContext& ctx, k8s::ApiClient& api,
                                    absl::string_view namespace_name, absl::string_view pvc_name) {
  ASSIGN_OR_RETURN(const auto pods, objects::List<Pod>(ctx, api, namespace_name));
  const std::vector<const Pod*> users = UsersOf(pods, pvc_name);
  return users.empty() ? "" : UseText(users);
}

std::string SafetySnapshotName(const PersistentVolumeClaim& pvc, const VolumeSnapshot& snapshot) {
  const std::string hash = Sha256Hex(absl::StrCat(pvc.uid(), "\n", snapshot.uid()));
  return snapshots::FitName(absl::StrCat(pvc.name(), "-before-", snapshot.name()),
                            absl::StrCat("-", hash.substr(0, kSafetyHashBytes)));
}

std::string RestoreLabelValue(absl::string_view namespace_name, absl::string_view pvc_name) {
  return Sha256Hex(absl::StrCat(namespace_name, "/", pvc_name)).substr(0, kLabelHashBytes);
}

absl::StatusOr<RestoreSurroundings> ReadRestoreSurroundings(const CallContext& ctx,
                                                            k8s::ApiClient& api,
                                                            absl::string_view namespace_name) {
  RestoreSurroundings around = {.namespace_name = std::string(namespace_name),
                                .now = ctx.clock->Now()};
  ASSIGN_OR_RETURN(around.pods, OrNote(objects::List<Pod>(ctx, api, namespace_name),
                                       "whether a Pod uses the PVC", around.not_checked));
  ASSIGN_OR_RETURN(around.stateful_sets,
                   OrNote(objects::List<StatefulSet>(ctx, api, namespace_name), "StatefulSets",
                          around.not_checked));
  ASSIGN_OR_RETURN(around.snapshots, OrNote(objects::List<VolumeSnapshot>(ctx, api, namespace_name),
                                            "other snapshots of the PVC", around.not_checked));
  RETURN_IF_ERROR(ReadBackups(ctx, api, around));
  return around;
}

absl::StatusOr<RestoreInfo> ReadRestoreInfo(const CallContext& ctx, k8s::ApiClient& api,
                                            const VolumeSnapshot& snapshot,
                                            absl::string_view pvc_name) {
  return RestoreInfoReader(ctx, api, snapshot, pvc_name).Read();
}

absl::StatusOr<RestoreInfo> ReadPvcInfo(const CallContext& ctx, k8s::ApiClient& api,
                                        absl::string_view namespace_name,
                                        absl::string_view pvc_name) {
  ASSIGN_OR_RETURN(RestoreInfo info,
                   ReadRestoreInfo(ctx, api, VolumeSnapshot::Make(namespace_name, ""), pvc_name));
  info.is_written_into = true;
  return info;
}

}  // namespace csidelta::inplace
