#include "diffsnap/access.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/crypto.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "diffsnap/differential_snapshot.h"

namespace csidelta::diffsnap {
namespace {

const k8s::ResourceType& TokenReviewType() {
  static const auto& type = *new k8s::ResourceType{"authentication.k8s.io", "v1", "tokenreviews",
                                                   "TokenReview", /*namespaced=*/false};
  return type;
}

const k8s::ResourceType& SubjectAccessReviewType() {
  static const auto& type =
      *new k8s::ResourceType{"authorization.k8s.io", "v1", "subjectaccessreviews",
                             "SubjectAccessReview", /*namespaced=*/false};
  return type;
}

Json Review(const k8s::ResourceType& type, Json spec) {
  return {{"apiVersion", absl::StrCat(type.group, "/", type.version)},
          {"kind", type.kind},
          {"metadata", Json::object()},
          {"spec", std::move(spec)}};
}

bool Holds(const Json* list, const std::string& text) {
  return list != nullptr && list->is_array() &&
         std::any_of(list->begin(), list->end(),
                     [&](const Json& item) { return item.is_string() && item == text; });
}

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
  ASSIGN_OR_RETURN(const Json user, WhoIs(ctx, token));
  RETURN_IF_ERROR(CheckRight(ctx, user,
                             {{"verb", "get"},
                              {"group", DifferentialSnapshotType().group},
                              {"resource", "differentialsnapshots"},
                              {"namespace", namespace_name},
                              {"name", name}}));
  return CheckRight(ctx, user,
                    {{"verb", "get"},
                     {"group", "snapshot.storage.k8s.io"},
                     {"resource", "volumesnapshots"},
                     {"namespace", namespace_name}});
}

absl::StatusOr<Json> AccessReviewer::WhoIs(const CallContext& ctx, const Secret& token) {
  const absl::StatusOr<Json> review = api_.Create(
      ctx, TokenReviewType(), "",
      Review(TokenReviewType(), {{"token", token.Reveal()}, {"audiences", {audience_}}}));
  if (!review.ok()) {
    return Undecided(review.status());
  }
  // An authenticator that knows no audiences names none, and speaks of the API server's.
  if (!GetBool(*review, {"status", "authenticated"}) ||
      !Holds(FindJson(*review, {"status", "audiences"}), audience_)) {
    return absl::UnauthenticatedError(absl::StrCat("the token is not valid for audience \"",
                                                   audience_,
                                                   "\": get a new one with TokenRequest"));
  }
  const Json* user = FindJson(*review, {"status", "user"});
  if (user == nullptr || GetString(*user, {"username"}).empty()) {
    return absl::UnauthenticatedError("the token belongs to nobody");
  }
  return *user;
}

absl::Status AccessReviewer::CheckRight(const CallContext& ctx, const Json& user,
                                        const Json& resource) {
  Json spec{{"user", GetString(user, {"username"})}, {"resourceAttributes", resource}};
  for (const char* const member : {"groups", "uid", "extra"}) {
    if (const Json* value = FindJson(user, {member}); value != nullptr) {
      spec[member] = *value;
    }
  }
  const absl::StatusOr<Json> review =
      api_.Create(ctx, SubjectAccessReviewType(), "", Review(SubjectAccessReviewType(), spec));
  if (!review.ok()) {
    return Undecided(review.status());
  }
  if (!GetBool(*review, {"status", "allowed"}) || GetBool(*review, {"status", "denied"})) {
    return absl::PermissionDeniedError(
        absl::StrCat(GetString(spec, {"user"}), " may not get ", GetString(resource, {"resource"}),
                     ".", GetString(resource, {"group"}), " in namespace ",
                     GetString(resource, {"namespace"}), ": give it a Role that allows it"));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::diffsnap
