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

// What goes once a new VolumeSnapshot was taken, and what may go to make room for it: the rules and
// protections of snapshots/snapshot_prune.h.
namespace csidelta::snapshots {

struct RetentionRequest {
  std::string namespace_name;
  std::set<std::string> pvcs;
  KeepRules rules;  // of each PVC; one that is not Ready yet is no generation
  bool any_maker = false;
  std::string mover_namespace;
};

struct Retention {
  std::vector<SnapshotEntry> deleted;  // the API server took the deletion, or it was gone
  // Why one that was to go did not, or its content stays: a sentence each.
  std::vector<std::string> failures;
};

// All VolumeSnapshots of the namespace, and a decision for each; those of other PVCs are ignored.
struct RetentionPlan {
  std::vector<SnapshotEntry> entries;
  std::vector<PruneDecision> decisions;
};

// PERMISSION_DENIED where VolumeSnapshots, contents, PVCs or, where they matter, Backups cannot be
// listed; other errors are those of the API server.
absl::StatusOr<RetentionPlan> PlanRetention(const CallContext& ctx, k8s::ApiClient& api,
                                            const RetentionRequest& request);

// Deletes one as it was read, and its content where the driver keeps the data. Notes it in
// `retention`: in neither list when something needs it since then.
void RemoveByRule(const CallContext& ctx, k8s::ApiClient& api, const SnapshotEntry& entry,
                  const std::string& mover_namespace, Retention& retention);

// Deletes what these verbs made of these PVCs and no rule keeps. Nothing is deleted after an error
// of PlanRetention().
absl::StatusOr<Retention> ApplyRules(const CallContext& ctx, k8s::ApiClient& api,
                                     const RetentionRequest& request);

}  // namespace csidelta::snapshots
