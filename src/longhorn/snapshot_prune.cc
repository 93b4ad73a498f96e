#include "longhorn/snapshot_prune.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/rate_limiter.h"
#include "base/status_macros.h"
#include "longhorn/types.h"

namespace csidelta::longhorn {
namespace {

constexpr char kAttached[] = "attached";

// What needs no other one.
void DecideAlone(const SnapshotEntry& entry, PruneDecision& decision) {
  if (entry.state == SnapshotState::kDeleting) {
    decision.Keep("Deleting", "its deletion was requested before");
  } else if (entry.state == SnapshotState::kRemoved) {
    decision.Keep("Removed", "marked as removed: it goes with the next purge");
  } else if (entry.state != SnapshotState::kReady) {
    decision.Keep("NotReady",
                  absl::StrCat("is ", ToString(entry.state),
                               entry.error.empty() ? "" : absl::StrCat(" (", entry.error, ")"),
                               ": no rule counts it"));
  } else if (!entry.is_user_created) {
    decision.Keep("System", "Longhorn took it itself, and removes it with the next purge");
  } else if (!DateOf(entry).has_value()) {
    decision.Keep("NotCounted", "has no date: no rule counts it");
  }
}

// Those of a volume compete.
void ApplyRules(const Inventory& inventory, const PruneRequest& request,
                std::vector<PruneDecision>& decisions) {
  std::map<std::size_t, std::vector<PruneDecision*>> competing;
  for (std::size_t i = decisions.size(); i-- > 0;) {  // The newest first.
    if (decisions[i].is_open()) {
      competing[inventory.snapshots[decisions[i].entry].volume].push_back(&decisions[i]);
    }
  }
  for (auto& [volume, of_volume] : competing) {
    KeepByRules(std::move(of_volume), request.rules, request.now, [&](std::size_t i) {
      return DateOf(inventory.snapshots[i]).value_or(request.now);
    });
  }
}

std::string WhyRemoved(const SnapshotEntry& entry, const VolumeEntry& volume,
                       const PruneRequest& request) {
  std::vector<std::string> reasons;
  if (entry.job_state == JobState::kGone) {
    reasons.push_back(absl::StrCat("RecurringJob ", entry.job, " is gone"));
  } else if (entry.job_state == JobState::kNotOfVolume) {
    reasons.push_back(
        absl::StrCat("RecurringJob ", entry.job, " does not apply to the volume any more"));
  }
  if (request.selection.before.has_value()) {
    reasons.emplace_back("older than asked for");
  }
  if (!request.rules.IsEmpty()) {
    reasons.emplace_back("no rule keeps it");
  }
  return absl::StrCat(absl::StrJoin(reasons, ", "),
                      volume.state == kAttached ? "" : "; goes when its volume is attached next");
}

void DecideLast(const SnapshotEntry& entry, const VolumeEntry& volume, const PruneRequest& request,
                PruneDecision& decision) {
  const auto hold = [&](absl::string_view code, std::string message) {
    decision.Settle(PruneVerdict::kHeld, code, {std::move(message)});
  };
  if (!entry.kept_for.empty()) {
    decision.Protect(entry.kept_for);
  } else if (!volume.is_there) {
    hold("VolumeGone", "its volume was not found: Longhorn removes what is left");
  } else if (volume.is_being_deleted) {
    hold("VolumeGone", "its volume is being deleted, and takes it along");
  } else if (volume.is_migrating) {
    hold("VolumeBusy", "its volume is migrating");
  } else if (volume.is_being_filled) {
    hold("VolumeBusy", "its volume is being restored or cloned");
  } else if (volume.state != kAttached && !request.also_detached) {
    hold("Detached",
         absl::StrCat("its volume is ", volume.state.empty() ? "not attached" : volume.state,
                      ": Longhorn deletes nothing of it until it is attached"));
  } else {
    decision.Settle(PruneVerdict::kRemoved, "NoRule", {WhyRemoved(entry, volume, request)});
  }
}

// With the next step, where there is one.
absl::Status Explain(const absl::Status& status, absl::string_view namespace_name) {
  if (k8s::IsWebhookAway(status.message())) {
    return absl::Status(status.code(),
                        absl::StrCat("Longhorn does not answer: is longhorn-manager running? Run ",
                                     "the command again once it is: ", status.message()));
  }
  if (absl::IsPermissionDenied(status) && !k8s::IsDeniedByWebhook(status.message())) {
    return absl::PermissionDeniedError(absl::StrCat(
        "you may not delete ", k8s::ToString(Snapshot::Type()), " in namespace ", namespace_name,
        "; ask for the ClusterRole ", kPrunerRole, " there: ", status.message()));
  }
  return status;
}

// Whether the next deletion would end like this one.
bool EndsAll(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsUnauthenticated(status) || absl::IsCancelled(status) ||
         absl::IsDeadlineExceeded(status) ||
         (absl::IsPermissionDenied(status) && !k8s::IsDeniedByWebhook(status.message()));
}

}  // namespace

std::vector<PruneDecision> DecidePrune(const Inventory& inventory, const PruneRequest& request) {
  std::vector<PruneDecision> decisions;
  for (std::size_t i = 0; i < inventory.snapshots.size(); ++i) {
    if (IsSelected(inventory, inventory.snapshots[i], request.selection)) {
      DecideAlone(inventory.snapshots[i], decisions.emplace_back(PruneDecision{.entry = i}));
    }
  }
  if (!request.rules.IsEmpty()) {
    ApplyRules(inventory, request, decisions);
  }
  for (PruneDecision& one : decisions) {
    if (one.is_open()) {
      const SnapshotEntry& entry = inventory.snapshots[one.entry];
      DecideLast(entry, inventory.volumes[entry.volume], request, one);
    }
  }
  return decisions;
}

absl::Status DeleteSnapshots(
    const CallContext& ctx, k8s::ApiClient& api, absl::string_view namespace_name,
    const std::vector<const SnapshotEntry*>& snapshots,
    absl::FunctionRef<void(std::size_t position, const absl::Status& end)> note) {
  RateLimiter limiter(kDeletionsPerSecond, /*burst=*/1);
  for (std::size_t i = 0; i < snapshots.size(); ++i) {
    RETURN_IF_ERROR(limiter.Take(ctx));
    const k8s::ObjectKey key{.type = Snapshot::Type(),
                             .namespace_name = std::string(namespace_name),
                             .name = snapshots[i]->name};
    // Without a uid the API server would delete whatever has the name.
    const absl::Status deleted =
        snapshots[i]->uid.empty()
            ? absl::FailedPreconditionError("the API server listed it without a uid")
            : k8s::IgnoreGone(api.Delete(ctx, key, {.uid = snapshots[i]->uid}));
    const absl::Status end = Explain(deleted, namespace_name);
    note(i, end);
    if (EndsAll(deleted)) {
      return end;
    }
  }
  return absl::OkStatus();
}

}  // namespace csidelta::longhorn
