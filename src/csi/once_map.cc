#include "csi/once_map.h"

#include "absl/strings/str_cat.h"
#include "objects/client.h"

namespace csidelta::csi {

absl::StatusOr<std::shared_ptr<const std::vector<objects::Pod>>> NamespacePods::Get(
    const CallContext& ctx, const std::string& backup_uid, const std::string& namespace_name) {
  return pods_.Get(ctx, absl::StrCat(backup_uid, "/", namespace_name),
                   [&]() -> absl::StatusOr<std::vector<objects::Pod>> {
                     ASSIGN_OR_RETURN(const auto all,
                                      objects::List<objects::Pod>(ctx, api_, namespace_name));
                     std::vector<objects::Pod> pods;
                     for (const objects::Pod& pod : all) {
                       if (!pod.pvc_volumes().empty()) {
                         pods.push_back(pod.Essence());
                       }
                     }
                     return pods;
                   });
}

}  // namespace csidelta::csi
