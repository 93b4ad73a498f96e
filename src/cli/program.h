#pragma once

#include <string>

#include "absl/types/span.h"
#include "base/call_context.h"
#include "cli/exit_code.h"
#include "cli/session.h"

namespace csidelta::cli {

// The program csi-delta without the process around it: reads the words behind its name, runs the
// verb, says what went wrong, and returns what to exit with. `ctx` is stopped to end it in order.
ExitCode RunProgram(const CallContext& ctx, absl::Span<const std::string> arguments,
                    const ProgramEnvironment& environment);

}  // namespace csidelta::cli
