#include "objects/rbac.h"

#include "base/json.h"

namespace csidelta::objects {
namespace {

constexpr char kRbacGroup[] = "rbac.authorization.k8s.io";
constexpr char kRbacVersion[] = "rbac.authorization.k8s.io/v1";

Json MetadataOf(const ServiceAccountName& account) {
  return {{"name", account.name}, {"namespace", account.namespace_name}};
}

Json ReferenceToRole(const char* kind, absl::string_view name) {
  return {{"apiGroup", kRbacGroup}, {"kind", kind}, {"name", std::string(name)}};
}

Json SubjectsOf(const ServiceAccountName& account) {
  return Json::array({{{"kind", "ServiceAccount"},
                       {"name", account.name},
                       {"namespace", account.namespace_name}}});
}

}  // namespace

Object MakeRoleOf(const ServiceAccountName& account, const std::vector<AccessRule>& rules) {
  Json list = Json::array();
  for (const AccessRule& rule : rules) {
    list.push_back({{"apiGroups", Json::array({rule.group})},
                    {"resources", Json::array({rule.resource})},
                    {"verbs", rule.verbs}});
  }
  return Object({{"apiVersion", kRbacVersion},
                 {"kind", "Role"},
                 {"metadata", MetadataOf(account)},
                 {"rules", list}});
}

Object MakeRoleBindingOf(const ServiceAccountName& account) {
  return Object({{"apiVersion", kRbacVersion},
                 {"kind", "RoleBinding"},
                 {"metadata", MetadataOf(account)},
                 {"roleRef", ReferenceToRole("Role", account.name)},
                 {"subjects", SubjectsOf(account)}});
}

Object MakeClusterRoleBinding(absl::string_view name, absl::string_view cluster_role,
                              const ServiceAccountName& account) {
  return Object({{"apiVersion", kRbacVersion},
                 {"kind", "ClusterRoleBinding"},
                 {"metadata", {{"name", std::string(name)}}},
                 {"roleRef", ReferenceToRole("ClusterRole", cluster_role)},
                 {"subjects", SubjectsOf(account)}});
}

}  // namespace csidelta::objects
