#pragma once

#include <grpcpp/channel.h>
#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::plugin {

// A plugin started as the host starts it: cookie in the environment, pipes for stdout and stderr, a
// folder of its own for sockets. Killed by the destructor when it still runs. Not thread-safe.
class PluginProcess {
 public:
  struct Options {
    std::string executable;
    std::vector<std::string> arguments;
    std::map<std::string, std::string> environment = {{"VELERO_PLUGIN", "hello"},
                                                      {"PLUGIN_PROTOCOL_VERSIONS", "2"}};
  };

  explicit PluginProcess(const Options& options);
  ~PluginProcess();
  PluginProcess(const PluginProcess&) = delete;
  PluginProcess& operator=(const PluginProcess&) = delete;

  // The first line of stdout, with its newline; what there is when the output ends or after a
  // minute.
  std::string ReadHandshake();
  // The socket that the handshake names; "" when none existed.
  std::string SocketPath();
  // A connection to the socket, messages unlimited.
  std::shared_ptr<grpc::Channel> Connect();

  // Blocks until stderr holds `text`, at most a minute: how a test knows that a call has begun.
  void AwaitStderr(const std::string& text);

  void Signal(int number) const;
  // The status of waitpid(2); -1 when the process still runs after `grace period`.
  int WaitForExit(absl::Duration grace_period);
  // Everything written to stdout after the handshake, and all of stderr. Call after the exit.
  std::string RestOfStdout();
  std::string Stderr();

  pid_t pid() const { return pid_; }
  const std::string& folder() const { return folder_.path(); }

 private:
  pid_t pid_ = -1;
  bool exited_ = false;
  int exit_status_ = 0;
  int stdout_fd_ = -1;
  int stderr_fd_ = -1;
  std::string handshake_;
  std::string stderr_;
  const support::ScratchFolder folder_;
};

}  // namespace csidelta::plugin
