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
  std::string namespace_name;
  std::set<std::string> pvcs;
  KeepRules rules;  // of each PVC; one that is not Ready yet is no generation
  bool any_maker = false;
  std::string mover_namespace;
};

struct Retention {
  std::vector<SnapshotEntry> deleted;  // the API server accepted it, or it was gone
  // One sentence each: why a VolumeSnapshot was not deleted, or its content stays.
  std::vector<std::string> failures;
};

// All VolumeSnapshots of the namespace, and a decision for each; those of other PVCs are ignored.
struct RetentionPlan {
  std::vector<SnapshotEntry> entries;
  std::vector<PruneDecision> decisions;
};

// PERMISSION_DENIED if VolumeSnapshots, contents, PVCs or, if they matter, Backups cannot be
// listed; other errors are those of the API server.
absl::StatusOr<RetentionPlan> PlanRetention(const CallContext& ctx, k8s::ApiClient& api,
                                            const RetentionRequest& request);

// Deletes a VolumeSnapshot as it was read, and its content if the driver keeps the data. Records
// the outcome in `retention`: in neither list if something has needed it since it was read.
void RemoveByRule(const CallContext& ctx, k8s::ApiClient& api, const SnapshotEntry& entry,
                  const std::string& mover_namespace, Retention& retention);

// Deletes the VolumeSnapshots of these PVCs that these verbs made and no rule keeps. Nothing is
// deleted after an error of PlanRetention().
absl::StatusOr<Retention> ApplyRules(const CallContext& ctx, k8s::ApiClient& api,
                                     const RetentionRequest& request);

}  // namespace csidelta::snapshots
