#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/random.h"
#include "k8s/api_client.h"
#include "repository/keyring.h"

// The keys of the repositories of one location. They belong to the user: made at the first upload,
// or imported before it. They are kept in one Secret of the mover's namespace. Without them the
// data cannot be read, so an operator exports them and confirms that.
//
// The Secret has one of two forms. Written by the mover or mover-key: each key under its
// fingerprint, and annotations. Brought, by a controller of Secrets or a person: one field, `key`,
// and no annotation. The field holds one key, or the output of mover-key export. A brought Secret
// is never written to, since its source would replace it; its keys count as confirmed.
namespace csidelta::datamover {

// The owner of keys.
struct KeyringOwner {
  std::string velero_namespace;
  std::string location;
};

// The Secret's name, unique for each owner.
std::string KeyringSecretName(const KeyringOwner& owner);

// The command with which an operator imports keys.
std::string ImportCommand(const KeyringOwner& owner);

k8s::ObjectKey KeyringSecretKey(absl::string_view mover_namespace, const KeyringOwner& owner);

// The field of a brought Secret.
inline constexpr char kBroughtKeyField[] = "key";

// The keys of the owner, as they are now. `make`: if there are none, makes the first, unless
// ExplainLostKeyring() shows that there was one. Errors beside those of the API server:
//   NOT_FOUND            no keys exist; names the way to import them
//   FAILED_PRECONDITION  names Secret, fingerprint and remedy: the Secret belongs to another
//                        location or has neither form; a key is not the one that its name says; the
//                        newest or a confirmed one is not there, since data may be encrypted with
//                        it; or the whole Secret is lost
absl::StatusOr<repository::Keyring> OpenKeyring(const CallContext& ctx, k8s::ApiClient& api,
                                                absl::string_view mover_namespace,
                                                const KeyringOwner& owner, bool make,
                                                SecureRandom& random);

// How to bring back a Secret of keys that is lost; "" if nothing shows that there was one. Reads
// the ProtectedVolumes and DataUploads of Velero's namespace in pages, up to the first that does.
// REQUIRES that the Secret is not there. Errors of the API server.
absl::StatusOr<std::string> ExplainLostKeyring(const CallContext& ctx, k8s::ApiClient& api,
                                               const KeyringOwner& owner);

// Adds `keys`, which count as confirmed, to the owner's ring; if `newest`, the first of them
// becomes the newest. Makes the ring if there is none, and repairs one that lacks them. Returns the
// resulting ring. Errors as above, and FAILED_PRECONDITION if the Secret was brought.
absl::StatusOr<repository::Keyring> ImportKeys(const CallContext& ctx, k8s::ApiClient& api,
                                               absl::string_view mover_namespace,
                                               const KeyringOwner& owner,
                                               const repository::Keyring& keys, bool newest);

// Records that the keys with these fingerprints were printed, or that the operator has a copy of
// them. Changes nothing if the Secret was brought. NOT_FOUND when the ring, or one of them, is
// not there.
absl::Status RecordExportedKeys(const CallContext& ctx, k8s::ApiClient& api,
                                absl::string_view mover_namespace, const KeyringOwner& owner,
                                const std::vector<std::string>& fingerprints);
absl::Status ConfirmKeys(const CallContext& ctx, k8s::ApiClient& api,
                         absl::string_view mover_namespace, const KeyringOwner& owner,
                         const std::vector<std::string>& fingerprints);

// Removes one key, which is not missed from then on. Returns the ring without it. NOT_FOUND if it
// is not there; FAILED_PRECONDITION if it is the newest, or the Secret was brought.
absl::StatusOr<repository::Keyring> RemoveKey(const CallContext& ctx, k8s::ApiClient& api,
                                              absl::string_view mover_namespace,
                                              const KeyringOwner& owner,
                                              absl::string_view fingerprint);

}  // namespace csidelta::datamover
