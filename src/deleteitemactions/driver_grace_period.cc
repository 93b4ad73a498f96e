#include "deleteitemactions/driver_grace_period.h"

#include "absl/status/statusor.h"
#include "base/log.h"

namespace csidelta::deleteitemactions {
namespace {

constexpr absl::Duration kWaitForSlowDriver = absl::Seconds(1);

}  // namespace

absl::Duration DriverGracePeriod::WaitFor(const CallContext& ctx, const std::string& driver) {
  {
    const MutexLock lock(mutex_);
    if (slow_drivers_.contains(driver)) {
      return kWaitForSlowDriver;
    }
  }
  const absl::StatusOr<velero::PluginConfig> config = csi::ReadPluginConfig(ctx, env_);
  if (!config.ok()) {
    CSIDELTA_LOG(kWarn, "settings cannot be read: the defaults count",
                 {"error", config.status().ToString()});
    return velero::PluginConfig().deletion_wait;
  }
  return config->deletion_wait;
}

void DriverGracePeriod::WasSlow(const std::string& driver) {
  const MutexLock lock(mutex_);
  slow_drivers_.insert(driver);
}

}  // namespace csidelta::deleteitemactions
