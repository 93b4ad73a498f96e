#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "plugin/call_tracker.h"
#include "plugin/host_link.h"
#include "plugin/lister.h"
#include "plugin/registry.h"

namespace csidelta::plugin {

inline constexpr int kMessageBytesMax = INT32_MAX;  // What the host itself sends and takes at most.

// Every service of the plugin on one unix socket. Borrows registry and link, which outlive it.
// Thread-safe. Each running call of an action has its own thread, so that a slow one delays no
// other. The host bounds the number of calls at once by its worker count.
class PluginServer {
 public:
  // Listens on `socket_path` from the return on. UNAVAILABLE when the socket cannot be bound.
  static absl::StatusOr<std::unique_ptr<PluginServer>> Start(const std::string& socket_path,
                                                             const Registry& registry,
                                                             ListerSettings lister, HostLink& link);

  // Cancels every call and waits for the running ones. The program never comes here, it exits.
  virtual ~PluginServer() = default;

  // The calls that are running.
  virtual CallTracker& calls() = 0;
};

}  // namespace csidelta::plugin
