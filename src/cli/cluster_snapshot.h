#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/random.h"
#include "cli/arguments.h"
#include "csi/audience_tokens.h"
#include "csi/bound_snapshot.h"
#include "incremental/changed_block_source.h"
#include "k8s/api_client.h"
#include "repository/volume_layout.h"

namespace csidelta::cli {

// What a person says of the VolumeSnapshot that a device was made of.
struct ClusterSnapshotFlags {
  std::string volume_snapshot;  // "namespace/name"; "": the cluster is not asked
  std::string base_handle;
  std::string change_id_annotation;
  std::string service_account;
  std::string token_file;
  std::string server_name;
  std::string kubeconfig;
  std::string kubecontext;

  void Declare(ArgumentTable& table);
};

// A VolumeSnapshot whose device is backed up: it is told to the repository, so that it can be the
// base of the next, and its driver is asked what changed. Borrows `flags`.
class ClusterSnapshot {
 public:
  // INVALID_ARGUMENT where the flags contradict themselves; errors of csi::ReadBoundSnapshot.
  static absl::StatusOr<std::unique_ptr<ClusterSnapshot>> Open(const CallContext& ctx,
                                                               const ClusterSnapshotFlags& flags);

  // What the next backup must know to have this one for its base.
  void Record(repository::VolumeManifest& manifest) const;

  // What the driver knows a parent by: --base-handle, or what was recorded with it; "" if neither.
  std::string BaseOf(const repository::VolumeManifest& parent) const;

  // `parent`: what was recorded with the base, or nullptr without one.
  std::unique_ptr<incremental::ChangedBlockSource> MakeSource(
      const repository::VolumeManifest* parent, Random& random);

 private:
  ClusterSnapshot(const ClusterSnapshotFlags& flags, std::unique_ptr<k8s::ApiClient> api,
                  csi::BoundSnapshot snapshot);

  const ClusterSnapshotFlags& flags_;
  const std::unique_ptr<k8s::ApiClient> api_;
  csi::AudienceTokens tokens_;
  const csi::BoundSnapshot snapshot_;
};

}  // namespace csidelta::cli
