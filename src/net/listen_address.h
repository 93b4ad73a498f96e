#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace csidelta::net {

struct ListenAddress {
  std::string address;  // numeric, IPv6 without brackets
  uint16_t port = 0;
};

// "ADDR:PORT" or "[ADDR]:PORT", as the flag --listen has it. INVALID_ARGUMENT for any other text.
// Pure.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text);

// Of this machine; "localhost" where it has none.
std::string HostName();

}  // namespace csidelta::net
