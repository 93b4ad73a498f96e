#include "net/proxy.h"

#include <arpa/inet.h>

#include <array>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace csidelta::net {
namespace {

// An IPv4 or IPv6 address as bytes; 4 or 16 of them.
using Address = std::string;

std::optional<Address> ParseAddress(const std::string& text) {
  std::array<char, 16> bytes;
  if (inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) {
    return Address(bytes.data(), 4);
  }
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) {
    return Address(bytes.data(), 16);
  }
  return std::nullopt;
}

bool InBlock(const Address& address, const Address& block, int prefix_bits) {
  if (address.size() != block.size()) {
    return false;
  }
  for (int bit = 0; bit < prefix_bits; ++bit) {
    const auto index = static_cast<std::size_t>(bit / 8);
    const int mask = 0x80 >> (bit % 8);
    if (((address[index] ^ block[index]) & mask) != 0) {
      return false;
    }
  }
  return true;
}

bool MatchesBlock(const std::string& host, absl::string_view entry) {
  const std::vector<std::string> parts = absl::StrSplit(entry, '/');
  const std::optional<Address> address = ParseAddress(host);
  const std::optional<Address> block = ParseAddress(parts.front());
  int prefix_bits = 0;
  return parts.size() == 2 && address.has_value() && block.has_value() &&
         absl::SimpleAtoi(parts[1], &prefix_bits) && prefix_bits >= 0 &&
         prefix_bits <= static_cast<int>(block->size() * 8) &&
         InBlock(*address, *block, prefix_bits);
}

// Cuts ":port" off `entry`; 0 when none exists. An IPv6 address has colons of its own.
uint32_t CutPort(std::string& entry) {
  if (ParseAddress(entry).has_value()) {
    return 0;
  }
  uint32_t port = 0;
  const auto colon = entry.rfind(':');
  if (colon != std::string::npos && absl::SimpleAtoi(entry.substr(colon + 1), &port)) {
    entry.resize(colon);
  }
  if (absl::StartsWith(entry, "[") && absl::EndsWith(entry, "]")) {
    entry = entry.substr(1, entry.size() - 2);
  }
  return port;
}

bool MatchesEntry(const Url& url, const std::string& host, absl::string_view raw_entry) {
  std::string entry = absl::AsciiStrToLower(absl::StripAsciiWhitespace(raw_entry));
  if (entry.empty()) {
    return false;
  }
  if (entry == "*") {
    return true;
  }
  if (absl::StrContains(entry, "/")) {
    return MatchesBlock(host, entry);
  }
  const uint32_t port = CutPort(entry);
  if (port != 0 && port != url.port) {
    return false;
  }
  if (const std::optional<Address> address = ParseAddress(entry); address.has_value()) {
    return ParseAddress(host) == address;
  }
  if (absl::StartsWith(entry, "*.")) {
    entry.erase(0, 1);
  }
  if (absl::StartsWith(entry, ".")) {
    return absl::EndsWith(host, entry);
  }
  return host == entry || absl::EndsWith(host, absl::StrCat(".", entry));
}

bool Bypasses(const Url& url, absl::string_view no_proxy) {
  std::string host = absl::AsciiStrToLower(url.host);
  if (absl::EndsWith(host, ".")) {
    host.pop_back();
  }
  if (IsLoopback(host)) {
    return true;
  }
  for (const absl::string_view entry : absl::StrSplit(no_proxy, ',')) {
    if (MatchesEntry(url, host, entry)) {
      return true;
    }
  }
  return false;
}

std::string FirstOf(const char* upper, const char* lower) {
  for (const char* name : {upper, lower}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') {
      return value;
    }
  }
  return "";
}

}  // namespace

bool IsLoopback(const std::string& host) {
  const std::optional<Address> address = ParseAddress(host);
  if (!address.has_value()) {
    return host == "localhost";
  }
  return address->size() == 4 ? address->front() == 127 : *address == *ParseAddress("::1");
}

ProxySettings ProxySettings::FromEnvironment() {
  return {.always = "",
          .https_proxy = FirstOf("HTTPS_PROXY", "https_proxy"),
          .http_proxy = FirstOf("HTTP_PROXY", "http_proxy"),
          .no_proxy = FirstOf("NO_PROXY", "no_proxy")};
}

absl::StatusOr<std::optional<Url>> ProxyFor(const Url& url, const ProxySettings& settings) {
  std::string proxy = settings.always;
  if (proxy.empty() && !Bypasses(url, settings.no_proxy)) {
    proxy = url.scheme == "https" ? settings.https_proxy : settings.http_proxy;
  }
  if (proxy.empty()) {
    return std::nullopt;
  }
  if (!absl::StrContains(proxy, "://")) {
    proxy = absl::StrCat("http://", proxy);
  }
  absl::StatusOr<Url> parsed = ParseUrl(proxy);
  if (!parsed.ok() || parsed->scheme != "http") {
    return absl::InvalidArgumentError(
        "the proxy must be given as http://[user:password@]host[:port]; other schemes are not "
        "supported");
  }
  return *std::move(parsed);
}

}  // namespace csidelta::net
