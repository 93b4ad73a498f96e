#pragma once

#include <signal.h>

#include <cstdio>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/log.h"

namespace csidelta::support {

// A program of the tests that serves until it is told to end.
struct ServerProgram {
  const char* name;
  const char* usage;
  absl::Status arguments;  // what came of reading them
};

// Runs `serve`, which waits for one of the signals that it is given, unless the arguments are
// wrong. The exit code: 2 for those, 1 for an error of `serve`. To be called before the first
// thread starts: it blocks the signals for all of them.
inline int RunServer(const ServerProgram& program,
                     absl::FunctionRef<absl::Status(const sigset_t& signals)> serve) {
  constexpr int kExitFailed = 1;
  constexpr int kExitUsage = 2;
  if (!program.arguments.ok()) {
    std::fprintf(stderr, "%s: %s\n%s", program.name,
                 std::string(program.arguments.message()).c_str(), program.usage);
    return kExitUsage;
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const absl::Status status = serve(signals);
  if (!status.ok()) {
    CSIDELTA_LOG(kError, "the program failed", {"program", program.name},
                 {"status", status.ToString()});
    return kExitFailed;
  }
  return 0;
}

}  // namespace csidelta::support
