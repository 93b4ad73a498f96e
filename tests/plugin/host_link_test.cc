#include "plugin/host_link.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <stop_token>
#include <thread>

#include "absl/time/time.h"
#include "base/clock.h"

namespace csidelta::plugin::host_link_test {
namespace {

constexpr auto kMoment = std::chrono::milliseconds(20);

TEST(HostLinkTest, EndsWhenAsked) {
  HostLink link;
  auto end = std::async(std::launch::async, [&] { return link.WaitForEnd(); });
  link.OnShutdownAsked();
  EXPECT_EQ(end.get(), HostLink::End::kAsked);
}

TEST(HostLinkTest, ClosedStreamsAloneMeanNothing) {
  HostLink link;
  auto end = std::async(std::launch::async, [&] { return link.WaitForEnd(); });
  link.OnStreamOpened();
  link.OnStreamClosed();
  EXPECT_EQ(end.wait_for(kMoment), std::future_status::timeout);
  link.OnShutdownAsked();
  EXPECT_EQ(end.get(), HostLink::End::kAsked);
}

// How the wait of a process ends whose parent is gone: 'g' for gone, 'a' for asked. The stream that
// it may have open closes, or it is asked, so long `after` the end of the parent.
char EndOfOrphan(bool open_stream, bool ask, absl::Duration after = {}) {
  int answer[2];
  EXPECT_EQ(pipe(answer), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    int ready[2];
    if (pipe(ready) != 0) {
      _exit(1);
    }
    const pid_t host = getpid();
    if (fork() == 0) {
      alarm(60);  // The end of a wait that has none.
      HostLink link;
      if (open_stream) {
        link.OnStreamOpened();
      }
      char byte = 'r';
      const ssize_t told = write(ready[1], &byte, 1);  // The parent may end now.
      (void)told;
      std::jthread closer([&] {
        if (after > absl::ZeroDuration()) {
          while (getppid() == host) {
            std::this_thread::yield();
          }
          // By then the link has seen it, too; if not, the test proves less, and passes.
          const Clock& clock = Clock::Real();
          clock.SleepUntil(clock.Now() + after, std::stop_token());
        }
        if (open_stream) {
          link.OnStreamClosed();
        }
        if (ask) {
          link.OnShutdownAsked();
        }
      });
      byte = link.WaitForEnd() == HostLink::End::kHostGone ? 'g' : 'a';
      const ssize_t answered = write(answer[1], &byte, 1);
      _exit(answered == 1 ? 0 : 1);
    }
    char byte = 0;
    const ssize_t heard = read(ready[0], &byte, 1);
    _exit(heard == 1 ? 0 : 1);
  }
  close(answer[1]);
  waitpid(parent, nullptr, 0);
  char byte = 0;
  EXPECT_EQ(read(answer[0], &byte, 1), 1);
  close(answer[0]);
  return byte;
}

TEST(HostLinkTest, EndsWhenTheHostIsGone) { EXPECT_EQ(EndOfOrphan(true, false), 'g'); }

TEST(HostLinkTest, EndsWhenAStreamOutlivesTheHost) {
  EXPECT_EQ(EndOfOrphan(true, false, absl::FromChrono(kMoment)), 'g');
}

TEST(HostLinkTest, LostParentAloneMeansNothing) { EXPECT_EQ(EndOfOrphan(false, true), 'a'); }

}  // namespace
}  // namespace csidelta::plugin::host_link_test
