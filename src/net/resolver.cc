#include "net/resolver.h"

#include <ares.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

#include <array>
#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::net {
namespace {

constexpr int kPollIntervalMsMax = 50;  // How late a stop is noticed.
constexpr int kTimeoutMs = 2000;        // Per server and try.
constexpr int kTries = 3;

struct Answer {
  bool done = false;
  int code = ARES_SUCCESS;
  std::vector<std::string> addresses;
};

std::string AddressText(const ares_addrinfo_node& node) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (node.ai_family == AF_INET) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(node.ai_addr);
    inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
  } else if (node.ai_family == AF_INET6) {
    const auto* address = reinterpret_cast<const sockaddr_in6*>(node.ai_addr);
    inet_ntop(AF_INET6, &address->sin6_addr, text.data(), text.size());
  }
  return text.data();
}

void OnAnswer(void* user_data, int code, int /*timeouts*/, ares_addrinfo* result) {
  auto* answer = static_cast<Answer*>(user_data);
  answer->done = true;
  answer->code = code;
  if (result == nullptr) {
    return;
  }
  for (const ares_addrinfo_node* node = result->nodes; node != nullptr; node = node->ai_next) {
    if (std::string text = AddressText(*node); !text.empty()) {
      answer->addresses.push_back(std::move(text));
    }
  }
  ares_freeaddrinfo(result);
}

// Waits for one of the channel's sockets, or for its next time-out, and lets it work.
void Step(ares_channel channel) {
  std::array<ares_socket_t, ARES_GETSOCK_MAXNUM> sockets{};
  const auto bits = static_cast<unsigned>(
      ares_getsock(channel, sockets.data(), static_cast<int>(sockets.size())));
  std::vector<pollfd> polls;
  for (unsigned i = 0; i < sockets.size(); ++i) {
    const bool reads = ARES_GETSOCK_READABLE(bits, i);
    const bool writes = ARES_GETSOCK_WRITABLE(bits, i);
    if (reads || writes) {
      const auto events = static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
      polls.push_back(pollfd{.fd = sockets[i], .events = events, .revents = 0});
    }
  }
  timeval longest{.tv_sec = 0, .tv_usec = kPollIntervalMsMax * 1000};
  timeval next{};
  const timeval* wait = ares_timeout(channel, &longest, &next);
  poll(polls.data(), polls.size(), static_cast<int>(wait->tv_sec * 1000 + wait->tv_usec / 1000));
  ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);  // Time-outs.
  for (const pollfd& entry : polls) {
    const bool readable = (entry.revents & (POLLIN | POLLERR | POLLHUP)) != 0;
    const bool writable = (entry.revents & (POLLOUT | POLLERR | POLLHUP)) != 0;
    ares_process_fd(channel, readable ? entry.fd : ARES_SOCKET_BAD,
                    writable ? entry.fd : ARES_SOCKET_BAD);
  }
}

absl::StatusOr<ares_channel> OpenChannel() {
  static std::once_flag initialized;
  std::call_once(initialized, [] { ares_library_init(ARES_LIB_INIT_ALL); });
  ares_options options{};
  options.timeout = kTimeoutMs;
  options.tries = kTries;
  ares_channel channel = nullptr;
  if (const int code = ares_init_options(&channel, &options, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES);
      code != ARES_SUCCESS) {
    return absl::UnavailableError(absl::StrCat("name resolver: ", ares_strerror(code)));
  }
  return channel;
}

absl::Status StatusOf(const Answer& answer) {
  if (answer.code == ARES_SUCCESS && !answer.addresses.empty()) {
    return absl::OkStatus();
  }
  if (answer.code == ARES_SUCCESS || answer.code == ARES_ENOTFOUND || answer.code == ARES_ENODATA ||
      answer.code == ARES_EBADNAME) {
    return absl::NotFoundError("no such host");
  }
  return absl::UnavailableError(ares_strerror(answer.code));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ResolveHost(const CallContext& ctx,
                                                     const std::string& host) {
  std::array<char, sizeof(in6_addr)> address;
  if (inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
      inet_pton(AF_INET6, host.c_str(), address.data()) == 1) {
    return std::vector<std::string>{host};
  }
  const std::string what = absl::StrCat("resolve ", host);
  ASSIGN_OR_RETURN(const ares_channel channel, OpenChannel());
  // Declared before the channel's owner: destroying the channel calls back into it.
  Answer answer;
  const std::unique_ptr<ares_channeldata, decltype(&ares_destroy)> owner(channel, &ares_destroy);
  ares_addrinfo_hints hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  ares_getaddrinfo(channel, host.c_str(), nullptr, &hints, &OnAnswer, &answer);
  while (!answer.done) {
    RETURN_IF_ERROR(Annotate(ctx.Check(), what));
    Step(channel);
  }
  RETURN_IF_ERROR(Annotate(StatusOf(answer), what));
  return answer.addresses;
}

}  // namespace csidelta::net
