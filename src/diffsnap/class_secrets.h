#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "base/secret.h"
#include "k8s/api_client.h"

namespace csidelta::diffsnap {

using DriverSecrets = std::map<std::string, Secret>;

// How long secrets count without being read again, and of how many volume snapshots.
inline constexpr absl::Duration kSecretsAgeMax = absl::Seconds(60);
inline constexpr int64_t kSecretsMax = 1024;

// What a driver is to be shown when it lists its snapshots: the Secrets that its
// VolumeSnapshotClasses name in csi.storage.k8s.io/snapshotter-list-secret-name and -namespace,
// each once. One set without anything where they name none. Names that are templates are of one
// VolumeSnapshotContent, and left out. UNAVAILABLE, naming what is missing, when the classes, or a
// Secret, are not there or may not be read: a list without would lack snapshots.
absl::StatusOr<std::vector<DriverSecrets>> ReadListingSecrets(const CallContext& ctx,
                                                              k8s::ApiClient& api,
                                                              const std::string& driver);

// Whose secrets a driver wants to see.
struct SecretsOwner {
  std::string class_name;  // of the VolumeSnapshotClass; "": none exist
  std::string namespace_name;
  std::string snapshot_name;  // of the VolumeSnapshot, in that namespace

  friend auto operator<=>(const SecretsOwner&, const SecretsOwner&) = default;
};

// What a driver is to be shown besides a question: the Secret that the VolumeSnapshotClass names in
// csi.storage.k8s.io/snapshotter-secret-name and -namespace, in which ${volumesnapshot.name} and
// ${volumesnapshot.namespace} stand for the target's. Remembered for kSecretsAgeMax. Thread-safe.
class ClassSecrets {
 public:
  // Borrows `api`.
  explicit ClassSecrets(k8s::ApiClient& api) : api_(api) {}

  // Empty when the class names none. UNAVAILABLE, naming what is missing, when it is not there or
  // may not be read: the administrator of the class can help.
  absl::StatusOr<DriverSecrets> Read(const CallContext& ctx, const SecretsOwner& owner);

 private:
  struct Remembered {
    absl::Duration read_at;  // of the clock that no one can set
    DriverSecrets secrets;
  };

  absl::StatusOr<DriverSecrets> ReadNow(const CallContext& ctx, const SecretsOwner& owner);

  k8s::ApiClient& api_;
  Mutex mutex_;
  std::map<SecretsOwner, Remembered> remembered_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::diffsnap
