#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/clock.h"
#include "base/random.h"
#include "csi/once_map.h"
#include "k8s/api_client.h"
#include "velero/plugin_config.h"

namespace csidelta::csi {

class BaseIndex;

// What every action works with; made once per process and passed to each action. Borrows what it
// points to, which outlives every action. Copyable.
struct Environment {
  k8s::ApiClient& api;
  const Clock& clock;
  Random& random;
  std::string velero_namespace;      // where Velero's own objects live
  bool enable_csi = false;           // the server was started with --features=EnableCSI
  const BaseIndex* bases = nullptr;  // of a process that watches them
};

// The current settings of the plugin: from the one ConfigMap in Velero's namespace that has the
// plugin's labels, else the defaults. One request. INVALID_ARGUMENT for a wrong value or a second
// ConfigMap; else errors of the API server.
absl::StatusOr<velero::PluginConfig> ReadPluginConfig(const CallContext& ctx,
                                                      const Environment& env);

// The same; if they cannot be read the defaults, with a warning.
velero::PluginConfig ReadPluginConfigOrDefaults(const CallContext& ctx, const Environment& env);

// The same for actions on many items, where an error or a warning for each item would bury all
// others. Reads once for each backup or restore. Borrows nothing but what `env` borrows.
// Thread-safe.
class SettingsOrDefaults {
 public:
  explicit SettingsOrDefaults(const Environment& env) : env_(env) {}

  // `run_uid`: of the Backup or Restore. CANCELLED if ctx.stop fires while another call reads them.
  absl::StatusOr<std::shared_ptr<const velero::PluginConfig>> Get(const CallContext& ctx,
                                                                  const std::string& run_uid);

 private:
  const Environment env_;
  OnceMap<velero::PluginConfig> configs_{8};
};

}  // namespace csidelta::csi
