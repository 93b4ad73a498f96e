#include "snapshots/promotion.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/quantity.h"
#include "base/status_macros.h"
#include "csi/driver_error.h"
#include "csi/expose/claim_provisioning.h"
#include "csi/population.h"
#include "csi/retry.h"
#include "k8s/object.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/storage_class.h"

namespace csidelta::snapshots {
namespace {

using objects::PersistentVolumeClaim;
using objects::StorageClass;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

// Newer provisioners hold a VolumeSnapshot while they fill a PVC from it, and finish that.
bool IsBeingFilledFrom(const VolumeSnapshot& snapshot) {
  return snapshot.HasFinalizer(objects::kProvisionerSourceProtectionFinalizer);
}

// Reads what the check wants to know of each target.
class PromotionPlanner {
 public:
  PromotionPlanner(const CallContext& ctx, k8s::ApiClient& api, const PromotionRequest& request)
      : ctx_(ctx), api_(api), request_(request) {}

  absl::StatusOr<PromotionPlan> Plan();

 private:
  struct ReadContent {
    csi::ContentReading::Kind kind = csi::ContentReading::Kind::kUnknown;
    std::optional<VolumeSnapshotContent> content = {};
    bool is_handle_gone = false;
  };

  // Nothing, and a note, of what may not be read, unless all must be checked.
  template <typename T>
  absl::StatusOr<std::optional<T>> OrUnread(absl::StatusOr<T> read, absl::string_view what) {
    if (absl::IsPermissionDenied(read.status()) && !request_.must_check_all) {
      AddUnread(what, read.status());
      return std::optional<T>();
    }
    RETURN_IF_ERROR(read.status());
    return std::optional<T>(*std::move(read));
  }

  absl::Status ReadLabels();
  absl::StatusOr<ReadContent> ReadContentOf(const VolumeSnapshot& snapshot);

  // Without it there are other defaults.
  absl::StatusOr<std::optional<PersistentVolumeClaim>> ReadSource(const VolumeSnapshot& snapshot);
  absl::StatusOr<std::optional<PersistentVolumeClaim>> ReadTaken(const PvcOptions& options);
  absl::StatusOr<Promotion> PlanOne(const PromotionTarget& target);
  bool WaitsForConsumer(const std::string& storage_class) const;
  static void RefuseSecondOfName(const std::vector<Promotion>& earlier, Promotion& promotion);

  // Once for each kind of thing: of a set of many the first answer says it.
  void AddUnread(absl::string_view what, const absl::Status& status);

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const PromotionRequest& request_;
  std::map<std::string, std::string> labels_;
  std::optional<std::vector<StorageClass>> classes_;
  std::vector<std::string> not_checked_;
};

absl::StatusOr<PromotionPlan> PromotionPlanner::Plan() {
  RETURN_IF_ERROR(ReadLabels());
  ASSIGN_OR_RETURN(
      classes_, OrUnread(objects::List<StorageClass>(ctx_, api_, ""), "StorageClass not checked"));
  PromotionPlan plan;
  plan.promotions.reserve(request_.targets.size());
  for (const PromotionTarget& target : request_.targets) {
    ASSIGN_OR_RETURN(Promotion promotion, PlanOne(target));
    RefuseSecondOfName(plan.promotions, promotion);
    plan.promotions.push_back(std::move(promotion));
  }
  plan.not_checked = std::move(not_checked_);
  return plan;
}

absl::Status PromotionPlanner::ReadLabels() {
  if (request_.labels_of.empty()) {
    return absl::OkStatus();
  }
  const std::string space = request_.targets.front().options.namespace_name;
  ASSIGN_OR_RETURN(const auto pvc,
                   objects::Find<PersistentVolumeClaim>(ctx_, api_, space, request_.labels_of));
  if (!pvc.has_value()) {
    return absl::NotFoundError(absl::StrCat(csi::PvcText(space, request_.labels_of),
                                            ", whose labels were asked for, does not exist"));
  }
  labels_ = pvc->labels();
  return absl::OkStatus();
}

absl::StatusOr<PromotionPlanner::ReadContent> PromotionPlanner::ReadContentOf(
    const VolumeSnapshot& snapshot) {
  if (snapshot.bound_content().empty()) {
    return ReadContent();
  }
  ASSIGN_OR_RETURN(auto found, OrUnread(objects::Find<VolumeSnapshotContent>(
                                            ctx_, api_, "", snapshot.bound_content()),
                                        "binding not checked"));
  if (!found.has_value()) {
    return ReadContent();
  }
  if (!found->has_value()) {
    return ReadContent{.kind = csi::ContentReading::Kind::kGone};
  }
  ASSIGN_OR_RETURN(
      const bool is_gone,
      csi::PopulationReader(ctx_, api_).IsHandleGone((*found)->driver(), (*found)->handle()));
  return ReadContent{.kind = csi::ContentReading::Kind::kPresent,
                     .content = *std::move(found),
                     .is_handle_gone = is_gone};
}

absl::StatusOr<std::optional<PersistentVolumeClaim>> PromotionPlanner::ReadSource(
    const VolumeSnapshot& snapshot) {
  if (snapshot.source_pvc().empty()) {
    return std::optional<PersistentVolumeClaim>();
  }
  auto pvc = objects::Find<PersistentVolumeClaim>(ctx_, api_, snapshot.namespace_name(),
                                                  snapshot.source_pvc());
  if (absl::IsPermissionDenied(pvc.status())) {
    AddUnread("defaults of the source PVC not read", pvc.status());
    return std::optional<PersistentVolumeClaim>();
  }
  return pvc;
}

absl::StatusOr<std::optional<PersistentVolumeClaim>> PromotionPlanner::ReadTaken(
    const PvcOptions& options) {
  if (!k8s::IsObjectName(options.name)) {
    return std::optional<PersistentVolumeClaim>();  // The check says so.
  }
  ASSIGN_OR_RETURN(auto pvc, OrUnread(objects::Find<PersistentVolumeClaim>(
                                          ctx_, api_, options.namespace_name, options.name),
                                      "whether the name is free not checked"));
  return std::move(pvc).value_or(std::nullopt);
}

absl::StatusOr<Promotion> PromotionPlanner::PlanOne(const PromotionTarget& target) {
  ASSIGN_OR_RETURN(ReadContent read, ReadContentOf(target.snapshot));
  ASSIGN_OR_RETURN(const std::optional<PersistentVolumeClaim> source, ReadSource(target.snapshot));
  ASSIGN_OR_RETURN(std::optional<PersistentVolumeClaim> taken_by, ReadTaken(target.options));
  const PromotionSurroundings around = {
      .content = {.kind = read.kind,
                  .content = read.content.has_value() ? &*read.content : nullptr,
                  .is_handle_gone = read.is_handle_gone},
      .source_pvc = source.has_value() ? &*source : nullptr,
      .storage_classes = classes_.has_value() ? &*classes_ : nullptr,
      .taken_by = taken_by.has_value() ? &*taken_by : nullptr,
      .must_prove_binding = request_.must_check_all};
  PlannedPvc pvc = PlanPvc(target.snapshot, target.options, around);
  std::vector<Finding> refusals = CheckPromotion(target.snapshot, pvc, around);
  const bool waits = WaitsForConsumer(pvc.storage_class);
  return Promotion{.snapshot = target.snapshot,
                   .content = std::move(read.content),
                   .pvc = std::move(pvc),
                   .labels = labels_,
                   .waits_for_first_consumer = waits,
                   .taken_by = std::move(taken_by),
                   .refusals = std::move(refusals)};
}

bool PromotionPlanner::WaitsForConsumer(const std::string& storage_class) const {
  const StorageClass* const found =
      classes_.has_value() ? objects::OfName(*classes_, storage_class) : nullptr;
  return found != nullptr && found->waits_for_first_consumer();
}

void PromotionPlanner::RefuseSecondOfName(const std::vector<Promotion>& earlier,
                                          Promotion& promotion) {
  for (const Promotion& one : earlier) {
    if (one.pvc.name == promotion.pvc.name) {
      promotion.refusals.push_back(
          {kNameTakenCode,
           absl::StrCat("PVC ", one.pvc.name, " would be made of VolumeSnapshot ",
                        one.snapshot.name(), " as well; make one of them by its own name")});
    }
  }
}

void PromotionPlanner::AddUnread(absl::string_view what, const absl::Status& status) {
  const bool is_noted =
      std::any_of(not_checked_.begin(), not_checked_.end(),
                  [&](absl::string_view note) { return note.substr(0, what.size()) == what; });
  if (!is_noted) {
    not_checked_.push_back(absl::StrCat(what, ": ", status.message()));
  }
}

// --- Making

absl::StatusOr<PersistentVolumeClaim> MakePvc(const CallContext& ctx, k8s::ApiClient& api,
                                              const Promotion& promotion) {
  const PlannedPvc& pvc = promotion.pvc;
  absl::StatusOr<PersistentVolumeClaim> made =
      objects::Create(ctx, api, MakePvcObject(pvc, promotion.snapshot.name(), promotion.labels));
  const std::string text = csi::PvcText(pvc.namespace_name, pvc.name);
  if (absl::IsAlreadyExists(made.status())) {
    return absl::AlreadyExistsError(
        absl::StrCat(text, " was made by another client in the meantime; give another name"));
  }
  if (IsRetryable(made.status()) || absl::IsDeadlineExceeded(made.status())) {
    return csi::WithMore(made.status(),
                         absl::StrCat("; whether ", text, " was made is not known: look at it"));
  }
  RETURN_IF_ERROR(Annotate(made.status(), text));
  return made;
}

// Deletes the PVCs that MakePvcs() has made so far, after `status`.
absl::Status UndoPvcs(const CallContext& ctx, k8s::ApiClient& api,
                      const std::vector<PersistentVolumeClaim>& made, const absl::Status& status) {
  CSIDELTA_CHECK(!status.ok());  // Else it would delete PVCs that were made successfully.
  std::vector<std::string> left;
  for (const PersistentVolumeClaim& pvc : made) {
    if (!RemovePvc(csi::CleanUpContext(*ctx.clock), api, pvc).ok()) {
      left.push_back(csi::PvcText(pvc));
    }
  }
  if (!left.empty()) {
    return csi::WithMore(status, absl::StrCat("; left behind: ", absl::StrJoin(left, ", ")));
  }
  return made.empty() ? status : csi::WithMore(status, "; what was made before is removed again");
}

// --- Waiting

// Waits for one PVC by repeated reads.
class PvcWaiter {
 public:
  PvcWaiter(const CallContext& ctx, k8s::ApiClient& api, const PersistentVolumeClaim& pvc,
            const PvcWait& wait, std::vector<std::string>& not_checked)
      : ctx_(ctx), api_(api), pvc_(pvc), wait_(wait), not_checked_(not_checked) {}

  absl::StatusOr<AwaitedPvc> Run();

 private:
  // True if the PVC is bound before the next read.
  absl::StatusOr<bool> AwaitSlice();
  absl::StatusOr<csi::ProvisioningStatus> ReadProvisioning();
  absl::Status CheckProvisioning(const csi::ProvisioningStatus& provisioning);

  // A free volume that is there already is bound whatever the PVC is to be filled from.
  absl::Status CheckVolume();

  // A bound PVC may be one whose data is copied later, or never.
  absl::Status AwaitData();
  absl::StatusOr<csi::Population> ReadPopulation();
  absl::Status Late(const absl::Status& over, const csi::ProvisioningStatus& provisioning) const;

  std::string Text() const { return csi::PvcText(pvc_); }
  std::string RemovalHint() const;

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  PersistentVolumeClaim pvc_;
  const PvcWait& wait_;
  std::vector<std::string>& not_checked_;
  absl::Duration interval_ = kProvisioningLookIntervalMin;
  bool may_read_events_ = true;
  csi::ProvisioningStatus last_provisioning_;
};

absl::StatusOr<AwaitedPvc> PvcWaiter::Run() {
  bool waits_for_consumer = wait_.waits_for_first_consumer;
  while (true) {
    if (pvc_.is_bound()) {
      RETURN_IF_ERROR(CheckVolume());
      RETURN_IF_ERROR(AwaitData());
      return AwaitedPvc{.pvc = std::move(pvc_), .state = PvcState::kBound};
    }
    if (waits_for_consumer && pvc_.selected_node().empty()) {
      return AwaitedPvc{.pvc = std::move(pvc_), .state = PvcState::kWaitsForFirstConsumer};
    }
    ASSIGN_OR_RETURN(const bool is_bound, AwaitSlice());
    if (is_bound) {
      continue;
    }
    ASSIGN_OR_RETURN(const csi::ProvisioningStatus provisioning, ReadProvisioning());
    waits_for_consumer |= provisioning.waits_for_first_consumer;
    RETURN_IF_ERROR(CheckProvisioning(provisioning));
    if (wait_.on_look) {
      wait_.on_look(ToString(PvcState::kPending), provisioning.last_message);
    }
    if (const absl::Status over = ctx_.Check(); !over.ok()) {
      return Late(over, provisioning);
    }
  }
}

absl::StatusOr<bool> PvcWaiter::AwaitSlice() {
  const CallContext slice = ctx_.WithTimeout(interval_);
  interval_ = std::min(2 * interval_, kProvisioningLookIntervalMax);
  const std::string uid = pvc_.uid();
  const absl::Status status = objects::WaitFor<PersistentVolumeClaim>(
      slice, api_, pvc_.key(), [&](const PersistentVolumeClaim* now) -> absl::StatusOr<bool> {
        if (now == nullptr || now->uid() != uid) {
          return absl::NotFoundError(absl::StrCat(Text(), " was deleted by another client"));
        }
        pvc_ = *now;
        return pvc_.is_bound();
      });
  if (absl::IsDeadlineExceeded(status) || !ctx_.Check().ok()) {
    return false;
  }
  RETURN_IF_ERROR(status);
  return true;
}

absl::StatusOr<csi::ProvisioningStatus> PvcWaiter::ReadProvisioning() {
  if (!may_read_events_ || !ctx_.Check().ok()) {
    return last_provisioning_;
  }
  absl::StatusOr<csi::ProvisioningStatus> provisioning =
      csi::ReadProvisioningStatus(ctx_, api_, pvc_);
  if (absl::IsPermissionDenied(provisioning.status())) {
    may_read_events_ = false;
    not_checked_.push_back(
        absl::StrCat("what the provisioner says not read: ", provisioning.status().message()));
    return last_provisioning_;
  }
  if (IsRetryable(provisioning.status()) || absl::IsDeadlineExceeded(provisioning.status())) {
    return last_provisioning_;
  }
  RETURN_IF_ERROR(provisioning.status());
  last_provisioning_ = *provisioning;
  return provisioning;
}

absl::Status PvcWaiter::CheckProvisioning(const csi::ProvisioningStatus& provisioning) {
  if (csi::IsDefiniteRefusal(provisioning.last_failure)) {
    return absl::FailedPreconditionError(
        absl::StrCat(Text(), " is refused: ", provisioning.last_failure, RemovalHint()));
  }
  const absl::Status there =
      ctx_.Check().ok() ? CheckStillThere(ctx_, api_, wait_.source) : absl::OkStatus();
  if (absl::IsFailedPrecondition(there)) {
    return csi::WithMore(there,
                         absl::StrCat(", and ", Text(), " is not filled yet", RemovalHint()));
  }
  return absl::OkStatus();
}

absl::Status PvcWaiter::CheckVolume() {
  const absl::StatusOr<std::string> why = csi::WhyVolumeIsForeign(ctx_, api_, pvc_, wait_.driver);
  if (absl::IsPermissionDenied(why.status())) {
    not_checked_.push_back(
        absl::StrCat("whether its volume was made for it not checked: ", why.status().message()));
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(why.status());
  return why->empty() ? absl::OkStatus()
                      : absl::FailedPreconditionError(absl::StrCat(
                            Text(), " is bound, but does not hold the VolumeSnapshot: ", *why,
                            "; look at that volume before you delete the PVC"));
}

absl::StatusOr<csi::Population> PvcWaiter::ReadPopulation() {
  ASSIGN_OR_RETURN(csi::PopulatedVolume volume, csi::VolumeOf(ctx_, api_, pvc_));
  if (volume.driver.empty()) {
    volume.driver = wait_.driver;
  }
  return csi::PopulationReader(ctx_, api_).Read(volume);
}

absl::Status PvcWaiter::AwaitData() {
  constexpr char kKeep[] = "keep the VolumeSnapshot until then";
  std::string shown;
  while (true) {
    const absl::StatusOr<csi::Population> population = ReadPopulation();
    if (!population.ok() && !IsRetryable(population.status()) && ctx_.Check().ok()) {
      return population.status();
    }
    if (population.ok()) {
      shown = population->text;
      if (population->state == csi::PopulationState::kFilled) {
        return absl::OkStatus();
      }
      if (population->state == csi::PopulationState::kFailed) {
        return absl::FailedPreconditionError(
            absl::StrCat(Text(), " is bound, but its data could not be copied: ", shown,
                         "; the VolumeSnapshot is kept; delete the PVC and make it again"));
      }
      if (population->state == csi::PopulationState::kUnknown && wait_.has_no_pod) {
        not_checked_.push_back(absl::StrCat(Text(), " is bound; ", shown));
        return absl::OkStatus();
      }
      if (wait_.on_look) {
        wait_.on_look(ToString(PvcState::kBound), shown);
      }
    }
    const absl::Duration pause = interval_;
    interval_ = std::min(2 * interval_, kProvisioningLookIntervalMax);
    ctx_.clock->SleepFor(std::min(pause, ctx_.TimeLeft()), ctx_.stop);
    if (const absl::Status over = ctx_.Check(); !over.ok()) {
      return absl::Status(over.code(),
                          absl::StrCat(absl::IsCancelled(over) ? "interrupted: " : "", Text(),
                                       " is bound, but not filled yet: ", shown, "; ", kKeep));
    }
  }
}

absl::Status PvcWaiter::Late(const absl::Status& over,
                             const csi::ProvisioningStatus& provisioning) const {
  return absl::Status(
      over.code(),
      absl::StrCat(
          absl::IsCancelled(over) ? "interrupted: " : "", Text(), " is not bound yet",
          provisioning.last_failure.empty() ? "" : absl::StrCat(": ", provisioning.last_failure),
          wait_.stays ? "; it stays, and is bound when the provisioner has filled it" : ""));
}

std::string PvcWaiter::RemovalHint() const {
  return wait_.stays ? absl::StrCat("; remove it: kubectl delete pvc -n ", pvc_.namespace_name(),
                                    " ", pvc_.name())
                     : "";
}

}  // namespace

absl::string_view ToString(PvcState state) {
  constexpr std::array<absl::string_view, 4> kNames = {"Planned", "Pending", "Bound",
                                                       "WaitsForFirstConsumer"};
  return kNames[static_cast<std::size_t>(state)];
}

absl::StatusOr<std::vector<VolumeSnapshot>> SnapshotsOfSet(const CallContext& ctx,
                                                           k8s::ApiClient& api,
                                                           absl::string_view namespace_name,
                                                           absl::string_view set) {
  ASSIGN_OR_RETURN(auto snapshots,
                   objects::List<VolumeSnapshot>(
                       ctx, api, namespace_name,
                       {.label_selector = absl::StrCat(objects::kSnapshotSetLabel, "=", set)}));
  if (snapshots.empty()) {
    return absl::NotFoundError(absl::StrCat("no VolumeSnapshot of namespace ", namespace_name,
                                            " was taken under the name ", set,
                                            "; csi-delta snapshot list -o wide shows the sets"));
  }
  std::sort(snapshots.begin(), snapshots.end(),
            [](const VolumeSnapshot& left, const VolumeSnapshot& right) {
              return left.name() < right.name();
            });
  return snapshots;
}

absl::StatusOr<VolumeSnapshot> AwaitUsableSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                                   absl::string_view namespace_name,
                                                   absl::string_view name,
                                                   const WaitObserver& on_look) {
  std::optional<VolumeSnapshot> last;
  const auto is_settled = [&](const VolumeSnapshot* seen) -> absl::StatusOr<bool> {
    if (seen == nullptr) {
      return absl::NotFoundError(
          absl::StrCat("VolumeSnapshot ", namespace_name, "/", name, " does not exist"));
    }
    last = *seen;
    return csi::UsabilityOf(*seen, {}).kind != csi::Usability::Kind::kNotYet;
  };
  const k8s::ObjectKey key = VolumeSnapshot::Key(namespace_name, name);
  absl::Duration interval = kProvisioningLookIntervalMin;
  absl::Status status = absl::OkStatus();
  while (true) {
    // Time goes on where nothing changes: an observer sees that.
    status = objects::WaitFor<VolumeSnapshot>(on_look ? ctx.WithTimeout(interval) : ctx, api, key,
                                              is_settled);
    if (!on_look || !absl::IsDeadlineExceeded(status) || !ctx.Check().ok()) {
      break;
    }
    if (last.has_value()) {
      const csi::SnapshotStatus now = csi::StatusOf(*last, {});
      on_look(ToString(now.state), now.conditions.front().message);
    }
    interval = std::min(2 * interval, kProvisioningLookIntervalMax);
  }
  if (status.ok()) {
    return *std::move(last);
  }
  if (!ctx.Check().ok() && last.has_value()) {
    const csi::SnapshotStatus now = csi::StatusOf(*last, {});
    const std::string& message = now.conditions.front().message;
    return absl::Status(
        ctx.Check().code(),
        absl::StrCat(absl::IsCancelled(ctx.Check()) ? "interrupted: " : "", "VolumeSnapshot ",
                     namespace_name, "/", name, " is not ready yet: ", ToString(now.state),
                     message.empty() ? "" : absl::StrCat(": ", message)));
  }
  return status;
}

absl::StatusOr<PromotionPlan> PlanPromotions(const CallContext& ctx, k8s::ApiClient& api,
                                             const PromotionRequest& request) {
  CSIDELTA_CHECK(!request.targets.empty());
  return PromotionPlanner(ctx, api, request).Plan();
}

PersistentVolumeClaim MakePvcObject(const PlannedPvc& pvc, absl::string_view snapshot_name,
                                    const std::map<std::string, std::string>& labels) {
  PersistentVolumeClaim made = PersistentVolumeClaim::Make(pvc.namespace_name, pvc.name);
  made.SetLabels(labels);
  made.SetAccessModes(pvc.access_modes);
  made.SetStorageClass(pvc.storage_class);
  made.SetMode(pvc.mode);
  made.SetRequestedQuantity(FormatBinaryQuantity(pvc.size_bytes));
  made.SetSourceSnapshot(snapshot_name);
  return made;
}

absl::StatusOr<std::vector<PersistentVolumeClaim>> MakePvcs(const CallContext& ctx,
                                                            k8s::ApiClient& api,
                                                            const PromotionPlan& plan) {
  std::vector<PersistentVolumeClaim> made;
  made.reserve(plan.promotions.size());
  for (const Promotion& promotion : plan.promotions) {
    CSIDELTA_CHECK(promotion.refusals.empty());
    absl::StatusOr<PersistentVolumeClaim> pvc = MakePvc(ctx, api, promotion);
    if (!pvc.ok()) {
      return UndoPvcs(ctx, api, made, pvc.status());
    }
    made.push_back(*std::move(pvc));
  }
  for (const Promotion& promotion : plan.promotions) {
    const absl::Status there = CheckStillThere(ctx, api, promotion.snapshot);
    if (absl::IsFailedPrecondition(there)) {
      return UndoPvcs(ctx, api, made, there);
    }
  }
  return made;
}

absl::Status RemovePvc(const CallContext& ctx, k8s::ApiClient& api,
                       const PersistentVolumeClaim& pvc) {
  const k8s::ObjectKey key = pvc.key();
  return csi::RetryTransient(ctx, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto now, objects::Find<PersistentVolumeClaim>(ctx, api, key));
    if (!now.has_value() || now->uid() != pvc.uid()) {
      return absl::OkStatus();
    }
    if (now->is_bound()) {
      return absl::FailedPreconditionError(
          absl::StrCat(csi::PvcText(key.namespace_name, key.name), " is bound"));
    }
    return k8s::IgnoreNotFound(
        api.Delete(ctx, key, {.uid = now->uid(), .resource_version = now->resource_version()}));
  });
}

absl::Status CheckStillThere(const CallContext& ctx, k8s::ApiClient& api,
                             const VolumeSnapshot& snapshot) {
  ASSIGN_OR_RETURN(const auto found, objects::Find<VolumeSnapshot>(ctx, api, snapshot.key()));
  const std::string text = NameText(snapshot.key());
  if (!found.has_value() || found->uid() != snapshot.uid()) {
    return absl::FailedPreconditionError(absl::StrCat(text, " was deleted in the meantime"));
  }
  return found->is_being_deleted() && !IsBeingFilledFrom(*found)
             ? absl::FailedPreconditionError(absl::StrCat(text, " is being deleted"))
             : absl::OkStatus();
}

absl::StatusOr<AwaitedPvc> AwaitPvc(const CallContext& ctx, k8s::ApiClient& api,
                                    const PersistentVolumeClaim& pvc, const PvcWait& wait,
                                    std::vector<std::string>& not_checked) {
  return PvcWaiter(ctx, api, pvc, wait, not_checked).Run();
}

}  // namespace csidelta::snapshots
