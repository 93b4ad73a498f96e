#include "datamover/keyring.h"

#include <algorithm>
#include <map>
#include <optional>
#include <stop_token>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/crypto.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/core.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/protected_volume.h"
#include "velero/data_reference.h"

namespace csidelta::datamover {
namespace {

constexpr std::size_t kDigestDigits = 16;
constexpr std::size_t kSecretNameBytesMax = 253;
// Writers of one Secret at a time: persons, and controllers that make it.
constexpr int kConflictsMax = 8;

absl::Status Lacks(absl::string_view fingerprint, const KeyringOwner& owner) {
  return absl::FailedPreconditionError(absl::StrCat(
      "key ", fingerprint,
      " is missing, and data may be encrypted with it; import it: ", ImportCommand(owner)));
}

absl::StatusOr<std::vector<repository::RepositoryKey>> ReadKeys(const objects::Secret& secret) {
  std::vector<repository::RepositoryKey> keys;
  for (const auto& [fingerprint, encoded] : secret.encoded_data()) {
    std::string password;
    if (!absl::Base64Unescape(encoded, &password) || !repository::IsKeyPassword(password) ||
        repository::KeyFingerprint(password) != fingerprint) {
      return absl::FailedPreconditionError(
          absl::StrCat("what it holds as key ", absl::CHexEscape(fingerprint),
                       " is another key; restore the right one, or remove the entry"));
    }
    keys.push_back({.fingerprint = fingerprint, .password = Secret(std::move(password))});
  }
  if (keys.size() > repository::kKeysMax) {
    return absl::FailedPreconditionError(
        absl::StrCat("it holds ", keys.size(), " keys, more than ", repository::kKeysMax,
                     "; remove those that no repository uses any more"));
  }
  return keys;
}

// What the Secret says, whether or not it is all there.
struct Contents {
  std::vector<repository::RepositoryKey> keys = {};
  std::string newest = {};
  std::set<std::string> confirmed = {};
  std::set<std::string> exported = {};
  bool is_brought = false;

  bool Has(absl::string_view fingerprint) const {
    return std::any_of(keys.begin(), keys.end(), [&](const repository::RepositoryKey& key) {
      return key.fingerprint == fingerprint;
    });
  }
};

std::set<std::string> ListIn(const objects::Secret& secret, const char* annotation) {
  return absl::StrSplit(secret.Annotation(annotation), ',', absl::SkipEmpty());
}

absl::StatusOr<repository::Keyring> ParseBrought(absl::string_view encoded) {
  std::string text;
  if (!absl::Base64Unescape(encoded, &text)) {
    return absl::InvalidArgumentError("it is not base64");
  }
  const absl::string_view password = absl::StripTrailingAsciiWhitespace(text);
  if (repository::IsKeyPassword(password)) {
    return repository::Keyring{.keys = {{.fingerprint = repository::KeyFingerprint(password),
                                         .password = Secret(std::string(password))}}};
  }
  return repository::ParseKeyringFile(text);
}

absl::StatusOr<Contents> ReadBrought(const objects::Secret& secret) {
  if (secret.encoded_data().size() != 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("in addition to the field ", kBroughtKeyField,
                     " it holds others; leave that one, or let mover-key import make the Secret"));
  }
  absl::StatusOr<repository::Keyring> keyring = ParseBrought(secret.EncodedValue(kBroughtKeyField));
  if (!keyring.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "its field ", kBroughtKeyField, " must hold one key, of at least ",
        repository::kKeyPasswordBytesMin,
        " printable characters without blanks, or lines as mover-key export prints them: ",
        keyring.status().message()));
  }
  Contents contents{.newest = keyring->newest().fingerprint, .is_brought = true};
  for (const repository::RepositoryKey& key : keyring->keys) {
    contents.confirmed.insert(key.fingerprint);  // The source of the Secret has it.
  }
  contents.keys = std::move(keyring->keys);
  return contents;
}

absl::Status CheckOwner(const objects::Secret& secret, const KeyringOwner& owner) {
  const std::string space = secret.Annotation(objects::kMoverVeleroNamespaceLabel);
  const std::string location = secret.Annotation(objects::kMoverLocationAnnotation);
  if (space == owner.velero_namespace && location == owner.location) {
    return absl::OkStatus();
  }
  if (!space.empty() || !location.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("its annotations name location \"", space, "/", location, "\", not ",
                     owner.velero_namespace, "/", owner.location, "; move it out of the way"));
  }
  return secret.EncodedValue(kBroughtKeyField).empty()
             ? absl::FailedPreconditionError(absl::StrCat(
                   "it has no field ", kBroughtKeyField,
                   ", where a Secret that the mover did not write holds the key, as its text or as "
                   "mover-key export prints it; add the field, or delete the Secret"))
             : absl::OkStatus();
}

absl::StatusOr<Contents> ReadContents(const objects::Secret& secret, const KeyringOwner& owner) {
  RETURN_IF_ERROR(CheckOwner(secret, owner));
  Contents contents;
  contents.newest = secret.Annotation(objects::kNewestKeyAnnotation);
  if (contents.newest.empty() && !secret.EncodedValue(kBroughtKeyField).empty()) {
    return ReadBrought(secret);
  }
  ASSIGN_OR_RETURN(contents.keys, ReadKeys(secret));
  contents.confirmed = ListIn(secret, objects::kConfirmedKeysAnnotation);
  contents.exported = ListIn(secret, objects::kExportedKeysAnnotation);
  return contents;
}

absl::StatusOr<repository::Keyring> Complete(Contents contents, const KeyringOwner& owner) {
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
            [&](const repository::RepositoryKey& a, const repository::RepositoryKey& b) {
              return std::pair(a.fingerprint != contents.newest, a.fingerprint) <
                     std::pair(b.fingerprint != contents.newest, b.fingerprint);
            });
  return repository::Keyring{.keys = std::move(contents.keys),
                             .confirmed = std::move(contents.confirmed),
                             .exported = std::move(contents.exported)};
}

// What the Secret is to hold.
void Put(const Contents& contents, const KeyringOwner& owner, objects::Secret& secret) {
  std::map<std::string, std::string> data;
  for (const repository::RepositoryKey& key : contents.keys) {
    data[key.fingerprint] = absl::Base64Escape(key.password.Reveal());
  }
  secret.SetEncodedData(data);
  secret.SetAnnotation(objects::kMoverVeleroNamespaceLabel, owner.velero_namespace);
  secret.SetAnnotation(objects::kMoverLocationAnnotation, owner.location);
  secret.SetAnnotation(objects::kNewestKeyAnnotation, contents.newest);
  secret.SetAnnotation(objects::kConfirmedKeysAnnotation, absl::StrJoin(contents.confirmed, ","));
  if (!contents.exported.empty() || !secret.Annotation(objects::kExportedKeysAnnotation).empty()) {
    secret.SetAnnotation(objects::kExportedKeysAnnotation, absl::StrJoin(contents.exported, ","));
  }
}

objects::Secret MakeSecret(absl::string_view mover_namespace, const KeyringOwner& owner,
                           const Contents& contents) {
  objects::Secret secret = objects::Secret::Make(mover_namespace, KeyringSecretName(owner));
  secret.SetType("Opaque");
  secret.SetLabel(objects::kExcludeFromBackupLabel, "true");
  Put(contents, owner, secret);
  return secret;
}

// For messages.
std::string NameOfSecret(absl::string_view mover_namespace, const KeyringOwner& owner) {
  return absl::StrCat("Secret ", mover_namespace, "/", KeyringSecretName(owner));
}

absl::Status RefuseIfBrought(const Contents& contents) {
  return contents.is_brought
             ? absl::FailedPreconditionError(
                   absl::StrCat("its keys are in the field ", kBroughtKeyField,
                                ", which the tool that made the Secret keeps; change them there"))
             : absl::OkStatus();
}

// Reads the ring, changes it and writes it, until no other process wrote between. What is not there
// yet has no keys; what was brought is not written.
absl::StatusOr<repository::Keyring> Change(
    const CallContext& ctx, k8s::ApiClient& api, absl::string_view mover_namespace,
    const KeyringOwner& owner, absl::FunctionRef<absl::Status(Contents& contents)> change) {
  const k8s::ObjectKey key = KeyringSecretKey(mover_namespace, owner);
  const std::string name = NameOfSecret(mover_namespace, owner);
  absl::Status conflict;
  for (int attempt = 0; attempt < kConflictsMax; ++attempt) {
    ASSIGN_OR_RETURN(std::optional<objects::Secret> secret,
                     objects::Find<objects::Secret>(ctx, api, key));
    Contents contents;
    if (secret.has_value()) {
      ASSIGN_OR_RETURN(contents, Annotate(ReadContents(*secret, owner), name));
    }
    RETURN_IF_ERROR(Annotate(change(contents), name));
    if (contents.is_brought) {
      return Complete(std::move(contents), owner);
    }
    if (secret.has_value()) {
      Put(contents, owner, *secret);
      conflict = objects::Update(ctx, api, *secret).status();
    } else {
      conflict = objects::Create(ctx, api, MakeSecret(mover_namespace, owner, contents)).status();
    }
    if (conflict.ok()) {
      return Annotate(Complete(std::move(contents), owner), name);
    }
    if (!absl::IsAborted(conflict) && !absl::IsAlreadyExists(conflict)) {
      return conflict;
    }
  }
  return conflict;
}

// Of a ring that is to have all of them.
absl::Status CheckHas(const Contents& contents, const std::vector<std::string>& fingerprints,
                      const KeyringOwner& owner) {
  for (const std::string& fingerprint : fingerprints) {
    if (!contents.Has(fingerprint)) {
      return absl::NotFoundError(absl::StrCat("location ", owner.velero_namespace, "/",
                                              owner.location, " has no key ",
                                              absl::CHexEscape(fingerprint)));
    }
  }
  return absl::OkStatus();
}

// What shows that a key was used, "DataUpload velero/nightly-x7k2p", and which one; "": unknown.
struct KnownKey {
  std::string source;
  std::string fingerprint;
};

template <typename Kind>
std::string NameOf(const Kind& object) {
  return absl::StrCat(Kind::kKind.kind, " ", object.namespace_name(), "/", object.name());
}

std::optional<KnownKey> KeyOf(const objects::DataUpload& upload, const std::string& location) {
  if (!upload.is_managed() || upload.storage_location() != location) {
    return std::nullopt;
  }
  const absl::StatusOr<velero::DataReference> reference =
      velero::ParseDataReference(upload.snapshot_id());
  const std::string fingerprint =
      reference.ok() ? reference->key : upload.Annotation(objects::kMoverKeyAnnotation);
  return fingerprint.empty()
             ? std::nullopt
             : std::optional(KnownKey{.source = NameOf(upload), .fingerprint = fingerprint});
}

std::optional<KnownKey> KeyOf(const objects::ProtectedVolume& volume, const std::string& location) {
  const std::optional<objects::LastGoodBackup> backup = volume.status().last_good;
  if (volume.spec().location != location || !backup.has_value()) {
    return std::nullopt;
  }
  const absl::StatusOr<velero::DataReference> reference =
      velero::ParseDataReference(backup->snapshot_id);
  return KnownKey{.source = NameOf(volume), .fingerprint = reference.ok() ? reference->key : ""};
}

// Nothing where the kind is not served.
template <typename Kind>
absl::StatusOr<std::optional<KnownKey>> FindIn(const CallContext& ctx, k8s::ApiClient& api,
                                               const std::string& velero_namespace,
                                               const std::string& location) {
  std::optional<KnownKey> known;
  std::stop_source enough;
  const std::stop_callback passed_on(ctx.stop, [&enough] { enough.request_stop(); });
  CallContext until_found = ctx;
  until_found.stop = enough.get_token();
  const auto find = [&](auto& page, bool /*is_first*/) {
    const absl::StatusOr<std::vector<Kind>> objects = objects::AllAs<Kind>(std::move(page));
    for (std::size_t i = 0; objects.ok() && i < objects->size() && !known.has_value(); ++i) {
      known = KeyOf((*objects)[i], location);
    }
    if (known.has_value()) {
      enough.request_stop();
    }
  };
  const absl::Status listed = k8s::IgnoreNotFound(
      api.ListPages(until_found, Kind::Type(), velero_namespace, {}, find).status());
  if (!known.has_value()) {
    RETURN_IF_ERROR(listed);
  }
  return known;
}

// Data of a location was encrypted with a key once, as its ProtectedVolumes and DataUploads show.
absl::StatusOr<std::optional<KnownKey>> FindKnownKey(const CallContext& ctx, k8s::ApiClient& api,
                                                     const std::string& velero_namespace,
                                                     const std::string& location) {
  // There are fewer of these.
  ASSIGN_OR_RETURN(std::optional<KnownKey> known,
                   FindIn<objects::ProtectedVolume>(ctx, api, velero_namespace, location));
  if (!known.has_value()) {
    ASSIGN_OR_RETURN(known, FindIn<objects::DataUpload>(ctx, api, velero_namespace, location));
  }
  return known;
}

}  // namespace

// That a Secret which is not there was, once, does not make it right to make another: the volumes
// that are written to from now on would have a key that no copy of the keys has, and all others
// none.
absl::StatusOr<std::string> ExplainLostKeyring(const CallContext& ctx, k8s::ApiClient& api,
                                               const KeyringOwner& owner) {
  ASSIGN_OR_RETURN(const std::optional<KnownKey> known,
                   FindKnownKey(ctx, api, owner.velero_namespace, owner.location));
  if (!known.has_value()) {
    return "";
  }
  return absl::StrCat(
      "it is not there, but ", known->source, " was encrypted with ",
      known->fingerprint.empty() ? "a key" : absl::StrCat("key ", known->fingerprint),
      " of it, so no new key is made; import the copy that was exported: ", ImportCommand(owner),
      "; where none exists, docs/data-mover-keys.md says how to start again");
}

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

absl::StatusOr<repository::Keyring> OpenKeyring(const CallContext& ctx, k8s::ApiClient& api,
                                                absl::string_view mover_namespace,
                                                const KeyringOwner& owner, bool make,
                                                SecureRandom& random) {
  const k8s::ObjectKey key = KeyringSecretKey(mover_namespace, owner);
  const std::string name = NameOfSecret(mover_namespace, owner);
  absl::StatusOr<objects::Secret> secret = objects::Get<objects::Secret>(ctx, api, key);
  if (absl::IsNotFound(secret.status()) && make) {
    const absl::StatusOr<std::string> lost = ExplainLostKeyring(ctx, api, owner);
    if (lost.ok() && lost->empty()) {
      const repository::RepositoryKey first = repository::MakeRepositoryKey(random);
      secret = objects::CreateOrGet(
          ctx, api,
          MakeSecret(mover_namespace, owner, {.keys = {first}, .newest = first.fingerprint}));
    } else {
      // Another upload may have made it since, and been encrypted with it.
      secret = objects::Get<objects::Secret>(ctx, api, key);
      if (absl::IsNotFound(secret.status())) {
        return Annotate(lost.ok() ? absl::FailedPreconditionError(*lost) : lost.status(), name);
      }
    }
  }
  if (absl::IsNotFound(secret.status())) {
    return absl::NotFoundError(absl::StrCat(
        "there are no keys for location ", owner.velero_namespace, "/", owner.location, " (", name,
        "); import those that its data was written with: ", ImportCommand(owner)));
  }
  RETURN_IF_ERROR(secret.status());
  ASSIGN_OR_RETURN(Contents contents, Annotate(ReadContents(*secret, owner), name));
  return Annotate(Complete(std::move(contents), owner), name);
}

absl::StatusOr<repository::Keyring> ImportKeys(const CallContext& ctx, k8s::ApiClient& api,
                                               absl::string_view mover_namespace,
                                               const KeyringOwner& owner,
                                               const repository::Keyring& keys, bool newest) {
  return Change(ctx, api, mover_namespace, owner, [&](Contents& contents) {
    RETURN_IF_ERROR(RefuseIfBrought(contents));
    if (newest || contents.newest.empty()) {
      contents.newest = keys.newest().fingerprint;
    }
    for (const repository::RepositoryKey& key : keys.keys) {
      if (!contents.Has(key.fingerprint)) {
        contents.keys.push_back(key);
      }
      contents.confirmed.insert(key.fingerprint);  // Who brings a key has it.
    }
    return contents.keys.size() <= repository::kKeysMax
               ? absl::OkStatus()
               : absl::FailedPreconditionError(
                     absl::StrCat("that makes more than ", repository::kKeysMax, " keys"));
  });
}

absl::Status RecordExportedKeys(const CallContext& ctx, k8s::ApiClient& api,
                                absl::string_view mover_namespace, const KeyringOwner& owner,
                                const std::vector<std::string>& fingerprints) {
  return Change(ctx, api, mover_namespace, owner,
                [&](Contents& contents) {
                  contents.exported.insert(fingerprints.begin(), fingerprints.end());
                  return CheckHas(contents, fingerprints, owner);
                })
      .status();
}

absl::Status ConfirmKeys(const CallContext& ctx, k8s::ApiClient& api,
                         absl::string_view mover_namespace, const KeyringOwner& owner,
                         const std::vector<std::string>& fingerprints) {
  return Change(ctx, api, mover_namespace, owner,
                [&](Contents& contents) {
                  contents.confirmed.insert(fingerprints.begin(), fingerprints.end());
                  return CheckHas(contents, fingerprints, owner);
                })
      .status();
}

absl::StatusOr<repository::Keyring> RemoveKey(const CallContext& ctx, k8s::ApiClient& api,
                                              absl::string_view mover_namespace,
                                              const KeyringOwner& owner,
                                              absl::string_view fingerprint) {
  const std::string removed(fingerprint);
  return Change(ctx, api, mover_namespace, owner, [&](Contents& contents) {
    RETURN_IF_ERROR(RefuseIfBrought(contents));
    RETURN_IF_ERROR(CheckHas(contents, {removed}, owner));
    if (contents.newest == removed) {
      return absl::FailedPreconditionError(
          absl::StrCat("key ", removed, " is the newest; import another one with --newest first"));
    }
    std::erase_if(contents.keys,
                  [&](const repository::RepositoryKey& key) { return key.fingerprint == removed; });
    contents.confirmed.erase(removed);
    contents.exported.erase(removed);
    return absl::OkStatus();
  });
}

}  // namespace csidelta::datamover
