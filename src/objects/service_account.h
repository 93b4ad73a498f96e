#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "objects/object.h"

// Service accounts and what the API server tells of them. Reviews and requests are answered, and
// not stored: they have no name.
namespace csidelta::objects {

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

}  // namespace csidelta::objects
