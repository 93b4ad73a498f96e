#include "snapshots/snapshot_retention.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/snapshot_protection.h"
#include "snapshots/snapshot_removal.h"

namespace csidelta::snapshots {

void RemoveByRule(const CallContext& ctx, k8s::ApiClient& api, Unit unit,
                  const std::string& mover_namespace, Retention& retention) {
  const absl::StatusOr<Removal> removal = RemoveAsRead(ctx, api, unit,
                                                       {.requester = csi::Requester::kPrune,
                                                        .with_data = false,
                                                        .mover_namespace = mover_namespace});
  if (!removal.ok()) {
    retention.failures.push_back(
        absl::StrCat(unit.front().group.uid.empty() ? "VolumeSnapshot " : "", ShownName(unit),
                     " was not deleted: ", removal.status().message()));
    return;
  }
  if (removal->end == Removal::End::kKept) {
    return;  // Something needs it since it was read.
  }
  for (std::string& note : RemoveKeptContents(ctx.WithTimeout(kKeptContentWait), api, unit)) {
    retention.failures.push_back(std::move(note));
  }
  retention.deleted.push_back(std::move(unit));
}

absl::StatusOr<RetentionPlan> PlanRetention(const CallContext& ctx, k8s::ApiClient& api,
                                            const RetentionRequest& request) {
  ASSIGN_OR_RETURN(Inventory inventory, ReadInventory(ctx, api,
                                                      {.namespace_name = request.namespace_name,
                                                       .label_selector = request.label_selector,
                                                       .reads_others = true,
                                                       .requires_all = true,
                                                       .reads_groups = true,
                                                       .mover_namespace = request.mover_namespace,
                                                       .now = ctx.clock->Now()}));
  for (SnapshotEntry& entry : inventory.entries) {
    entry.is_selected = entry.is_selected && (request.all_pvcs || request.pvcs.contains(entry.pvc));
  }
  PruneRequest prune{
      .rules = request.rules, .any_maker = request.any_maker, .now = ctx.clock->Now()};
  if (ConcernsBackups(inventory.entries, request.any_maker)) {
    absl::StatusOr<std::set<std::string>> backups = ReadBackupNames(ctx, api);
    RETURN_IF_ERROR(Annotate(backups.status(), "Backups cannot be checked"));
    prune.backups = *std::move(backups);
  }
  RetentionPlan plan;
  for (PruneDecision& decision : DecidePrune(inventory.entries, prune)) {
    SnapshotEntry& entry = inventory.entries[decision.entry];
    plan.push_back({.decision = std::move(decision), .unit = {std::move(entry)}});
  }
  return JoinGroups<PlannedRetention>(std::move(plan),
                                      [](const PlannedRetention& one) { return one.goes(); });
}

absl::StatusOr<Retention> ApplyRules(const CallContext& ctx, k8s::ApiClient& api,
                                     const RetentionRequest& request) {
  ASSIGN_OR_RETURN(RetentionPlan plan, PlanRetention(ctx, api, request));
  Retention retention;
  for (PlannedRetention& one : plan) {
    if (one.goes()) {
      RETURN_IF_ERROR(ctx.Check());
      RemoveByRule(ctx, api, std::move(one.unit), request.mover_namespace, retention);
    }
  }
  return retention;
}

}  // namespace csidelta::snapshots
