#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "base/call_context.h"
#include "base/json.h"
#include "k8s/api_client.h"

namespace csidelta::csi {

// Has the driver delete the snapshot of `content`, one of ours, and the content with it. First its
// status gets the handle where nobody wrote it yet: the sidecar deletes only what is called by it
// there. OK when the content is gone. Does not wait for the driver. That of a member of a moved
// group (csi/moved_group.h) is released instead, and goes with the group.
absl::Status DropWithSnapshot(const CallContext& ctx, k8s::ApiClient& api, const Json& content);

// Whether `object` carries all of `labels`. Pure.
bool HasLabels(const Json& object, const std::map<std::string, std::string>& labels);

}  // namespace csidelta::csi
