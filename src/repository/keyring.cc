#include "repository/keyring.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "base/crypto.h"

namespace csidelta::repository {
namespace {

constexpr std::size_t kFingerprintDigits = 16;
constexpr std::size_t kKeyPasswordBytes = 32;  // before base64
constexpr std::size_t kKeyPasswordBytesMax = 4096;

bool IsFingerprint(absl::string_view text) { return IsLowerHex(text, kFingerprintDigits); }

}  // namespace

bool IsKeyPassword(absl::string_view text) {
  return text.size() >= kKeyPasswordBytesMin && text.size() <= kKeyPasswordBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isgraph(c); });
}

std::string KeyFingerprint(absl::string_view password) {
  return Sha256Hex(password).substr(0, kFingerprintDigits);
}

RepositoryKey MakeRepositoryKey(SecureRandom& random) {
  std::array<uint8_t, kKeyPasswordBytes> bytes;
  random.Fill(absl::MakeSpan(bytes));
  const std::string password =
      absl::Base64Escape({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return {.fingerprint = KeyFingerprint(password), .password = Secret(password)};
}

bool Keyring::Has(absl::string_view fingerprint) const {
  return std::any_of(keys.begin(), keys.end(),
                     [&](const RepositoryKey& key) { return key.fingerprint == fingerprint; });
}

std::string FormatKeyringFile(const Keyring& keyring) {
  std::string text;
  for (const RepositoryKey& key : keyring.keys) {
    absl::StrAppend(&text, key.fingerprint, " ", key.password.Reveal(), "\n");
  }
  return text;
}

absl::StatusOr<Keyring> ParseKeyringFile(absl::string_view text) {
  Keyring keyring;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view stripped = absl::StripAsciiWhitespace(line);
    if (stripped.empty() || stripped.front() == '#') {
      continue;
    }
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(stripped, absl::MaxSplits(' ', 1));
    if (!IsFingerprint(parts.first) || !IsKeyPassword(parts.second)) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, " is not a key's fingerprint, a blank and its password"));
    }
    if (KeyFingerprint(parts.second) != parts.first) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ": the password is not that of key ", parts.first));
    }
    if (!keyring.Has(parts.first)) {
      keyring.keys.push_back(
          {.fingerprint = std::string(parts.first), .password = Secret(std::string(parts.second))});
    }
    if (keyring.keys.size() > kKeysMax) {
      return absl::InvalidArgumentError(absl::StrCat("there are more than ", kKeysMax, " keys"));
    }
  }
  if (keyring.keys.empty()) {
    return absl::InvalidArgumentError("there is no key");
  }
  return keyring;
}

}  // namespace csidelta::repository
