#pragma once

#include <string>

#include "absl/types/span.h"
#include "base/call_context.h"
#include "cli/exit_code.h"
#include "cli/session.h"

namespace csidelta::cli {

// The program csi-delta without the process around it: parses the arguments after its name, runs
// the verb, reports errors, and returns the exit code. Stopping `ctx` ends it in order.
ExitCode RunProgram(const CallContext& ctx, absl::Span<const std::string> arguments,
                    const ProgramEnvironment& environment);

}  // namespace csidelta::cli
