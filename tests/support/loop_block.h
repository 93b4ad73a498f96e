#pragma once

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace csidelta::support {

// A loop device over a file, with logical blocks of a given size, detached with this object. Needs
// root; path() is "" where it could not be had.
class LoopBlock {
 public:
  LoopBlock(const std::string& file, uint32_t block_bytes) {
    // Another client may configure the free device first.
    for (int attempt = 0; attempt < kAttemptsMax && path_.empty(); ++attempt) {
      Configure(file, block_bytes);
    }
  }
  ~LoopBlock() {
    if (!path_.empty()) {
      ::ioctl(fd_, LOOP_CLR_FD, 0);
    }
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }

  LoopBlock(const LoopBlock&) = delete;
  LoopBlock& operator=(const LoopBlock&) = delete;

  const std::string& path() const { return path_; }

 private:
  static constexpr int kAttemptsMax = 100;

  void Configure(const std::string& file, uint32_t block_bytes) {
    const int control = ::open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    const int number = control < 0 ? -1 : ::ioctl(control, LOOP_CTL_GET_FREE);
    if (control >= 0) {
      ::close(control);
    }
    if (number < 0) {
      return;
    }
    const std::string path = "/dev/loop" + std::to_string(number);
    const int backing = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
    if (fd_ >= 0) {
      ::close(fd_);
    }
    fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    loop_config config{};
    config.fd = static_cast<uint32_t>(backing);
    config.block_size = block_bytes;
    if (fd_ >= 0 && backing >= 0 && ::ioctl(fd_, LOOP_CONFIGURE, &config) == 0) {
      path_ = path;
      // Blocks larger than a page count from the next first opening on.
      ::close(fd_);
      fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    }
    if (backing >= 0) {
      ::close(backing);
    }
  }

  int fd_ = -1;
  std::string path_;
};

}  // namespace csidelta::support
