#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "k8s/api_client.h"
#include "net/http_server.h"
#include "tests/support/longhorn/controller.h"
#include "tests/support/longhorn/engine.h"

namespace csidelta::longhorn_stand_in {

// Longhorn's manager on a real API server: the webhooks and the controllers, with threads that
// follow objects and one that works. Can be stopped and started again while the engines live on.
// Thread-safe.
class Manager {
 public:
  // `certificate` is the webhooks'; `port` 0 is one that the system chooses at the first start.
  Manager(k8s::ApiClient& api, Engines& engines, ControllerOptions options,
          net::ServerCertificate certificate, uint16_t port);
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // Nothing when it runs. Errors of the webhooks' server.
  absl::Status Start();
  void Stop();
  void SetSwitches(const Switches& switches);

  uint16_t port() const;
  int64_t queued() const;  // since it was started

 private:
  void StartThreads();
  static void Work(Controller& controller, const std::stop_token& stop);

  k8s::ApiClient& api_;
  Engines& engines_;
  const ControllerOptions options_;
  const net::ServerCertificate certificate_;
  mutable std::mutex mutex_;  // Guards what follows.
  uint16_t port_;
  Switches switches_;
  std::unique_ptr<Controller> controller_;
  std::unique_ptr<net::HttpServer> server_;
  std::vector<std::jthread> threads_;
};

}  // namespace csidelta::longhorn_stand_in
