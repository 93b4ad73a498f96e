#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "objects/object.h"

// Questions to the API server about others, which are answered by being created: whose a token is,
// and what a user may do.
namespace csidelta::objects {

class TokenReview : public ObjectOf<TokenReview> {
 public:
  static constexpr KindName kKind = {"authentication.k8s.io", "v1", "tokenreviews", "TokenReview",
                                     false};

  static TokenReview Ask(absl::string_view token, absl::string_view audience);

  // The answer.
  bool is_authenticated() const { return Flag({"status", "authenticated"}); }
  // An authenticator that knows no audiences names none, and speaks of the API server's.
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

  // Whether the user of a token, as it was answered, has a right.
  static SubjectAccessReview Ask(const TokenReview& whose, const ReadRight& right);

  // The answer.
  bool is_allowed() const { return Flag({"status", "allowed"}) && !Flag({"status", "denied"}); }
};

}  // namespace csidelta::objects
