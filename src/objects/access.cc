#include "objects/access.h"

#include <algorithm>
#include <utility>

#include "base/json.h"

namespace csidelta::objects {
namespace {

Json Question(const KindName& kind, Json spec) {
  return {{"apiVersion", kind.ApiVersion()},
          {"kind", kind.kind},
          {"metadata", Json::object()},
          {"spec", std::move(spec)}};
}

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

TokenReview TokenReview::Ask(absl::string_view token, absl::string_view audience) {
  return Unchecked(
      Question(kKind, {{"token", std::string(token)}, {"audiences", {std::string(audience)}}}));
}

bool TokenReview::IsFor(absl::string_view audience) const {
  const std::vector<std::string> audiences = Texts({"status", "audiences"});
  return std::find(audiences.begin(), audiences.end(), audience) != audiences.end();
}

SubjectAccessReview SubjectAccessReview::Ask(const TokenReview& whose, const ReadRight& right) {
  Json attributes{{"verb", "get"},
                  {"group", right.group},
                  {"resource", right.resource},
                  {"namespace", right.namespace_name}};
  if (!right.name.empty()) {
    attributes["name"] = right.name;
  }
  Json spec{{"user", whose.user()}, {"resourceAttributes", std::move(attributes)}};
  for (const char* const member : {"groups", "uid", "extra"}) {
    if (const Json* value = FindJson(whose.json(), {"status", "user", member}); value != nullptr) {
      spec[member] = *value;
    }
  }
  return Unchecked(Question(kKind, std::move(spec)));
}

SelfSubjectReview SelfSubjectReview::Ask() {
  SelfSubjectReview review;
  review.Set({"apiVersion"}, kKind.ApiVersion());
  review.Set({"kind"}, kKind.kind);
  return review;
}

std::string SelfSubjectReview::Extra(absl::string_view key) const {
  const std::vector<std::string> values = Texts({"status", "userInfo", "extra", key});
  return values.empty() ? "" : values.front();
}

TokenRequest TokenRequest::For(absl::string_view audience, absl::Duration lifetime) {
  TokenRequest request;
  request.Set({"apiVersion"}, kKind.ApiVersion());
  request.Set({"kind"}, kKind.kind);
  request.Set({"spec", "audiences"}, std::vector<std::string>{std::string(audience)});
  request.Set({"spec", "expirationSeconds"}, absl::ToInt64Seconds(lifetime));
  return request;
}

void TokenRequest::BindToPod(absl::string_view name, absl::string_view uid) {
  Set({"spec", "boundObjectRef"},
      {{"apiVersion", "v1"}, {"kind", "Pod"}, {"name", name}, {"uid", uid}});
}

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
