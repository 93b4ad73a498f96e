#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "base/secret.h"
#include "k8s/api_client.h"
#include "objects/access_review.h"

namespace csidelta::diffsnap {

// How long a decision counts without being asked for again, and how many are remembered.
inline constexpr absl::Duration kDecisionAgeMax = absl::Seconds(10);
inline constexpr int64_t kDecisionsMax = 4096;

// May the bearer of this token read the changes that an object stands for? Asks the API server: a
// TokenReview for our audience, then two SubjectAccessReviews, whether its user may get that
// DifferentialSnapshot and may get volume snapshots in its namespace. A decision, whichever it is,
// counts for kDecisionAgeMax; tokens are remembered as hashes. Thread-safe.
class AccessReviewer {
 public:
  // Borrows `api`. REQUIRES an audience.
  AccessReviewer(k8s::ApiClient& api, std::string audience);

  // UNAUTHENTICATED: not a token for us, or none any more. PERMISSION_DENIED, naming the user and
  // the right that is missing. UNAVAILABLE: the API server did not decide.
  absl::Status Check(const CallContext& ctx, const Secret& token, const std::string& namespace_name,
                     const std::string& name);

 private:
  struct Decision {
    absl::Duration made_at;  // of the clock that no one can set
    absl::Status outcome;
  };

  absl::Status Decide(const CallContext& ctx, const Secret& token,
                      const std::string& namespace_name, const std::string& name);
  absl::StatusOr<objects::TokenReview> WhoIs(const CallContext& ctx, const Secret& token);
  absl::Status CheckRight(const CallContext& ctx, const objects::TokenReview& whose,
                          const objects::ReadRight& right);
  void Remember(const std::string& key, const Decision& decision);

  k8s::ApiClient& api_;
  const std::string audience_;
  Mutex mutex_;
  std::map<std::string, Decision> decisions_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> oldest_first_ ABSL_GUARDED_BY(mutex_);  // The keys of decisions_.
};

}  // namespace csidelta::diffsnap
