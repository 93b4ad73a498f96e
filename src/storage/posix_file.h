#pragma once

#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"

namespace csidelta::storage {

// A file descriptor that closes itself. Move-only.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int number) : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Fd() {
    if (number_ >= 0) {
      close(number_);
    }
  }

  int number() const { return number_; }
  // Gives it away; the caller closes it.
  int Release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

// The status that object_store.h wants for an errno of a call on files; ENOENT and ENOTDIR are
// NOT_FOUND. `what` names the call and the thing.
absl::Status PosixError(int error, absl::string_view what);

// Opens a file for reading: NOT_FOUND also when it is a symbolic link or no regular file.
struct OpenedFile {
  Fd fd;
  int64_t size_bytes = 0;
};
absl::StatusOr<OpenedFile> OpenRegularFile(int folder_fd, const std::string& name);

// Opens a folder below `folder_fd`; symbolic links are not followed.
absl::StatusOr<Fd> OpenFolder(int folder_fd, const std::string& name);

// Exactly `length_bytes` at `offset_bytes`; DATA_LOSS when the file ends before.
absl::StatusOr<std::string> ReadBytes(const CallContext& ctx, int fd, int64_t offset_bytes,
                                      int64_t length_bytes);

// All bytes of a file or pipe; INVALID_ARGUMENT when they are more than `size_bytes_max`.
absl::StatusOr<std::string> ReadUpTo(const CallContext& ctx, int fd, int64_t size_bytes_max);

// Writes `bytes` to an empty new file; large ones past the page cache where the file system can.
absl::Status WriteBytes(const CallContext& ctx, int fd, absl::string_view bytes);

absl::Status SyncFile(int fd, absl::string_view what);

}  // namespace csidelta::storage
