#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/secret.h"
#include "k8s/api_client.h"
#include "objects/backup_storage_location.h"
#include "objects/core.h"
#include "objects/object.h"
#include "objects/volume_task.h"
#include "storage/location.h"

// The access of a worker to one repository: read where Velero keeps it, and passed in a Secret of
// the worker's own.
namespace csidelta::datamover {

inline constexpr char kSecretsFolder[] = "/secrets";  // where the worker finds its Secret
// Keys of that Secret, which are names of files.
inline constexpr char kKeyringFile[] = "keyring";
inline constexpr char kCloudFile[] = "cloud";  // the credentials, in the form of their cloud
inline constexpr char kCaFile[] = "ca.crt";

struct RepositoryAccessRequest {
  std::string velero_namespace = {};
  std::string location = {};  // the BackupStorageLocation
  std::string mover_namespace = {};
  std::string repository_path = {};  // below the location's prefix: velero::RepositoryPath()
  bool for_writing = false;
  bool for_deleting = false;  // of data: OpenAccess() takes the credentials for that
  // Fingerprint of the key that the data was written with; "": any, or a new one. A missing key is
  // no error: another one may open the repository by now.
  std::string written_with_key = {};
  // The lock of each object that is put; nothing: the bucket's default.
  std::optional<objects::JobObjectLock> object_lock = {};
  // Used instead of the location's own credentials, if it has a name.
  objects::SecretKeyName credential = {};
  // If more than one namespace is served: the location of an upload is compared with theirs.
  std::set<std::string> velero_namespaces = {};
};

struct RepositoryAccess {
  std::string location;                       // "velero/default"
  std::map<std::string, Secret> secret_data;  // by the names above
  objects::JobRepository repository;
  std::map<std::string, std::string> env;
  std::string key_fingerprint;  // of the newest key
  bool key_confirmed = false;   // the operator has a copy of it
  // The message if none of the keys opens the repository: the key that the data was written with is
  // missing; "" if it is there.
  std::string missing_key;
  // The credentials are not the location's own; no other worker may get them.
  bool has_other_credential = false;
};

// Reads the location, the Secrets that it names, and the keyring, which is made at the first use
// for writing. If the location names no credential, Velero's own cloud-credentials are used.
// Without these the worker uses the identity of its service account.
//
// FAILED_PRECONDITION, naming the location, the fault and the next step, for permanent errors:
// another provider, an unsupported setting, a read-only location to be written to, a missing Secret
// or key, credentials of another cloud, object locks where there are none, or another location with
// other keys at the same address. NOT_FOUND if the location is missing, or has no keys to read
// with. Errors of the API server are returned as they are.
absl::StatusOr<RepositoryAccess> OpenRepositoryAccess(const CallContext& ctx, k8s::ApiClient& api,
                                                      const RepositoryAccessRequest& request,
                                                      SecureRandom& random);

// The worker's message about its failure. If no key opened the repository, it also names the
// missing one. Pure.
std::string WithMissingKey(const objects::VolumeTaskStatus& failed,
                           const absl::StatusOr<RepositoryAccess>& access);

// As OpenRepositoryAccess(), for the folder of all repositories of a location, without keys.
// `credential`: as in RepositoryAccessRequest.
absl::StatusOr<RepositoryAccess> OpenLocationAccess(const CallContext& ctx, k8s::ApiClient& api,
                                                    const objects::BackupStorageLocation& location,
                                                    const objects::SecretKeyName& credential = {});

inline constexpr absl::Duration kAccessKeptEvery = absl::Seconds(15);
// How often a worker's Secret is compared even if its location is unchanged.
inline constexpr absl::Duration kAccessComparedEvery = absl::Minutes(5);

inline constexpr absl::Duration kKeyWarnedEvery = absl::Hours(1);

// Copies credentials and certificates that were exchanged in a location to the Secrets of running
// workers; the kubelet updates the mounted files. A location is read once for all of its workers.
// Thread-safe.
class AccessKeeper {
 public:
  // Updates the Secret `name` of a worker by the location as it was at most kAccessKeptEvery ago.
  // Returns when to call it again. A location that cannot be read is logged: the worker continues
  // with what it has.
  absl::Time Keep(const CallContext& ctx, k8s::ApiClient& api,
                  const RepositoryAccessRequest& request, const std::string& name);
  // Records that the Secret `name` was just made of `access`, which was just read. Ignored if
  // `access` has credentials other than the location's own.
  void RecordMade(const RepositoryAccess& access, const std::string& name, absl::Time now);
  // Whether to warn again that no copy of the location's key is confirmed: at most every
  // kKeyWarnedEvery, for all of its uploads.
  bool IsKeyWarningDue(const std::string& location, absl::Time now);

 private:
  struct LocationData {
    absl::Time read_at = absl::InfinitePast();
    absl::Time key_warned_at = absl::InfinitePast();
    int64_t version = 0;  // of the data; 0: none was read
    std::map<std::string, Secret> data = {};
  };
  struct Kept {
    absl::Time at = absl::InfinitePast();
    int64_t version = 0;  // that the Secret has
  };

  bool IsDue(const std::string& location, absl::Time now);
  void StoreData(const std::string& location, std::map<std::string, Secret> data);
  // The data that the worker's Secret lacks; nothing if it is up to date.
  std::optional<LocationData> DataFor(const std::string& location, const std::string& name,
                                      absl::Time now);

  Mutex mutex_;
  std::map<std::string, LocationData> locations_
      ABSL_GUARDED_BY(mutex_);                                // By namespace and location
  std::map<std::string, Kept> kept_ ABSL_GUARDED_BY(mutex_);  // By Secret
};

// Opens the location that `access` describes, as a worker would. No I/O.
using StoreOpener = std::function<absl::StatusOr<std::unique_ptr<storage::OpenedStore>>(
    const RepositoryAccess& access)>;

// The variable that names the file with the credentials for a bucket of this kind.
const char* CredentialsVariable(storage::Location::Kind kind);

// "s3:https://HOST/BUCKET/PREFIX/PATH", "azure:CONTAINER:/PREFIX/PATH", "gs:BUCKET:/PREFIX/PATH".
// FAILED_PRECONDITION as above. Pure.
absl::StatusOr<std::string> RepositoryAddress(const objects::BackupStorageLocation& location,
                                              absl::string_view repository_path);

// A location whose repositories would be at the address of an older one. Uploads use the oldest:
// two Veleros would write with different keys. Read-only locations, and those without a valid
// address, are omitted.
struct SharedAddress {
  std::string location;  // "velero/default"
  std::string oldest;    // another one
};
// In the order of namespace and name. Pure.
std::vector<SharedAddress> FindSharedAddresses(
    const std::vector<objects::BackupStorageLocation>& locations);

// The Secret for one worker.
objects::Secret MakeAccessSecret(absl::string_view mover_namespace, absl::string_view name,
                                 const std::map<std::string, std::string>& labels,
                                 const objects::OwnerReference& owner,
                                 const RepositoryAccess& access);

}  // namespace csidelta::datamover
