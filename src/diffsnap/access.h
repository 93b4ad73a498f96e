#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "base/rate_limiter.h"
#include "base/secret.h"
#include "k8s/api_client.h"
#include "objects/access.h"

namespace csidelta::diffsnap {

// How long a decision counts without being asked for again, and how many are remembered.
inline constexpr absl::Duration kDecisionAgeMax = absl::Seconds(10);
inline constexpr int64_t kDecisionsMax = 4096;
// How long a token that was accepted is none of the unknown ones.
inline constexpr absl::Duration kAcceptedAgeMax = absl::Hours(1);
// How long a reader is kept waiting for its part of ReviewLimits.
inline constexpr absl::Duration kReviewWaitMax = absl::Seconds(1);

// What the API server is asked, at most: less than its client may ask, so that readers leave the
// controller its part, and unknown tokens leave the readers theirs. Not positive: no limit.
struct ReviewLimits {
  double reviews_per_second = 50;         // about tokens that were accepted, and rights
  double unknown_tokens_per_second = 10;  // about other tokens, made-up ones among them
};

// May the bearer of this token read the changes that an object stands for? Asks the API server: a
// TokenReview for our audience, then two SubjectAccessReviews, whether its user may get that
// DifferentialSnapshot and may get volume snapshots in its namespace. A decision, whichever it is,
// counts for kDecisionAgeMax, and that a token is not valid counts for all objects; tokens are
// remembered as hashes. Thread-safe.
class AccessReviewer {
 public:
  // Borrows `api`. REQUIRES an audience.
  AccessReviewer(k8s::ApiClient& api, std::string audience, const ReviewLimits& limits = {});

  // UNAUTHENTICATED: not a token for us, or none any more. PERMISSION_DENIED, naming the user and
  // the right that is missing. UNAVAILABLE: the API server did not decide, or too much is asked.
  absl::Status Check(const CallContext& ctx, const Secret& token, const std::string& namespace_name,
                     const std::string& name);

 private:
  struct Decision {
    absl::Duration made_at;  // of the clock that no one can set
    absl::Status outcome;
  };

  // The newest kDecisionsMax of them.
  class Decisions {
   public:
    // Null where none exists that is younger.
    const Decision* Find(const std::string& key, absl::Duration now, absl::Duration age_max) const;
    void Put(const std::string& key, Decision decision);

   private:
    std::map<std::string, Decision> decisions_;
    std::deque<std::string> oldest_first_;  // The keys of decisions_.
  };

  // What is remembered; nothing where the API server is to be asked.
  std::optional<absl::Status> Recall(const std::string& hash, const std::string& key,
                                     absl::Duration now);
  void Remember(const std::string& hash, const std::string& key, const Decision& decision);
  bool WasAccepted(const std::string& hash, absl::Duration now);

  absl::Status Decide(const CallContext& ctx, const Secret& token, const std::string& hash,
                      const std::string& namespace_name, const std::string& name);
  absl::StatusOr<objects::TokenReview> WhoIs(const CallContext& ctx, const Secret& token);
  absl::Status CheckRight(const CallContext& ctx, const objects::TokenReview& whose,
                          const objects::ReadRight& right);

  k8s::ApiClient& api_;
  const std::string audience_;
  RateLimiter reviews_;
  RateLimiter unknown_;
  Mutex mutex_;
  Decisions decisions_ ABSL_GUARDED_BY(mutex_);  // by hash, namespace and name
  Decisions refused_ ABSL_GUARDED_BY(mutex_);    // UNAUTHENTICATED, by hash
  Decisions accepted_ ABSL_GUARDED_BY(mutex_);   // by hash
};

}  // namespace csidelta::diffsnap
