#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/volume_snapshot.h"

// Who shares the storage's snapshot of a content (snapshots/snapshot_share.h): an annotation of the
// content names VolumeSnapshots of other namespaces. It is written before they are made and may
// name some that are gone: those are looked for by the names of their contents, which follow from
// it.
namespace csidelta::csi {

// A VolumeSnapshot of another namespace, and the content that it is bound to.
struct SharedSnapshot {
  std::string namespace_name;
  std::string name;
  std::string content_name;
};

// What the annotation of `content` names; malformed parts are left out. Pure.
std::vector<SharedSnapshot> SharesOf(const objects::VolumeSnapshotContent& content);

// The annotation that names them. Pure.
std::string SharesText(const std::vector<SharedSnapshot>& shares);

// The content of a VolumeSnapshot that shares the snapshot of the content `shared_uid`. Pure.
std::string SharedContentName(absl::string_view shared_uid, absl::string_view namespace_name,
                              absl::string_view name);

// Whether the VolumeSnapshot and its content are there and name each other. True where one may not
// be read. Other errors are those of the API server.
absl::StatusOr<bool> IsShareThere(const CallContext& ctx, k8s::ApiClient& api,
                                  const SharedSnapshot& share);

}  // namespace csidelta::csi
