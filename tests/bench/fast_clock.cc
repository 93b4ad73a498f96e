// What makes csi-delta-fast of csi-delta: the same sources and libraries, linked with --wrap, so
// that each look at a clock and each wait with a timeout goes through here. All that the program
// promises in seconds - its rate of requests, its retries, its lease - then takes a part of them,
// as CSI_DELTA_BENCH_CLOCK says (scaled_clock.h); what its processor has to do takes as long as
// ever. Without the variable nothing changes. Waits of the kernel that name no time, and futexes
// that nothing but gRPC gives a timeout, stay as they are.
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/timerfd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "tests/bench/scaled_clock.h"

namespace {

constexpr int64_t kSecond = 1'000'000'000;

struct Base {
  int64_t factor = 1;
  int64_t monotonic_ns = 0;
  int64_t realtime_ns = 0;
};

Base ReadBase() {
  Base base;
  const char* const text = std::getenv(csidelta::bench::kFastClockVariable);
  if (text == nullptr) {
    return base;
  }
  char* rest = nullptr;
  base.factor = std::strtoll(text, &rest, 10);
  base.monotonic_ns = *rest == ':' ? std::strtoll(rest + 1, &rest, 10) : 0;
  base.realtime_ns = *rest == ':' ? std::strtoll(rest + 1, &rest, 10) : 0;
  if (base.factor < 1 || base.monotonic_ns <= 0 || base.realtime_ns <= 0) {
    std::fprintf(stderr, "%s=%s is no clock\n", csidelta::bench::kFastClockVariable, text);
    std::abort();
  }
  return base;
}

const Base& TheBase() {
  static const Base base = ReadBase();
  return base;
}

int64_t NanosecondsOf(const timespec& time) {
  return int64_t{time.tv_sec} * kSecond + time.tv_nsec;
}

timespec TimeOf(int64_t nanoseconds) {
  return {.tv_sec = nanoseconds / kSecond, .tv_nsec = nanoseconds % kSecond};
}

// From when on a clock runs fast; -1 for those that do not, such as those of processor time.
int64_t BeginOf(clockid_t id) {
  switch (id) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
      return TheBase().realtime_ns;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW:
      return TheBase().monotonic_ns;
    default:
      return -1;
  }
}

timespec Fast(clockid_t id, const timespec& time) {
  const int64_t begin = BeginOf(id);
  return begin < 0 ? time : TimeOf(begin + (NanosecondsOf(time) - begin) * TheBase().factor);
}

// The machine's time at which a fast clock shows `time`.
timespec Slow(clockid_t id, const timespec& time) {
  const int64_t begin = BeginOf(id);
  return begin < 0 ? time : TimeOf(begin + (NanosecondsOf(time) - begin) / TheBase().factor);
}

// Rounded up, so that a wait is never turned into a poll.
int64_t Part(int64_t length) { return (length + TheBase().factor - 1) / TheBase().factor; }

timespec Part(const timespec& length) { return TimeOf(Part(NanosecondsOf(length))); }

int PartOfTimeout(int milliseconds) {
  return milliseconds <= 0 ? milliseconds : static_cast<int>(Part(milliseconds));
}

}  // namespace

extern "C" {

int __real_clock_gettime(clockid_t id, timespec* time);
int __real_nanosleep(const timespec* length, timespec* left);
int __real_poll(pollfd* entries, nfds_t count, int milliseconds);
int __real_epoll_wait(int fd, epoll_event* events, int events_max, int milliseconds);
int __real_select(int count, fd_set* in, fd_set* out, fd_set* except, timeval* timeout);
int __real_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t id,
                                  const timespec* until);
int __real_pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  const timespec* until);
int __real_timerfd_settime(int fd, int flags, const itimerspec* value, itimerspec* old_value);

int __wrap_clock_gettime(clockid_t id, timespec* time) {
  const int result = __real_clock_gettime(id, time);
  if (result == 0) {
    *time = Fast(id, *time);
  }
  return result;
}

time_t __wrap_time(time_t* out) {
  timespec now{};
  __wrap_clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) {
    *out = now.tv_sec;
  }
  return now.tv_sec;
}

int __wrap_gettimeofday(timeval* time, void* /*zone*/) {
  timespec now{};
  const int result = __wrap_clock_gettime(CLOCK_REALTIME, &now);
  *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return result;
}

int __wrap_nanosleep(const timespec* length, timespec* left) {
  const timespec part = Part(*length);
  return __real_nanosleep(&part, left);
}

int __wrap_poll(pollfd* entries, nfds_t count, int milliseconds) {
  return __real_poll(entries, count, PartOfTimeout(milliseconds));
}

int __wrap_epoll_wait(int fd, epoll_event* events, int events_max, int milliseconds) {
  return __real_epoll_wait(fd, events, events_max, PartOfTimeout(milliseconds));
}

int __wrap_select(int count, fd_set* in, fd_set* out, fd_set* except, timeval* timeout) {
  if (timeout == nullptr) {
    return __real_select(count, in, out, except, nullptr);
  }
  const int64_t microseconds = Part(int64_t{timeout->tv_sec} * 1'000'000 + timeout->tv_usec);
  timeval part{.tv_sec = microseconds / 1'000'000, .tv_usec = microseconds % 1'000'000};
  return __real_select(count, in, out, except, &part);
}

int __wrap_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t id,
                                  const timespec* until) {
  const timespec slow = Slow(id, *until);
  return __real_pthread_cond_clockwait(condition, mutex, id, &slow);
}

// Which clock it goes by stands in the condition variable; the times of the two lie decades apart.
int __wrap_pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  const timespec* until) {
  const bool is_monotonic = NanosecondsOf(*until) < TheBase().realtime_ns / 2;
  const timespec slow = Slow(is_monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME, *until);
  return __real_pthread_cond_timedwait(condition, mutex, &slow);
}

// Asio's: from now on, or at a time long past, which is at once.
int __wrap_timerfd_settime(int fd, int flags, const itimerspec* value, itimerspec* old_value) {
  itimerspec part = *value;
  if ((flags & TFD_TIMER_ABSTIME) == 0) {
    part.it_value = Part(value->it_value);
    part.it_interval = Part(value->it_interval);
  }
  return __real_timerfd_settime(fd, flags, &part, old_value);
}

}  // extern "C"
