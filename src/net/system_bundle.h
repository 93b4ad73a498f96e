#pragma once

#include <string>
#include <vector>

namespace csidelta::net {

// Where the certificates are that this machine trusts: SSL_CERT_FILE alone, else where
// distributions keep them.
std::vector<std::string> SystemBundlePaths();

// The text of the first of these that can be read; "" when none exists.
std::string SystemBundle();

}  // namespace csidelta::net
