#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "objects/object.h"

// Accounts, their rights, and questions to the API server about them. A review or a request is
// answered by being created: the API server does not store it, and it has no name.
namespace csidelta::objects {

class TokenReview : public ObjectOf<TokenReview> {
 public:
  static constexpr KindName kKind = {"authentication.k8s.io", "v1", "tokenreviews", "TokenReview",
                                     false};

  static TokenReview Ask(absl::string_view token, absl::string_view audience);

  // The answer.
  bool is_authenticated() const { return Flag({"status", "authenticated"}); }
  // An authenticator without audiences names none: its answer is for the API server's audience.
  bool IsFor(absl::string_view audience) const;
  std::string user() const { return Text({"status", "user", "username"}); }
};

// What a user may "get".
struct ReadRight {
  std::string group;
  std::string resource;  // plural
  std::string namespace_name;
  std::string name = {};  // "": any
};

class SubjectAccessReview : public ObjectOf<SubjectAccessReview> {
 public:
  static constexpr KindName kKind = {"authorization.k8s.io", "v1", "subjectaccessreviews",
                                     "SubjectAccessReview", false};

  // Asks if the user of a token, as the API server answered it, has a right.
  static SubjectAccessReview Ask(const TokenReview& whose, const ReadRight& right);

  // The answer.
  bool is_allowed() const { return Flag({"status", "allowed"}) && !Flag({"status", "denied"}); }
};

class ServiceAccount : public ObjectOf<ServiceAccount> {
 public:
  static constexpr KindName kKind = {"", "v1", "serviceaccounts", "ServiceAccount"};
};

// Who asks.
class SelfSubjectReview : public ObjectOf<SelfSubjectReview> {
 public:
  static constexpr KindName kKind = {"authentication.k8s.io", "v1", "selfsubjectreviews",
                                     "SelfSubjectReview", false};

  static SelfSubjectReview Ask();

  // "system:serviceaccount:NAMESPACE:NAME", or a person.
  std::string username() const { return Text({"status", "userInfo", "username"}); }
  // The Pod that the token of the request is bound to; "" if none.
  std::string pod_name() const { return Extra("authentication.kubernetes.io/pod-name"); }
  std::string pod_uid() const { return Extra("authentication.kubernetes.io/pod-uid"); }

 private:
  std::string Extra(absl::string_view key) const;
};

// A token of a service account: its subresource "token".
class TokenRequest : public ObjectOf<TokenRequest> {
 public:
  static constexpr KindName kKind = {"authentication.k8s.io", "v1", "", "TokenRequest"};

  static TokenRequest For(absl::string_view audience, absl::Duration lifetime);
  // The token is good for as long as the Pod of the account's namespace is there.
  void BindToPod(absl::string_view name, absl::string_view uid);

  std::string token() const { return Text({"status", "token"}); }  // secret
  std::optional<absl::Time> expires_at() const { return TimeAt({"status", "expirationTimestamp"}); }
};

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
