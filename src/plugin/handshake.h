#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/random.h"

namespace csidelta::plugin {

// The value of an environment variable, "" when it is not set.
using EnvironmentLookup = std::function<std::string(const char* name)>;

inline constexpr std::size_t kSocketPathBytesMax = 107;  // sockaddr_un, without its final zero.

// Whether the host started us: its magic cookie is in the environment.
bool IsStartedByHost(const EnvironmentLookup& environment);

// Whether the host speaks the protocol version that we speak. FAILED_PRECONDITION names what it
// offers; a host that names no version is taken as ours.
absl::Status CheckProtocolVersions(const EnvironmentLookup& environment);

// A fresh path for the socket in PLUGIN_UNIX_SOCKET_DIR, else $TMPDIR, else /tmp. A $TMPDIR that is
// too long for a socket is passed over for /tmp; a PLUGIN_UNIX_SOCKET_DIR that is too long is
// INVALID_ARGUMENT. Nothing is created.
absl::StatusOr<std::string> ChooseSocketPath(const EnvironmentLookup& environment, Random& random);

// Gives the socket to the group (name or number) that PLUGIN_UNIX_SOCKET_GROUP asks for, mode 0660;
// nothing when it is not set.
absl::Status ShareSocketWithGroup(const std::string& path, const EnvironmentLookup& environment);

// The one line that the host reads from our stdout, with its final newline.
std::string FormatHandshakeLine(absl::string_view socket_path);

// A text for people who start the binary by hand.
std::string ExplainHandStart(absl::string_view program);

}  // namespace csidelta::plugin
