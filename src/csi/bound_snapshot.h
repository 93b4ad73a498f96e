#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"

namespace csidelta::csi {

// A VolumeSnapshot that is ready, and the content that it is bound to.
struct BoundSnapshot {
  std::string namespace_name;
  std::string name;
  std::string uid;
  std::string content_name;
  std::string driver;
  std::string snapshot_handle;
  std::string volume_handle;  // "" for a content that was made for an existing snapshot
  std::string volume_mode;    // "Block", "Filesystem", or "" when it is unknown
  std::string claim;          // that it was taken of; "" for one of an existing content
  std::string class_name;     // of its VolumeSnapshotClass; "" when it names none
  std::string change_id;      // the annotation that was asked for; "" when absent
  std::optional<int64_t> restore_size_bytes;
  std::optional<absl::Time> creation_time;
};

// Reads a VolumeSnapshot and its content. The binding counts only if each names the other: anyone
// can make a VolumeSnapshot that names a foreign content. `change_id_annotation`: the key under
// which the driver writes what it compares by; "" if it compares by handles. Errors are those of
// the API server, and:
//   NOT_FOUND            the VolumeSnapshot, or its content, does not exist
//   FAILED_PRECONDITION  it is not ready, not bound, bound one-sidedly, or being deleted
absl::StatusOr<BoundSnapshot> ReadBoundSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                                absl::string_view namespace_name,
                                                absl::string_view name,
                                                absl::string_view change_id_annotation);

}  // namespace csidelta::csi
