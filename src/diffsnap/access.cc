#include "diffsnap/access.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/crypto.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/differential_snapshot.h"
#include "objects/volume_snapshot.h"

namespace csidelta::diffsnap {
namespace {

using objects::SubjectAccessReview;
using objects::TokenReview;

// That we may not ask, or are not answered, is no fault of who asks us.
absl::Status Undecided(const absl::Status& status) {
  return absl::UnavailableError(
      absl::StrCat("the API server did not say whether this is allowed: ", status.message()));
}

}  // namespace

AccessReviewer::AccessReviewer(k8s::ApiClient& api, std::string audience)
    : api_(api), audience_(std::move(audience)) {
  CSIDELTA_CHECK(!audience_.empty());
}

absl::Status AccessReviewer::Check(const CallContext& ctx, const Secret& token,
                                   const std::string& namespace_name, const std::string& name) {
  // Neither part of a path holds a line break, so that no two questions have one key.
  const std::string key = absl::StrCat(Sha256Hex(token.Reveal()), "\n", namespace_name, "\n", name);
  {
    const MutexLock lock(mutex_);
    const auto found = decisions_.find(key);
    if (found != decisions_.end() &&
        ctx.clock->Uptime() - found->second.made_at < kDecisionAgeMax) {
      return found->second.outcome;
    }
  }
  const Decision decision{.made_at = ctx.clock->Uptime(),
                          .outcome = Decide(ctx, token, namespace_name, name)};
  if (!absl::IsUnavailable(decision.outcome)) {
    Remember(key, decision);
  }
  return decision.outcome;
}

void AccessReviewer::Remember(const std::string& key, const Decision& decision) {
  const MutexLock lock(mutex_);
  if (decisions_.insert_or_assign(key, decision).second) {
    oldest_first_.push_back(key);
  }
  if (std::ssize(oldest_first_) > kDecisionsMax) {
    decisions_.erase(oldest_first_.front());
    oldest_first_.pop_front();
  }
}

absl::Status AccessReviewer::Decide(const CallContext& ctx, const Secret& token,
                                    const std::string& namespace_name, const std::string& name) {
  ASSIGN_OR_RETURN(const TokenReview whose, WhoIs(ctx, token));
  RETURN_IF_ERROR(CheckRight(ctx, whose,
                             {.group = objects::DifferentialSnapshot::kKind.group,
                              .resource = objects::DifferentialSnapshot::kKind.plural,
                              .namespace_name = namespace_name,
                              .name = name}));
  return CheckRight(ctx, whose,
                    {.group = objects::VolumeSnapshot::kKind.group,
                     .resource = objects::VolumeSnapshot::kKind.plural,
                     .namespace_name = namespace_name});
}

absl::StatusOr<TokenReview> AccessReviewer::WhoIs(const CallContext& ctx, const Secret& token) {
  absl::StatusOr<TokenReview> review =
      objects::Create(ctx, api_, TokenReview::Ask(token.Reveal(), audience_));
  if (!review.ok()) {
    return Undecided(review.status());
  }
  if (!review->is_authenticated() || !review->IsFor(audience_)) {
    return absl::UnauthenticatedError(absl::StrCat("the token is not valid for audience \"",
                                                   audience_,
                                                   "\": get a new one with TokenRequest"));
  }
  if (review->user().empty()) {
    return absl::UnauthenticatedError("the token belongs to nobody");
  }
  return review;
}

absl::Status AccessReviewer::CheckRight(const CallContext& ctx, const TokenReview& whose,
                                        const objects::ReadRight& right) {
  const absl::StatusOr<SubjectAccessReview> review =
      objects::Create(ctx, api_, SubjectAccessReview::Ask(whose, right));
  if (!review.ok()) {
    return Undecided(review.status());
  }
  if (!review->is_allowed()) {
    return absl::PermissionDeniedError(
        absl::StrCat(whose.user(), " may not get ", right.resource, ".", right.group,
                     " in namespace ", right.namespace_name, ": give it a Role that allows it"));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::diffsnap
