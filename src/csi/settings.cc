#include "csi/settings.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/snapshot_types.h"
#include "objects/keys.h"

namespace csidelta::csi {

absl::StatusOr<velero::PluginConfig> ReadPluginConfig(const CallContext& ctx,
                                                      const Environment& env) {
  ASSIGN_OR_RETURN(const k8s::ObjectList list,
                   env.api.List(ctx, ConfigMapType(), env.velero_namespace,
                                {.label_selector = absl::StrCat(objects::kPluginConfigLabel, ",",
                                                                objects::kCsiDeltaLabel),
                                 .field_selector = ""}));
  ASSIGN_OR_RETURN(const Json* config_map, velero::SelectPluginConfig(list.items));
  return config_map == nullptr ? velero::PluginConfig() : velero::ParsePluginConfig(*config_map);
}

}  // namespace csidelta::csi
