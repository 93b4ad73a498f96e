#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"

namespace csidelta::net {

// The addresses of `host` in the order to try them, as text without brackets: "10.0.0.1",
// "fd00::1". An address is its own answer. Names go through c-ares, never through the C library's
// resolver, which a static executable must not use: /etc/hosts first, then DNS with resolv.conf's
// servers, search domains and options. Blocks until answered, at most until ctx is over. NOT_FOUND
// when the name does not exist, UNAVAILABLE when no server answers. Thread-safe.
absl::StatusOr<std::vector<std::string>> ResolveHost(const CallContext& ctx,
                                                     const std::string& host);

}  // namespace csidelta::net
