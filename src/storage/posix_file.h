#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/unique_fd.h"

namespace csidelta::storage {

// The status that object_store.h wants for an errno of a call on files; ENOENT alone is NOT_FOUND.
// `what` names the call and the thing.
absl::Status PosixError(int error, absl::string_view what);

// The same for a call on devices and on files that are no objects: "`what`: No space left on
// device". ENOENT is NOT_FOUND; EACCES, EPERM and EROFS PERMISSION_DENIED; ENOSPC and EDQUOT
// RESOURCE_EXHAUSTED; EBUSY FAILED_PRECONDITION; EIO and what belongs to it DATA_LOSS, which is
// never read over; the rest INTERNAL.
absl::Status ErrnoToStatus(int error, absl::string_view what);

// FAILED_PRECONDITION: there is something at `path` that is not looked at.
absl::Status NotFollowed(absl::string_view path);

// Opens a file for reading: NOT_FOUND also when it is a folder, NotFollowed() when it is a symbolic
// link or a special file.
struct OpenedFile {
  UniqueFd fd;
  int64_t size_bytes = 0;
};
absl::StatusOr<OpenedFile> OpenRegularFile(int folder_fd, const std::string& name);

// Opens a folder below `folder_fd`. NOT_FOUND where none exists, or a plain file, below which
// nothing can be; NotFollowed() for a symbolic link. `path` is what errors call it.
absl::StatusOr<UniqueFd> OpenFolder(int folder_fd, const std::string& name, absl::string_view path);

// Exactly `length_bytes` at `offset_bytes`, many of them past the page cache where the file system
// can; DATA_LOSS when the file ends before.
absl::StatusOr<std::string> ReadBytes(const CallContext& ctx, int fd, int64_t offset_bytes,
                                      int64_t length_bytes);

// All bytes of a file or pipe; INVALID_ARGUMENT when they are more than `size_bytes_max`.
absl::StatusOr<std::string> ReadUpTo(const CallContext& ctx, int fd, int64_t size_bytes_max);

// The text of a file of credentials; absent when there is no such file.
absl::StatusOr<std::optional<std::string>> ReadSmallFile(const CallContext& ctx,
                                                         const std::string& path);

// Writes `bytes` to an empty new file; large ones past the page cache where the file system can.
absl::Status WriteBytes(const CallContext& ctx, int fd, absl::string_view bytes);

absl::Status SyncFile(int fd, absl::string_view what);

// The same of a folder; OK where the file system has no such call for folders.
absl::Status SyncFolder(int fd, absl::string_view what);

}  // namespace csidelta::storage
