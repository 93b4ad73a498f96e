#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "tests/support/csi_driver/faults.h"
#include "tests/support/csi_driver/files.h"
#include "tests/support/csi_driver/store.h"

namespace csidelta::csi_driver {

inline constexpr int kControlConnectionsMax = 16;
inline constexpr size_t kControlLineBytesMax = size_t{1} << 20;

// Answers one control request; README.md lists them. Always an object: {"ok": true, ...} or
// {"ok": false, "error": "..."}. May block for as long as a "wait" says. Thread-safe.
Json HandleControl(const Json& request, Faults& faults, Store& store);

// Serves HandleControl() on a unix socket: one JSON object per line in, one per line out. At most
// kControlConnectionsMax connections are served at once, the next ones wait. Runs from Start() to
// destruction. The owner keeps `faults` and `store` alive.
class ControlServer {
 public:
  static absl::StatusOr<std::unique_ptr<ControlServer>> Start(const std::string& socket_path,
                                                              Faults& faults, Store& store);
  ~ControlServer();

 private:
  ControlServer(std::string socket_path, UniqueFd listener, UniqueFd stop, Faults& faults,
                Store& store);

  void AcceptConnections();
  void ServeConnection(const UniqueFd& connection);
  // FALSE when the server stops.
  bool WaitReadable(const UniqueFd& fd) const;
  std::string Answer(const std::string& line);

  const std::string socket_path_;
  const UniqueFd listener_;
  const UniqueFd stop_;
  Faults& faults_;
  Store& store_;
  std::vector<std::jthread> workers_;
};

}  // namespace csidelta::csi_driver
