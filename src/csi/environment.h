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

// What every action works with; made once per process and handed to each action. Borrows
// what it points to, which outlives every action. Copyable.
struct Environment {
  k8s::ApiClient& api;
  const Clock& clock;
  Random& random;
  std::string velero_namespace;      // where Velero's own objects live
  bool enable_csi = false;           // the server was started with --features=EnableCSI
  const BaseIndex* bases = nullptr;  // of a process that watches them
};

// The settings of this plugin as they stand now, from the one ConfigMap in Velero's namespace that
// carries the plugin's labels; the defaults when it does not exist. One request. INVALID_ARGUMENT
// for a wrong value or a second ConfigMap; what the API server says otherwise.
absl::StatusOr<velero::PluginConfig> ReadPluginConfig(const CallContext& ctx,
                                                      const Environment& env);

// The same for actions on so many items that an error for each would bury all others: read once for
// a backup or restore, and where they cannot be read, the defaults, after one warning. Borrows
// nothing but what `env` does. Thread-safe.
class SettingsOrDefaults {
 public:
  explicit SettingsOrDefaults(const Environment& env) : env_(env) {}

  // `run_uid` is that of the Backup or Restore. CANCELLED when ctx.stop fires while another call
  // reads them.
  absl::StatusOr<std::shared_ptr<const velero::PluginConfig>> Get(const CallContext& ctx,
                                                                  const std::string& run_uid);

 private:
  const Environment env_;
  OnceMap<velero::PluginConfig> configs_{8};
};

}  // namespace csidelta::csi
