#include "inplace/volume_swap.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "csi/expose/claim_provisioning.h"
#include "csi/lock.h"
#include "csi/population.h"
#include "csi/retry.h"
#include "k8s/access_review.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/storage_class.h"
#include "snapshots/promotion.h"
#include "snapshots/snapshot_creation.h"
#include "snapshots/snapshot_import.h"

namespace csidelta::inplace {
namespace {

using objects::PersistentVolume;
using objects::PersistentVolumeClaim;
using objects::StorageClass;
using objects::SwapRecord;
using objects::SwapSide;
using objects::VolumeSnapshot;

// How often a step is tried that another writer got in the way of, or whose answer was lost.
constexpr int kStepTriesMax = 10;
constexpr absl::Duration kStepPause = absl::Milliseconds(100);
// Wait for a deletion before the Pods are read, which may block it.
constexpr absl::Duration kDeletionSlice = absl::Seconds(2);
// An older safety snapshot of the same restore does not hold what was written since.
constexpr absl::Duration kSafetyAgeMax = absl::Minutes(10);
constexpr int kSafetyNamesMax = 20;
// How long a provisioner may take to begin with a volume that no provisioner made.
constexpr absl::Duration kUnprovisionedWait = absl::Seconds(30);
// No PVC has such a uid: a volume that is reserved for it is free for its driver to delete.
constexpr char kNoPvcUid[] = "released-by-csi-delta";

absl::Status WithAdvice(const absl::Status& status, absl::string_view advice) {
  return status.ok() ? status : csi::WithMore(status, absl::StrCat("; ", advice));
}

objects::Patch WithoutRecord() {
  return objects::Patch()
      .RemoveLabel(objects::kInPlaceLabel)
      .RemoveAnnotation(objects::kInPlaceRecordAnnotation);
}

// --- Planning

// NOT_FOUND if there is none, PERMISSION_DENIED if the nodes cannot be listed.
absl::Status ChooseNodeOfCluster(const CallContext& ctx, k8s::ApiClient& api,
                                 const PersistentVolume& volume, std::string& node) {
  ASSIGN_OR_RETURN(const auto nodes, objects::List<objects::Node>(ctx, api, ""));
  ASSIGN_OR_RETURN(const auto csi_nodes, objects::List<objects::CsiNode>(ctx, api, ""));
  node = ChooseNode(volume, nodes, csi_nodes);
  return node.empty()
             ? absl::NotFoundError(absl::StrCat("no node has driver ", volume.driver(),
                                                " where volume ", volume.name(), " can be used"))
             : absl::OkStatus();
}

class SwapPlanner {
 public:
  SwapPlanner(const CallContext& ctx, k8s::ApiClient& api, const RestoreSurroundings& around,
              SwapPlan plan)
      : ctx_(ctx), api_(api), around_(around), plan_(std::move(plan)) {}

  absl::StatusOr<SwapPlan> Plan() {
    const SwapTarget& target = plan_.target;
    ASSIGN_OR_RETURN(plan_.state,
                     ReadSwapState(ctx_, api_, target.namespace_name, target.pvc_name));
    const SwapState& state = plan_.state;
    plan_.was_begun = state.is_begun();
    plan_.was_exchanging = state.original.has_value();
    if (plan_.was_exchanging) {
      plan_.original_volume = state.original->volume.name();
      plan_.finalizers = ForeignFinalizers(*state.original->record.claim);
      RETURN_IF_ERROR(NextOfRestore(state, RequestOf(target)).status());
      return std::move(plan_);
    }
    if (!target.snapshot.has_value()) {
      return absl::NotFoundError(absl::StrCat("VolumeSnapshot ", target.namespace_name, "/",
                                              target.snapshot_name,
                                              " does not exist; csi-delta snapshot list -n ",
                                              target.namespace_name, " shows those that do"));
    }
    ASSIGN_OR_RETURN(RestoreInfo info,
                     ReadRestoreInfo(ctx_, api_, *target.snapshot, target.pvc_name));
    info.unfinished.reset();  // The state says it better.
    RestoreVerdict verdict = CheckRestore(around_, info);
    plan_.refusals = std::move(verdict.refusals);
    for (std::vector<std::string>* const notes : {&info.not_checked, &verdict.not_checked}) {
      plan_.not_checked.insert(plan_.not_checked.end(), notes->begin(), notes->end());
    }
    if (plan_.refusals.empty()) {
      RETURN_IF_ERROR(NextOfRestore(state, RequestOf(target)).status());
      RETURN_IF_ERROR(PlanVolume(info));
    }
    return std::move(plan_);
  }

  static SwapRequest RequestOf(const SwapTarget& target) {
    return {.snapshot = target.snapshot_name,
            .snapshot_uid = target.snapshot.has_value() ? target.snapshot->uid() : ""};
  }

 private:
  // REQUIRES a plan without refusals.
  absl::Status PlanVolume(const RestoreInfo& info) {
    CSIDELTA_CHECK(plan_.refusals.empty() && info.pvc.has_value());
    const PersistentVolumeClaim& pvc = *info.pvc;
    plan_.original_volume = pvc.volume_name();
    plan_.temporary_pvc = TemporaryPvcName(pvc.name(), pvc.uid(), plan_.target.snapshot->uid());
    plan_.storage_class = pvc.storage_class().value_or("");
    plan_.finalizers = ForeignFinalizers(pvc);
    plan_.driver = info.volume.has_value() ? info.volume->driver() : "";
    const int64_t capacity = info.volume.has_value() ? info.volume->capacity_bytes().value_or(0)
                                                     : pvc.capacity_bytes().value_or(0);
    plan_.size_bytes = std::max(capacity, pvc.requested_bytes().value_or(0));
    if (!info.is_volume_read) {
      plan_.refused_by_swap.push_back("its PersistentVolume may not be read");
      return absl::OkStatus();
    }
    return PlanClass(*info.volume);
  }

  absl::Status PlanClass(const PersistentVolume& volume) {
    const auto classes = objects::List<StorageClass>(ctx_, api_, "");
    if (absl::IsPermissionDenied(classes.status())) {
      plan_.not_checked.push_back(
          absl::StrCat("StorageClass not checked: ", classes.status().message()));
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(classes.status());
    const StorageClass* const found = objects::OfName(*classes, plan_.storage_class);
    if (found == nullptr) {
      plan_.refused_by_swap.push_back(absl::StrCat(
          "its StorageClass \"", plan_.storage_class,
          "\" does not exist, and a volume of another class cannot be the PVC's; make a new PVC "
          "with csi-delta snapshot promote"));
    } else if (!csi::IsProvisionerOf(found->provisioner(), plan_.driver)) {
      plan_.refused_by_swap.push_back(absl::StrCat("its StorageClass ", plan_.storage_class,
                                                   " is of driver ", found->provisioner(),
                                                   ", its volume of ", plan_.driver));
    } else if (found->waits_for_first_consumer()) {
      return PlanNode(volume);
    }
    return absl::OkStatus();
  }

  // The class leaves the volume unmade until a Pod uses it: no Pod will, so a node is chosen here.
  absl::Status PlanNode(const PersistentVolume& volume) {
    const absl::Status chosen = ChooseNodeOfCluster(ctx_, api_, volume, plan_.node);
    if (!absl::IsPermissionDenied(chosen) && !absl::IsNotFound(chosen)) {
      return chosen;
    }
    plan_.refused_by_swap.push_back(
        absl::StrCat("its StorageClass ", plan_.storage_class,
                     " makes no volume until a Pod uses it, and no node can be chosen for it: ",
                     chosen.message()));
    return absl::OkStatus();
  }

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const RestoreSurroundings& around_;
  SwapPlan plan_;
};

}  // namespace

absl::StatusOr<SwapPlan> PlanSwap(const CallContext& ctx, k8s::ApiClient& api,
                                  const RestoreSurroundings& around, const SwapTarget& target) {
  return SwapPlanner(ctx, api, around, {.target = target, .state = {}}).Plan();
}

std::string ChooseNode(const objects::PersistentVolume& volume,
                       const std::vector<objects::Node>& nodes,
                       const std::vector<objects::CsiNode>& csi_nodes) {
  const objects::Node* chosen = nullptr;
  for (const objects::Node& node : nodes) {
    const bool has_driver =
        std::any_of(csi_nodes.begin(), csi_nodes.end(), [&](const objects::CsiNode& one) {
          return one.name() == node.name() && one.HasDriver(volume.driver());
        });
    if (!has_driver || !node.IsSelectedBy(volume.node_affinity())) {
      continue;
    }
    const bool is_better = chosen == nullptr || (node.is_schedulable() != chosen->is_schedulable()
                                                     ? node.is_schedulable()
                                                     : node.name() < chosen->name());
    if (is_better) {
      chosen = &node;
    }
  }
  return chosen == nullptr ? "" : chosen->name();
}

absl::Status CheckSwapRights(const CallContext& ctx, k8s::ApiClient& api,
                             absl::string_view namespace_name) {
  const std::string here(namespace_name);
  return k8s::RequireAccess(
      ctx, api,
      {{{"create", PersistentVolumeClaim::Type(), here}, snapshots::kSnapshotUserRole},
       {{"patch", PersistentVolumeClaim::Type(), here}, snapshots::kSnapshotUserRole},
       {{"delete", PersistentVolumeClaim::Type(), here}, snapshots::kSnapshotUserRole},
       {{"list", PersistentVolumeClaim::Type(), here}, snapshots::kSnapshotUserRole},
       {{"list", objects::Pod::Type(), here}, snapshots::kSnapshotAdminRole},
       {{"get", PersistentVolume::Type()}, snapshots::kSnapshotReaderRole},
       {{"list", PersistentVolume::Type()}, snapshots::kSnapshotAdminRole},
       {{"patch", PersistentVolume::Type()}, snapshots::kSnapshotAdminRole},
       {{"delete", PersistentVolume::Type()}, snapshots::kSnapshotAdminRole}});
}

absl::StatusOr<std::string> LossByFinish(const CallContext& ctx, k8s::ApiClient& api,
                                         const SwapState& state) {
  const std::optional<SwapVolume>& unused = state.has_restored() ? state.original : state.restored;
  if (!unused.has_value()) {
    return "";
  }
  const PersistentVolume& volume = unused->volume;
  const auto inside = csi::SnapshotsInside(ctx, api, csi::VolumeOf(volume));
  if (absl::IsPermissionDenied(inside.status())) {
    return absl::StrCat("volume ", volume.name(), " is deleted with the snapshots inside of it; ",
                        "their VolumeSnapshots are not known: ", inside.status().message());
  }
  RETURN_IF_ERROR(inside.status());
  return inside->empty()
             ? ""
             : absl::StrCat("volume ", volume.name(),
                            " is deleted with the data of VolumeSnapshot ",
                            absl::StrJoin(*inside, ", "),
                            ", which is inside of it; they stay Ready: delete them, too");
}

absl::Status CheckMayDeleteUnused(const CallContext& ctx, k8s::ApiClient& api,
                                  const SwapState& state) {
  const auto refused = [&](absl::string_view volume, absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat("PVC ", state.namespace_name, "/",
                                                      state.pvc_name, ": its other volume ", volume,
                                                      " is kept: ", why));
  };
  const bool has_restored = state.has_restored();
  const std::optional<SwapVolume>& other = has_restored ? state.original : state.restored;
  if (!other.has_value()) {
    return absl::OkStatus();
  }
  const std::string name = other->volume.name();
  csi::PopulationReader reader(ctx, api);
  if (has_restored) {
    ASSIGN_OR_RETURN(const csi::Population population,
                     reader.Read(csi::VolumeOf(state.restored->volume)));
    if (population.state == csi::PopulationState::kFailed) {
      return refused(name, absl::StrCat("the volume in use never got the VolumeSnapshot's data: ",
                                        population.text, "; ",
                                        "take the restore back (--undo) and restore again"));
    }
    if (population.state != csi::PopulationState::kFilled) {
      return refused(name, absl::StrCat("the volume in use may not have its data yet: ",
                                        population.text, "; run the same command again then"));
    }
  }
  const absl::StatusOr<std::vector<std::string>> copies =
      reader.UnfilledFromHandle(other->volume.driver(), other->volume.handle());
  if (absl::IsPermissionDenied(copies.status())) {
    return refused(name, absl::StrCat("whether it is still copied from is not known: ",
                                      copies.status().message(),
                                      "; ask for the ClusterRole csi-delta-longhorn-viewer there"));
  }
  RETURN_IF_ERROR(copies.status());
  return copies->empty()
             ? absl::OkStatus()
             : refused(name, absl::StrCat("it is still copied from: ", absl::StrJoin(*copies, "; "),
                                          "; run the same command again then"));
}

VolumeSwap::VolumeSwap(const CallContext& ctx, k8s::ApiClient& api, Random& random,
                       SwapTarget target, SwapSink sink)
    : ctx_(ctx), api_(api), random_(random), target_(std::move(target)), sink_(std::move(sink)) {}

std::string VolumeSwap::PvcText() const {
  return absl::StrCat("PVC ", target_.namespace_name, "/", target_.pvc_name);
}

const SwapVolume* VolumeSwap::other_volume() const {
  const auto& other = state_.Volume(state_.goal() == SwapSide::kOriginal ? SwapSide::kRestored
                                                                         : SwapSide::kOriginal);
  return other.has_value() ? &*other : nullptr;
}

const SwapVolume& VolumeSwap::in_use() const {
  const auto& wanted = state_.Volume(state_.goal());
  return wanted.has_value() ? *wanted : *other_volume();
}

SwapRequest VolumeSwap::Request() const {
  SwapRequest request = SwapPlanner::RequestOf(target_);
  request.needs_safety_snapshot = target_.takes_safety_snapshot && result_.safety_snapshot.empty();
  return request;
}

SwapResult VolumeSwap::Result() const {
  SwapResult result = result_;
  if (state_.original.has_value()) {
    result.original_volume = state_.original->volume.name();
    result.safety_snapshot = state_.original->record.safety;
    result.at = state_.original->record.at;
  }
  if (state_.restored.has_value()) {
    result.restored_volume = state_.restored->volume.name();
  }
  result.in_use = state_.has_restored() ? SwapSide::kRestored : SwapSide::kOriginal;
  return result;
}

absl::Status VolumeSwap::Run(const Next& next) {
  int tries = 0;
  std::optional<SwapStep> last;
  while (true) {
    RETURN_IF_ERROR(ctx_.Check());
    ASSIGN_OR_RETURN(state_, ReadSwapState(ctx_, api_, target_.namespace_name, target_.pvc_name));
    ASSIGN_OR_RETURN(const SwapStep step, next(state_));
    if (step == SwapStep::kDone) {
      return absl::OkStatus();
    }
    // A step that changes nothing, again and again, would be a defect of the tables.
    tries = last == step ? tries + 1 : 0;
    last = step;
    const absl::StatusOr<std::string> done = Take(step);
    const absl::Status& taken = done.status();
    if (done.ok() && !done->empty()) {
      result_.did_anything = true;
      sink_({.step = step,
             .pvc = absl::StrCat(target_.namespace_name, "/", target_.pvc_name),
             .text = *done});
    }
    const bool is_worth_a_try = absl::IsAborted(taken) || absl::IsUnavailable(taken) || taken.ok();
    if (!is_worth_a_try || tries >= kStepTriesMax) {
      return taken.ok() ? absl::InternalError(absl::StrCat("in-place restore of ", PvcText(),
                                                           " stays at ", NameOf(step)))
                        : taken;
    }
    if (tries > 0 && !ctx_.clock->SleepFor(tries * kStepPause, ctx_.stop)) {
      return ctx_.Check();
    }
  }
}

// What a step is called, and what takes it.
struct VolumeSwap::StepRow {
  absl::string_view name;
  absl::StatusOr<std::string> (VolumeSwap::*take)();
};

// In the order of SwapStep; nothing takes the last.
const VolumeSwap::StepRow VolumeSwap::kSteps[] = {
    {"TakeSafetySnapshot", &VolumeSwap::TakeSafetySnapshot},
    {"MakeTemporary", &VolumeSwap::MakeTemporary},
    {"AwaitTemporary", &VolumeSwap::AwaitTemporary},
    {"RecordRestored", &VolumeSwap::RecordRestored},
    {"RecordOriginal", &VolumeSwap::RecordOriginal},
    {"TurnBack", &VolumeSwap::TurnBack},
    {"Retain", &VolumeSwap::Retain},
    {"RemoveTemporary", &VolumeSwap::RemoveTemporary},
    {"AwaitTemporaryGone", &VolumeSwap::AwaitTemporaryGone},
    {"RemovePvc", &VolumeSwap::RemovePvc},
    {"AwaitPvcGone", &VolumeSwap::AwaitPvcGone},
    {"Reserve", &VolumeSwap::Reserve},
    {"MakePvc", &VolumeSwap::MakePvc},
    {"AwaitPvc", &VolumeSwap::AwaitPvc},
    {"MarkPvc", &VolumeSwap::MarkPvc},
    {"ReturnPolicy", &VolumeSwap::ReturnPolicy},
    {"Abandon", &VolumeSwap::Abandon},
    {"Release", &VolumeSwap::Release},
    {"AwaitVolumeGone", &VolumeSwap::AwaitVolumeGone},
    {"CleanPvc", &VolumeSwap::CleanPvc},
    {"CleanVolume", &VolumeSwap::CleanVolume},
    {"Done", nullptr},
};

absl::string_view VolumeSwap::NameOf(SwapStep step) {
  return kSteps[static_cast<std::size_t>(step)].name;
}

absl::StatusOr<std::string> VolumeSwap::Take(SwapStep step) {
  CSIDELTA_CHECK(step != SwapStep::kDone);
  return (this->*kSteps[static_cast<std::size_t>(step)].take)();
}

absl::Status VolumeSwap::Prepare(const SwapPlan& plan) {
  CSIDELTA_CHECK(plan.refusals.empty() && plan.refused_by_swap.empty());
  plan_ = plan;
  std::unique_ptr<csi::VolumeLock> guard;
  if (!target_.takes_safety_snapshot && !plan.was_exchanging) {
    CSIDELTA_CHECK(plan.state.pvc.has_value() && target_.snapshot.has_value());
    // Held until the records exist, which keep other restores away.
    absl::StatusOr<std::unique_ptr<csi::VolumeLock>> entered = snapshots::GuardRestore(
        ctx_, api_, random_, *plan.state.pvc,
        SafetySnapshotName(*plan.state.pvc, *target_.snapshot), result_.not_checked);
    RETURN_IF_ERROR(WithAdvice(entered.status(), "nothing is changed"));
    guard = *std::move(entered);
  }
  // RecordOriginal is the last step of the preparation: the exchange begins with its record.
  return Run([this](const SwapState& state) -> absl::StatusOr<SwapStep> {
    return state.original.has_value() ? absl::StatusOr<SwapStep>(SwapStep::kDone)
                                      : NextOfRestore(state, Request());
  });
}

absl::StatusOr<SwapResult> VolumeSwap::Exchange() {
  CSIDELTA_CHECK(plan_.has_value());  // Prepare() sets it.
  const auto next = [this](const SwapState& state) -> absl::StatusOr<SwapStep> {
    // Never begin again here: after another client ended the restore, the PVC may be in use.
    return state.is_begun()
               ? NextOfRestore(state, Request())
               : absl::FailedPreconditionError(absl::StrCat(
                     "the restore into ", PvcText(),
                     " was ended by another client meanwhile, with --finish or --undo"));
  };
  RETURN_IF_ERROR(Run(next));
  return Result();
}

absl::StatusOr<SwapResult> VolumeSwap::Undo() {
  RETURN_IF_ERROR(Run(NextOfUndo));
  return Result();
}

absl::StatusOr<SwapResult> VolumeSwap::Finish() {
  std::string original;
  std::string restored;
  RETURN_IF_ERROR(Run([&](const SwapState& state) {
    original = state.original.has_value() ? state.original->volume.name() : original;
    restored = state.restored.has_value() ? state.restored->volume.name() : restored;
    return NextOfFinish(state);
  }));
  SwapResult result = Result();
  result.original_volume = original;
  result.restored_volume = restored;
  const bool has_restored =
      state_.pvc.has_value() && !restored.empty() && state_.pvc->volume_name() == restored;
  result.in_use = has_restored ? SwapSide::kRestored : SwapSide::kOriginal;
  return result;
}

// --- Preparing

// The same name in each run, so that one that was killed is gone on with, unless that was long ago.
absl::StatusOr<VolumeSwap::SafetySnapshot> VolumeSwap::FindSafetySnapshot() {
  SafetySnapshot safety;
  for (int i = 1; i <= kSafetyNamesMax; ++i) {
    safety.name = snapshots::FitName(SafetySnapshotName(*state_.pvc, *target_.snapshot),
                                     i == 1 ? "" : absl::StrCat("-", i));
    ASSIGN_OR_RETURN(const auto there, objects::Find<VolumeSnapshot>(
                                           ctx_, api_, target_.namespace_name, safety.name));
    if (!there.has_value()) {
      return safety;
    }
    const VolumeSnapshot& snapshot = *there;
    const auto made = snapshot.created_at();
    const bool is_young = made.has_value() && ctx_.clock->Now() - *made < kSafetyAgeMax;
    if (is_young && !snapshot.is_being_deleted()) {
      safety.is_taken = snapshot.Label(objects::kMadeByLabel) == objects::kMadeByVerbs &&
                        snapshot.source_pvc() == target_.pvc_name &&
                        (snapshot.is_ready() || snapshot.taken_at().has_value());
      return safety;
    }
  }
  return safety;
}

absl::StatusOr<std::string> VolumeSwap::TakeSafetySnapshot() {
  ASSIGN_OR_RETURN(const SafetySnapshot safety, FindSafetySnapshot());
  if (!safety.is_taken) {
    RETURN_IF_ERROR(snapshots::TakeBeforeRestore(
        ctx_, api_, random_,
        {.source = {.pvc = *state_.pvc},
         .name = safety.name,
         .may_join = true,
         .note = absl::StrCat("before the restore of ", target_.snapshot_name),
         .timeout = ctx_.TimeLeft()},
        result_.not_checked));
  }
  result_.safety_snapshot = safety.name;
  return absl::StrCat("VolumeSnapshot ", target_.namespace_name, "/", safety.name, " of ",
                      PvcText(), " is taken, for safety");
}

absl::StatusOr<std::string> VolumeSwap::MakeTemporary() {
  CSIDELTA_CHECK(plan_.has_value() && state_.pvc.has_value());
  const PersistentVolumeClaim& pvc = *state_.pvc;
  const snapshots::PlannedPvc planned = {.namespace_name = target_.namespace_name,
                                         .name = plan_->temporary_pvc,
                                         .storage_class = plan_->storage_class,
                                         .size_bytes = plan_->size_bytes,
                                         .mode = pvc.mode(),
                                         .access_modes = pvc.access_modes()};
  PersistentVolumeClaim object = snapshots::MakePvcObject(
      planned, target_.snapshot_name,
      {{objects::kInPlaceLabel, RestoreLabelValue(target_.namespace_name, target_.pvc_name)},
       {objects::kExcludeFromBackupLabel, "true"}});
  object.SetAnnotation(objects::kInPlaceRecordAnnotation,
                       objects::FormatTemporaryRecord({.pvc_uid = pvc.uid(),
                                                       .snapshot = target_.snapshot_name,
                                                       .snapshot_uid = target_.snapshot->uid()}));
  if (!plan_->node.empty()) {
    object.SetAnnotation(objects::kSelectedNodeAnnotation, plan_->node);
  }
  // A volume of another attributes class cannot be the PVC's.
  if (const std::optional<std::string> attributes = pvc.attributes_class();
      attributes.has_value()) {
    object.SetAttributesClass(*attributes);
  }
  const absl::Status made = objects::Create(ctx_, api_, object).status();
  if (absl::IsAlreadyExists(made)) {
    return absl::AbortedError(made.message());  // Another run was quicker: the next read shows it.
  }
  RETURN_IF_ERROR(
      WithAdvice(made, absl::StrCat(PvcText(), " is as it was; the temporary PVC ", planned.name,
                                    " is needed in addition for a moment")));
  return absl::StrCat("PVC ", target_.namespace_name, "/", planned.name,
                      " is being made of VolumeSnapshot ", target_.snapshot_name);
}

absl::StatusOr<std::string> VolumeSwap::AwaitTemporary() {
  std::vector<std::string> notes;
  const absl::StatusOr<snapshots::AwaitedPvc> awaited = snapshots::AwaitPvc(
      ctx_, api_, *state_.temporary,
      {.source = *target_.snapshot, .driver = plan_->driver, .stays = false, .has_no_pod = true},
      notes);
  for (std::string& note : notes) {
    if (std::find(result_.not_checked.begin(), result_.not_checked.end(), note) ==
        result_.not_checked.end()) {
      result_.not_checked.push_back(std::move(note));
    }
  }
  const std::string advice = absl::StrCat(PvcText(), " is as it was; ",
                                          SwapCommand(target_, "--undo removes what was made"));
  RETURN_IF_ERROR(WithAdvice(awaited.status(), advice));
  if (awaited->state != snapshots::PvcState::kBound) {
    return absl::FailedPreconditionError(absl::StrCat("PVC ", state_.temporary->name(),
                                                      " gets no volume until a Pod uses it: its ",
                                                      "StorageClass waits for that; ", advice));
  }
  return "";
}

absl::Status VolumeSwap::PatchVolume(const PersistentVolume& volume, objects::Patch patch) {
  patch.IfUid(volume.uid()).IfVersion(volume.resource_version());
  return objects::Apply(ctx_, api_, volume.key(), patch);
}

absl::Status VolumeSwap::WriteRecord(const PersistentVolume& volume, const SwapRecord& record,
                                     absl::string_view policy) {
  return PatchVolume(volume,
                     objects::Patch()
                         .SetLabel(objects::kInPlaceLabel,
                                   RestoreLabelValue(target_.namespace_name, target_.pvc_name))
                         .SetAnnotation(objects::kInPlaceRecordAnnotation, FormatSwapRecord(record))
                         .SetReclaimPolicy(policy));
}

absl::StatusOr<std::string> VolumeSwap::RecordRestored() {
  const std::optional<PersistentVolume>& volume = state_.temporary_volume;
  if (state_.restored.has_value()) {
    RETURN_IF_ERROR(WriteRecord(state_.restored->volume, state_.restored->record, "Retain"));
    return "";
  }
  if (!volume.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("PersistentVolume ", state_.temporary->volume_name(), " of PVC ",
                     state_.temporary->name(), " does not exist, or is another's; ",
                     SwapCommand(target_, "--undo removes what was made")));
  }
  if (volume->capacity_bytes().value_or(0) < state_.pvc->requested_bytes().value_or(0)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "PersistentVolume ", volume->name(), " made of the VolumeSnapshot is smaller than ",
        PvcText(), " requests; ", SwapCommand(target_, "--undo removes what was made")));
  }
  // Also for a run that goes on after one that was killed: bound is not filled.
  RETURN_IF_ERROR(AwaitTemporary().status());
  RETURN_IF_ERROR(WriteRecord(*volume,
                              {.side = SwapSide::kRestored,
                               .namespace_name = target_.namespace_name,
                               .pvc = target_.pvc_name,
                               .snapshot = target_.snapshot_name,
                               .snapshot_uid = target_.snapshot->uid(),
                               .policy = volume->reclaim_policy(),
                               .peer = state_.pvc->volume_name()},
                              "Retain"));
  return absl::StrCat("volume ", volume->name(), " holds VolumeSnapshot ", target_.snapshot_name);
}

absl::StatusOr<std::string> VolumeSwap::RecordOriginal() {
  CSIDELTA_CHECK(state_.pvc.has_value());
  ASSIGN_OR_RETURN(const auto volume,
                   objects::Get<PersistentVolume>(ctx_, api_, "", state_.pvc->volume_name()));
  if (volume.pvc_uid() != state_.pvc->uid() || volume.is_being_deleted()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "PersistentVolume ", volume.name(), " of ", PvcText(), " is another's, or being deleted; ",
        SwapCommand(target_, "--undo removes what was made")));
  }
  const SwapRecord record = {.side = SwapSide::kOriginal,
                             .namespace_name = target_.namespace_name,
                             .pvc = target_.pvc_name,
                             .snapshot = target_.snapshot_name,
                             .snapshot_uid = target_.snapshot->uid(),
                             .policy = volume.reclaim_policy(),
                             .peer = state_.restored->volume.name(),
                             .goal = SwapSide::kRestored,
                             .at = ctx_.clock->Now(),
                             .pvc_uid = state_.pvc->uid(),
                             .safety = result_.safety_snapshot,
                             .claim = ClaimToMake(*state_.pvc, "")};
  RETURN_IF_ERROR(WriteRecord(volume, record, "Retain"));
  return absl::StrCat("volume ", volume.name(), " of ", PvcText(), " is kept, whatever happens");
}

// --- Exchanging

absl::StatusOr<std::string> VolumeSwap::TurnBack() {
  CSIDELTA_CHECK(state_.original.has_value());
  SwapRecord record = state_.original->record;
  record.goal = SwapSide::kOriginal;
  // Later changes to the PVC, such as a label of an application, must not be lost by the undo.
  if (state_.has_restored() && !state_.pvc->is_being_deleted()) {
    record.claim = ClaimToMake(*state_.pvc, "");
  }
  RETURN_IF_ERROR(WriteRecord(state_.original->volume, record, "Retain"));
  return absl::StrCat("volume ", state_.original->volume.name(), " is to be the one of ", PvcText(),
                      " again");
}

absl::StatusOr<std::string> VolumeSwap::Retain() {
  const SwapVolume& other = *other_volume();
  RETURN_IF_ERROR(WriteRecord(other.volume, other.record, "Retain"));
  return absl::StrCat("volume ", other.volume.name(), " of ", PvcText(),
                      " is kept, whatever happens");
}

absl::StatusOr<std::string> VolumeSwap::RemoveTemporary() {
  const PersistentVolumeClaim& pvc = *state_.temporary;
  RETURN_IF_ERROR(k8s::IgnoreNotFound(api_.Delete(
      ctx_, pvc.key(), {.uid = pvc.uid(), .resource_version = pvc.resource_version()})));
  return absl::StrCat("PVC ", pvc.namespace_name(), "/", pvc.name(), " is deleted");
}

absl::StatusOr<std::string> VolumeSwap::AwaitTemporaryGone() {
  return AwaitGone(*state_.temporary);
}

absl::StatusOr<std::string> VolumeSwap::AwaitPvcGone() { return AwaitGone(*state_.pvc); }

absl::Status VolumeSwap::CheckNoPodUses(absl::string_view pvc_name, absl::string_view consequence) {
  ASSIGN_OR_RETURN(const std::string use, ReadUse(ctx_, api_, target_.namespace_name, pvc_name));
  return use.empty() ? absl::OkStatus()
                     : absl::FailedPreconditionError(absl::StrCat(
                           "PVC ", target_.namespace_name, "/", pvc_name, ": ", consequence, ": ",
                           use, ", then run the same command again"));
}

absl::StatusOr<std::string> VolumeSwap::RemovePvc() {
  CSIDELTA_CHECK(state_.original.has_value());  // Its record has the PVC, to make it again.
  RETURN_IF_ERROR(CheckNoPodUses(target_.pvc_name,
                                 "a Pod has started meanwhile, and nothing was "
                                 "exchanged"));
  const PersistentVolumeClaim& pvc = *state_.pvc;
  // The precondition on resourceVersion makes this check of its record hold until the deletion.
  RETURN_IF_ERROR(CheckNotWrittenByMover(ctx_, api_, pvc));
  RETURN_IF_ERROR(k8s::IgnoreNotFound(api_.Delete(
      ctx_, pvc.key(), {.uid = pvc.uid(), .resource_version = pvc.resource_version()})));
  return absl::StrCat(PvcText(), " is deleted, to be made again; its volume ", pvc.volume_name(),
                      " is kept");
}

// A Pod that started between the read and the deletion blocks it: Kubernetes deletes the PVC only
// after the Pod.
absl::StatusOr<std::string> VolumeSwap::AwaitGone(const PersistentVolumeClaim& pvc) {
  const k8s::ObjectKey key = pvc.key();
  while (true) {
    const absl::Status gone = objects::WaitFor<PersistentVolumeClaim>(
        ctx_.WithTimeout(kDeletionSlice), api_, key,
        [&](const PersistentVolumeClaim* now) -> absl::StatusOr<bool> {
          return now == nullptr || now->uid() != pvc.uid();
        });
    if (gone.ok()) {
      return "";
    }
    if (!absl::IsDeadlineExceeded(gone)) {
      return gone;
    }
    if (const absl::Status over = ctx_.Check(); !over.ok()) {
      const std::vector<std::string> holders = ForeignFinalizers(pvc);
      return absl::Status(
          over.code(),
          absl::StrCat(
              "PVC ", pvc.namespace_name(), "/", pvc.name(), " is being deleted, and not gone yet",
              holders.empty() ? ""
                              : absl::StrCat(": what set its finalizers has to remove them (",
                                             absl::StrJoin(holders, ", "), ")"),
              "; its volume is kept; run the same command again to go on"));
    }
    RETURN_IF_ERROR(CheckNoPodUses(
        pvc.name(),
        "it is being deleted, and a Pod that has started meanwhile holds it; nothing "
        "is lost, its volume is kept"));
  }
}

absl::StatusOr<std::string> VolumeSwap::Reserve() {
  const PersistentVolume& volume = target_volume().volume;
  RETURN_IF_ERROR(
      PatchVolume(volume, objects::Patch().SetPvc(target_.namespace_name, target_.pvc_name, "")));
  return absl::StrCat("volume ", volume.name(), " is reserved for ", PvcText());
}

std::string VolumeSwap::mark() const {
  const SwapVolume* const other = other_volume();
  return other == nullptr ? target_volume().record.peer : other->volume.name();
}

absl::Status VolumeSwap::PatchPvc(objects::Patch patch) {
  return objects::Apply(ctx_, api_,
                        PersistentVolumeClaim::Key(target_.namespace_name, target_.pvc_name),
                        patch.IfUid(state_.pvc->uid()));
}

absl::StatusOr<std::string> VolumeSwap::MakePvc() {
  CSIDELTA_CHECK(state_.original.has_value() && !state_.pvc.has_value());
  const std::string volume = target_volume().volume.name();
  PersistentVolumeClaim object = ClaimToMake(*state_.original->record.claim, volume);
  object.SetAnnotation(objects::kInPlaceRecordAnnotation, mark());
  const absl::Status made = objects::Create(ctx_, api_, object).status();
  // Another run or another program was quicker: the next read shows which.
  if (absl::IsAlreadyExists(made)) {
    return absl::AbortedError(made.message());
  }
  RETURN_IF_ERROR(
      WithAdvice(made, absl::StrCat(PvcText(),
                                    " does not exist now, and its volumes are kept; run the same "
                                    "command again")));
  return absl::StrCat(PvcText(), " is made again, with volume ", volume);
}

absl::StatusOr<std::string> VolumeSwap::MarkPvc() {
  RETURN_IF_ERROR(
      PatchPvc(objects::Patch().SetAnnotation(objects::kInPlaceRecordAnnotation, mark())));
  return absl::StrCat(PvcText(), " keeps its volume ", state_.pvc->volume_name());
}

absl::StatusOr<std::string> VolumeSwap::AwaitPvc() {
  const std::string uid = state_.pvc->uid();
  const absl::Status bound = objects::WaitFor<PersistentVolumeClaim>(
      ctx_, api_, PersistentVolumeClaim::Key(target_.namespace_name, target_.pvc_name),
      [&](const PersistentVolumeClaim* now) -> absl::StatusOr<bool> {
        if (now == nullptr || now->uid() != uid) {
          return absl::AbortedError(absl::StrCat(PvcText(), " was deleted by another client"));
        }
        return now->is_bound();
      });
  RETURN_IF_ERROR(WithAdvice(bound, "run the same command again to go on"));
  return "";
}

absl::StatusOr<std::string> VolumeSwap::ReturnPolicy() {
  const SwapVolume& one = in_use();
  RETURN_IF_ERROR(WriteRecord(one.volume, one.record, one.record.policy));
  return absl::StrCat("volume ", one.volume.name(), " has its reclaim policy ", one.record.policy,
                      " again");
}

// --- Taking back, finishing

absl::StatusOr<std::string> VolumeSwap::Abandon() {
  const PersistentVolume& volume =
      state_.restored.has_value() ? state_.restored->volume : *state_.temporary_volume;
  RETURN_IF_ERROR(PatchVolume(volume, WithoutRecord().SetReclaimPolicy("Delete")));
  return absl::StrCat("volume ", volume.name(), ", made of the VolumeSnapshot, is deleted");
}

absl::StatusOr<std::string> VolumeSwap::Release() {
  CSIDELTA_CHECK(other_volume() != nullptr);
  const SwapVolume& other = *other_volume();
  RETURN_IF_ERROR(CheckMayDeleteUnused(ctx_, api_, state_));
  objects::Patch patch = objects::Patch().SetReclaimPolicy("Delete");
  if (other.volume.pvc_uid().empty()) {
    // A volume that is reserved for the name of the PVC is not Released, and would never be
    // deleted.
    patch.SetPvcUid(kNoPvcUid);
  }
  RETURN_IF_ERROR(PatchVolume(other.volume, std::move(patch)));
  return absl::StrCat("volume ", other.volume.name(), " is being deleted by its driver");
}

absl::StatusOr<std::string> VolumeSwap::AwaitVolumeGone() {
  const PersistentVolume& volume = other_volume()->volume;
  const k8s::ObjectKey key = volume.key();
  const auto is_gone = [&](const PersistentVolume* now) -> absl::StatusOr<bool> {
    return now == nullptr || now->uid() != volume.uid();
  };
  absl::Status gone = absl::OkStatus();
  if (!volume.is_provisioned() && !volume.is_being_deleted()) {
    // Made by hand: there may be no provisioner that deletes it. Then the object goes, and what it
    // stood for stays.
    gone = objects::WaitFor<PersistentVolume>(ctx_.WithTimeout(kUnprovisionedWait), api_, key,
                                              is_gone);
    if (absl::IsDeadlineExceeded(gone) && ctx_.Check().ok()) {
      RETURN_IF_ERROR(k8s::IgnoreNotFound(api_.Delete(ctx_, key, {.uid = volume.uid()})));
      result_.kept_handles.push_back(volume.handle());
      gone = objects::WaitFor<PersistentVolume>(ctx_, api_, key, is_gone);
    }
  } else {
    gone = objects::WaitFor<PersistentVolume>(ctx_, api_, key, is_gone);
  }
  RETURN_IF_ERROR(WithAdvice(
      gone,
      absl::StrCat("volume ", volume.name(), " is still there: kubectl describe pv ", volume.name(),
                   " shows what its driver reports; run the same command again to go on")));
  return result_.kept_handles.empty()
             ? absl::StrCat("volume ", volume.name(), " is deleted")
             : absl::StrCat("PersistentVolume ", volume.name(),
                            " is deleted; no provisioner made it or deletes it, so its driver ",
                            volume.driver(), " keeps volume ", volume.handle());
}

absl::StatusOr<std::string> VolumeSwap::CleanPvc() {
  RETURN_IF_ERROR(PatchPvc(objects::Patch().RemoveAnnotation(objects::kInPlaceRecordAnnotation)));
  return absl::StrCat(PvcText(), " has no mark of the restore any more");
}

absl::StatusOr<std::string> VolumeSwap::CleanVolume() {
  const PersistentVolume& volume = in_use().volume;
  RETURN_IF_ERROR(PatchVolume(volume, WithoutRecord()));
  return absl::StrCat("volume ", volume.name(), " has no record of the restore any more");
}

}  // namespace csidelta::inplace
