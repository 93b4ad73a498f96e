#pragma once

#include <optional>
#include <set>
#include <string>

#include "base/mutex.h"
#include "base/random.h"
#include "base/unique_fd.h"
#include "storage/object_store.h"

namespace csidelta::storage {

// Objects as files below a directory, a key as its path: what restic calls a local repository.
// Directories have mode 0700, files 0400; where the group may read the object "config", as in a
// repository that a group shares, the group may read the files too, and may do in a new directory
// what it may in the one above. A directory that does not exist is a store without objects; Put()
// makes it. The directory itself may be reached through symbolic links; below it they are not
// followed, and neither they nor other special files are objects. A listing of a prefix says so
// (FAILED_PRECONDITION) where a link stands in the place of an object or a directory.
//
// Only what does not exist (ENOENT) is missing in a listing. Whatever else a directory or a file
// answers ends the listing with an error that names it: less than all is worse than nothing.
//
// A file is written under a name of its own (<name>-tmp-<random>) beside its place, synced, renamed
// and the directory synced, so that power may fail at any moment. A process that dies leaves such a
// file behind, which disturbs no client and goes with RemoveLeftovers(). File systems whose
// directories cannot be synced are taken as they are, as restic does. Large objects are written
// past the page cache where the file system can do that: the cache would cost more processor time
// than sealing them.
//
// Errors beside those of ObjectStore: full disks and quotas are RESOURCE_EXHAUSTED, a read-only
// file system is PERMISSION_DENIED, EIO and a lost network file system are UNAVAILABLE. Where a
// file system can neither rename without replacing nor link, if_absent is UNIMPLEMENTED. System
// calls on files cannot be interrupted: ctx is looked at between them. `random` (borrowed) names
// unfinished files.
class FileObjectStore : public ObjectStore {
 public:
  FileObjectStore(std::string root, Random& random);

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const PutOptions& options) override;
  absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                  int64_t size_bytes_max) override;
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       ByteRange range) override;
  absl::StatusOr<ObjectInfo> Stat(const CallContext& ctx, const std::string& key) override;
  absl::Status List(const CallContext& ctx, const std::string& prefix, ObjectSink sink) override;
  absl::Status ListFolder(const CallContext& ctx, const std::string& prefix,
                          ObjectSink sink) override;
  absl::Status Delete(const CallContext& ctx, const std::string& key) override;
  absl::StatusOr<int64_t> RemoveLeftovers(const CallContext& ctx,
                                          absl::Span<const std::string> folders,
                                          KeyPredicate is_managed, absl::Duration age_min) override;
  std::string Describe() const override { return root_; }

 private:
  bool IsShared();
  absl::Status EnsureFolder(const std::string& folder);
  absl::Status InFolder(const CallContext& ctx, const std::string& prefix,
                        absl::FunctionRef<absl::Status(UniqueFd)> look) const;
  std::string UnfinishedName(const std::string& name);

  const std::string root_;
  Random& random_;
  mutable Mutex mutex_;
  // Folders below the root, by path, of which this object knows that their entry in the parent has
  // been synced.
  std::set<std::string> durable_ ABSL_GUARDED_BY(mutex_);
  std::optional<bool> is_shared_
      ABSL_GUARDED_BY(mutex_);  // Unknown as long as there is no "config".
};

}  // namespace csidelta::storage
