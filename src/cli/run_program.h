#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/unique_fd.h"

namespace csidelta::cli {

struct ProgramToRun {
  std::vector<std::string> arguments;  // The first is looked for on the PATH unless it has a slash.
  std::vector<std::pair<std::string, std::string>> environment =
      {};  // Besides our own, and instead of it.
  std::size_t output_bytes_max = std::size_t{64} << 10;
};

// Runs a program to its end and returns what it wrote to stdout. It inherits stdin and stderr.
// NOT_FOUND when there is no such program, FAILED_PRECONDITION when it did not end with 0; each
// names the program. It is ended (SIGTERM) when the time of `ctx` is over or it writes too much,
// which is INVALID_ARGUMENT.
absl::StatusOr<std::string> RunProgram(const CallContext& ctx, const ProgramToRun& program);

// A program that holds an application still, "kubectl exec -i db -- hold-writes": it writes a line
// once it does, and releases the application when its stdin ends. It inherits stderr. Not
// thread-safe.
class HeldProgram {
 public:
  // Starts it and waits for its first line. FAILED_PRECONDITION when it ends without one; else as
  // RunProgram(). After an error it has ended.
  static absl::StatusOr<std::unique_ptr<HeldProgram>> Start(const CallContext& ctx,
                                                            const ProgramToRun& program);
  HeldProgram(const HeldProgram&) = delete;
  HeldProgram& operator=(const HeldProgram&) = delete;
  ~HeldProgram();  // Releases it.

  // Ends its stdin and waits until it has ended, which it is made to (SIGTERM, SIGKILL) when that
  // takes more than ten seconds. FAILED_PRECONDITION when it had ended before, so that the
  // application may not have been held all the time; or did not end with 0. The second call is OK.
  absl::Status Release();

 private:
  HeldProgram(std::string name, pid_t pid, UniqueFd input, UniqueFd output)
      : name_(std::move(name)), pid_(pid), input_(std::move(input)), output_(std::move(output)) {}

  const std::string name_;
  pid_t pid_;  // 0 once it has ended
  UniqueFd input_;
  UniqueFd output_;  // Open to the end: what it writes besides is not read, and is no error.
};

// Everything until the end of a file, or until a line break when `line`.
absl::StatusOr<std::string> ReadText(const CallContext& ctx, int fd, bool line,
                                     std::size_t text_bytes_max);

}  // namespace csidelta::cli
