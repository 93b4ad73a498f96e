#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/group_lifecycle.h"
#include "csi/namespace_pods.h"
#include "csi/once_map.h"
#include "csi/snapshot_types.h"
#include "itemblockactions/actions.h"
#include "k8s/object.h"
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
    const std::string namespace_name = k8s::Namespace(item);
    AddSiblings(ctx, backup, item, related);
    const auto pods = pods_.Get(ctx, backup.uid, namespace_name);
    if (!pods.ok()) {
      // An error here would count against the backup, also where the volume is none of ours.
      CSIDELTA_LOG(kInfo, "pods of the claim not known", {"namespace", namespace_name},
                   {"pvc", k8s::Name(item)}, {"status", pods.status().ToString()});
      return related;
    }
    for (const Json& pod : **pods) {
      if (GetString(pod, {"status", "phase"}) == "Running" &&
          csi::UsesClaim(pod, k8s::Name(item))) {
        related.push_back({.group = "",
                           .resource = csi::PodType().plural,
                           .namespace_name = namespace_name,
                           .name = k8s::Name(pod)});
      }
    }
    return related;
  }

 private:
  // The other claims of the claim's volume group, so that one worker backs them up in turn, and all
  // their pods' hooks surround the group's snapshot.
  void AddSiblings(const CallContext& ctx, const velero::Backup& backup, const Json& item,
                   std::vector<velero::ResourceIdentifier>& related) {
    const std::string key = csi::GroupLabelKey(backup);
    const std::string group = k8s::Label(item, key);
    if (group.empty()) {
      return;
    }
    const std::string selector = absl::StrCat(key, "=", group);
    const auto names =
        groups_.Get(ctx, absl::StrCat(backup.uid, "/", k8s::Namespace(item), "/", selector),
                    [&]() -> absl::StatusOr<std::vector<std::string>> {
                      ASSIGN_OR_RETURN(
                          const k8s::ObjectList claims,
                          env_.api.List(ctx, csi::PersistentVolumeClaimType(), k8s::Namespace(item),
                                        {.label_selector = selector, .field_selector = ""}));
                      std::vector<std::string> found;
                      for (const Json& claim : claims.items) {
                        found.push_back(k8s::Name(claim));
                      }
                      return found;
                    });
    if (!names.ok()) {
      CSIDELTA_LOG(kInfo, "claims of the volume group not known",
                   {"namespace", k8s::Namespace(item)}, {"pvc", k8s::Name(item)},
                   {"status", names.status().ToString()});
      return;
    }
    for (const std::string& name : **names) {
      if (name != k8s::Name(item)) {
        related.push_back({.group = "",
                           .resource = csi::PersistentVolumeClaimType().plural,
                           .namespace_name = k8s::Namespace(item),
                           .name = name});
      }
    }
  }

  csi::Environment env_;
  csi::NamespacePods pods_;
  csi::OnceMap<std::vector<std::string>> groups_{64};
};

}  // namespace

std::unique_ptr<velero::ItemBlockAction> MakePvcAction(const csi::Environment& env) {
  return std::make_unique<PvcAction>(env);
}

}  // namespace csidelta::itemblockactions
