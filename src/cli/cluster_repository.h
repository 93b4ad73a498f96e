#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "cli/arguments.h"
#include "cli/cluster_access.h"
#include "datamover/repository_access.h"
#include "engine/session.h"
#include "inplace/mover_restore.h"
#include "objects/data_transfer.h"

// Repositories of the data mover: address, keys and credentials as the cluster has them, read with
// the rights of the caller.
namespace csidelta::cli {

// The flags of verbs on a repository that exists.
struct ClusterRepositoryFlags {
  std::string pvc;     // "namespace/name"
  std::string upload;  // a DataUpload; with a location its status.snapshotID
  std::string location;
  std::string velero_namespace = "velero";
  std::string mover_namespace = "csi-delta";
  ClusterAccess cluster;

  void Declare(ArgumentTable& table);
  // Whether they name a repository.
  bool are_given() const { return !pvc.empty() || !upload.empty(); }
  inplace::MovedSource source() const { return {velero_namespace, upload, location}; }
  k8s::ObjectKey upload_key() const { return objects::DataUpload::Key(velero_namespace, upload); }
};

struct ClusterRepository {
  datamover::RepositoryAccess access;
  std::string snapshot;  // that the DataUpload stored, 64 digits; "": a PVC was named
};

// The repository that `flags` name; notes tell of others that the PVC has, and work that writes is
// refused with FAILED_PRECONDITION then. `kind` is the lock of
// the work: with an exclusive one it gets the mover's credentials for deletions, and if it writes,
// the mover's object locks. Writes nothing itself. REQUIRES flags.are_given(). Errors, beside those
// of OpenRepositoryAccess() and inplace::ReadUpload(): NOT_FOUND if no good backup of the PVC is
// recorded; PERMISSION_DENIED names verb, kind and object.
absl::StatusOr<ClusterRepository> FindClusterRepository(const CallContext& ctx, k8s::ApiClient& api,
                                                        const ClusterRepositoryFlags& flags,
                                                        engine::LockKind kind,
                                                        const engine::Listener& listener);

}  // namespace csidelta::cli
