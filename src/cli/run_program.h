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
  std::vector<std::string> arguments;  // the first is searched in PATH unless it has a slash
  std::vector<std::pair<std::string, std::string>> environment =
      {};  // added to the own environment, or replacing variables of it
  std::size_t output_bytes_max = std::size_t{64} << 10;
};

// Runs a program to its end and returns its stdout. It inherits stdin and stderr. NOT_FOUND if the
// program does not exist, FAILED_PRECONDITION if it did not end with 0; each names the program. It
// gets SIGTERM if the time of `ctx` is over, or if it writes too much: INVALID_ARGUMENT.
absl::StatusOr<std::string> RunProgram(const CallContext& ctx, const ProgramToRun& program);

// A program that stops the writes of an application, "kubectl exec -i db -- hold-writes". It writes
// a line once they are stopped, and releases the application when its stdin ends. It inherits
// stderr. Not thread-safe.
class HeldProgram {
 public:
  // Starts the program and waits for its first line. FAILED_PRECONDITION if it ends without one;
  // other errors as RunProgram(). After an error it has ended.
  static absl::StatusOr<std::unique_ptr<HeldProgram>> Start(const CallContext& ctx,
                                                            const ProgramToRun& program);
  HeldProgram(const HeldProgram&) = delete;
  HeldProgram& operator=(const HeldProgram&) = delete;
  ~HeldProgram();  // Releases it.

  // Closes its stdin and waits for its end. After ten seconds it gets SIGTERM, then SIGKILL.
  // FAILED_PRECONDITION if it did not end with 0, or had ended before: the application may have
  // written meanwhile. The second call is OK.
  absl::Status Release();

 private:
  HeldProgram(std::string name, pid_t pid, UniqueFd input, UniqueFd output)
      : name_(std::move(name)), pid_(pid), input_(std::move(input)), output_(std::move(output)) {}

  const std::string name_;
  pid_t pid_;  // 0: it has ended
  UniqueFd input_;
  UniqueFd output_;  // open to the end: further output is not read, and not an error
};

// The text up to the end of a file, or if `line` up to a line break.
absl::StatusOr<std::string> ReadText(const CallContext& ctx, int fd, bool line,
                                     std::size_t text_bytes_max);

}  // namespace csidelta::cli
