#include "csi/expose/audience_tokens.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "objects/access.h"
#include "objects/client.h"

namespace csidelta::csi {

using objects::SelfSubjectReview;
using objects::TokenRequest;

absl::StatusOr<AudienceTokens::Subject> AudienceTokens::FindSubject(const CallContext& ctx) {
  if (!settings_.service_account.empty()) {
    const std::vector<std::string> parts = absl::StrSplit(settings_.service_account, '/');
    if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("service account ", settings_.service_account, " is not NAMESPACE/NAME"));
    }
    return Subject{objects::ServiceAccount::Key(parts[0], parts[1])};
  }
  ASSIGN_OR_RETURN(const SelfSubjectReview answer,
                   objects::Create(ctx, api_, SelfSubjectReview::Ask()));
  const std::string username = answer.username();
  const std::vector<std::string> parts = absl::StrSplit(username, ':');
  if (parts.size() != 4 || parts[0] != "system" || parts[1] != "serviceaccount") {
    return absl::FailedPreconditionError(absl::StrCat(
        "the user \"", username,
        "\" is no service account, whose token the service of snapshot metadata wants; name one"));
  }
  return Subject{objects::ServiceAccount::Key(parts[2], parts[3]), answer.pod_name(),
                 answer.pod_uid()};
}

absl::StatusOr<AudienceTokens::Issued> AudienceTokens::Request(const CallContext& ctx,
                                                               const std::string& audience) {
  ASSIGN_OR_RETURN(const Subject subject, FindSubject(ctx));
  TokenRequest request = TokenRequest::For(audience, kLifetime);
  if (!subject.pod_name.empty()) {
    request.BindToPod(subject.pod_name, subject.pod_uid);
  }
  ASSIGN_OR_RETURN(const TokenRequest answer,
                   objects::CreateSubresource(ctx, api_, subject.account, "token", request));
  const std::string token = answer.token();
  if (token.empty()) {
    return absl::InternalError(
        absl::StrCat("the token of ", ToString(subject.account), " came without a token"));
  }
  return Issued{.token = Secret(token),
                .expires_at = answer.expires_at().value_or(ctx.clock->Now() + kLifetime)};
}

absl::StatusOr<Secret> AudienceTokens::Token(const CallContext& ctx, const std::string& audience) {
  CSIDELTA_CHECK(!audience.empty());  // A token for no audience is good for the API server itself.
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
