#include "csi/environment.h"

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/core.h"
#include "objects/keys.h"

namespace csidelta::csi {

absl::StatusOr<velero::PluginConfig> ReadPluginConfig(const CallContext& ctx,
                                                      const Environment& env) {
  ASSIGN_OR_RETURN(const std::vector<objects::ConfigMap> list,
                   objects::List<objects::ConfigMap>(
                       ctx, env.api, env.velero_namespace,
                       {.label_selector = absl::StrCat(objects::kPluginConfigLabel, ",",
                                                       objects::kCsiDeltaLabel)}));
  ASSIGN_OR_RETURN(const objects::ConfigMap* config_map, velero::SelectPluginConfig(list));
  return config_map == nullptr ? velero::PluginConfig() : velero::ParsePluginConfig(*config_map);
}

absl::StatusOr<std::shared_ptr<const velero::PluginConfig>> SettingsOrDefaults::Get(
    const CallContext& ctx, const std::string& run_uid) {
  return configs_.Get(ctx, run_uid, [&]() -> absl::StatusOr<velero::PluginConfig> {
    const absl::StatusOr<velero::PluginConfig> config = ReadPluginConfig(ctx, env_);
    if (!config.ok()) {
      CSIDELTA_LOG(kWarn, "settings cannot be read: the defaults count",
                   {"error", config.status().ToString()});
      return velero::PluginConfig();
    }
    return *config;
  });
}

}  // namespace csidelta::csi
