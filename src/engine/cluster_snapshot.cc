#include "engine/cluster_snapshot.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/expose/metadata_service.h"
#include "incremental/sources/csi_metadata_source.h"
#include "incremental/sources/differential_request.h"
#include "incremental/sources/image_extent_source.h"
#include "k8s/rest_client.h"

namespace csidelta::engine {

absl::StatusOr<std::unique_ptr<ClusterSnapshot>> ClusterSnapshot::Open(const CallContext& ctx,
                                                                       ClusterSnapshotQuery query) {
  const std::vector<std::string> parts = absl::StrSplit(query.volume_snapshot, '/');
  if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--volume-snapshot ", query.volume_snapshot, " is not NAMESPACE/NAME"));
  }
  std::unique_ptr<k8s::ApiClient> api = k8s::MakeClient(query.cluster);
  ASSIGN_OR_RETURN(
      csi::BoundSnapshot snapshot,
      csi::ReadBoundSnapshot(ctx, *api, parts[0], parts[1], query.change_id_annotation));
  return std::unique_ptr<ClusterSnapshot>(
      new ClusterSnapshot(std::move(query), std::move(api), std::move(snapshot)));
}

ClusterSnapshot::ClusterSnapshot(ClusterSnapshotQuery query, std::unique_ptr<k8s::ApiClient> api,
                                 csi::BoundSnapshot snapshot)
    : query_(std::move(query)),
      api_(std::move(api)),
      tokens_(*api_, {.service_account = query_.service_account, .token_path = query_.token_file}),
      snapshot_(std::move(snapshot)) {}

void ClusterSnapshot::Record(repository::VolumeManifest& manifest) const {
  manifest.pvc_namespace = snapshot_.namespace_name;
  manifest.pvc_name = snapshot_.claim;
  manifest.volume_mode = snapshot_.volume_mode;
  manifest.csi_driver = snapshot_.driver;
  manifest.snapshot_handle = snapshot_.snapshot_handle;
  manifest.change_id = snapshot_.change_id;
  manifest.volume_handle = snapshot_.volume_handle;
  manifest.snapshot_time =
      snapshot_.creation_time.has_value() ? FormatRfc3339(*snapshot_.creation_time) : "";
}

std::string ClusterSnapshot::BaseOf(const repository::VolumeManifest& parent) const {
  if (!query_.base_handle.empty()) {
    return query_.base_handle;
  }
  return query_.change_id_annotation.empty() ? parent.snapshot_handle : parent.change_id;
}

absl::StatusOr<ClusterBase> ClusterSnapshot::FindBase(const CallContext& ctx,
                                                      const std::string& name) const {
  if (name.empty()) {
    return ClusterBase{.handle = query_.base_handle, .info = {}};
  }
  if (!query_.base_handle.empty()) {
    return absl::InvalidArgumentError("--base and --base-handle are two bases; give one");
  }
  ASSIGN_OR_RETURN(const csi::BoundSnapshot base,
                   csi::ReadBoundSnapshot(ctx, *api_, snapshot_.namespace_name, name,
                                          query_.change_id_annotation));
  if (!query_.change_id_annotation.empty() && base.change_id.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("volume snapshot ", base.namespace_name, "/",
                                                      name, " has no annotation ",
                                                      query_.change_id_annotation));
  }
  return ClusterBase{
      .handle = query_.change_id_annotation.empty() ? base.snapshot_handle : base.change_id,
      .info = {.driver = base.driver,
               .volume_handle = base.volume_handle,
               .creation_time = base.creation_time}};
}

std::unique_ptr<incremental::ChangedBlockSource> ClusterSnapshot::MakeSource(
    const CallContext& ctx, incremental::BaseState base, Random& random) {
  const bool is_auto = query_.changed_blocks == "auto";
  if (query_.changed_blocks == "none") {
    return std::make_unique<incremental::FullScanSource>();
  }
  // What else may be wrong with the service is its client's to tell.
  const bool has_service =
      is_auto && !absl::IsNotFound(csi::FindMetadataService(ctx, *api_, snapshot_.driver).status());
  if (has_service || query_.changed_blocks == "csi-metadata") {
    incremental::CsiMetadataOptions options;
    options.base = std::move(base);
    options.server_name = query_.server_name;
    return std::make_unique<incremental::CsiMetadataSource>(*api_, tokens_, random,
                                                            std::move(options));
  }
  incremental::DifferentialRequestOptions options;
  options.base = std::move(base);
  options.parameters = query_.driver_parameters;
  options.kind_may_be_absent = is_auto;
  options.http.tls.server_name = query_.server_name;
  return std::make_unique<incremental::DifferentialRequestSource>(*api_, tokens_, random,
                                                                  std::move(options));
}

incremental::BaseState InfoOf(const repository::VolumeManifest& manifest) {
  return {.driver = manifest.csi_driver,
          .volume_handle = manifest.volume_handle,
          .creation_time = ParseRfc3339(manifest.snapshot_time)};
}

}  // namespace csidelta::engine
