#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/group/group_lifecycle.h"
#include "csi/once_map.h"
#include "itemblockactions/actions.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/persistent_volume.h"

namespace csidelta::itemblockactions {
namespace {

using objects::PersistentVolumeClaim;

class PvcAction : public velero::ActionOn<velero::ItemBlockAction> {
 public:
  explicit PvcAction(const csi::Environment& env)
      : ActionOn("persistentvolumeclaims"), env_(env), pods_(env.api) {}

  absl::StatusOr<std::vector<velero::ResourceIdentifier>> GetRelatedItems(
      const CallContext& ctx, const objects::Object& item,
      const objects::Object& backup_object) override {
    std::vector<velero::ResourceIdentifier> related;
    ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
    if (!env_.enable_csi) {
      return related;
    }
    ASSIGN_OR_RETURN(const auto claim, PersistentVolumeClaim::From(item));
    if (claim.is_bound()) {
      related.push_back(velero::Identify(objects::PersistentVolume::Key("", claim.volume_name())));
    }
    const std::string namespace_name = claim.namespace_name();
    AddSiblings(ctx, backup, claim, related);
    const auto pods = pods_.Get(ctx, backup.uid(), namespace_name);
    if (!pods.ok()) {
      // An error here would count against the backup, also where the volume is not managed.
      CSIDELTA_LOG(kInfo, "pods of the claim not known", {"namespace", namespace_name},
                   {"pvc", claim.name()}, {"status", pods.status().ToString()});
      return related;
    }
    for (const objects::Pod& pod : **pods) {
      if (pod.phase() == "Running" && pod.NamesPvc(claim.name())) {
        related.push_back(velero::Identify(objects::Pod::Key(namespace_name, pod.name())));
      }
    }
    return related;
  }

 private:
  // The other claims of the claim's volume group, so that one worker backs them up in turn, and all
  // their pods' hooks surround the group's snapshot.
  void AddSiblings(const CallContext& ctx, const objects::Backup& backup,
                   const PersistentVolumeClaim& claim,
                   std::vector<velero::ResourceIdentifier>& related) {
    const std::string key = csi::GroupLabelKey(backup);
    const std::string group = claim.Label(key);
    if (group.empty()) {
      return;
    }
    const std::string selector = absl::StrCat(key, "=", group);
    const auto names =
        groups_.Get(ctx, absl::StrCat(backup.uid(), "/", claim.namespace_name(), "/", selector),
                    [&]() -> absl::StatusOr<std::vector<std::string>> {
                      ASSIGN_OR_RETURN(const auto siblings,
                                       objects::List<PersistentVolumeClaim>(
                                           ctx, env_.api, claim.namespace_name(),
                                           {.label_selector = selector, .field_selector = ""}));
                      std::vector<std::string> found;
                      found.reserve(siblings.size());
                      for (const PersistentVolumeClaim& sibling : siblings) {
                        found.push_back(sibling.name());
                      }
                      return found;
                    });
    if (!names.ok()) {
      CSIDELTA_LOG(kInfo, "claims of the volume group not known",
                   {"namespace", claim.namespace_name()}, {"pvc", claim.name()},
                   {"status", names.status().ToString()});
      return;
    }
    for (const std::string& name : **names) {
      if (name != claim.name()) {
        related.push_back(
            velero::Identify(PersistentVolumeClaim::Key(claim.namespace_name(), name)));
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
