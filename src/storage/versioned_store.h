#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"

namespace csidelta::storage {

// Until when an object lock keeps one version of an object from being deleted.
struct Retention {
  std::string mode = {};  // "GOVERNANCE" or "COMPLIANCE"; "": not retained
  absl::Time until = absl::InfinitePast();
};

// One version of an object, or a delete marker, which hides the versions below it.
struct ObjectVersion {
  std::string key = {};
  std::string id = {};
  bool is_latest = false;
  bool is_delete_marker = false;
  int64_t size_bytes = 0;
  absl::Time modified_at = absl::InfinitePast();  // by the store's clock
};

// Where a listing of versions continues. Both are empty at its beginning, and at its end.
struct VersionCursor {
  std::string key = {};
  std::string id = {};
};

struct VersionPage {
  std::vector<ObjectVersion> versions = {};  // by key, the newest first
  VersionCursor next = {};                   // without a key: this is the last page
};

// What a bucket does by itself with what is put into it, as the XML document that S3 has of it.
enum class BucketDocument { kVersioning, kObjectLock, kLifecycle };

// What a store with versions and object locks can do besides. A store without them answers
// UNIMPLEMENTED to each call. `version` is an id of ListVersions(). Errors are those of
// ObjectStore; thread-safe; every call may be repeated.
class VersionedStore {
 public:
  virtual ~VersionedStore() = default;

  // A version without a lock has a Retention without a mode. "": of the current version.
  virtual absl::StatusOr<Retention> GetRetention(const CallContext& /*ctx*/,
                                                 const std::string& /*key*/,
                                                 const std::string& /*version*/) {
    return HasNoVersions();
  }
  // PERMISSION_DENIED when it would shorten the retention, or weaken its mode, and when the right
  // is missing.
  virtual absl::Status SetRetention(const CallContext& /*ctx*/, const std::string& /*key*/,
                                    const std::string& /*version*/,
                                    const Retention& /*retention*/) {
    return HasNoVersions();
  }
  // The versions of all objects whose key starts with `prefix` ("" or ending in "/"), a page of
  // them. What has no key of csi-delta is left out.
  virtual absl::StatusOr<VersionPage> ListVersions(const CallContext& /*ctx*/,
                                                   const std::string& /*prefix*/,
                                                   const VersionCursor& /*from*/) {
    return HasNoVersions();
  }
  // Puts a copy of `version` over what is there now, within the store, retained as after Put().
  virtual absl::Status RestoreVersion(const CallContext& /*ctx*/, const std::string& /*key*/,
                                      const std::string& /*version*/) {
    return HasNoVersions();
  }
  // Removes one version for good; of a delete marker: shows again what it hid.
  virtual absl::Status DeleteVersion(const CallContext& /*ctx*/, const std::string& /*key*/,
                                     const std::string& /*version*/) {
    return HasNoVersions();
  }
  // "" when the bucket has none. PERMISSION_DENIED when the right is missing.
  virtual absl::StatusOr<std::string> GetBucketDocument(const CallContext& /*ctx*/,
                                                        BucketDocument /*document*/) {
    return HasNoVersions();
  }

 private:
  static absl::Status HasNoVersions() {
    return absl::UnimplementedError(
        "this store has no object locks and no versions; they need a bucket with object lock");
  }
};

// Feeds `sink` every version below `prefix`, by key, the newest of a key first. An error of `sink`
// ends the listing and is returned.
absl::Status ForEachVersion(const CallContext& ctx, VersionedStore& store,
                            const std::string& prefix,
                            absl::FunctionRef<absl::Status(const ObjectVersion&)> sink);

}  // namespace csidelta::storage
