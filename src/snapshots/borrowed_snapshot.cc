#include "snapshots/borrowed_snapshot.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/crypto.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "csi/snapshot_lifecycle.h"
#include "k8s/access_review.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "snapshots/snapshot_import.h"
#include "snapshots/static_pair.h"

namespace csidelta::snapshots {
namespace {

using objects::PersistentVolumeClaim;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

constexpr int kAttemptsMax = 20;  // VolumeSnapshots of one PVC that are being deleted

absl::Status CheckBorrowRights(const CallContext& ctx, k8s::ApiClient& api,
                               const BorrowRequest& request) {
  const std::string& here = request.options.namespace_name;
  return k8s::RequireAccess(
      ctx, api,
      {{{"get", VolumeSnapshot::Type(), request.source_namespace, request.snapshot_name},
        kSnapshotUserRole},
       {{"get", PersistentVolumeClaim::Type(), here}, kSnapshotUserRole},
       {{"create", PersistentVolumeClaim::Type(), here}, kSnapshotUserRole},
       {{"delete", PersistentVolumeClaim::Type(), here}, kSnapshotUserRole},
       {{"get", VolumeSnapshot::Type(), here}, kSnapshotUserRole},
       {{"create", VolumeSnapshot::Type(), here}, kSnapshotUserRole},
       {{"delete", VolumeSnapshot::Type(), here}, kSnapshotUserRole},
       {{"list", objects::StorageClass::Type()}, kSnapshotReaderRole},
       {{"get", VolumeSnapshotContent::Type()}, kSnapshotReaderRole},
       {{"create", VolumeSnapshotContent::Type()}, kSnapshotAdminRole},
       {{"patch", VolumeSnapshotContent::Type()}, kSnapshotAdminRole},
       {{"delete", VolumeSnapshotContent::Type()}, kSnapshotAdminRole}});
}

csi::StaticContent BorrowedPair(const VolumeSnapshot& source, const VolumeSnapshotContent& content,
                                const PlannedPvc& pvc, int attempt) {
  const std::string hash =
      Sha256Hex(absl::StrJoin({content.driver(), content.handle(), source.uid(), pvc.namespace_name,
                               pvc.name, absl::StrCat(attempt)},
                              "\n"));
  const std::string name = absl::StrCat("csi-delta-borrowed-", hash.substr(0, csi::kNameHashBytes));
  csi::StaticContent pair = csi::ContentBeside(content);
  pair.name = name;
  pair.snapshot_namespace = pvc.namespace_name;
  pair.snapshot_name = name;
  pair.mode = content.source_mode();
  if (content.allows_mode_change()) {
    pair.annotations[objects::kModeChangeAnnotation] = "true";
  }
  return pair;
}

// The pair that the PVC is filled from, where an earlier run made it. Else that of the first
// attempt whose VolumeSnapshot is not being deleted: after a PVC that was deleted before it was
// bound the provisioner holds it by a finalizer, for minutes.
absl::StatusOr<csi::StaticContent> ChoosePair(const CallContext& ctx, k8s::ApiClient& api,
                                              const Promotion& promotion) {
  const auto pair_of = [&](int attempt) {
    return BorrowedPair(promotion.snapshot, *promotion.content, promotion.pvc, attempt);
  };
  for (int attempt = 0; promotion.taken_by.has_value() && attempt < kAttemptsMax; ++attempt) {
    if (csi::StaticContent pair = pair_of(attempt);
        promotion.taken_by->source_snapshot() == pair.snapshot_name) {
      return pair;
    }
  }
  for (int attempt = 0;; ++attempt) {
    csi::StaticContent pair = pair_of(attempt);
    ASSIGN_OR_RETURN(const auto there, objects::Find<VolumeSnapshot>(
                                           ctx, api, pair.snapshot_namespace, pair.snapshot_name));
    if (!there.has_value() || !there->is_being_deleted() || attempt + 1 == kAttemptsMax) {
      return pair;
    }
  }
}

// One run of the second half, which removes after an error what it made.
class Borrower {
 public:
  Borrower(const CallContext& ctx, k8s::ApiClient& api, const BorrowPlan& plan,
           const WaitObserver& on_look)
      : ctx_(ctx),
        api_(api),
        plan_(plan),
        on_look_(on_look),
        promotion_(plan.plan.promotions.front()) {}

  absl::StatusOr<Borrowed> Run(std::vector<std::string>& not_checked) {
    absl::StatusOr<AwaitedPvc> awaited = MakeAndAwait(not_checked);
    if (!awaited.ok()) {
      return Undo(awaited.status());
    }
    Borrowed borrowed = {.pvc = *std::move(awaited), .removed = absl::OkStatus()};
    if (borrowed.pvc.state == PvcState::kBound) {
      borrowed.removed = RemovePair(csi::CleanUpContext(*ctx_.clock), api_, plan_.pair);
    }
    return borrowed;
  }

 private:
  absl::StatusOr<AwaitedPvc> MakeAndAwait(std::vector<std::string>& not_checked) {
    if (plan_.was_begun) {
      pvc_ = promotion_.taken_by;
    }
    if (pvc_.has_value() && pvc_->is_bound()) {
      return AwaitData(promotion_.snapshot, not_checked);
    }
    RETURN_IF_ERROR(MakePair(ctx_, api_, plan_.pair).status());
    ASSIGN_OR_RETURN(
        const VolumeSnapshot lent,
        AwaitUsableSnapshot(ctx_, api_, plan_.pair.snapshot_namespace, plan_.pair.snapshot_name));
    const csi::SnapshotStatus status = csi::StatusOf(lent, {});
    if (!csi::IsUsable(status.state)) {
      return absl::FailedPreconditionError(
          absl::StrCat("VolumeSnapshot ", lent.namespace_name(), "/", lent.name(), " is ",
                       ToString(status.state), ": ", status.conditions.front().message));
    }
    RETURN_IF_ERROR(CheckStillThere(ctx_, api_, promotion_.snapshot));
    if (!pvc_.has_value()) {
      RETURN_IF_ERROR(Make(lent));
    }
    return AwaitData(lent, not_checked);
  }

  absl::StatusOr<AwaitedPvc> AwaitData(const VolumeSnapshot& source,
                                       std::vector<std::string>& not_checked) {
    return AwaitPvc(ctx_, api_, *pvc_,
                    {.source = source,
                     .driver = plan_.pair.driver,
                     .waits_for_first_consumer = promotion_.waits_for_first_consumer,
                     .stays = false,
                     .on_look = on_look_},
                    not_checked);
  }

  absl::Status Make(const VolumeSnapshot& lent) {
    Promotion promotion = promotion_;
    promotion.snapshot = lent;
    PromotionPlan plan;
    plan.promotions.push_back(std::move(promotion));
    ASSIGN_OR_RETURN(const std::vector<PersistentVolumeClaim> made, MakePvcs(ctx_, api_, plan));
    pvc_ = made.front();
    return absl::OkStatus();
  }

  absl::Status Undo(const absl::Status& status) const {
    if ((plan_.was_begun || IsOwnPvcBound()) &&
        (absl::IsDeadlineExceeded(status) || absl::IsCancelled(status))) {
      return csi::WithMore(status, "; it stays as it was: run this again later");
    }
    const CallContext cleaning = csi::CleanUpContext(*ctx_.clock);
    std::vector<std::string> left;
    if (!RemoveOwnPvc(cleaning).ok()) {
      left.push_back(absl::StrCat("PVC ", promotion_.pvc.namespace_name, "/", promotion_.pvc.name));
    }
    if (!RemovePair(cleaning, api_, plan_.pair).ok()) {
      left.push_back(absl::StrCat("VolumeSnapshotContent ", plan_.pair.name));
      left.push_back(absl::StrCat("VolumeSnapshot ", plan_.pair.snapshot_namespace, "/",
                                  plan_.pair.snapshot_name));
    }
    return csi::WithMore(status, left.empty()
                                     ? "; what was made is deleted again"
                                     : absl::StrCat("; left behind: ", absl::StrJoin(left, ", ")));
  }

  // By what it is filled from: the answer to the request that made it may have been lost.
  absl::StatusOr<std::optional<PersistentVolumeClaim>> FindOwnPvc(const CallContext& ctx) const {
    ASSIGN_OR_RETURN(auto pvc, objects::Find<PersistentVolumeClaim>(
                                   ctx, api_, promotion_.pvc.namespace_name, promotion_.pvc.name));
    const bool is_own = pvc.has_value() && pvc->source_snapshot() == plan_.pair.snapshot_name;
    return is_own ? std::move(pvc) : std::nullopt;
  }

  // Then its data may still be copied, from what the pair protects.
  bool IsOwnPvcBound() const {
    const auto pvc = FindOwnPvc(csi::CleanUpContext(*ctx_.clock));
    return pvc.ok() && pvc->has_value() && (*pvc)->is_bound();
  }

  absl::Status RemoveOwnPvc(const CallContext& ctx) const {
    ASSIGN_OR_RETURN(const auto pvc, FindOwnPvc(ctx));
    return pvc.has_value() ? RemovePvc(ctx, api_, *pvc) : absl::OkStatus();
  }

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const BorrowPlan& plan_;
  const WaitObserver& on_look_;
  const Promotion& promotion_;
  std::optional<PersistentVolumeClaim> pvc_;
};

absl::StatusOr<VolumeSnapshot> ReadBorrowSource(const CallContext& ctx, k8s::ApiClient& api,
                                                const BorrowRequest& request) {
  if (request.awaits_source) {
    return AwaitUsableSnapshot(ctx, api, request.source_namespace, request.snapshot_name);
  }
  return objects::Get<VolumeSnapshot>(ctx, api, request.source_namespace, request.snapshot_name);
}

}  // namespace

absl::StatusOr<BorrowPlan> PlanBorrowing(const CallContext& ctx, k8s::ApiClient& api,
                                         const BorrowRequest& request) {
  if (request.source_namespace == request.options.namespace_name) {
    return absl::InvalidArgumentError(absl::StrCat("VolumeSnapshot ", request.snapshot_name,
                                                   " is in namespace ", request.source_namespace,
                                                   " already; leave out --from-namespace"));
  }
  RETURN_IF_ERROR(CheckBorrowRights(ctx, api, request));
  ASSIGN_OR_RETURN(VolumeSnapshot source, ReadBorrowSource(ctx, api, request));
  std::vector<PromotionTarget> targets;
  targets.push_back({.snapshot = std::move(source), .options = request.options});
  BorrowPlan plan;
  ASSIGN_OR_RETURN(plan.plan, PlanPromotions(ctx, api,
                                             {.targets = std::move(targets),
                                              .labels_of = request.labels_of,
                                              .must_check_all = true}));
  Promotion& promotion = plan.plan.promotions.front();
  if (!promotion.content.has_value()) {
    return plan;  // Which is refused.
  }
  ASSIGN_OR_RETURN(plan.pair, ChoosePair(ctx, api, promotion));
  plan.was_begun = promotion.taken_by.has_value() &&
                   promotion.taken_by->source_snapshot() == plan.pair.snapshot_name;
  if (plan.was_begun) {
    std::erase_if(promotion.refusals,
                  [](const Finding& refusal) { return refusal.code == kNameTakenCode; });
  }
  return plan;
}

absl::StatusOr<Borrowed> CarryOutBorrowing(const CallContext& ctx, k8s::ApiClient& api,
                                           const BorrowPlan& plan,
                                           std::vector<std::string>& not_checked,
                                           const WaitObserver& on_look) {
  CSIDELTA_CHECK(plan.plan.promotions.size() == 1);  // Of one VolumeSnapshot, and not refused.
  CSIDELTA_CHECK(plan.plan.promotions.front().refusals.empty());
  return Borrower(ctx, api, plan, on_look).Run(not_checked);
}

}  // namespace csidelta::snapshots
