#pragma once

#include <set>
#include <string>

#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "csi/environment.h"

namespace csidelta::deleteitemactions {

// How long the driver is waited for. Velero deletes one item after the other: a driver that has not
// agreed once in time is not waited for as long again. What it was asked stands in the cluster and
// is finished there. Thread-safe.
class DriverGracePeriod {
 public:
  explicit DriverGracePeriod(const csi::Environment& env) : env_(env) {}

  // The setting deletionWait, its default when the settings cannot be read; a second for a driver
  // that was slow. At most one request.
  absl::Duration WaitFor(const CallContext& ctx, const std::string& driver);

  void WasSlow(const std::string& driver);

 private:
  const csi::Environment env_;
  Mutex mutex_;
  std::set<std::string> slow_drivers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::deleteitemactions
