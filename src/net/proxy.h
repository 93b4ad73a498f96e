#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "net/url.h"

namespace csidelta::net {

// Which proxy stands between us and the servers.
struct ProxySettings {
  std::string always;           // used for every URL when not ""; then those below do not count
  std::string https_proxy;      // as in HTTPS_PROXY: for https URLs; "host:port" or a URL
  std::string http_proxy = {};  // as in HTTP_PROXY: for http URLs
  std::string no_proxy;         // as in NO_PROXY

  // From these variables, or their lower-case forms. Reads the environment.
  static ProxySettings FromEnvironment();
};

// The proxy to reach `url` through, or nothing for a direct connection.
//
// NO_PROXY is a list, joined by commas, of: "*" (everything), a host name (itself and everything
// below it), ".name" (only what is below it), an IP address, or an address block (10.0.0.0/8); each
// but the block may end in ":port". Localhost and loopback addresses never go through them.
//
// INVALID_ARGUMENT when the proxy is malformed or not an http one: TLS to the proxy itself and
// SOCKS are not supported. Pure.
absl::StatusOr<std::optional<Url>> ProxyFor(const Url& url, const ProxySettings& settings);

// Whether a host is this machine, by an address or as "localhost". Pure.
bool IsLoopback(const std::string& host);

}  // namespace csidelta::net
