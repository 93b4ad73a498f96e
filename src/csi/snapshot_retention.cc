#include "csi/snapshot_retention.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/snapshot_protection.h"
#include "csi/snapshot_prune.h"
#include "csi/snapshot_removal.h"

namespace csidelta::csi {
namespace {

// Deletes one, and its content where the driver keeps the data.
void RemoveOne(const CallContext& ctx, k8s::ApiClient& api, const SnapshotEntry& entry,
               const std::string& mover_namespace, Retention& retention) {
  const absl::StatusOr<Removal> removal = RemoveAsRead(
      ctx, api, entry,
      {.requester = Requester::kPrune, .with_data = false, .mover_namespace = mover_namespace});
  if (!removal.ok()) {
    retention.failures.push_back(absl::StrCat("VolumeSnapshot ", entry.name,
                                              " was not deleted: ", removal.status().message()));
    return;
  }
  if (removal->end == Removal::End::kKept) {
    return;  // Something needs it since it was read.
  }
  retention.deleted.push_back(entry);
  if (FateOf(entry, /*with_data=*/false) != DataFate::kKept) {
    return;
  }
  const absl::Status removed = RemoveKeptContent(ctx.WithTimeout(kKeptContentWait), api, entry);
  if (!removed.ok()) {
    retention.failures.push_back(
        absl::StrCat("VolumeSnapshotContent ", entry.content, " of ", entry.name,
                     " stays, and must go before its handle can be imported: ", removed.message()));
  }
}

}  // namespace

absl::StatusOr<Retention> KeepLast(const CallContext& ctx, k8s::ApiClient& api,
                                   const RetentionRequest& request) {
  ASSIGN_OR_RETURN(Inventory inventory, ReadInventory(ctx, api,
                                                      {.namespace_name = request.namespace_name,
                                                       .label_selector = "",
                                                       .requires_all = true,
                                                       .mover_namespace = request.mover_namespace,
                                                       .now = ctx.clock->Now()}));
  for (SnapshotEntry& entry : inventory.entries) {
    entry.is_selected = request.pvcs.contains(entry.pvc);
  }
  PruneRequest prune{.rules = {}, .any_maker = false, .now = ctx.clock->Now()};
  prune.rules.last = request.last;
  if (ConcernsBackups(inventory.entries, /*any_maker=*/false)) {
    ASSIGN_OR_RETURN(prune.backups, ReadBackupNames(ctx, api));
  }
  Retention retention;
  for (const PruneDecision& decision : DecidePrune(inventory.entries, prune)) {
    if (decision.verdict == PruneVerdict::kRemoved) {
      RETURN_IF_ERROR(ctx.Check());
      RemoveOne(ctx, api, inventory.entries[decision.entry], request.mover_namespace, retention);
    }
  }
  return retention;
}

}  // namespace csidelta::csi
