#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "csi/snapshot_inventory.h"
#include "k8s/api_client.h"

// What goes once a new VolumeSnapshot was taken: the rules and protections of csi/snapshot_prune.h.
namespace csidelta::csi {

struct RetentionRequest {
  std::string namespace_name;
  std::set<std::string> pvcs;
  int last = 1;  // of each PVC so many Ready ones stay; one that is not Ready yet is none of them
  std::string mover_namespace;
};

struct Retention {
  std::vector<SnapshotEntry> deleted;  // the API server took the deletion, or it was gone
  // Why one that was to go did not, or its content stays: a sentence each.
  std::vector<std::string> failures;
};

// Deletes what these verbs made of these PVCs and `last` does not keep. Nothing is deleted, and the
// error is that of the API server, when VolumeSnapshots, contents, PVCs or, where they matter,
// Backups cannot be listed.
absl::StatusOr<Retention> KeepLast(const CallContext& ctx, k8s::ApiClient& api,
                                   const RetentionRequest& request);

}  // namespace csidelta::csi
