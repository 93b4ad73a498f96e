#include "k8s/access_review.h"

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace csidelta::k8s {
namespace {

constexpr char kAccessReviewApiVersion[] = "authorization.k8s.io/v1";

const ResourceType& SelfSubjectAccessReviewType() {
  static const ResourceType type{"authorization.k8s.io", "v1", "selfsubjectaccessreviews",
                                 "SelfSubjectAccessReview", false};
  return type;
}

}  // namespace

absl::StatusOr<AccessAnswer> ReviewAccess(const CallContext& ctx, ApiClient& api,
                                          const AccessRequest& request) {
  const Json attributes = {{"verb", request.verb},
                           {"group", request.type.group},
                           {"version", request.type.version},
                           {"resource", request.type.plural},
                           {"namespace", request.namespace_name},
                           {"name", request.name}};
  const Json review = {{"apiVersion", kAccessReviewApiVersion},
                       {"kind", SelfSubjectAccessReviewType().kind},
                       {"spec", {{"resourceAttributes", attributes}}}};
  ASSIGN_OR_RETURN(const Json answer, api.Create(ctx, SelfSubjectAccessReviewType(), "", review));
  return AccessAnswer{.is_allowed = GetBool(answer, {"status", "allowed"}),
                      .reason = GetString(answer, {"status", "reason"})};
}

absl::Status RequireAccess(const CallContext& ctx, ApiClient& api, const AccessRequest& request,
                           absl::string_view role) {
  ASSIGN_OR_RETURN(const AccessAnswer answer, ReviewAccess(ctx, api, request));
  if (answer.is_allowed) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "you may not ", request.verb, " ", request.type.plural,
      request.namespace_name.empty() ? "" : absl::StrCat(" in namespace ", request.namespace_name),
      answer.reason.empty() ? "" : absl::StrCat(" (", answer.reason, ")"),
      "; ask for the ClusterRole ", role));
}

absl::Status RequireAccess(const CallContext& ctx, ApiClient& api,
                           const std::vector<NeededRight>& rights) {
  for (const NeededRight& right : rights) {
    RETURN_IF_ERROR(RequireAccess(ctx, api, right.request, right.role));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::k8s
