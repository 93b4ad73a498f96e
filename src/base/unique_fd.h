#pragma once

#include <unistd.h>

#include <utility>

namespace csidelta {

// Owns a file descriptor and closes it. Move-only; not thread-safe.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() {
    if (valid()) {
      ::close(fd_);
    }
  }

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Gives it away; the caller closes it.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

}  // namespace csidelta
