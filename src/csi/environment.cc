#include "csi/environment.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/core.h"
#include "objects/keys.h"

namespace csidelta::csi {

absl::StatusOr<velero::PluginConfig> ReadPluginConfig(const CallContext& ctx,
                                                      const Environment& env) {
  ASSIGN_OR_RETURN(const auto list,
                   objects::List<objects::ConfigMap>(
                       ctx, env.api, env.velero_namespace,
                       {.label_selector = absl::StrCat(objects::kPluginConfigLabel, ",",
                                                       objects::kCsiDeltaLabel)}));
  ASSIGN_OR_RETURN(const objects::ConfigMap* config_map, velero::SelectPluginConfig(list));
  return config_map == nullptr ? velero::PluginConfig() : velero::ParsePluginConfig(*config_map);
}

velero::PluginConfig ReadPluginConfigOrDefaults(const CallContext& ctx, const Environment& env) {
  absl::StatusOr<velero::PluginConfig> config = ReadPluginConfig(ctx, env);
  if (!config.ok()) {
    CSIDELTA_LOG(kWarn, "settings cannot be read: the defaults count",
                 {"error", config.status().ToString()});
  }
  return std::move(config).value_or(velero::PluginConfig());
}

absl::StatusOr<std::shared_ptr<const velero::PluginConfig>> SettingsOrDefaults::Get(
    const CallContext& ctx, const std::string& run_uid) {
  return configs_.Get(ctx, run_uid, [&]() -> absl::StatusOr<velero::PluginConfig> {
    return ReadPluginConfigOrDefaults(ctx, env_);
  });
}

}  // namespace csidelta::csi
