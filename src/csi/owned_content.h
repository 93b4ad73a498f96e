#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/volume_snapshot.h"

namespace csidelta::csi {

// Deletes a content; `policy`, "Delete" or "Retain", says whether the driver's snapshot goes with
// it. The sidecar is told that the deletion is meant. OK when the content is gone. Does not wait.
absl::Status DeleteContent(const CallContext& ctx, k8s::ApiClient& api,
                           const objects::VolumeSnapshotContent& content, absl::string_view policy);

// Has the driver delete the snapshot of `content`, a managed one, and the content with it. First
// its status gets the handle where it was not written yet: the sidecar deletes only what is called
// by it there. OK when the content is gone. Does not wait for the driver. That of a member of a
// moved group (csi/moved_group.h) is released instead, and goes with the group.
absl::Status DropWithSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                              const objects::VolumeSnapshotContent& content);

}  // namespace csidelta::csi
