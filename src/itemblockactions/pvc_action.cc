#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status_macros.h"
#include "csi/namespace_pods.h"
#include "csi/snapshot_types.h"
#include "itemblockactions/actions.h"
#include "velero/backup.h"

namespace csidelta::itemblockactions {
namespace {

class PvcAction : public velero::ItemBlockAction {
 public:
  explicit PvcAction(const csi::Environment& env) : env_(env), pods_(env.api) {}

  velero::ResourceSelector AppliesTo() const override {
    return {.included_namespaces = {},
            .excluded_namespaces = {},
            .included_resources = {"persistentvolumeclaims"},
            .excluded_resources = {},
            .label_selector = ""};
  }

  absl::StatusOr<std::vector<velero::ResourceIdentifier>> GetRelatedItems(
      const CallContext& ctx, const Json& item, const Json& backup_object) override {
    std::vector<velero::ResourceIdentifier> related;
    ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_object));
    if (!env_.enable_csi) {
      return related;
    }
    const std::string volume = GetString(item, {"spec", "volumeName"});
    if (!volume.empty() && GetString(item, {"status", "phase"}) == "Bound") {
      related.push_back({.group = "",
                         .resource = csi::PersistentVolumeType().plural,
                         .namespace_name = "",
                         .name = volume});
    }
    const std::string namespace_name = csi::Namespace(item);
    const auto pods = pods_.Get(ctx, backup.uid, namespace_name);
    if (!pods.ok()) {
      // An error here would count against the backup, also where the volume is none of ours.
      CSIDELTA_LOG(kInfo, "pods of the claim not known", {"namespace", namespace_name},
                   {"pvc", csi::Name(item)}, {"status", pods.status().ToString()});
      return related;
    }
    for (const Json& pod : **pods) {
      if (GetString(pod, {"status", "phase"}) == "Running" &&
          csi::UsesClaim(pod, csi::Name(item))) {
        related.push_back({.group = "",
                           .resource = csi::PodType().plural,
                           .namespace_name = namespace_name,
                           .name = csi::Name(pod)});
      }
    }
    return related;
  }

 private:
  csi::Environment env_;
  csi::NamespacePods pods_;
};

}  // namespace

std::unique_ptr<velero::ItemBlockAction> MakePvcAction(const csi::Environment& env) {
  return std::make_unique<PvcAction>(env);
}

}  // namespace csidelta::itemblockactions
