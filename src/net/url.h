#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace csidelta::net {

// An http or https URL taken apart. `target` starts with "/"; `host` has no brackets; `user_info`
// is "user:password", percent-decoded, or "".
struct Url {
  std::string scheme;
  std::string user_info;
  std::string host;
  uint16_t port = 0;
  std::string target;

  bool operator==(const Url&) const = default;
  // "host:port", IPv6 in brackets.
  std::string Authority() const;
  // The same as the Host header has it: without a port that the scheme implies.
  std::string HostHeader() const;
};

// INVALID_ARGUMENT unless `text` is an absolute http or https URL with a host. Pure. The message
// does not repeat `text`, which may hold a password.
absl::StatusOr<Url> ParseUrl(absl::string_view text);

// Percent-encodes everything but unreserved characters, for one path segment or query value.
std::string PercentEncode(absl::string_view text);
// The other way; a malformed escape stays as it is.
std::string PercentDecode(absl::string_view text);

}  // namespace csidelta::net
