#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"

namespace csidelta::csi_driver {

// What errno says now, of `path` and what was tried with it: "fsync /x: No such file ...".
absl::Status ErrnoStatus(absl::string_view verb, absl::string_view path);

// The functions below return the errno's status code and name the path. They are stateless.

// open(2) with O_CLOEXEC added.
absl::StatusOr<UniqueFd> OpenFile(const std::string& path, int flags);

absl::Status MakeFolder(const std::string& path);

// The names in a folder, sorted, without "." and "..".
absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path);

// NOT_FOUND when there is no such file.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// After a crash the file has either its old bytes or `text`: written beside it, synced, renamed.
absl::Status WriteFileDurably(const std::string& path, absl::string_view text);

// Renames and syncs the folder of `to`.
absl::Status RenameDurably(const std::string& from, const std::string& to);

// A file that is not there is success.
absl::Status RemoveFile(const std::string& path);

// Makes `path` a file of `size_bytes` zero bytes that takes no space.
absl::Status CreateSparse(const std::string& path, int64_t size_bytes);

// Sets the length of an existing file; new bytes are zero and take no space.
absl::Status ResizeFile(const std::string& path, int64_t size_bytes);

// Makes `to` a copy of `from` that shares its blocks where the file system can (FICLONE), and
// otherwise copies what is allocated, leaving holes as holes. Synced before it returns.
absl::Status CopySparse(const std::string& from, const std::string& to);

// The first byte from `offset_bytes` on, at most `end_bytes`, at which two files may differ: up to
// there both have holes or lie on the same blocks (FIEMAP), as reflinked copies do until one of
// them is written. `offset_bytes` itself where the file system does not tell.
int64_t SkipShared(const UniqueFd& a, const UniqueFd& b, int64_t offset_bytes, int64_t end_bytes);

// Holds flock(2) on `path` exclusively from Take() to destruction, against other processes and
// against other threads of this one. Blocks while another client holds it.
class FileLock {
 public:
  static absl::StatusOr<FileLock> Take(const std::string& path);

 private:
  explicit FileLock(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace csidelta::csi_driver
