#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/longhorn/controller.h"
#include "tests/support/longhorn/engine.h"

namespace csidelta::longhorn_stand_in {

// The stand-in on an API server in memory, webhooks included, on a clock that only Pass() moves:
// everything happens there, in the caller's thread. Not thread-safe.
class FakeLonghorn {
 public:
  explicit FakeLonghorn(ControllerOptions options = {});

  support::FakeApiClient& api() { return api_; }
  Engines& engines() { return engines_; }
  Controller& controller() { return *controller_; }  // REQUIRES that the manager runs
  absl::Time now() const { return clock_.Now(); }

  // What becomes due within this time is done when it is due.
  void Pass(absl::Duration time);

  // A detached volume.
  void AddVolume(const std::string& name, int64_t size_bytes = 1 << 20);
  // As a workload does; the volume follows.
  void Attach(const std::string& volume) { SetTicket(volume, Json{{"id", kTicket}}); }
  void Detach(const std::string& volume) { SetTicket(volume, nullptr); }

  // The webhooks do not answer and nothing is reconciled; engines live on.
  void StopManager() { controller_.reset(); }
  void StartManager();
  void SetSwitches(const Switches& switches);

 private:
  static constexpr char kTicket[] = "csi-node-1";

  absl::StatusOr<Json> Admit(const support::FakeApiClient::AdmissionRequest& request) const;
  void SetTicket(const std::string& volume, const Json& ticket);

  const ControllerOptions options_;
  support::FakeClock clock_;
  support::FakeApiClient api_{clock_};
  Engines engines_;
  Switches switches_;
  std::unique_ptr<Controller> controller_;
};

}  // namespace csidelta::longhorn_stand_in
