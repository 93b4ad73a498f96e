#include "csi/audience_tokens.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"

namespace csidelta::csi {
namespace {

constexpr char kReviewApiVersion[] = "authentication.k8s.io/v1";

const k8s::ResourceType& SelfSubjectReviewType() {
  static const k8s::ResourceType type{"authentication.k8s.io", "v1", "selfsubjectreviews",
                                      "SelfSubjectReview", false};
  return type;
}

k8s::ObjectKey AccountKey(const std::string& namespace_name, const std::string& name) {
  return {.type = {"", "v1", "serviceaccounts", "ServiceAccount", true},
          .namespace_name = namespace_name,
          .name = name};
}

}  // namespace

absl::StatusOr<k8s::ObjectKey> AudienceTokens::ServiceAccount(const CallContext& ctx) {
  if (!settings_.service_account.empty()) {
    const std::vector<std::string> parts = absl::StrSplit(settings_.service_account, '/');
    if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("service account ", settings_.service_account, " is not NAMESPACE/NAME"));
    }
    return AccountKey(parts[0], parts[1]);
  }
  const Json review = {{"apiVersion", kReviewApiVersion}, {"kind", "SelfSubjectReview"}};
  ASSIGN_OR_RETURN(const Json answer, api_.Create(ctx, SelfSubjectReviewType(), "", review));
  const std::string username = GetString(answer, {"status", "userInfo", "username"});
  const std::vector<std::string> parts = absl::StrSplit(username, ':');
  if (parts.size() != 4 || parts[0] != "system" || parts[1] != "serviceaccount") {
    return absl::FailedPreconditionError(absl::StrCat(
        "the user \"", username,
        "\" is no service account, whose token the service of snapshot metadata wants; name one"));
  }
  return AccountKey(parts[2], parts[3]);
}

absl::StatusOr<AudienceTokens::Issued> AudienceTokens::Request(const CallContext& ctx,
                                                               const std::string& audience) {
  ASSIGN_OR_RETURN(const k8s::ObjectKey account, ServiceAccount(ctx));
  Json request = {{"apiVersion", kReviewApiVersion},
                  {"kind", "TokenRequest"},
                  {"spec",
                   {{"audiences", Json::array({audience})},
                    {"expirationSeconds", absl::ToInt64Seconds(kLifetime)}}}};
  if (!settings_.pod_name.empty()) {
    SetJson(request, {"spec", "boundObjectRef"},
            {{"apiVersion", "v1"},
             {"kind", "Pod"},
             {"name", settings_.pod_name},
             {"uid", settings_.pod_uid}});
  }
  ASSIGN_OR_RETURN(const Json answer, api_.CreateSubresource(ctx, account, "token", request));
  const std::string token = GetString(answer, {"status", "token"});
  const std::optional<absl::Time> expires_at =
      ParseRfc3339(GetString(answer, {"status", "expirationTimestamp"}));
  if (token.empty()) {
    return absl::InternalError(
        absl::StrCat("the token of ", ToString(account), " came without a token"));
  }
  return Issued{.token = Secret(token),
                .expires_at = expires_at.value_or(ctx.clock->Now() + kLifetime)};
}

absl::StatusOr<Secret> AudienceTokens::Token(const CallContext& ctx, const std::string& audience) {
  if (!settings_.token_path.empty()) {
    ASSIGN_OR_RETURN(std::string token, file_.Token(*ctx.clock));
    return Secret(std::move(token));
  }
  {
    const MutexLock lock(mutex_);
    const auto found = issued_.find(audience);
    if (found != issued_.end() && ctx.clock->Now() + kRenewBefore < found->second.expires_at) {
      return found->second.token;
    }
  }
  ASSIGN_OR_RETURN(Issued issued, Request(ctx, audience));
  const MutexLock lock(mutex_);
  return (issued_[audience] = std::move(issued)).token;
}

void AudienceTokens::Refuse(const CallContext& ctx, const std::string& audience,
                            const Secret& token) {
  if (!settings_.token_path.empty()) {
    file_.Refresh(*ctx.clock, token.Reveal());
    return;
  }
  const MutexLock lock(mutex_);
  const auto found = issued_.find(audience);
  if (found != issued_.end() && found->second.token == token) {
    issued_.erase(found);
  }
}

}  // namespace csidelta::csi
