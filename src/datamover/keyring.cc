#include "datamover/keyring.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/crypto.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/secret.h"

namespace csidelta::datamover {
namespace {

constexpr std::size_t kDigestDigits = 16;
constexpr std::size_t kSecretNameBytesMax = 253;
// Writers of one Secret at a time: persons, and controllers that make it.
constexpr int kConflictsMax = 8;

absl::Status Lacks(absl::string_view fingerprint, const KeyringOwner& owner) {
  return absl::FailedPreconditionError(absl::StrCat(
      "key ", fingerprint,
      " is not there, and data may be sealed with it; bring it back: ", ImportCommand(owner)));
}

absl::StatusOr<std::vector<RepositoryKey>> ReadKeys(const objects::Secret& secret) {
  std::vector<RepositoryKey> keys;
  for (const auto& [fingerprint, encoded] : secret.encoded_data()) {
    std::string password;
    if (!absl::Base64Unescape(encoded, &password) || !repository::IsKeyPassword(password) ||
        KeyFingerprint(password) != fingerprint) {
      return absl::FailedPreconditionError(
          absl::StrCat("what it holds as key ", absl::CHexEscape(fingerprint),
                       " is another text; put the key back, or take the entry away"));
    }
    keys.push_back({.fingerprint = fingerprint, .password = Secret(std::move(password))});
  }
  if (keys.size() > kKeysMax) {
    return absl::FailedPreconditionError(
        absl::StrCat("it holds ", keys.size(), " keys, more than ", kKeysMax,
                     "; take away those that no repository has any more"));
  }
  return keys;
}

// What the Secret says, whether or not it is all there.
struct Contents {
  std::vector<RepositoryKey> keys = {};
  std::string newest = {};
  std::set<std::string> confirmed = {};

  bool Has(absl::string_view fingerprint) const {
    return std::any_of(keys.begin(), keys.end(),
                       [&](const RepositoryKey& key) { return key.fingerprint == fingerprint; });
  }
};

absl::StatusOr<Contents> ReadContents(const objects::Secret& secret, const KeyringOwner& owner) {
  if (secret.Annotation(objects::kMoverVeleroNamespaceLabel) != owner.velero_namespace ||
      secret.Annotation(objects::kMoverLocationAnnotation) != owner.location) {
    return absl::FailedPreconditionError(absl::StrCat(
        "its annotations name location \"", secret.Annotation(objects::kMoverVeleroNamespaceLabel),
        "/", secret.Annotation(objects::kMoverLocationAnnotation), "\", not ",
        owner.velero_namespace, "/", owner.location, "; move it out of the way"));
  }
  Contents contents;
  ASSIGN_OR_RETURN(contents.keys, ReadKeys(secret));
  contents.newest = secret.Annotation(objects::kNewestKeyAnnotation);
  contents.confirmed =
      absl::StrSplit(secret.Annotation(objects::kConfirmedKeysAnnotation), ',', absl::SkipEmpty());
  return contents;
}

absl::StatusOr<Keyring> Complete(Contents contents, const KeyringOwner& owner) {
  if (!contents.Has(contents.newest)) {
    return Lacks(contents.newest.empty() ? "(the newest, which is not named)" : contents.newest,
                 owner);
  }
  for (const std::string& fingerprint : contents.confirmed) {
    if (!contents.Has(fingerprint)) {
      return Lacks(fingerprint, owner);
    }
  }
  std::sort(contents.keys.begin(), contents.keys.end(),
            [&](const RepositoryKey& a, const RepositoryKey& b) {
              return std::pair(a.fingerprint != contents.newest, a.fingerprint) <
                     std::pair(b.fingerprint != contents.newest, b.fingerprint);
            });
  return Keyring{.keys = std::move(contents.keys), .confirmed = std::move(contents.confirmed)};
}

// What the Secret is to hold.
void Put(const Contents& contents, const KeyringOwner& owner, objects::Secret& secret) {
  std::map<std::string, std::string> data;
  for (const RepositoryKey& key : contents.keys) {
    data[key.fingerprint] = absl::Base64Escape(key.password.Reveal());
  }
  secret.SetEncodedData(data);
  secret.SetAnnotation(objects::kMoverVeleroNamespaceLabel, owner.velero_namespace);
  secret.SetAnnotation(objects::kMoverLocationAnnotation, owner.location);
  secret.SetAnnotation(objects::kNewestKeyAnnotation, contents.newest);
  secret.SetAnnotation(objects::kConfirmedKeysAnnotation, absl::StrJoin(contents.confirmed, ","));
}

objects::Secret MakeSecret(absl::string_view mover_namespace, const KeyringOwner& owner,
                           const Contents& contents) {
  objects::Secret secret = objects::Secret::Make(mover_namespace, KeyringSecretName(owner));
  secret.SetType("Opaque");
  secret.SetLabel(objects::kExcludeFromBackupLabel, "true");
  Put(contents, owner, secret);
  return secret;
}

absl::Status AnnotateSecret(const absl::Status& status, absl::string_view mover_namespace,
                            const KeyringOwner& owner) {
  return Annotate(status, absl::StrCat("Secret ", mover_namespace, "/", KeyringSecretName(owner)));
}

// Reads the ring, changes it and writes it, until nobody wrote between. What is not there yet has
// no keys.
absl::StatusOr<Keyring> Change(const CallContext& ctx, k8s::ApiClient& api,
                               absl::string_view mover_namespace, const KeyringOwner& owner,
                               absl::FunctionRef<absl::Status(Contents& contents)> change) {
  const k8s::ObjectKey key = KeyringSecretKey(mover_namespace, owner);
  absl::Status conflict;
  for (int attempt = 0; attempt < kConflictsMax; ++attempt) {
    ASSIGN_OR_RETURN(std::optional<objects::Secret> secret,
                     objects::Find<objects::Secret>(ctx, api, key));
    absl::StatusOr<Contents> contents = Contents();
    if (secret.has_value()) {
      contents = ReadContents(*secret, owner);
    }
    RETURN_IF_ERROR(AnnotateSecret(contents.status(), mover_namespace, owner));
    RETURN_IF_ERROR(change(*contents));
    if (secret.has_value()) {
      Put(*contents, owner, *secret);
      conflict = objects::Update(ctx, api, *secret).status();
    } else {
      conflict = objects::Create(ctx, api, MakeSecret(mover_namespace, owner, *contents)).status();
    }
    if (conflict.ok()) {
      absl::StatusOr<Keyring> keyring = Complete(*std::move(contents), owner);
      RETURN_IF_ERROR(AnnotateSecret(keyring.status(), mover_namespace, owner));
      return keyring;
    }
    if (!absl::IsAborted(conflict) && !absl::IsAlreadyExists(conflict)) {
      return conflict;
    }
  }
  return conflict;
}

}  // namespace

std::string KeyringSecretName(const KeyringOwner& owner) {
  // A namespace has no dot in its name.
  std::string name = absl::StrCat("csi-delta-keys-", owner.velero_namespace, ".", owner.location);
  if (name.size() > kSecretNameBytesMax) {
    const std::string digest = Sha256Hex(name).substr(0, kDigestDigits);
    name = absl::StrCat(name.substr(0, kSecretNameBytesMax - digest.size() - 1), "-", digest);
  }
  return name;
}

std::string ImportCommand(const KeyringOwner& owner) {
  return absl::StrCat("csi-delta mover-key import --velero-namespace ", owner.velero_namespace,
                      " --location ", owner.location, " FILE");
}

k8s::ObjectKey KeyringSecretKey(absl::string_view mover_namespace, const KeyringOwner& owner) {
  return objects::Secret::Key(mover_namespace, KeyringSecretName(owner));
}

absl::StatusOr<Keyring> OpenKeyring(const CallContext& ctx, k8s::ApiClient& api,
                                    absl::string_view mover_namespace, const KeyringOwner& owner,
                                    bool make, SecureRandom& random) {
  const k8s::ObjectKey key = KeyringSecretKey(mover_namespace, owner);
  absl::StatusOr<objects::Secret> secret = objects::Get<objects::Secret>(ctx, api, key);
  if (absl::IsNotFound(secret.status()) && make) {
    const RepositoryKey first = MakeRepositoryKey(random);
    secret = objects::CreateOrGet(
        ctx, api,
        MakeSecret(mover_namespace, owner, {.keys = {first}, .newest = first.fingerprint}));
  }
  if (absl::IsNotFound(secret.status())) {
    return absl::NotFoundError(
        absl::StrCat("there are no keys for location ", owner.velero_namespace, "/", owner.location,
                     " (Secret ", mover_namespace, "/", key.name,
                     "); bring those that its data was written with: ", ImportCommand(owner)));
  }
  RETURN_IF_ERROR(secret.status());
  absl::StatusOr<Contents> contents = ReadContents(*secret, owner);
  RETURN_IF_ERROR(AnnotateSecret(contents.status(), mover_namespace, owner));
  absl::StatusOr<Keyring> keyring = Complete(*std::move(contents), owner);
  RETURN_IF_ERROR(AnnotateSecret(keyring.status(), mover_namespace, owner));
  return keyring;
}

absl::StatusOr<Keyring> ImportKeys(const CallContext& ctx, k8s::ApiClient& api,
                                   absl::string_view mover_namespace, const KeyringOwner& owner,
                                   const Keyring& keys, bool newest) {
  return Change(ctx, api, mover_namespace, owner, [&](Contents& contents) {
    if (newest || contents.newest.empty()) {
      contents.newest = keys.newest().fingerprint;
    }
    for (const RepositoryKey& key : keys.keys) {
      if (!contents.Has(key.fingerprint)) {
        contents.keys.push_back(key);
      }
      contents.confirmed.insert(key.fingerprint);  // Who brings a key has it.
    }
    return contents.keys.size() <= kKeysMax ? absl::OkStatus()
                                            : absl::FailedPreconditionError(absl::StrCat(
                                                  "that makes more than ", kKeysMax, " keys"));
  });
}

absl::Status ConfirmKeys(const CallContext& ctx, k8s::ApiClient& api,
                         absl::string_view mover_namespace, const KeyringOwner& owner,
                         const std::vector<std::string>& fingerprints) {
  const auto confirm = [&](Contents& contents) {
    for (const std::string& fingerprint : fingerprints) {
      if (!contents.Has(fingerprint)) {
        return absl::NotFoundError(absl::StrCat("location ", owner.velero_namespace, "/",
                                                owner.location, " has no key ",
                                                absl::CHexEscape(fingerprint)));
      }
      contents.confirmed.insert(fingerprint);
    }
    return absl::OkStatus();
  };
  return Change(ctx, api, mover_namespace, owner, confirm).status();
}

}  // namespace csidelta::datamover
