#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "net/http_server.h"

namespace csidelta::k8s {

// When a loop last began a turn. Thread-safe.
class Heartbeat {
 public:
  void Beat(const Clock& clock) { at_ns_ = absl::ToInt64Nanoseconds(clock.Uptime()); }
  // The time since then; zero before the first turn, because the loop may not have been started.
  absl::Duration Age(const Clock& clock) const;

 private:
  static constexpr int64_t kNever = -1;
  std::atomic<int64_t> at_ns_ = kNever;
};

// A loop of a program, and how old its turn is.
struct LoopAge {
  std::string name;
  absl::Duration age;
};

// More than any turn takes. A watch takes the longest, 330 s and a pause. During an outage of the
// API server each turn fails in time.
inline constexpr absl::Duration kLoopAgeMax = absl::Minutes(10);

// The answer to a liveness probe: 503 with the names of loops that are older than `age_max`, else
// 200. Pure.
net::HttpResponse HealthOf(const std::vector<LoopAge>& loops, absl::Duration age_max = kLoopAgeMax);

}  // namespace csidelta::k8s
