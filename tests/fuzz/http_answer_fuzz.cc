// What a broken or hostile server may answer to a request: reading it neither crashes nor runs
// away, and no more comes out than was said or is allowed. The first byte chooses the request.

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "net/http_client.h"

namespace csidelta::net::http_answer_fuzz {
namespace {

constexpr int64_t kHeaderBytesMax = 4096;
constexpr int64_t kBodyBytesMax = 4096;

// Gives everybody on loopback the same answer and closes. Lives as long as the process.
class Server {
 public:
  Server() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof(address);
    CSIDELTA_CHECK(bind(listener_.get(), generic, length) == 0);
    CSIDELTA_CHECK(listen(listener_.get(), 8) == 0);
    CSIDELTA_CHECK(getsockname(listener_.get(), generic, &length) == 0);
    port_ = ntohs(address.sin_port);
    server_ = std::thread([this] { Serve(); });
  }

  // Of the requests that come from now on.
  void SetAnswer(absl::string_view answer) {
    std::scoped_lock lock(mutex_);
    answer_ = std::string(answer);
  }

  std::string url() const { return absl::StrCat("http://127.0.0.1:", port_, "/"); }

 private:
  [[noreturn]] void Serve() {
    while (true) {
      const UniqueFd peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      std::string request;
      std::array<char, 4096> piece;
      ssize_t count = 1;
      while (count > 0 && !absl::EndsWith(request, "\r\n\r\n")) {
        count = recv(peer.get(), piece.data(), piece.size(), 0);
        request.append(piece.data(), static_cast<std::size_t>(count > 0 ? count : 0));
      }
      if (count > 0) {
        const std::string answer = Answer();
        send(peer.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      }
    }
  }

  std::string Answer() {
    std::scoped_lock lock(mutex_);
    return answer_;
  }

  const UniqueFd listener_;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::string answer_;
  std::thread server_;
};

HttpClientOptions Limited() {
  HttpClientOptions options;
  options.limits.header_bytes_max = kHeaderBytesMax;
  options.limits.body_bytes_max = kBodyBytesMax;
  return options;
}

void Check(uint8_t kind, absl::string_view answer) {
  static auto& server = *new Server();
  static auto& client = *new HttpClient(Limited());
  server.SetAnswer(answer);
  HttpRequest request{.method = kind % 3 == 1 ? "HEAD" : "GET",
                      .url = ParseUrl(server.url()).value(),
                      .headers = {},
                      .body = ""};
  const CallContext ctx;
  std::size_t streamed_bytes = 0;
  const auto count = [&](absl::string_view bytes) {
    streamed_bytes += bytes.size();
    return true;
  };
  const absl::StatusOr<HttpResponse> response =
      kind % 3 == 2 ? client.Stream(ctx, request, count) : client.Send(ctx, request);
  CSIDELTA_CHECK(streamed_bytes <= answer.size());
  if (response.ok()) {
    CSIDELTA_CHECK(std::ssize(response->body) <= kBodyBytesMax);
    CSIDELTA_CHECK(request.method != "HEAD" || response->body.empty());
  } else {
    CSIDELTA_CHECK(absl::IsUnavailable(response.status()) || absl::IsInternal(response.status()));
  }
}

}  // namespace
}  // namespace csidelta::net::http_answer_fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  if (bytes > 0) {
    csidelta::net::http_answer_fuzz::Check(data[0],
                                           {reinterpret_cast<const char*>(data) + 1, bytes - 1});
  }
  return 0;
}
