#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "plugin/host_version.h"
#include "plugin/registry.h"

namespace csidelta::plugin {

// This release, "major.minor.patch".
extern const char kVersion[];

// Fills the registry according to the command line; no I/O, the host waits for the handshake.
using RegisterActions = absl::FunctionRef<absl::Status(const Arguments&, Registry&)>;

// The whole life of a plugin process, and its exit code:
//   version         prints the version                                    0
//   install [DIR]   copies this executable to DIR, default /target        0, 1 with the error on
//   stderr by the host     handshake, serve until asked to end                   0, 1 when it
//   cannot start otherwise       explains itself on stderr                             1
// When the host asks for the end, running calls are cancelled and get kEndGracePeriod to clean up;
// what they do after that is lost, because the host kills us two seconds after its request. In that
// case this does not return: the process exits.
int RunProgram(int argc, char** argv, RegisterActions register_actions);

}  // namespace csidelta::plugin
