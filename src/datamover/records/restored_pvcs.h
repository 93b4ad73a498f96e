#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "datamover/mover_environment.h"
#include "k8s/api_client.h"
#include "objects/volume_task.h"
#include "velero/data_reference.h"

// Which repository snapshot filled a PVC: the mover's own record, a Secret of its namespace, where
// no tenant and no worker writes. It is made where the PVC has the namespace and name that the
// backup had. There is one for each Velero, location, and name of a PVC, so a repository goes on
// with one PVC alone: the one that was restored last.
//
// A record that is wrong or lost costs time and space, never data. The first upload goes by the
// content alone, and another repository holds a whole backup.
//
// A PVC that was restored from a backup of another cluster goes on there only if an administrator
// said that this cluster is gone: an adoption, another such Secret. If it was not gone, two
// clusters write to one repository. That is safe: uploads append under a shared lock, deletions
// need the exclusive one, and each builds on the other's backups by content alone.
namespace csidelta::datamover {

// The names of all such Secrets begin with this.
inline constexpr char kRestoredSecretPrefix[] = "csi-delta-restored-";
// And those of all adoptions with this.
inline constexpr char kAdoptedSecretPrefix[] = "csi-delta-adopted-";

// A PVC by its name, and the location of its backups.
struct RestoredPlace {
  std::string velero_namespace;
  std::string location;
  std::string pvc_namespace;
  std::string pvc;
};
std::string RestoredSecretName(const RestoredPlace& place);

struct RestoredPvc {
  std::string pvc_uid = {};
  velero::DataReference source = {};  // the repository snapshot that filled it
  int64_t data_bytes = 0;             // that were not zeros
};

// Replaces what is recorded of the place.
absl::Status RecordRestored(const CallContext& ctx, const MoverEnvironment& env,
                            const RestoredPlace& place, const RestoredPvc& restored);

// Nothing if nothing is recorded, or what is cannot be read.
absl::StatusOr<std::optional<RestoredPvc>> FindRestored(const CallContext& ctx,
                                                        const MoverEnvironment& env,
                                                        const RestoredPlace& place);

// Deletes what is recorded, if it is of the PVC with this uid.
absl::Status ForgetRestored(const CallContext& ctx, const MoverEnvironment& env,
                            const RestoredPlace& place, absl::string_view pvc_uid);

// The repositories of another cluster at a location.
struct ForeignCluster {
  std::string mover_namespace;
  std::string velero_namespace;
  std::string location;
  std::string cluster;  // uid of its namespace kube-system
};
// Of the Secret that says that the cluster is adopted.
k8s::ObjectKey AdoptionKey(const ForeignCluster& foreign);
// `by`: who says that the cluster is gone, and when. ALREADY_EXISTS if it is adopted.
absl::Status RecordAdoption(const CallContext& ctx, k8s::ApiClient& api,
                            const ForeignCluster& foreign, const std::string& by);
// Who adopted the cluster; nothing if it is not adopted.
absl::StatusOr<std::optional<std::string>> FindAdoption(const CallContext& ctx, k8s::ApiClient& api,
                                                        const ForeignCluster& foreign);

// The PVCs that were filled from these repositories, and have no repository of their own since. By
// namespace/name.
absl::StatusOr<std::map<std::string, RestoredPvc>> ListRestored(const CallContext& ctx,
                                                                k8s::ApiClient& api,
                                                                const ForeignCluster& foreign);

// `volume`, an upload's, with the repository that it goes to in `cluster`: the one that the PVC was
// restored from, if that is of this cluster, or if `is_adopted`. Else it has its own, and `why_own`
// has the reason and the cost if the PVC was restored. Pure.
objects::TaskVolume ChooseRepository(const std::optional<RestoredPvc>& restored,
                                     absl::string_view cluster, bool is_adopted,
                                     objects::TaskVolume volume);

}  // namespace csidelta::datamover
