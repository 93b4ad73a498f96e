#include "net/url.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace csidelta::net {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

bool HasControlOrSpace(absl::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; });
}

uint16_t DefaultPort(absl::string_view scheme) { return scheme == "https" ? 443 : 80; }

std::string Bracketed(const std::string& host) {
  return absl::StrContains(host, ":") ? absl::StrCat("[", host, "]") : host;
}

// Cuts "host:port" into its parts; brackets around IPv6.
absl::Status SplitAuthority(absl::string_view authority, Url& url) {
  absl::string_view port;
  if (absl::StartsWith(authority, "[")) {
    const auto end = authority.find(']');
    if (end == absl::string_view::npos) {
      return absl::InvalidArgumentError("URL with an unclosed bracket");
    }
    url.host = std::string(authority.substr(1, end - 1));
    port = authority.substr(end + 1);
  } else {
    const auto colon = authority.find(':');
    url.host = std::string(authority.substr(0, colon));
    port = colon == absl::string_view::npos ? absl::string_view() : authority.substr(colon);
  }
  if (url.host.empty()) {
    return absl::InvalidArgumentError("URL without a host");
  }
  url.port = DefaultPort(url.scheme);
  if (port.empty() || port == ":") {
    return absl::OkStatus();
  }
  uint32_t number = 0;
  if (port.front() != ':' || !absl::SimpleAtoi(port.substr(1), &number) || number == 0 ||
      number > 65535) {
    return absl::InvalidArgumentError("URL with a port that is none");
  }
  url.port = static_cast<uint16_t>(number);
  return absl::OkStatus();
}

}  // namespace

std::string Url::Authority() const { return absl::StrCat(Bracketed(host), ":", port); }

std::string Url::HostHeader() const {
  return port == DefaultPort(scheme) ? Bracketed(host) : Authority();
}

absl::StatusOr<Url> ParseUrl(absl::string_view text) {
  const auto scheme_end = text.find("://");
  if (scheme_end == absl::string_view::npos || HasControlOrSpace(text)) {
    return absl::InvalidArgumentError("not an absolute URL");
  }
  Url url;
  url.scheme = absl::AsciiStrToLower(text.substr(0, scheme_end));
  if (url.scheme != "http" && url.scheme != "https") {
    return absl::InvalidArgumentError(
        absl::StrCat("URL scheme \"", url.scheme, "\" is neither http nor https"));
  }
  const absl::string_view rest = text.substr(scheme_end + 3);
  const auto path_start = rest.find_first_of("/?#");
  absl::string_view authority = rest.substr(0, path_start);
  url.target = path_start == absl::string_view::npos ? "/" : std::string(rest.substr(path_start));
  url.target = url.target.substr(0, url.target.find('#'));
  if (!absl::StartsWith(url.target, "/")) {
    url.target.insert(0, "/");
  }
  if (const auto at = authority.rfind('@'); at != absl::string_view::npos) {
    url.user_info = PercentDecode(authority.substr(0, at));
    authority = authority.substr(at + 1);
  }
  if (absl::Status status = SplitAuthority(authority, url); !status.ok()) {
    return status;
  }
  return url;
}

std::string PercentEncode(absl::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || c == '-' || c == '_' || c == '.' || c == '~') {
      encoded.push_back(c);
    } else {
      encoded.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return encoded;
}

std::string PercentDecode(absl::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
    if (low >= 0) {
      decoded.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    } else {
      decoded.push_back(text[i]);
    }
  }
  return decoded;
}

}  // namespace csidelta::net
