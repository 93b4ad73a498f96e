#include "net/listen_address.h"

#include <unistd.h>

#include <array>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace csidelta::net {

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text) {
  const std::size_t colon = text.rfind(':');
  ListenAddress listen;
  uint32_t port = 0;
  if (colon == text.npos || colon == 0 || !absl::SimpleAtoi(text.substr(colon + 1), &port) ||
      port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("--listen ", text, " is not ADDRESS:PORT"));
  }
  absl::string_view address = text.substr(0, colon);
  if (absl::StartsWith(address, "[") && absl::EndsWith(address, "]")) {
    address = address.substr(1, address.size() - 2);
  }
  listen.address = std::string(address);
  listen.port = static_cast<uint16_t>(port);
  return listen;
}

std::string HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') {
    return "localhost";
  }
  return name.data();
}

}  // namespace csidelta::net
