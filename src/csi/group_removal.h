#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/volume_group_snapshot.h"

// The two ends of a volume group that TakeGroup() made (csi/group_lifecycle.h).
namespace csidelta::csi {

// What the content of a VolumeGroupSnapshot is called, or is going to be. Pure.
std::string GroupContentNameOf(const objects::VolumeGroupSnapshot& group);

// Removes a VolumeGroupSnapshot with its members, and has the driver drop the group. `group` as
// read from the API server. OK when it is gone already. Does not wait for the driver.
absl::Status RemoveGroup(const CallContext& ctx, k8s::ApiClient& api,
                         const objects::VolumeGroupSnapshot& group);

// Removes a VolumeGroupSnapshot, its content, its members and theirs while the driver keeps the
// group, so that it survives the claims' namespace. Deletes nothing unless the API server confirms
// for every content that it is to be retained. OK when it is done already. `group` as read from the
// API server.
absl::Status RetainAndForget(const CallContext& ctx, k8s::ApiClient& api,
                             const objects::VolumeGroupSnapshot& group);

}  // namespace csidelta::csi
