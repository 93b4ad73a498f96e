#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "storage/versioned_store.h"

namespace csidelta::storage {

struct ObjectInfo {
  std::string key;
  int64_t size_bytes = 0;
  // When it was written, by the store's own clock; of List() only, and only where the store says
  // so.
  absl::Time modified_at = absl::InfinitePast();
  bool is_archived = false;  // of an archive class, as a listing says
};

struct ByteRange {
  int64_t offset_bytes = 0;
  int64_t length_bytes = 0;
};

struct PutOptions {
  // ALREADY_EXISTS when the key is there. A store that cannot tell answers UNIMPLEMENTED and
  // stores nothing.
  bool if_absent = false;
  // SHA-256 of the bytes, 64 lower-case hexadecimal digits, when the caller knows it already; "":
  // a store that wants it computes it.
  std::string sha256_hex = {};
};

// How many objects a store deletes at a time. The defaults are for a store nearby.
struct DeletionLimits {
  std::size_t keys_per_request_max = 1;
  std::size_t requests_in_flight_max = 8;
};

using ObjectSink = absl::FunctionRef<absl::Status(const ObjectInfo&)>;
using KeyPredicate = absl::FunctionRef<bool(absl::string_view key)>;

// Whole objects by key, in one place (a directory, a bucket with a prefix). Keys are relative
// paths of [A-Za-z0-9._-] segments joined by "/", never "..", "." or empty, without the mark
// "-tmp-" of unfinished files: the caller's duty, which every store checks (INVALID_ARGUMENT).
//
// An object is visible under its key only when it is complete, and once Put() has returned OK it
// survives the loss of power; once Delete() has, it stays away. Whether a Put() that failed has
// stored the object is unknown; bytes put under a key that is there replace it. Listing,
// reading and writing agree at once. What lies in the place under other names is not an object.
//
// Calls block until done, at most until ctx ends. Thread-safe. Nothing here retries: that is
// RetryingObjectStore's work. Errors:
//   NOT_FOUND           no such object
//   OUT_OF_RANGE        GetRange() beyond the end of the object
//   PERMISSION_DENIED   not allowed · UNAUTHENTICATED   credentials missing, expired or wrong
//   UNAVAILABLE         try again · RESOURCE_EXHAUSTED  throttled, quota, or disk full
//   DATA_LOSS           the store returned other bytes than it promised (length, checksum)
//   FAILED_PRECONDITION the place itself is missing or refuses (no such bucket, TLS, redirect)
//   DEADLINE_EXCEEDED · CANCELLED   from ctx
class ObjectStore : public VersionedStore {
 public:
  virtual absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                           const PutOptions& options) = 0;

  // The whole object. RESOURCE_EXHAUSTED when it is larger than `size_bytes_max`.
  virtual absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                          int64_t size_bytes_max) = 0;

  // Exactly `range`, which is not empty.
  virtual absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                               ByteRange range) = 0;

  virtual absl::StatusOr<ObjectInfo> Stat(const CallContext& ctx, const std::string& key) = 0;

  // Every object whose key starts with `prefix` ("" or ending in "/"), in no order. An error of
  // `sink` ends the listing and is returned unchanged.
  virtual absl::Status List(const CallContext& ctx, const std::string& prefix, ObjectSink sink) = 0;

  // The same, but it may begin behind the key `after`, where a store lists its keys in their order.
  virtual absl::Status ListAfter(const CallContext& ctx, const std::string& prefix,
                                 const std::string& /*after*/, ObjectSink sink) {
    return List(ctx, prefix, sink);
  }

  // What lies directly below `prefix` ("" or ending in "/"), in no order: objects, and folders,
  // which are the prefixes ending in "/" that keys go on behind, with a size of 0. Costs what it
  // shows, not what lies deeper. A folder may show in which there is no object. Errors of `sink` as
  // above.
  virtual absl::Status ListFolder(const CallContext& ctx, const std::string& prefix,
                                  ObjectSink sink) = 0;

  // OK also when there is no such object.
  virtual absl::Status Delete(const CallContext& ctx, const std::string& key) = 0;

  // Deletes many objects with one request, for DeleteObjects(). Returns a status for each key, in
  // their order. UNIMPLEMENTED, for one key or for all, if the answer does not tell: such objects
  // may be there or gone. A store that refuses these requests has other limits from then on.
  virtual absl::StatusOr<std::vector<absl::Status>> DeleteBatch(
      const CallContext& /*ctx*/, absl::Span<const std::string> /*keys*/) {
    return absl::UnimplementedError("this store deletes one object at a time");
  }
  virtual DeletionLimits deletion_limits() const { return {}; }

  // Removes what writers that died left and that no other call shows, if it was to become an object
  // whose key `is_managed` knows and is older than `age_min` by the place's own clock; returns how
  // much. Looks below `folders` (prefixes) alone; "" is the place itself without its folders. A
  // place where nothing is left so has nothing to do.
  virtual absl::StatusOr<int64_t> RemoveLeftovers(const CallContext& /*ctx*/,
                                                  absl::Span<const std::string> /*folders*/,
                                                  KeyPredicate /*is_managed*/,
                                                  absl::Duration /*age_min*/) {
    return 0;
  }

  // The place, for messages to people; without secrets.
  virtual std::string Describe() const = 0;
};

// What became of the key with that number.
using DeletionSink =
    absl::FunctionRef<absl::Status(std::size_t number, const absl::Status& deleted)>;

// Deletes many objects as fast as the store can, and calls `sink` once for each, in no order, one
// call at a time. OK is only what the store says about that key. If the answer to a batch omits a
// key, or has a transient error for it, the key gets a request of its own. The first error of
// `sink` is returned; deletions that have not begun are omitted then.
absl::Status DeleteObjects(const CallContext& ctx, ObjectStore& store,
                           absl::Span<const std::string> keys, DeletionSink sink);

}  // namespace csidelta::storage
