#include "diffsnap/access.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/crypto.h"
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

// For the part of `limiter`; a moment later it is an answer that the reader should ask again.
absl::Status Wait(const CallContext& ctx, RateLimiter& limiter, absl::string_view what) {
  const absl::Status passed = limiter.Take(ctx.WithTimeout(kReviewWaitMax));
  RETURN_IF_ERROR(ctx.Check());
  return passed.ok() ? passed
                     : absl::UnavailableError(absl::StrCat(
                           "too many ", what, " at this moment; ask again in a few seconds"));
}

}  // namespace

const AccessReviewer::Decision* AccessReviewer::Decisions::Find(const std::string& key,
                                                                absl::Duration now,
                                                                absl::Duration age_max) const {
  const auto found = decisions_.find(key);
  return found != decisions_.end() && now - found->second.made_at < age_max ? &found->second
                                                                            : nullptr;
}

void AccessReviewer::Decisions::Put(const std::string& key, Decision decision) {
  if (decisions_.insert_or_assign(key, std::move(decision)).second) {
    oldest_first_.push_back(key);
  }
  if (std::ssize(oldest_first_) > kDecisionsMax) {
    decisions_.erase(oldest_first_.front());
    oldest_first_.pop_front();
  }
}

AccessReviewer::AccessReviewer(k8s::ApiClient& api, std::string audience,
                               const ReviewLimits& limits)
    : api_(api),
      audience_(std::move(audience)),
      reviews_(limits.reviews_per_second, static_cast<int64_t>(limits.reviews_per_second)),
      unknown_(limits.unknown_tokens_per_second,
               static_cast<int64_t>(limits.unknown_tokens_per_second)) {
  CSIDELTA_CHECK(!audience_.empty());
}

absl::Status AccessReviewer::Check(const CallContext& ctx, const Secret& token,
                                   const std::string& namespace_name, const std::string& name) {
  const std::string hash = Sha256Hex(token.Reveal());
  // Neither part of a path holds a line break, so that no two questions have one key.
  const std::string key = absl::StrCat(hash, "\n", namespace_name, "\n", name);
  if (std::optional<absl::Status> known = Recall(hash, key, ctx.clock->Uptime());
      known.has_value()) {
    return *std::move(known);
  }
  const Decision decision{.made_at = ctx.clock->Uptime(),
                          .outcome = Decide(ctx, token, hash, namespace_name, name)};
  Remember(hash, key, decision);
  return decision.outcome;
}

std::optional<absl::Status> AccessReviewer::Recall(const std::string& hash, const std::string& key,
                                                   absl::Duration now) {
  const MutexLock lock(mutex_);
  const Decision* known = refused_.Find(hash, now, kDecisionAgeMax);
  if (known == nullptr) {
    known = decisions_.Find(key, now, kDecisionAgeMax);
  }
  return known == nullptr ? std::nullopt : std::optional(known->outcome);
}

void AccessReviewer::Remember(const std::string& hash, const std::string& key,
                              const Decision& decision) {
  const MutexLock lock(mutex_);
  if (absl::IsUnauthenticated(decision.outcome)) {
    refused_.Put(hash, decision);
  } else if (decision.outcome.ok() || absl::IsPermissionDenied(decision.outcome)) {
    accepted_.Put(hash, {.made_at = decision.made_at, .outcome = absl::OkStatus()});
    decisions_.Put(key, decision);
  }
}

bool AccessReviewer::WasAccepted(const std::string& hash, absl::Duration now) {
  const MutexLock lock(mutex_);
  return accepted_.Find(hash, now, kAcceptedAgeMax) != nullptr;
}

absl::Status AccessReviewer::Decide(const CallContext& ctx, const Secret& token,
                                    const std::string& hash, const std::string& namespace_name,
                                    const std::string& name) {
  RETURN_IF_ERROR(WasAccepted(hash, ctx.clock->Uptime())
                      ? Wait(ctx, reviews_, "reviews are asked for")
                      : Wait(ctx, unknown_, "unknown tokens are shown"));
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
    return absl::UnauthenticatedError("the token is of no user");
  }
  return review;
}

absl::Status AccessReviewer::CheckRight(const CallContext& ctx, const TokenReview& whose,
                                        const objects::ReadRight& right) {
  RETURN_IF_ERROR(Wait(ctx, reviews_, "reviews are asked for"));
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
