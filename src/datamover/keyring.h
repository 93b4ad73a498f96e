#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/json.h"
#include "base/random.h"
#include "base/secret.h"
#include "k8s/api_client.h"

// The keys of the repositories of one location. They are the user's: made at first use, kept in one
// Secret of the mover's namespace. Without them the data is worthless, so an operator exports them
// and says so. A new key makes no data anew: the next writer of each
// repository adds it beside the older one.
namespace csidelta::datamover {

inline constexpr std::size_t kKeysMax = 64;  // of one ring
inline constexpr std::size_t kKeyPasswordBytesMin = 16;

struct RepositoryKey {
  std::string fingerprint;
  Secret password;

  friend bool operator==(const RepositoryKey&, const RepositoryKey&) = default;
};

// The first 16 hexadecimal digits of the password's SHA-256: says which key, and nothing of it.
std::string KeyFingerprint(absl::string_view password);

// 32 bytes that nobody can guess, as base64.
RepositoryKey MakeRepositoryKey(SecureRandom& random);

struct Keyring {
  std::vector<RepositoryKey> keys;       // the newest first, the others by fingerprint; never empty
  std::set<std::string> confirmed = {};  // the operator has a copy of these

  const RepositoryKey& newest() const { return keys.front(); }
  bool Has(absl::string_view fingerprint) const;
  bool newest_confirmed() const { return confirmed.contains(newest().fingerprint); }
};

// Whose keys.
struct KeyringOwner {
  std::string velero_namespace;
  std::string location;
};

// The Secret's name: no two owners share one.
std::string KeyringSecretName(const KeyringOwner& owner);

// What an operator types to bring keys.
std::string ImportCommand(const KeyringOwner& owner);

k8s::ObjectKey KeyringSecretKey(absl::string_view mover_namespace, const KeyringOwner& owner);

// As workers get it: "FINGERPRINT PASSWORD" on a line for each key, the newest first.
std::string FormatKeyringFile(const Keyring& keyring);
// INVALID_ARGUMENT with the line's number, never with its text.
absl::StatusOr<Keyring> ParseKeyringFile(absl::string_view text);

// The keys of the owner, as they are now. `make`: where there are none, makes the first. NOT_FOUND,
// with the way to import them, when there are none; FAILED_PRECONDITION, naming Secret, fingerprint
// and cure, when the Secret is somebody else's, when a key is not the one that its name says, or
// when the newest or a confirmed one is not there: data may be sealed with it. Errors of the API
// server.
absl::StatusOr<Keyring> OpenKeyring(const CallContext& ctx, k8s::ApiClient& api,
                                    absl::string_view mover_namespace, const KeyringOwner& owner,
                                    bool make, SecureRandom& random);

// Adds `keys`, which count as confirmed, to the owner's ring; the first of them becomes the newest
// when `newest`. Makes the ring if need be, and mends one that lacks them. Returns it as it is
// then; errors as above.
absl::StatusOr<Keyring> ImportKeys(const CallContext& ctx, k8s::ApiClient& api,
                                   absl::string_view mover_namespace, const KeyringOwner& owner,
                                   const Keyring& keys, bool newest);

// Notes that the operator has a copy of the keys with these fingerprints. NOT_FOUND when the ring,
// or one of them, is not there.
absl::Status ConfirmKeys(const CallContext& ctx, k8s::ApiClient& api,
                         absl::string_view mover_namespace, const KeyringOwner& owner,
                         const std::vector<std::string>& fingerprints);

}  // namespace csidelta::datamover
