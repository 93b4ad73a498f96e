#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "datamover/keyring.h"
#include "datamover/repository_access.h"
#include "doctor/checks.h"
#include "objects/backup_storage_location.h"
#include "objects/client.h"
#include "objects/secret.h"
#include "storage/location.h"
#include "velero/storage_location.h"

namespace csidelta::doctor {
namespace {

using objects::BackupStorageLocation;
using velero::StorageLocation;

constexpr absl::Duration kBucketTimeMax = absl::Seconds(10);
// Beside the clusters' folders; no cluster's uid looks like it.
constexpr char kProbeFolder[] = "doctor";

std::string SubjectOf(const StorageLocation& location) {
  return absl::StrCat("location ", location.namespace_name, "/", location.name);
}

// All locations that can be read; what cannot is told by CheckLocationProvider.
std::vector<std::pair<BackupStorageLocation, StorageLocation>> Locations(Visit& visit) {
  std::vector<std::pair<BackupStorageLocation, StorageLocation>> locations;
  for (const std::string& space : visit.options().velero_namespaces) {
    for (BackupStorageLocation& object : visit.Look<BackupStorageLocation>(space)) {
      if (absl::StatusOr<StorageLocation> location = velero::ParseStorageLocation(object);
          location.ok()) {
        locations.emplace_back(std::move(object), *std::move(location));
      }
    }
  }
  return locations;
}

// What a location's bucket answers; nothing after having said why.
using BucketProbe =
    absl::FunctionRef<absl::Status(const CallContext& ctx, storage::ObjectStore& store)>;

void ProbeBucket(Visit& visit, const StorageLocation& location, absl::string_view doing,
                 BucketProbe probe) {
  const absl::StatusOr<datamover::RepositoryAccess> access =
      datamover::OpenLocationAccess(visit.ctx(), visit.facts().api(), location);
  if (!access.ok()) {
    visit.Unknown(SubjectOf(location), access.status());
    return;
  }
  absl::StatusOr<std::unique_ptr<storage::OpenedStore>> opened =
      visit.options().open_store(*access);
  const absl::Status status =
      opened.ok() ? probe(visit.ctx().WithTimeout(kBucketTimeMax), (*opened)->store())
                  : opened.status();
  if (status.ok()) {
    visit.Good(SubjectOf(location), absl::StrCat(doing, " works"));
  } else {
    visit.Fault(SubjectOf(location), absl::StrCat(doing, " fails: ", status.message()),
                "check bucket, endpoint, credentials and the policy of the bucket");
  }
}

std::string RingSubject(Visit& visit, const StorageLocation& location) {
  return absl::StrCat("secret ", visit.options().mover_namespace, "/",
                      datamover::KeyringSecretName({.velero_namespace = location.namespace_name,
                                                    .location = location.name}));
}

absl::StatusOr<datamover::Keyring> Ring(Visit& visit, const StorageLocation& location) {
  return datamover::OpenKeyring(
      visit.ctx(), visit.facts().api(), visit.options().mover_namespace,
      {.velero_namespace = location.namespace_name, .location = location.name},
      /*make=*/false, SecureRandom::Real());
}

// One that is not made yet, or one that is lost.
void TellMissingRing(Visit& visit, const StorageLocation& location, const absl::Status& missing) {
  const auto known = datamover::FindKnownKey(visit.ctx(), visit.facts().api(),
                                             location.namespace_name, location.name);
  const std::string subject = RingSubject(visit, location);
  if (!known.ok()) {
    visit.Unknown(subject, known.status());
  } else if (!known->has_value()) {
    visit.Note(subject, "is not there yet: the first backup makes it",
               location.read_only ? std::string(missing.message())
                                  : "export and confirm the key when it is made");
  } else {
    visit.Fault(subject,
                datamover::LostKeyring(**known, {.velero_namespace = location.namespace_name,
                                                 .location = location.name}),
                "import the keys from the copy that you have");
  }
}

}  // namespace

void CheckLocationProvider(Visit& visit) {
  for (const std::string& space : visit.options().velero_namespaces) {
    for (const BackupStorageLocation& object : visit.Look<BackupStorageLocation>(space)) {
      const absl::StatusOr<StorageLocation> location = velero::ParseStorageLocation(object);
      const absl::Status status =
          location.ok()
              ? datamover::OpenLocationAccess(visit.ctx(), visit.facts().api(), *location).status()
              : location.status();
      const std::string subject = absl::StrCat("location ", space, "/", object.name());
      if (status.ok()) {
        visit.Good(subject, "is one that the mover writes to");
      } else if (absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status)) {
        visit.Fault(subject, std::string(status.message()), "do what this says");
      } else {
        visit.Unknown(subject, status);
      }
    }
  }
}

void CheckLocationReadable(Visit& visit) {
  for (const auto& [object, location] : Locations(visit)) {
    ProbeBucket(visit, location, "listing",
                [](const CallContext& ctx, storage::ObjectStore& store) {
                  return store.List(ctx, absl::StrCat(kProbeFolder, "/"),
                                    [](const storage::ObjectInfo&) { return absl::OkStatus(); });
                });
  }
}

void CheckLocationWritable(Visit& visit) {
  for (const auto& [object, location] : Locations(visit)) {
    if (location.read_only) {
      visit.Note(SubjectOf(location), "is read-only: it can be restored from, and that is all",
                 "nothing, if that is meant");
      continue;
    }
    const std::string key = absl::StrCat(
        kProbeFolder, "/", absl::Hex(visit.random().Below(uint64_t{1} << 62), absl::kZeroPad16));
    ProbeBucket(visit, location, "writing",
                [&key](const CallContext& ctx, storage::ObjectStore& store) {
                  RETURN_IF_ERROR(store.Put(ctx, key, "csi-delta doctor", {}));
                  return store.Delete(ctx, key);
                });
  }
}

void CheckKeyringPresent(Visit& visit) {
  for (const auto& [object, location] : Locations(visit)) {
    const absl::Status status = Ring(visit, location).status();
    if (absl::IsNotFound(status)) {
      TellMissingRing(visit, location, status);
    } else if (!status.ok() && !absl::IsFailedPrecondition(status)) {
      visit.Unknown(RingSubject(visit, location), status);
    }
  }
}

void CheckKeyringWhole(Visit& visit) {
  for (const auto& [object, location] : Locations(visit)) {
    const absl::Status status = Ring(visit, location).status();
    if (absl::IsFailedPrecondition(status)) {
      visit.Fault(RingSubject(visit, location), std::string(status.message()),
                  "import the keys from the copy that you have");
    }
  }
}

void CheckKeyringConfirmed(Visit& visit) {
  for (const auto& [object, location] : Locations(visit)) {
    const absl::StatusOr<datamover::Keyring> ring = Ring(visit, location);
    if (!ring.ok()) {
      continue;  // CheckKeyringPresent and CheckKeyringWhole have told.
    }
    for (const datamover::RepositoryKey& key : ring->keys) {
      if (!ring->confirmed.contains(key.fingerprint)) {
        visit.Fault(
            RingSubject(visit, location),
            absl::StrCat("nobody said that he has a copy of key ", key.fingerprint,
                         ": without it the backups of ", SubjectOf(location), " are worthless"),
            absl::StrCat("csi-delta mover-key export --location ", location.name,
                         ", keep it outside of the cluster, then --confirm"));
      }
    }
  }
}

void CheckLocationDefault(Visit& visit) {
  for (const std::string& space : visit.options().velero_namespaces) {
    int defaults = 0;
    const std::vector<BackupStorageLocation> locations = visit.Look<BackupStorageLocation>(space);
    for (const BackupStorageLocation& location : locations) {
      defaults += location.is_default() ? 1 : 0;
    }
    if (!locations.empty() && defaults != 1) {
      visit.Warn(
          absl::StrCat("namespace ", space),
          absl::StrCat(defaults, " of ", locations.size(), " storage locations are the default"),
          "velero backup-location set NAME --default");
    }
  }
}

void CheckLocationAvailable(Visit& visit) {
  for (const auto& [object, location] : Locations(visit)) {
    const std::string phase = object.phase();
    if (phase == "Available") {
      visit.Good(SubjectOf(location), "Velero reaches it");
    } else {
      visit.Fault(SubjectOf(location),
                  absl::StrCat("Velero calls it ", phase.empty() ? "nothing yet" : phase, ": ",
                               object.message()),
                  "velero backup-location get, and the server's log");
    }
  }
}

void CheckLocationTls(Visit& visit) {
  for (const auto& [object, location] : Locations(visit)) {
    const std::string url = location.Config("s3Url");
    if (absl::StartsWith(url, "http://")) {
      visit.Warn(SubjectOf(location), absl::StrCat("is reached without TLS at ", url),
                 "serve it with TLS; what we store is sealed, but credentials and names are not");
    } else if (location.Flag("insecureSkipTLSVerify")) {
      visit.Warn(SubjectOf(location), "anybody may stand in for it: insecureSkipTLSVerify is set",
                 "give its certificate as spec.objectStorage.caCert");
    }
  }
}

void CheckLocationCredentials(Visit& visit) {
  for (const auto& [object, location] : Locations(visit)) {
    if (location.credential.name.empty()) {
      continue;
    }
    const std::string subject =
        absl::StrCat("secret ", location.namespace_name, "/", location.credential.name);
    const auto secret = objects::Get<objects::Secret>(
        visit.ctx(), visit.facts().api(),
        objects::Secret::Key(location.namespace_name, location.credential.name));
    if (absl::IsNotFound(secret.status())) {
      visit.Fault(subject, absl::StrCat("does not exist, but ", SubjectOf(location), " names it"),
                  "make it, as for velero install --secret-file");
    } else if (!secret.ok()) {
      visit.Unknown(subject, secret.status());
    } else if (secret->EncodedValue(location.credential.key).empty()) {
      visit.Fault(subject,
                  absl::StrCat("has no key ", location.credential.key, ", which ",
                               SubjectOf(location), " names"),
                  "add it, or correct spec.credential.key");
    }
  }
}

}  // namespace csidelta::doctor
