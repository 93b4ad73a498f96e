#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/keep_rules.h"
#include "k8s/api_client.h"
#include "snapshots/snapshot_inventory.h"
#include "snapshots/snapshot_prune.h"

// Deletions after a new VolumeSnapshot was taken, and to make room for it, by the rules and
// protections of snapshots/snapshot_prune.h.
namespace csidelta::snapshots {

struct RetentionRequest {
  std::string namespace_name;  // "" for all
  std::set<std::string> pvcs;
  bool all_pvcs = false;            // also of others; room in the driver is made for `pvcs` alone
  std::string label_selector = {};  // only those that have the labels
  KeepRules rules;                  // of each PVC; one that is not Ready yet is no generation
  bool any_maker = false;
  std::string mover_namespace;
};

struct Retention {
  std::vector<Unit> deleted;  // the API server accepted it, or it was gone
  // One sentence each: why a VolumeSnapshot was not deleted, or its content stays.
  std::vector<std::string> failures;
};

// One VolumeSnapshot of the namespace, or all members of a group that goes, and the decision.
// Those that are not selected are ignored.
struct PlannedRetention {
  PruneDecision decision;
  Unit unit;

  bool goes() const { return decision.verdict == PruneVerdict::kRemoved; }
};
using RetentionPlan = std::vector<PlannedRetention>;

// PERMISSION_DENIED if VolumeSnapshots, contents, PVCs or, if they matter, Backups cannot be
// listed; other errors are those of the API server.
absl::StatusOr<RetentionPlan> PlanRetention(const CallContext& ctx, k8s::ApiClient& api,
                                            const RetentionRequest& request);

// RemoveAsRead(), and deletes contents if the driver keeps the data. Records the outcome in
// `retention`: in neither list if something has needed one since it was read.
void RemoveByRule(const CallContext& ctx, k8s::ApiClient& api, Unit unit,
                  const std::string& mover_namespace, Retention& retention);

// Deletes those of the VolumeSnapshots that these verbs made and no rule
// keeps. Nothing is deleted after an error of PlanRetention().
absl::StatusOr<Retention> ApplyRules(const CallContext& ctx, k8s::ApiClient& api,
                                     const RetentionRequest& request);

}  // namespace csidelta::snapshots
