#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/random.h"
#include "base/secret.h"

// Several keys that open the repositories of one owner, and the file that hands them on. A new key
// makes no data again: the next writer of each repository adds it beside the older one.
namespace csidelta::repository {

inline constexpr std::size_t kKeysMax = 64;  // of one ring
inline constexpr std::size_t kKeyPasswordBytesMin = 16;

struct RepositoryKey {
  std::string fingerprint;
  Secret password;

  friend bool operator==(const RepositoryKey&, const RepositoryKey&) = default;
};

// The first 16 hexadecimal digits of the password's SHA-256: says which key, and nothing of it.
std::string KeyFingerprint(absl::string_view password);

// Printable, without blanks, and long enough that they cannot all be tried.
bool IsKeyPassword(absl::string_view text);

// 32 bytes that cannot be guessed, as base64.
RepositoryKey MakeRepositoryKey(SecureRandom& random);

struct Keyring {
  std::vector<RepositoryKey> keys;       // the newest first, the others by fingerprint; never empty
  std::set<std::string> confirmed = {};  // the operator has a copy of these
  std::set<std::string> exported = {};   // these were printed, to be copied

  const RepositoryKey& newest() const { return keys.front(); }
  bool Has(absl::string_view fingerprint) const;
  bool newest_confirmed() const { return confirmed.contains(newest().fingerprint); }
};

// As workers get it: "FINGERPRINT PASSWORD" on a line for each key, the newest first.
std::string FormatKeyringFile(const Keyring& keyring);
// INVALID_ARGUMENT with the line's number, never with its text.
absl::StatusOr<Keyring> ParseKeyringFile(absl::string_view text);

}  // namespace csidelta::repository
