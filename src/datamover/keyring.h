#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/random.h"
#include "k8s/api_client.h"
#include "repository/keyring.h"

// The keys of the repositories of one location. They are the user's: made at first use, kept in one
// Secret of the mover's namespace. Without them the data is worthless, so an operator exports them
// and says so.
namespace csidelta::datamover {

using repository::FormatKeyringFile;
using repository::KeyFingerprint;
using repository::Keyring;
using repository::kKeyPasswordBytesMin;
using repository::kKeysMax;
using repository::MakeRepositoryKey;
using repository::ParseKeyringFile;
using repository::RepositoryKey;

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
