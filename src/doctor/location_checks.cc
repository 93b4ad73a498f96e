#include <memory>
#include <string>
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
#include "objects/core.h"
#include "storage/location.h"

namespace csidelta::doctor {
namespace {

using objects::BackupStorageLocation;

constexpr absl::Duration kBucketTimeMax = absl::Seconds(10);
// Beside the clusters' folders; no cluster's uid looks like it.
constexpr char kProbeFolder[] = "doctor";

// All locations that can be read; what cannot is told by CheckLocationProvider.
std::vector<BackupStorageLocation> Locations(CheckContext& context) {
  std::vector<BackupStorageLocation> locations = context.ListInVeleros<BackupStorageLocation>();
  std::erase_if(locations, [](const auto& location) { return !location.Validate().ok(); });
  return locations;
}

// What a location's bucket answers; nothing after having said why.
using BucketProbe =
    absl::FunctionRef<absl::Status(const CallContext& ctx, storage::ObjectStore& store)>;

void ProbeBucket(CheckContext& context, const BackupStorageLocation& location,
                 absl::string_view doing, BucketProbe probe,
                 const objects::SecretKeyName& credential = {}) {
  const absl::StatusOr<datamover::RepositoryAccess> access =
      datamover::OpenLocationAccess(context.ctx(), context.cache().api(), location, credential);
  if (!context.IsKnown(SubjectOf("location", location), access.status())) {
    return;
  }
  absl::StatusOr<std::unique_ptr<storage::OpenedStore>> opened =
      context.options().open_store(*access);
  const absl::Status status =
      opened.ok() ? probe(context.ctx().WithTimeout(kBucketTimeMax), (*opened)->store())
                  : opened.status();
  if (status.ok()) {
    context.Good(SubjectOf("location", location), absl::StrCat(doing, " works"));
  } else {
    context.Fault(SubjectOf("location", location),
                  absl::StrCat(doing, " fails: ", status.message()),
                  "check bucket, endpoint, credentials and the policy of the bucket");
  }
}

// With which deletions run; no name: with the location's own.
objects::SecretKeyName DeletionCredential(CheckContext& context,
                                          const BackupStorageLocation& location) {
  const absl::StatusOr<datamover::MoverSettings> settings = ReadSettings(context);
  return settings.ok() ? datamover::ForLocation(*settings, location.name()).deletion_credential
                       : objects::SecretKeyName();
}

void ExamineCredential(CheckContext& context, const BackupStorageLocation& location,
                       const objects::SecretKeyName& credential, absl::string_view named_by,
                       absl::string_view correct) {
  if (credential.name.empty()) {
    return;
  }
  const std::string subject = SubjectOf("secret", location.namespace_name(), credential.name);
  const auto secret = objects::Get<objects::Secret>(
      context.ctx(), context.cache().api(),
      objects::Secret::Key(location.namespace_name(), credential.name));
  if (context.IsMissing(subject, secret.status())) {
    context.Fault(subject, absl::StrCat("does not exist, but ", named_by, " names it"),
                  "make it, as for velero install --secret-file");
  } else if (secret.ok() && secret->EncodedValue(credential.key).empty()) {
    context.Fault(subject,
                  absl::StrCat("has no key ", credential.key, ", which ", named_by, " names"),
                  absl::StrCat("add it, or correct ", correct));
  }
}

datamover::KeyringOwner OwnerOf(const BackupStorageLocation& location) {
  return {.velero_namespace = location.namespace_name(), .location = location.name()};
}

std::string RingSubject(CheckContext& context, const BackupStorageLocation& location) {
  return SubjectOf("secret", context.options().mover_namespace,
                   datamover::KeyringSecretName(OwnerOf(location)));
}

absl::StatusOr<repository::Keyring> Ring(CheckContext& context,
                                         const BackupStorageLocation& location) {
  return datamover::OpenKeyring(context.ctx(), context.cache().api(),
                                context.options().mover_namespace, OwnerOf(location),
                                /*make=*/false, SecureRandom::Real());
}

// One that is not made yet, or one that is lost.
void ReportMissingKeyring(CheckContext& context, const BackupStorageLocation& location,
                          const absl::Status& missing) {
  const absl::StatusOr<std::string> lost =
      datamover::ExplainLostKeyring(context.ctx(), context.cache().api(), OwnerOf(location));
  const std::string subject = RingSubject(context, location);
  if (!context.IsKnown(subject, lost.status())) {
    return;
  }
  if (lost->empty()) {
    context.Note(subject, "is not there yet: the first backup makes it",
                 location.is_read_only() ? std::string(missing.message())
                                         : absl::StrCat("after it: csi-delta mover-key export "
                                                        "--location ",
                                                        location.name()));
  } else {
    context.Fault(subject, *lost, datamover::ImportCommand(OwnerOf(location)));
  }
}

}  // namespace

void CheckLocationProvider(CheckContext& context) {
  for (const auto& location : context.ListInVeleros<BackupStorageLocation>()) {
    absl::Status status = location.Validate();
    if (status.ok()) {
      status =
          datamover::OpenLocationAccess(context.ctx(), context.cache().api(), location).status();
    }
    if (status.ok()) {
      context.Good(SubjectOf("location", location), "is one that the mover writes to");
    } else if (absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status)) {
      context.Fault(SubjectOf("location", location), std::string(status.message()),
                    "do what this says");
    } else {
      context.Unknown(SubjectOf("location", location), status);
    }
  }
}

void CheckLocationReadable(CheckContext& context) {
  for (const BackupStorageLocation& location : Locations(context)) {
    ProbeBucket(context, location, "listing",
                [](const CallContext& ctx, storage::ObjectStore& store) {
                  return store.List(ctx, absl::StrCat(kProbeFolder, "/"),
                                    [](const storage::ObjectInfo&) { return absl::OkStatus(); });
                });
  }
}

void CheckLocationWritable(CheckContext& context) {
  for (const BackupStorageLocation& location : Locations(context)) {
    if (location.is_read_only()) {
      context.Note(SubjectOf("location", location), "is read-only: it serves restores only",
                   "nothing, if that is meant");
      continue;
    }
    const std::string key = absl::StrCat(
        kProbeFolder, "/", absl::Hex(context.random().Below(uint64_t{1} << 62), absl::kZeroPad16));
    const objects::SecretKeyName remover = DeletionCredential(context, location);
    ProbeBucket(context, location, "writing",
                [&](const CallContext& ctx, storage::ObjectStore& store) {
                  RETURN_IF_ERROR(store.Put(ctx, key, "csi-delta doctor", {}));
                  return remover.name.empty() ? store.Delete(ctx, key) : absl::OkStatus();
                });
    if (!remover.name.empty()) {
      ProbeBucket(
          context, location, "deleting with deletionCredential",
          [&key](const CallContext& ctx, storage::ObjectStore& store) {
            return store.Delete(ctx, key);
          },
          remover);
    }
  }
}

void CheckKeyringPresent(CheckContext& context) {
  for (const BackupStorageLocation& location : Locations(context)) {
    const absl::Status status = Ring(context, location).status();
    if (absl::IsNotFound(status)) {
      ReportMissingKeyring(context, location, status);
    } else if (!status.ok() && !absl::IsFailedPrecondition(status)) {
      context.Unknown(RingSubject(context, location), status);
    }
  }
}

void CheckKeyringWhole(CheckContext& context) {
  for (const BackupStorageLocation& location : Locations(context)) {
    const absl::Status status = Ring(context, location).status();
    if (absl::IsFailedPrecondition(status)) {
      context.Fault(RingSubject(context, location), std::string(status.message()),
                    datamover::ImportCommand(OwnerOf(location)));
    }
  }
}

void CheckKeyringConfirmed(CheckContext& context) {
  for (const BackupStorageLocation& location : Locations(context)) {
    const absl::StatusOr<repository::Keyring> ring = Ring(context, location);
    if (!ring.ok()) {
      continue;  // CheckKeyringPresent and CheckKeyringWhole have told.
    }
    for (const repository::RepositoryKey& key : ring->keys) {
      if (!ring->confirmed.contains(key.fingerprint)) {
        context.Fault(RingSubject(context, location),
                      absl::StrCat("no copy is confirmed of key ", key.fingerprint,
                                   ": without it the backups of ", SubjectOf("location", location),
                                   " are worthless"),
                      absl::StrCat("csi-delta mover-key export --location ", location.name(),
                                   ", keep it outside of the cluster, then --confirm"));
      }
    }
  }
}

void CheckLocationDefault(CheckContext& context) {
  for (const std::string& space : context.options().velero_namespaces) {
    int defaults = 0;
    const std::vector<BackupStorageLocation> locations = context.List<BackupStorageLocation>(space);
    for (const BackupStorageLocation& location : locations) {
      defaults += location.is_default() ? 1 : 0;
    }
    if (!locations.empty() && defaults != 1) {
      context.Warn(
          absl::StrCat("namespace ", space),
          absl::StrCat(defaults, " of ", locations.size(), " storage locations are the default"),
          "velero backup-location set NAME --default");
    }
  }
}

void CheckLocationAvailable(CheckContext& context) {
  for (const BackupStorageLocation& location : Locations(context)) {
    const std::string phase = location.phase();
    if (phase == "Available") {
      context.Good(SubjectOf("location", location), "Velero reaches it");
    } else {
      context.Fault(
          SubjectOf("location", location),
          absl::StrCat("Velero calls it ", phase.empty() ? "nothing yet" : phase, ": ",
                       location.message()),
          absl::StrCat("kubectl logs deployment/velero --namespace ", location.namespace_name()));
    }
  }
}

void CheckLocationTls(CheckContext& context) {
  for (const BackupStorageLocation& location : Locations(context)) {
    const std::string url = location.Config("s3Url");
    if (absl::StartsWith(url, "http://")) {
      context.Warn(
          SubjectOf("location", location), absl::StrCat("is reached without TLS at ", url),
          "serve it with TLS; stored data is encrypted, but credentials and names are not");
    } else if (location.ConfigFlag("insecureSkipTLSVerify")) {
      context.Warn(SubjectOf("location", location),
                   "any server can impersonate it: insecureSkipTLSVerify is set",
                   "give its certificate as spec.objectStorage.caCert");
    }
  }
}

void CheckLocationCredentials(CheckContext& context) {
  for (const BackupStorageLocation& location : Locations(context)) {
    ExamineCredential(context, location, location.credential(), SubjectOf("location", location),
                      "spec.credential.key");
    ExamineCredential(
        context, location, DeletionCredential(context, location),
        absl::StrCat("the setting backupStorageLocations.", location.name(), ".deletionCredential"),
        "its key");
  }
}

void CheckLocationShared(CheckContext& context) {
  for (const datamover::SharedAddress& shared :
       datamover::FindSharedAddresses(context.ListInVeleros<BackupStorageLocation>())) {
    context.Fault(
        absl::StrCat("location ", shared.location),
        absl::StrCat("has the bucket and prefix of location ", shared.oldest,
                     ", but other keys: a PVC that is backed up to both has one repository, "
                     "which one of them cannot open"),
        "give it another prefix, or remove it");
  }
}

}  // namespace csidelta::doctor
