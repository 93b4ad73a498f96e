#pragma once

#include <atomic>

#include "base/unique_fd.h"

namespace csidelta::plugin {

// Answers: when must this process end? Either the host asks for it, or the host is gone: the
// process that started us has ended and so has the stream that it opened. (One alone is no proof: a
// shell may start us and leave, a connection may be dialled again.) Where the kernel cannot watch a
// process, only the first counts. Thread-safe.
//
//   running ──shutdown asked──▶ kAsked
//      └─────parent ended and streams opened, then all closed──▶ kHostGone
class HostLink {
 public:
  enum class End { kAsked, kHostGone };

  // Watches the parent process of this moment.
  HostLink();
  HostLink(const HostLink&) = delete;
  HostLink& operator=(const HostLink&) = delete;

  void OnShutdownAsked();
  void OnStreamOpened();
  void OnStreamClosed();

  // Blocks until the process must end. REQUIRES one caller at a time.
  End WaitForEnd();

 private:
  void Wake();

  const UniqueFd wake_fd_;
  const UniqueFd parent_fd_;  // not valid: cannot be watched.
  std::atomic<bool> shutdown_asked_ = false;
  std::atomic<bool> stream_seen_ = false;
  std::atomic<int> stream_count_ = 0;
};

}  // namespace csidelta::plugin
