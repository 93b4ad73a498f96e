#include "snapshots/snapshot_retention.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/snapshot_protection.h"
#include "snapshots/snapshot_prune.h"
#include "snapshots/snapshot_removal.h"

namespace csidelta::snapshots {

void RemoveByRule(const CallContext& ctx, k8s::ApiClient& api, const SnapshotEntry& entry,
                  const std::string& mover_namespace, Retention& retention) {
  const absl::StatusOr<Removal> removal = RemoveAsRead(ctx, api, entry,
                                                       {.requester = csi::Requester::kPrune,
                                                        .with_data = false,
                                                        .mover_namespace = mover_namespace});
  if (!removal.ok()) {
    retention.failures.push_back(absl::StrCat("VolumeSnapshot ", entry.name,
                                              " was not deleted: ", removal.status().message()));
    return;
  }
  if (removal->end == Removal::End::kKept) {
    return;  // Something needs it since it was read.
  }
  retention.deleted.push_back(entry);
  if (ActionOf(entry, /*with_data=*/false) != DataAction::kKept) {
    return;
  }
  const absl::Status removed = RemoveKeptContent(ctx.WithTimeout(kKeptContentWait), api, entry);
  if (!removed.ok()) {
    retention.failures.push_back(
        absl::StrCat("VolumeSnapshotContent ", entry.content, " of ", entry.name,
                     " stays, and must go before its handle can be imported: ", removed.message()));
  }
}

absl::StatusOr<RetentionPlan> PlanRetention(const CallContext& ctx, k8s::ApiClient& api,
                                            const RetentionRequest& request) {
  ASSIGN_OR_RETURN(Inventory inventory, ReadInventory(ctx, api,
                                                      {.namespace_name = request.namespace_name,
                                                       .label_selector = "",
                                                       .requires_all = true,
                                                       .mover_namespace = request.mover_namespace,
                                                       .now = ctx.clock->Now()}));
  RetentionPlan plan{.entries = std::move(inventory.entries), .decisions = {}};
  for (SnapshotEntry& entry : plan.entries) {
    entry.is_selected = request.pvcs.contains(entry.pvc);
  }
  PruneRequest prune{
      .rules = request.rules, .any_maker = request.any_maker, .now = ctx.clock->Now()};
  if (ConcernsBackups(plan.entries, request.any_maker)) {
    ASSIGN_OR_RETURN(prune.backups, ReadBackupNames(ctx, api));
  }
  plan.decisions = DecidePrune(plan.entries, prune);
  return plan;
}

absl::StatusOr<Retention> ApplyRules(const CallContext& ctx, k8s::ApiClient& api,
                                     const RetentionRequest& request) {
  ASSIGN_OR_RETURN(const RetentionPlan plan, PlanRetention(ctx, api, request));
  Retention retention;
  for (const PruneDecision& decision : plan.decisions) {
    if (decision.verdict == PruneVerdict::kRemoved) {
      RETURN_IF_ERROR(ctx.Check());
      RemoveByRule(ctx, api, plan.entries[decision.entry], request.mover_namespace, retention);
    }
  }
  return retention;
}

}  // namespace csidelta::snapshots
