#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/json.h"
#include "base/mutex.h"
#include "k8s/api_client.h"
#include "k8s/heartbeat.h"

namespace csidelta::k8s {

// A dead leader blocks others for kLeaseDuration. A leader that cannot renew leads for
// kLeadTimeMax, which is less. Leaders and followers make a step each kLeaseStepEvery.
inline constexpr absl::Duration kLeaseDuration = absl::Seconds(10);
inline constexpr absl::Duration kLeadTimeMax = absl::Seconds(7);
inline constexpr absl::Duration kLeaseStepEvery = absl::Seconds(2);

struct LeaderLeaseOptions {
  std::string namespace_name;
  std::string name;
  std::string holder;  // of no other process that runs
};

// Which one of several processes may write: the holder of a Lease.
//
//   follower --no Lease, it was given up, or not renewed for kLeaseDuration--> leader
//   leader   --not renewed for kLeadTimeMax, another took it, Release()------> follower
//
// Time is measured by each process for itself, from what it did or saw, so that clocks need not
// agree. Between two leaders there is always a time without one. Thread-safe; Step() and Release()
// are called by one thread.
class LeaderLease {
 public:
  // Borrows `api`.
  LeaderLease(ApiClient& api, LeaderLeaseOptions options);

  // Takes the Lease, renews it, or looks at whose it is: one or two requests, one while it is held.
  // Call it every kLeaseStepEvery. Losing it to another is no error.
  absl::Status Step(const CallContext& ctx);

  // Gives the Lease up, so that the next one need not wait. Not held: nothing.
  absl::Status Release(const CallContext& ctx);

  // Steps until `ctx` ends, then releases. Errors are logged.
  void Run(const CallContext& ctx);

  bool leads(const Clock& clock) const;

  // Of Run().
  const Heartbeat& heartbeat() const { return heartbeat_; }

 private:
  absl::Status Create(const CallContext& ctx);
  absl::Status Hold(const CallContext& ctx, Json lease);
  absl::Status Look(const CallContext& ctx);
  Json Spec(absl::Time now) const;
  void SetLeadsUntil(absl::Duration uptime);

  ApiClient& api_;
  const LeaderLeaseOptions options_;
  const ObjectKey key_;
  std::optional<Json> held_;  // as this process wrote it last
  std::string seen_version_;  // of another's Lease
  absl::Duration seen_at_;    // since when it has that version
  Heartbeat heartbeat_;
  mutable Mutex mutex_;
  absl::Duration leads_until_ ABSL_GUARDED_BY(mutex_) =
      absl::ZeroDuration();  // Uptime of the clock.
};

}  // namespace csidelta::k8s
