#include "velero/volume_decision.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/enum_names.h"
#include "base/human_text.h"
#include "base/status_macros.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::velero {
namespace {

using objects::PersistentVolume;
using objects::PersistentVolumeClaim;
using objects::PodVolume;

constexpr char kSnapshotsOff[] = "spec.snapshotVolumes of the backup is false";

// What the value of our parameter wants for a volume.
enum class Wish { kSnapshot, kMove, kAsBackupSays, kLonghorn };
constexpr EnumNames<Wish, 4> kWishes = {{
    {Wish::kSnapshot, kCsiDeltaSnapshot},
    {Wish::kMove, kCsiDeltaMove},
    {Wish::kAsBackupSays, kCsiDeltaTrue},
    {Wish::kLonghorn, kCsiDeltaLonghorn},
}};

VolumeDecision LeaveAlone(std::string reason) {
  return {.kind = VolumeDecision::Kind::kLeaveAlone, .reason = std::move(reason)};
}

VolumeDecision LeaveAloneAndWarn(std::string reason) {
  VolumeDecision decision = LeaveAlone(std::move(reason));
  decision.warn = true;
  return decision;
}

std::string ClaimName(const PersistentVolumeClaim& pvc) {
  return absl::StrCat("PersistentVolumeClaim ", pvc.namespace_name(), "/", pvc.name());
}

// What Velero's own action leaves on a claim whose volume it took. Its label with the backup's
// name is the raw name; ours is the one that fits a label.
std::optional<VolumeDecision> FindEarlierSnapshot(const DecisionInput& input) {
  const std::string snapshot = input.pvc.Label(objects::kVolumeSnapshotNameLabel);
  const std::string backup = input.pvc.Label(objects::kBackupNameLabel);
  if (input.ignore_claim_labels || snapshot.empty() ||
      (backup != input.backup.name() && backup != ValidLabelValue(input.backup.name()))) {
    return std::nullopt;
  }
  return VolumeDecision{.kind = VolumeDecision::Kind::kAlreadyDone,
                        .reason = "another action took this volume in this backup",
                        .volume_snapshot_name = snapshot};
}

absl::StatusOr<Wish> ReadWish(const PersistentVolumeClaim& pvc, const PolicyMatch& match,
                              const std::string& value) {
  if (const std::optional<Wish> wish = EnumValue(kWishes, value); wish.has_value()) {
    return *wish;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(ClaimName(pvc), ": ", match.rule, ": parameter ", kCsiDeltaParameter, ": ",
                   Quoted(value), " is not ", kCsiDeltaSnapshot, ", ", kCsiDeltaMove, ", ",
                   kCsiDeltaLonghorn, " or \"", kCsiDeltaTrue, "\""));
}

// `decision`, of a volume that a rule gives to us, where the rule is for Longhorn.
absl::StatusOr<VolumeDecision> TakeInLonghorn(const PersistentVolumeClaim& pvc,
                                              const PolicyMatch& match, VolumeDecision decision) {
  const std::string rule = absl::StrCat(ClaimName(pvc), ": ", match.rule, ": ", kCsiDeltaParameter,
                                        ": ", kCsiDeltaLonghorn);
  if (const std::string driver = decision.pv.driver(); driver != kLonghornDriver) {
    return absl::InvalidArgumentError(absl::StrCat(
        rule, " is for volumes of ", kLonghornDriver, ", and this one is of ", Quoted(driver),
        "; legal here: ", kCsiDeltaSnapshot, ", ", kCsiDeltaMove, " and \"", kCsiDeltaTrue, "\""));
  }
  if (!decision.snapshot_class.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(rule, " uses no VolumeSnapshotClass: remove ",
                                                   kSnapshotClassParameter, " from the rule"));
  }
  decision.kind = VolumeDecision::Kind::kLonghorn;
  decision.reason = absl::StrCat(decision.reason, ", for a native snapshot of Longhorn");
  return decision;
}

VolumeDecision Move(VolumeDecision decision, absl::string_view asked_by) {
  decision.kind = VolumeDecision::Kind::kMove;
  decision.reason =
      absl::StrCat(decision.reason, ", and ", asked_by, " asks csi-delta to move the data");
  return decision;
}

// `decision`, to snapshot a volume that no policy gives to us, as the backup's data movement
// changes it.
VolumeDecision ApplyDataMovement(const DecisionInput& input, VolumeDecision decision) {
  if (!input.backup.snapshot_move_data()) {
    return decision;
  }
  const std::string mover = input.backup.data_mover();
  if (mover == objects::kDataMoverName) {
    return Move(std::move(decision), absl::StrCat("Backup ", input.backup.name()));
  }
  return LeaveAloneAndWarn(
      absl::StrCat("data movement by \"", mover.empty() ? "velero" : mover,
                   "\" was asked for, and nothing in this backup shows that it took this volume"));
}

VolumeDecision Snapshot(const DecisionInput& input, std::optional<PersistentVolume> pv,
                        std::string reason, std::string snapshot_class, bool is_managed) {
  const std::string phase = input.pvc.phase();
  const std::string volume = input.pvc.volume_name();
  if (phase != "Bound" || volume.empty() || !pv.has_value()) {
    if (is_managed && !volume.empty() && (phase == "Bound" || phase == "Lost")) {
      return LeaveAloneAndWarn(absl::StrCat(
          "the claim's volume ", absl::CHexEscape(volume.substr(0, 64)),
          pv.has_value() ? absl::StrCat(" cannot be used: the claim's phase is ", Quoted(phase))
                         : " does not exist",
          ", though ", reason));
    }
    return LeaveAlone(absl::StrCat("the claim has no volume: its phase is ", Quoted(phase)));
  }
  if (!pv->is_csi()) {
    const std::string problem = "the volume is not a CSI volume";
    return is_managed ? LeaveAloneAndWarn(absl::StrCat(problem, ", though ", reason))
                      : LeaveAlone(problem);
  }
  return VolumeDecision{.kind = VolumeDecision::Kind::kSnapshot,
                        .reason = std::move(reason),
                        .snapshot_class = std::move(snapshot_class),
                        .pv = *std::move(pv)};
}

// "": the rule names none.
std::string SnapshotClassOf(const PolicyMatch& match) {
  const auto found = match.parameters.find(kSnapshotClassParameter);
  return found == match.parameters.end() ? "" : found->second;
}

// A rule of type `custom`.
absl::StatusOr<VolumeDecision> DecideCustom(const DecisionInput& input, const PolicyMatch& match,
                                            std::optional<PersistentVolume> pv) {
  const auto value = match.parameters.find(kCsiDeltaParameter);
  if (value == match.parameters.end()) {
    return LeaveAlone(absl::StrCat(match.rule, " gives this volume to another plugin"));
  }
  ASSIGN_OR_RETURN(const Wish wish, ReadWish(input.pvc, match, value->second));
  VolumeDecision decision =
      Snapshot(input, std::move(pv), absl::StrCat(match.rule, " gives this volume to csi-delta"),
               SnapshotClassOf(match), true);
  decision.is_by_custom_rule = true;
  if (decision.kind == VolumeDecision::Kind::kSnapshot && wish == Wish::kLonghorn) {
    return TakeInLonghorn(input.pvc, match, std::move(decision));
  }
  const bool move =
      wish == Wish::kMove || (wish == Wish::kAsBackupSays && input.backup.snapshot_move_data());
  if (decision.kind == VolumeDecision::Kind::kSnapshot && move) {
    return Move(std::move(decision),
                wish == Wish::kMove ? match.rule : absl::StrCat("Backup ", input.backup.name()));
  }
  return decision;
}

VolumeDecision DecideBySnapshotRule(const DecisionInput& input, const PolicyMatch& match,
                                    std::optional<PersistentVolume> pv) {
  VolumeDecision decision =
      Snapshot(input, std::move(pv), absl::StrCat(match.rule, " asks for a volume snapshot"),
               SnapshotClassOf(match), false);
  return decision.kind == VolumeDecision::Kind::kSnapshot
             ? ApplyDataMovement(input, std::move(decision))
             : std::move(decision);
}

absl::StatusOr<VolumeDecision> DecideByRule(const DecisionInput& input, const PolicyMatch& match,
                                            std::optional<PersistentVolume> pv) {
  switch (match.action) {
    case PolicyAction::kSkip:
      return LeaveAlone(absl::StrCat(match.rule, " skips this volume"));
    case PolicyAction::kFsBackup:
      return LeaveAlone(absl::StrCat(match.rule, " gives this volume to file-system backup"));
    case PolicyAction::kCustom:
      return DecideCustom(input, match, std::move(pv));
    case PolicyAction::kSnapshot:
      break;
  }
  return DecideBySnapshotRule(input, match, std::move(pv));
}

absl::StatusOr<VolumeDecision> DecideByFlags(const DecisionInput& input,
                                             const VolumeQueries& queries,
                                             std::optional<PersistentVolume> pv) {
  VolumeDecision decision =
      Snapshot(input, std::move(pv), "the backup snapshots its volumes", "", false);
  if (decision.kind != VolumeDecision::Kind::kSnapshot) {
    return decision;
  }
  ASSIGN_OR_RETURN(const auto pods, queries.pods());
  const std::string claim = input.pvc.name();
  for (const objects::Pod& pod : *pods) {
    if (FsBackupTakesClaim(input.backup, pod, claim)) {
      return LeaveAlone(absl::StrCat("file-system backup takes this volume in pod ", pod.name()));
    }
  }
  return ApplyDataMovement(input, std::move(decision));
}

// Only native snapshots are taken then. A rule of type `custom` makes Velero's own ways step aside
// all the same.
absl::StatusOr<VolumeDecision> DecideWithoutCsi(const DecisionInput& input,
                                                const VolumeQueries& queries) {
  constexpr char kWithoutCsi[] = "the server runs without the feature EnableCSI";
  const auto policies = queries.policies();
  if (!policies.ok() || (*policies)->size() == 0) {
    return LeaveAlone(kWithoutCsi);
  }
  const absl::StatusOr<std::optional<PersistentVolume>> pv = queries.pv();
  const PolicyMatch match =
      (*policies)->Match({.pvc = input.pvc, .pv = pv.ok() && pv->has_value() ? &**pv : nullptr});
  const auto value = match.parameters.find(kCsiDeltaParameter);
  if (match.kind != PolicyMatch::Kind::kRule || match.action != PolicyAction::kCustom ||
      value == match.parameters.end()) {
    return LeaveAlone(kWithoutCsi);
  }
  if (value->second == kCsiDeltaLonghorn) {
    RETURN_IF_ERROR(pv.status());
    return DecideCustom(input, match, *pv);
  }
  return LeaveAloneAndWarn(
      absl::StrCat(match.rule, " gives this volume to csi-delta, but ", kWithoutCsi,
                   ": it is not backed up; start velero server with --features=EnableCSI"));
}

absl::StatusOr<VolumeDecision> DecideWithCsi(const DecisionInput& input,
                                             const VolumeQueries& queries) {
  if (input.backup.is_finalizing()) {
    return LeaveAlone("the backup is being finalized");
  }
  if (std::optional<VolumeDecision> done = FindEarlierSnapshot(input); done.has_value()) {
    return *std::move(done);
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const VolumePolicies> policies, queries.policies());
  const bool snapshots_off = input.backup.snapshot_volumes() == false;
  if (snapshots_off && policies->size() == 0) {
    return LeaveAlone(kSnapshotsOff);
  }
  ASSIGN_OR_RETURN(std::optional<PersistentVolume> pv, queries.pv());
  const PolicyMatch match =
      policies->Match({.pvc = input.pvc, .pv = pv.has_value() ? &*pv : nullptr});
  switch (match.kind) {
    case PolicyMatch::Kind::kUndecidable:
      return LeaveAloneAndWarn(absl::StrCat(match.reason, ", so this volume is left alone"));
    case PolicyMatch::Kind::kRule:
      return DecideByRule(input, match, std::move(pv));
    case PolicyMatch::Kind::kNoMatch:
      break;
  }
  return snapshots_off ? LeaveAlone(kSnapshotsOff) : DecideByFlags(input, queries, std::move(pv));
}

// A populator fills such a PVC for another one, whose uid it has in its name, and deletes it then.
bool IsOfPopulator(absl::string_view claim_name) {
  constexpr absl::string_view kUidForm = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  return absl::ConsumePrefix(&claim_name, "prime-") && claim_name.size() == kUidForm.size() &&
         std::equal(claim_name.begin(), claim_name.end(), kUidForm.begin(), [](char c, char form) {
           return form == '-' ? c == '-' : absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

// Why a restored claim would be of no use; "": it would be of use.
absl::StatusOr<std::string> WhyTemporary(const PersistentVolumeClaim& pvc,
                                         const VolumeQueries& queries) {
  if (IsOfPopulator(pvc.name())) {
    return "a populator is filling the PVC for another one, and deletes it afterwards";
  }
  for (const objects::OwnerReference& owner : pvc.owners()) {
    if (owner.kind != "Pod") {
      continue;
    }
    ASSIGN_OR_RETURN(const auto pods, queries.pods());
    for (const objects::Pod& pod : *pods) {
      const std::vector<std::string> claims = pod.pvcs();
      if (pod.uid() == owner.uid && !pod.NamesPvc(pvc.name()) &&
          std::find(claims.begin(), claims.end(), pvc.name()) != claims.end()) {
        return absl::StrCat("the PVC is a generic ephemeral volume of Pod ", pod.name(),
                            ", and a restored Pod refuses a PVC that was not made for it");
      }
    }
  }
  return "";
}

bool NamesVolume(const std::map<std::string, std::string>& annotations, const char* key,
                 const std::string& volume) {
  const auto found = annotations.find(key);
  if (found == annotations.end()) {
    return false;
  }
  const std::vector<std::string> names = absl::StrSplit(found->second, ',');
  return std::find(names.begin(), names.end(), volume) != names.end();
}

}  // namespace

bool FsBackupTakesClaim(const objects::Backup& backup, const objects::Pod& pod,
                        absl::string_view claim_name) {
  const std::map<std::string, std::string> annotations = pod.annotations();
  const bool opt_out = backup.defaults_to_fs_backup();
  const std::vector<PodVolume> volumes = pod.pvc_volumes();
  return std::any_of(volumes.begin(), volumes.end(), [&](const PodVolume& volume) {
    if (volume.pvc != claim_name) {
      return false;
    }
    return opt_out ? !NamesVolume(annotations, objects::kVolumesToExcludeAnnotation, volume.name)
                   : NamesVolume(annotations, objects::kVolumesToBackupAnnotation, volume.name);
  });
}

absl::StatusOr<VolumeDecision> DecideVolume(const DecisionInput& input,
                                            const VolumeQueries& queries) {
  ASSIGN_OR_RETURN(VolumeDecision decision, input.enable_csi ? DecideWithCsi(input, queries)
                                                             : DecideWithoutCsi(input, queries));
  if (decision.kind == VolumeDecision::Kind::kLeaveAlone ||
      decision.kind == VolumeDecision::Kind::kAlreadyDone) {
    return decision;
  }
  ASSIGN_OR_RETURN(const std::string reason, WhyTemporary(input.pvc, queries));
  return reason.empty() ? std::move(decision) : LeaveAloneAndWarn(reason);
}

}  // namespace csidelta::velero
