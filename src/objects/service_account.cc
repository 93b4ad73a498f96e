#include "objects/service_account.h"

#include <vector>

namespace csidelta::objects {

SelfSubjectReview SelfSubjectReview::Ask() {
  SelfSubjectReview review;
  review.Set({"apiVersion"}, kKind.ApiVersion());
  review.Set({"kind"}, kKind.kind);
  return review;
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

}  // namespace csidelta::objects
