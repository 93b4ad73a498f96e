#include "cli/interrupt.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdint>

#include "base/check.h"
#include "cli/exit_code.h"

namespace csidelta::cli {

InterruptWatch::InterruptWatch() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    ::sigaddset(&signals, number);
  }
  CSIDELTA_CHECK(::pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
  signals_fd_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC));
  end_fd_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  CSIDELTA_CHECK(signals_fd_.valid() && end_fd_.valid());
  thread_ = std::jthread([this] { Watch(); });
}

InterruptWatch::~InterruptWatch() {
  const uint64_t one = 1;
  CSIDELTA_CHECK(::write(end_fd_.get(), &one, sizeof(one)) == sizeof(one));
}

void InterruptWatch::Watch() {
  while (true) {
    pollfd ready[] = {{.fd = signals_fd_.get(), .events = POLLIN, .revents = 0},
                      {.fd = end_fd_.get(), .events = POLLIN, .revents = 0}};
    if (::poll(ready, 2, -1) < 0) {
      continue;
    }
    if ((ready[1].revents & POLLIN) != 0) {
      return;
    }
    signalfd_siginfo seen{};
    if (::read(signals_fd_.get(), &seen, sizeof(seen)) != sizeof(seen)) {
      continue;
    }
    if (stop_.stop_requested()) {
      ::_exit(static_cast<int>(ExitCode::kInterrupted));
    }
    stop_.request_stop();
  }
}

}  // namespace csidelta::cli
