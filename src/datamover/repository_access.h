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

// What a worker needs to get at one repository: read where Velero keeps it, and passed in a
// Secret of the worker's own.
namespace csidelta::datamover {

inline constexpr char kSecretsFolder[] = "/secrets";  // where the worker finds its Secret
// Keys of that Secret, and so names of files.
inline constexpr char kKeyringFile[] = "keyring";
inline constexpr char kCloudFile[] = "cloud";  // AWS shared credentials
inline constexpr char kCaFile[] = "ca.crt";

struct RepositoryAccessRequest {
  std::string velero_namespace = {};
  std::string location = {};  // the BackupStorageLocation
  std::string mover_namespace = {};
  std::string repository_path = {};  // below the location's prefix: velero::RepositoryPath()
  bool for_writing = false;
  bool for_deleting = false;  // of data: OpenAccess() takes the credentials for that
  // Fingerprint of the key that the data was written with; "": any, or a new one. Others may open
  // the repository by now, so one that is not there is no reason not to try.
  std::string written_with_key = {};
  // Each object is locked so when it is put; nothing: as the bucket does by itself.
  std::optional<objects::JobObjectLock> object_lock = {};
  // Instead of the location's own credentials; without a name these.
  objects::SecretKeyName credential = {};
  // Where more than one is served: of an upload, their locations are compared with its own.
  std::set<std::string> velero_namespaces = {};
};

struct RepositoryAccess {
  std::string location;                       // "velero/default"
  std::map<std::string, Secret> secret_data;  // by the names above
  objects::JobRepository repository;
  std::map<std::string, std::string> env;
  std::string key_fingerprint;  // of the newest key
  bool key_confirmed = false;   // the operator has a copy of it
  // What to say where none of the keys opens the repository: that the one which the data was
  // written with is not there; "" where it is.
  std::string missing_key;
  // The credentials are not the location's own, and no other worker is to get them.
  bool has_other_credential = false;
};

// Reads the location, the Secrets that it names, and the keyring, which is made at the first use
// for writing. Where the location names no credential, Velero's own cloud-credentials count; where
// none exist, the worker is on its own: the identity of its service account.
//
// FAILED_PRECONDITION, naming the location, what is wrong with it and what to do, when it never
// will do: another provider, a setting that we cannot honour, a read-only location to be written
// to, a Secret or key that is not there, or another location whose repositories are at the same
// address, with other keys. NOT_FOUND when the location is not there, or has no keys
// to read with. Errors of the API server are returned as they are.
absl::StatusOr<RepositoryAccess> OpenRepositoryAccess(const CallContext& ctx, k8s::ApiClient& api,
                                                      const RepositoryAccessRequest& request,
                                                      SecureRandom& random);

// The worker's own words about its failure, and, where no key opened the repository, which one is
// missing. Pure.
std::string WithMissingKey(const objects::VolumeTaskStatus& failed,
                           const absl::StatusOr<RepositoryAccess>& access);

// The same for the folder of all repositories of a location, without keys. `credential`: as in
// RepositoryAccessRequest.
absl::StatusOr<RepositoryAccess> OpenLocationAccess(const CallContext& ctx, k8s::ApiClient& api,
                                                    const objects::BackupStorageLocation& location,
                                                    const objects::SecretKeyName& credential = {});

inline constexpr absl::Duration kAccessKeptEvery = absl::Seconds(15);
// How often a worker's Secret is compared though its location says nothing new.
inline constexpr absl::Duration kAccessComparedEvery = absl::Minutes(5);

inline constexpr absl::Duration kKeyWarnedEvery = absl::Hours(1);

// Hands credentials and certificates that were exchanged in a location on to workers that run; the
// kubelet shows them their Secret again. A location is read for all of its workers at once.
// Thread-safe.
class AccessKeeper {
 public:
  // Does so for the worker whose Secret is `name`, by what the location said at most
  // kAccessKeptEvery ago, and returns when to ask again. A location that cannot be read now is
  // logged: the worker may do with what it has.
  absl::Time Keep(const CallContext& ctx, k8s::ApiClient& api,
                  const RepositoryAccessRequest& request, const std::string& name);
  // The Secret `name` was just made of `access`, which was just read. Not kept where it has other
  // credentials than those of the location.
  void RecordMade(const RepositoryAccess& access, const std::string& name, absl::Time now);
  // Whether it is to be said again that no copy of the location's key is confirmed: at most every
  // kKeyWarnedEvery, for all of its uploads.
  bool IsKeyWarningDue(const std::string& location, absl::Time now);

 private:
  struct Place {
    absl::Time read_at = absl::InfinitePast();
    absl::Time key_warned_at = absl::InfinitePast();
    int64_t version = 0;  // of the data; 0: none was read
    std::map<std::string, Secret> data = {};
  };
  struct Kept {
    absl::Time at = absl::InfinitePast();
    int64_t version = 0;  // that the Secret has
  };

  bool IsDue(const std::string& place, absl::Time now);
  void Note(const std::string& place, std::map<std::string, Secret> data);
  // What the worker is to have; nothing where it has that.
  std::optional<Place> DataFor(const std::string& place, const std::string& name, absl::Time now);

  Mutex mutex_;
  std::map<std::string, Place> places_ ABSL_GUARDED_BY(mutex_);  // By namespace and location
  std::map<std::string, Kept> kept_ ABSL_GUARDED_BY(mutex_);     // By Secret
};

// Opens the place that `access` describes, as a worker would. No I/O.
using StoreOpener = std::function<absl::StatusOr<std::unique_ptr<storage::OpenedStore>>(
    const RepositoryAccess& access)>;

// "s3:https://HOST/BUCKET/PREFIX/PATH". FAILED_PRECONDITION as above. Pure.
absl::StatusOr<std::string> RepositoryAddress(const objects::BackupStorageLocation& location,
                                              absl::string_view repository_path);

// Of several locations, those whose repositories would be at one address, of which uploads use the
// oldest: to two of them two Veleros would write with different keys. Locations that are read-only
// and addresses that cannot be told are left out.
struct SharedAddress {
  std::string location;  // "velero/default"
  std::string oldest;    // another one
};
// By namespace and name. Pure.
std::vector<SharedAddress> FindSharedAddresses(
    const std::vector<objects::BackupStorageLocation>& locations);

// The Secret for one worker.
objects::Secret MakeAccessSecret(absl::string_view mover_namespace, absl::string_view name,
                                 const std::map<std::string, std::string>& labels,
                                 const objects::OwnerReference& owner,
                                 const RepositoryAccess& access);

}  // namespace csidelta::datamover
