#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"

namespace csidelta::cli {

struct ProgramToRun {
  std::vector<std::string> words;  // The first is looked for on the PATH unless it has a slash.
  std::vector<std::pair<std::string, std::string>> environment =
      {};  // Besides our own, and instead of it.
  std::size_t output_bytes_max = std::size_t{64} << 10;
};

// Runs a program to its end and returns what it wrote to stdout. Its stdin and stderr are ours.
// NOT_FOUND when there is no such program, FAILED_PRECONDITION when it did not end with 0; each
// names the program. It is ended (SIGTERM) when the time of `ctx` is over or it writes too much,
// which is INVALID_ARGUMENT.
absl::StatusOr<std::string> RunProgram(const CallContext& ctx, const ProgramToRun& program);

// Everything until the end of a file, or until a line break when `line`.
absl::StatusOr<std::string> ReadText(const CallContext& ctx, int fd, bool line,
                                     std::size_t text_bytes_max);

}  // namespace csidelta::cli
