#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "objects/object.h"

// The rights of an account, as objects of rbac.authorization.k8s.io/v1 to be looked at and applied.
namespace csidelta::objects {

// An entry of the rules of a Role.
struct AccessRule {
  std::string group;  // "" for the core group
  std::string resource;
  std::vector<std::string> verbs;
};

struct ServiceAccountName {
  std::string namespace_name;
  std::string name;
};

// A Role that is called as the account, and its binding to that account.
Object MakeRoleOf(const ServiceAccountName& account, const std::vector<AccessRule>& rules);
Object MakeRoleBindingOf(const ServiceAccountName& account);
// Of that ClusterRole to the account.
Object MakeClusterRoleBinding(absl::string_view name, absl::string_view cluster_role,
                              const ServiceAccountName& account);

}  // namespace csidelta::objects
