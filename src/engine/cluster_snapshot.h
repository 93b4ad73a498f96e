#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/random.h"
#include "csi/bound_snapshot.h"
#include "csi/expose/audience_tokens.h"
#include "incremental/sources/changed_block_source.h"
#include "incremental/sources/listing_target.h"
#include "k8s/api_client.h"
#include "k8s/config.h"
#include "repository/volume_layout.h"

namespace csidelta::engine {

// The VolumeSnapshot that a device was made of, and the service that lists its changes.
struct ClusterSnapshotQuery {
  std::string volume_snapshot = {};  // "namespace/name"; "": the cluster is not asked
  std::string base_handle = {};      // that the driver knows the base by; "": what was recorded
  // "csi-metadata", "differential-snapshot", "none"; "auto": the first that there is.
  std::string changed_blocks = "auto";
  std::string change_id_annotation = {};  // what the driver compares by, if not by handles
  std::string service_account = {};       // whose token authenticates, "namespace/name"
  std::string token_file = {};
  std::string server_name = {};
  // For a driver that is asked by a DifferentialSnapshot: the storage vendor's own, NAME=VALUE.
  std::vector<std::string> driver_parameters = {};
  k8s::ClientSettings cluster = {};
};

// The driver's handle of a base, "" without one, and its recorded state.
struct ClusterBase {
  std::string handle;
  incremental::BaseState info;
};

// A VolumeSnapshot whose driver lists the changed blocks. It is recorded in the repository, so that
// it can be the base of the next backup.
class ClusterSnapshot {
 public:
  // INVALID_ARGUMENT if the query names no VolumeSnapshot; errors of csi::ReadBoundSnapshot.
  static absl::StatusOr<std::unique_ptr<ClusterSnapshot>> Open(const CallContext& ctx,
                                                               ClusterSnapshotQuery query);

  // Records what the next backup needs to use this one as its base.
  void Record(repository::VolumeManifest& manifest) const;

  // The driver's handle of a parent: --base-handle, or what was recorded with it; "" if neither.
  std::string BaseOf(const repository::VolumeManifest& parent) const;

  // A base that a user named: by its VolumeSnapshot in the same namespace, by --base-handle, or
  // neither. INVALID_ARGUMENT for both; errors of csi::ReadBoundSnapshot.
  absl::StatusOr<ClusterBase> FindBase(const CallContext& ctx, const std::string& name) const;

  // The source that was requested; else the snapshot metadata service if the driver has one, else a
  // DifferentialSnapshot.
  std::unique_ptr<incremental::ChangedBlockSource> MakeSource(const CallContext& ctx,
                                                              incremental::BaseState base,
                                                              Random& random);

  const csi::BoundSnapshot& snapshot() const { return snapshot_; }

 private:
  ClusterSnapshot(ClusterSnapshotQuery query, std::unique_ptr<k8s::ApiClient> api,
                  csi::BoundSnapshot snapshot);

  const ClusterSnapshotQuery query_;
  const std::unique_ptr<k8s::ApiClient> api_;
  csi::AudienceTokens tokens_;
  const csi::BoundSnapshot snapshot_;
};

// The state that was recorded with a backup of the base's volume snapshot.
incremental::BaseState InfoOf(const repository::VolumeManifest& manifest);

}  // namespace csidelta::engine
