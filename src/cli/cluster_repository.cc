#include "cli/cluster_repository.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/human_text.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "datamover/settings.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/protected_volume.h"
#include "velero/data_reference.h"

namespace csidelta::cli {
namespace {

// A good backup: where it is, and what time it has.
struct StoredBackup {
  std::string location = {};
  velero::DataReference reference = {};
  absl::Time at = absl::InfinitePast();
};

// Of each record of the PVC: there is one for each location and for each PVC that had its name.
absl::StatusOr<std::vector<StoredBackup>> BackupsOf(const CallContext& ctx, k8s::ApiClient& api,
                                                    const ClusterRepositoryFlags& flags) {
  std::vector<StoredBackup> backups;
  ASSIGN_OR_RETURN(const auto volumes,
                   objects::List<objects::ProtectedVolume>(ctx, api, flags.velero_namespace));
  for (const objects::ProtectedVolume& volume : volumes) {
    const objects::ProtectedVolumeSpec spec = volume.spec();
    const auto backup = volume.status().last_good;
    if (absl::StrCat(spec.pvc_namespace, "/", spec.pvc) == flags.pvc && backup.has_value() &&
        (flags.location.empty() || flags.location == spec.location)) {
      ASSIGN_OR_RETURN(velero::DataReference reference,
                       velero::ParseDataReference(backup->snapshot_id));
      backups.push_back({spec.location, std::move(reference),
                         backup->recovery_point().value_or(absl::InfinitePast())});
    }
  }
  return backups;
}

std::string FlagsOf(const StoredBackup& backup) {
  return absl::StrCat("--location ", backup.location, " --upload ",
                      velero::FormatDataReference(backup.reference), " (newest backup of ",
                      FormatMoment(backup.at), ")");
}

// `changes`: what is changed is not guessed.
absl::StatusOr<StoredBackup> BackupOfPvc(const CallContext& ctx, k8s::ApiClient& api,
                                         const ClusterRepositoryFlags& flags, bool changes,
                                         const engine::Listener& listener) {
  ASSIGN_OR_RETURN(const std::vector<StoredBackup> backups, BackupsOf(ctx, api, flags));
  const auto newest =
      std::max_element(backups.begin(), backups.end(),
                       [](const StoredBackup& a, const StoredBackup& b) { return a.at < b.at; });
  if (newest == backups.end()) {
    return absl::NotFoundError(absl::StrCat(
        "no completed backup of PVC ", flags.pvc, " by the data mover csi-delta is known in ",
        "namespace ", flags.velero_namespace, flags.location.empty() ? "" : " at location ",
        flags.location, "; csi-delta status lists the PVCs, as NAMESPACE/NAME"));
  }
  std::string others;
  for (const StoredBackup& other : backups) {
    if (other.location != newest->location ||
        velero::RepositoryPath(other.reference) != velero::RepositoryPath(newest->reference)) {
      absl::StrAppend(&others, ", or ", FlagsOf(other));
    }
  }
  if (others.empty()) {
    return *newest;
  }
  const std::string all = absl::StrCat("PVC ", flags.pvc, " has several repositories; instead of ",
                                       "--pvc, name one by ", FlagsOf(*newest), others);
  if (changes) {
    return absl::FailedPreconditionError(all);
  }
  listener.note(all);
  return *newest;
}

absl::StatusOr<StoredBackup> BackupOfUpload(const CallContext& ctx, k8s::ApiClient& api,
                                            const ClusterRepositoryFlags& flags) {
  const absl::StatusOr<objects::DataUpload> upload = inplace::ReadUpload(ctx, api, flags.source());
  if (absl::IsNotFound(upload.status())) {
    return OrUnserved(ctx, api, flags.upload_key(), upload.status());
  }
  RETURN_IF_ERROR(upload.status());
  ASSIGN_OR_RETURN(velero::DataReference reference,
                   velero::ParseDataReference(upload->snapshot_id()));
  return StoredBackup{.location = upload->storage_location(), .reference = std::move(reference)};
}

absl::StatusOr<ClusterRepository> Find(const CallContext& ctx, k8s::ApiClient& api,
                                       const ClusterRepositoryFlags& flags, engine::LockKind kind,
                                       const engine::Listener& listener) {
  const bool changes = kind == engine::LockKind::kWrite || kind == engine::LockKind::kExclusive;
  ASSIGN_OR_RETURN(const StoredBackup backup, flags.upload.empty()
                                                  ? BackupOfPvc(ctx, api, flags, changes, listener)
                                                  : BackupOfUpload(ctx, api, flags));
  datamover::RepositoryAccessRequest request = {
      .velero_namespace = flags.velero_namespace,
      .location = backup.location,
      .mover_namespace = flags.mover_namespace,
      .repository_path = velero::RepositoryPath(backup.reference),
      .for_writing = changes,
      .for_deleting = kind == engine::LockKind::kExclusive,
      .written_with_key = backup.reference.key};
  if (request.for_writing) {
    ASSIGN_OR_RETURN(const datamover::MoverSettings mover,
                     datamover::ReadMoverSettings(ctx, api, flags.mover_namespace));
    const datamover::StorageLocationSettings settings =
        datamover::ForLocation(mover, backup.location);
    request.object_lock = settings.immutability;
    if (request.for_deleting) {
      request.credential = settings.deletion_credential;
    }
  }
  ASSIGN_OR_RETURN(datamover::RepositoryAccess access,
                   datamover::OpenRepositoryAccess(ctx, api, request, SecureRandom::Real()));
  return ClusterRepository{.access = std::move(access),
                           .snapshot = flags.upload.empty() ? "" : backup.reference.snapshot_id};
}

}  // namespace

void ClusterRepositoryFlags::Declare(ArgumentTable& table) {
  table.Add("--pvc", "NS/NAME",
            "instead of --repo: the repository with the newest backup of this PVC by the data "
            "mover; its address, keys and credentials are read from the cluster, with your rights",
            pvc);
  table.Add("--upload", "DATAUPLOAD",
            "instead of --repo: the repository, and the snapshot, of this DataUpload of Velero",
            upload);
  table.Add("--location", "NAME",
            "with --pvc: the BackupStorageLocation, if the PVC has backups at several; with "
            "--upload: if the cluster has no such DataUpload, which is then its status.snapshotID",
            location);
  table.Add("--velero-namespace", "NS", "the namespace of DataUpload and location",
            velero_namespace);
  table.Add("--mover-namespace", "NS", "the mover's namespace, which has the keys",
            mover_namespace);
  cluster.Declare(table);
}

absl::StatusOr<ClusterRepository> FindClusterRepository(const CallContext& ctx, k8s::ApiClient& api,
                                                        const ClusterRepositoryFlags& flags,
                                                        engine::LockKind kind,
                                                        const engine::Listener& listener) {
  if (!flags.pvc.empty() && !flags.upload.empty()) {
    return absl::InvalidArgumentError("give either --pvc or --upload, not both");
  }
  absl::StatusOr<ClusterRepository> found = Find(ctx, api, flags, kind, listener);
  return absl::IsPermissionDenied(found.status())
             ? absl::PermissionDeniedError(
                   absl::StrCat(found.status().message(),
                                "; docs/security.md lists the rights that --pvc and --upload need"))
             : found;
}

}  // namespace csidelta::cli
