#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/random.h"
#include "csi/base_index.h"
#include "csi/environment.h"
#include "csi/expose/exposed_snapshot.h"
#include "datamover/ended_pods.h"
#include "datamover/node_slots.h"
#include "datamover/repository_access.h"
#include "datamover/running_workers.h"
#include "datamover/settings.h"
#include "k8s/api_client.h"
#include "k8s/cached_client.h"
#include "k8s/event_recorder.h"
#include "k8s/object_cache.h"
#include "objects/backup.h"
#include "objects/object.h"
#include "repository/repo_snapshot.h"

namespace csidelta::datamover {

// The Lease of the controller that leads, in the mover's namespace.
inline constexpr char kMoverLease[] = "csi-delta-datamover";
// It is renewed every two seconds; clocks differ.
inline constexpr absl::Duration kLeaseAgeMax = absl::Minutes(1);
// The component that Events of the mover name.
inline constexpr char kMoverComponent[] = "csi-delta-datamover";

// The environment of every reconciler of the mover. Borrows all that it points to.
struct MoverEnvironment {
  // All writes go through it: it records them in `cache`, if there is one.
  k8s::ApiClient& api;
  Random& random;
  SecureRandom& secure_random;
  std::string mover_namespace;
  std::string cluster;                 // uid of its namespace kube-system
  std::string image;                   // of workers
  std::string worker_service_account;  // in the mover's namespace
  MoverSettings settings;
  std::set<std::string> velero_namespaces = {};  // that are served; empty: all
  std::unique_ptr<EndedPods> ended_pods = std::make_unique<EndedPods>();
  std::unique_ptr<SlotChooser> slots = std::make_unique<SlotChooser>();
  std::unique_ptr<RunningWorkers> running = std::make_unique<RunningWorkers>();
  std::unique_ptr<AccessKeeper> access_keeper = std::make_unique<AccessKeeper>();
  std::unique_ptr<csi::ExaminedClaims> examined_claims = std::make_unique<csi::ExaminedClaims>();
  const k8s::ObjectCache* cache = nullptr;   // null: everything is read from the API server
  k8s::RecentReads* recent_reads = nullptr;  // null: every Secret is read each time
  const csi::BaseIndex* bases = nullptr;     // null: bases are listed where they are asked for
};

// The prefix of the tag of a DataUpload's repository snapshot: the tag is TaskNameOf() the upload.
inline constexpr char kUploadTagPrefix[] = "du-";
using repository::kBackupTag;

// The name of everything that is made for one object: "du-<uid>" for a DataUpload, "dd-<uid>" for a
// DataDownload, "dx-<uid>" for a DataDeletion, "ck-<uid>" for the check of a ProtectedVolume.
// REQUIRES one of these kinds, and a uid.
std::string TaskNameOf(absl::string_view kind, absl::string_view uid);

// The labels of everything that is made for one object.
std::map<std::string, std::string> LabelsFor(const std::string& task_name,
                                             const std::string& velero_namespace);

// Whether the mover may read and write in a namespace of Velero. Pure.
bool IsServed(const MoverEnvironment& env, const std::string& velero_namespace);

// The namespace of a Velero with a Backup that is not over, has this label, which may be shortened,
// and fits; "" if none is served here.
absl::StatusOr<std::string> FindVelero(const CallContext& ctx, const MoverEnvironment& env,
                                       const std::string& backup_label,
                                       absl::FunctionRef<bool(const objects::Backup&)> fits);

// OpenRepositoryAccess() for work on `subject`, which adds to `request` what is the same for all
// requests. Secrets are read again after kAccessReadAgain, and are never older than `subject`:
// credentials that changed before a backup began are those that it uses.
absl::StatusOr<RepositoryAccess> OpenAccess(const CallContext& ctx, const MoverEnvironment& env,
                                            const objects::Object& subject,
                                            RepositoryAccessRequest request);
// Uploads of one location that begin together read its Secrets once.
inline constexpr absl::Duration kAccessReadAgain = absl::Seconds(5);

// The environment of code of csi/, for a namespace of Velero. Borrows what `env` and `ctx` do.
csi::Environment CsiEnvironmentOf(const CallContext& ctx, const MoverEnvironment& env,
                                  const std::string& velero_namespace);

// Emits an Event of the mover about `object`. An Event that cannot be written is only logged: the
// object has all of its content.
void EmitMoverEvent(const CallContext& ctx, const MoverEnvironment& env,
                    const objects::Object& object, k8s::EventType type, absl::string_view reason,
                    absl::string_view message);

// The id of the cluster wherever several share a bucket: the uid of its namespace kube-system.
absl::StatusOr<std::string> ReadClusterUid(const CallContext& ctx, k8s::ApiClient& api);

}  // namespace csidelta::datamover
