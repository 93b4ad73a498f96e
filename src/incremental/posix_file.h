#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace csidelta::incremental {

// Owns a file descriptor and closes it. Not thread-safe.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd();

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// An error number of a file call as a status: "`what`: No space left on device". ENOENT is
// NOT_FOUND; EACCES, EPERM and EROFS PERMISSION_DENIED; ENOSPC and EDQUOT RESOURCE_EXHAUSTED; EBUSY
// FAILED_PRECONDITION; EIO and what belongs to it DATA_LOSS, which is never read over; the rest
// INTERNAL.
absl::Status ErrnoToStatus(int error, absl::string_view what);

}  // namespace csidelta::incremental
