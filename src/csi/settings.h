#pragma once

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "velero/plugin_config.h"

namespace csidelta::csi {

// The settings of this plugin as they stand now, from the one ConfigMap in Velero's namespace that
// carries our labels; the defaults when there is none. One request. INVALID_ARGUMENT for a wrong
// value or a second ConfigMap; what the API server says otherwise.
absl::StatusOr<velero::PluginConfig> ReadPluginConfig(const CallContext& ctx,
                                                      const Environment& env);

}  // namespace csidelta::csi
