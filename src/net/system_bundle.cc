#include "net/system_bundle.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace csidelta::net {

std::vector<std::string> SystemBundlePaths() {
  if (const char* path = std::getenv("SSL_CERT_FILE"); path != nullptr && *path != '\0') {
    return {path};
  }
  // Of Debian, Fedora, SUSE and Alpine.
  return {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
          "/etc/ssl/ca-bundle.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
          "/etc/ssl/cert.pem"};
}

std::string SystemBundle() {
  for (const std::string& path : SystemBundlePaths()) {
    std::ifstream file(path);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (!text.empty()) {
      return text;
    }
  }
  return "";
}

}  // namespace csidelta::net
