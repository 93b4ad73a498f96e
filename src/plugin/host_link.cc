#include "plugin/host_link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "base/check.h"

namespace csidelta::plugin {
namespace {

int OpenParent() {
  // Close-on-exec by definition. Old kernels and some sandboxes do not know the call.
  return static_cast<int>(syscall(SYS_pidfd_open, getppid(), 0));
}

}  // namespace

HostLink::HostLink() : wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), parent_fd_(OpenParent()) {
  CSIDELTA_CHECK(wake_fd_.valid());
}

void HostLink::OnShutdownAsked() {
  shutdown_asked_ = true;
  Wake();
}

void HostLink::OnStreamOpened() {
  ++stream_count_;
  stream_seen_ = true;
}

void HostLink::OnStreamClosed() {
  --stream_count_;
  Wake();
}

HostLink::End HostLink::WaitForEnd() {
  bool parent_gone = false;
  for (;;) {
    if (shutdown_asked_) {
      return End::kAsked;
    }
    if (parent_gone && stream_seen_ && stream_count_ == 0) {
      return End::kHostGone;
    }
    // poll(2) passes over descriptors below zero.
    pollfd watched[] = {{wake_fd_.get(), POLLIN, 0},
                        {parent_gone ? -1 : parent_fd_.get(), POLLIN, 0}};
    if (poll(watched, 2, -1) < 0) {
      continue;  // A signal.
    }
    uint64_t count = 0;
    const ssize_t drained = read(wake_fd_.get(), &count, sizeof count);
    (void)drained;  // Nothing to drain when the parent woke us.
    parent_gone = parent_gone || watched[1].revents != 0;
  }
}

void HostLink::Wake() {
  const uint64_t one = 1;
  const ssize_t written = write(wake_fd_.get(), &one, sizeof one);
  (void)written;  // A full counter wakes as well.
}

}  // namespace csidelta::plugin
