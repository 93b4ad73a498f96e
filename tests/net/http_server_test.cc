#include "net/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "net/gzip.h"
#include "tests/support/await.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_authority.h"

namespace csidelta::net::http_server_test {
namespace {

using support::FakeClock;
using support::IsOk;
using support::StatusIs;
using support::TestAuthority;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kGet[] = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr char kLastGet[] = "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

// A client that says what the test tells it to, byte by byte.
class RawClient {
 public:
  explicit RawClient(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CSIDELTA_CHECK(connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    LimitWait({.tv_sec = 30, .tv_usec = 0});
  }

  // Of each Receive; a server that hangs is a failure.
  void LimitWait(timeval wait_max) {
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &wait_max, sizeof(wait_max));
  }

  bool Send(absl::string_view bytes) {
    return send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == std::ssize(bytes);
  }

  void HalfClose() { shutdown(fd_.get(), SHUT_WR); }

  enum class Outcome { kBytes, kClosed, kNothingYet };
  Outcome Receive() {
    std::array<char, 65536> piece;
    const ssize_t count = recv(fd_.get(), piece.data(), piece.size(), 0);
    received_.append(piece.data(), static_cast<std::size_t>(count > 0 ? count : 0));
    if (count > 0) {
      return Outcome::kBytes;
    }
    return count < 0 && errno == EAGAIN ? Outcome::kNothingYet : Outcome::kClosed;
  }

  // All that has come when `end` did.
  std::string ReceiveUntil(const std::string& end) {
    while (!absl::StrContains(received_, end) && Receive() == Outcome::kBytes) {
    }
    return received_;
  }

  // All that has come when the server closed.
  std::string ReceiveAll() {
    Outcome outcome = Outcome::kBytes;
    while (outcome == Outcome::kBytes) {
      outcome = Receive();
    }
    EXPECT_EQ(outcome, Outcome::kClosed) << "the server keeps the connection";
    return received_;
  }

 private:
  const UniqueFd fd_;
  std::string received_;
};

// Holds handlers until they are released, and counts them.
class Gate {
 public:
  void Pass(const CallContext& ctx) {
    std::unique_lock lock(mutex_);
    most_inside_ = std::max(most_inside_, ++inside_);
    changed_.notify_all();
    const bool is_released =
        changed_.wait_for(lock, ctx.stop, support::kAwaitMax, [&] { return is_open_; });
    EXPECT_TRUE(is_released || ctx.stop.stop_requested()) << "the gate was not opened";
    --inside_;
  }

  void Open() {
    std::scoped_lock lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

  void AwaitInside(int count) {
    std::unique_lock lock(mutex_);
    support::AwaitOn(changed_, lock, absl::StrCat(count, " handlers to be inside"),
                     [&] { return inside_ >= count; });
  }

  int most_inside() {
    std::scoped_lock lock(mutex_);
    return most_inside_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool is_open_ = false;
  int inside_ = 0;
  int most_inside_ = 0;
};

HttpResponse Text(std::string body) {
  HttpResponse response;
  response.status = 200;
  response.headers["content-type"] = "text/plain";
  response.body = std::move(body);
  return response;
}

HttpResponse Echo(const CallContext&, const HttpCall& call) {
  return Text(absl::StrCat(call.method, " ", call.target, " ", call.body, "."));
}

std::string Unpack(const std::string& packed) {
  z_stream stream{};
  CSIDELTA_CHECK(inflateInit2(&stream, 15 + 16) == Z_OK);
  std::string bytes(std::size_t{1} << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(stream.total_out);
  inflateEnd(&stream);
  return bytes;
}

class HttpServerTest : public testing::Test {
 protected:
  void Start(HttpHandler handler = &Echo) {
    auto server = HttpServer::Start(options_, std::move(handler));
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
  }

  void UseTls(TestAuthority& authority) {
    const support::Credentials own = authority.IssueServer("DNS:localhost,IP:127.0.0.1");
    std::scoped_lock lock(mutex_);
    certificate_ = {.certificate_pem = own.certificate_pem, .key_pem = own.key_pem};
    options_.read_certificate = [this]() -> absl::StatusOr<ServerCertificate> {
      std::scoped_lock reading(mutex_);
      return certificate_;
    };
  }

  absl::StatusOr<HttpResponse> Ask(const std::string& method = "GET",
                                   const std::string& body = "") {
    HttpClientOptions options;
    options.tls.ca_pem = authority_.ca_pem();
    HttpClient client(options);
    const std::string scheme = options_.read_certificate ? "https" : "http";
    return client.Send(
        CallContext().WithTimeout(absl::Seconds(60)),
        {.method = method,
         .url = *ParseUrl(absl::StrCat(scheme, "://127.0.0.1:", server_->port(), "/path?q=1")),
         .headers = {},
         .body = body});
  }

  TestAuthority authority_;
  FakeClock clock_;
  std::mutex mutex_;
  ServerCertificate certificate_;  // Guarded by mutex_.
  HttpServerOptions options_;
  Gate gate_;  // Who passes it may do so when a test is over, until the server is.
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersOverTls) {
  UseTls(authority_);
  Start();
  const auto response = Ask("POST", "body");
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->body, "POST /path?q=1 body.");
  EXPECT_EQ(response->headers.at("content-type"), "text/plain");
}

TEST_F(HttpServerTest, AnswersInOrderOnAConnectionThatIsKept) {
  Start();
  RawClient client(server_->port());
  client.Send(kGet);
  client.ReceiveUntil("GET /a .");
  client.Send(absl::StrCat(kGet, kLastGet));  // Two at once.
  const std::string all = client.ReceiveAll();
  EXPECT_THAT(all, AllOf(HasSubstr("GET /a .HTTP/1.1 200"), EndsWith("GET /last .")));
  EXPECT_THAT(all, HasSubstr("Connection: close"));
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  Start();
  const auto response = Ask("HEAD");
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->body, "");
  EXPECT_EQ(response->headers.at("content-length"), "16");
}

TEST_F(HttpServerTest, CompressesForWhoAsks) {
  Start([](const CallContext&, const HttpCall& call) {
    return Text(std::string(call.target == "/small" ? 1023 : 100000, 'x'));
  });
  const auto ask = [&](const std::string& path, const std::string& encoding) {
    RawClient client(server_->port());
    client.Send(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n",
                             "Accept-Encoding: ", encoding, "\r\n\r\n"));
    return client.ReceiveAll();
  };
  const std::string packed = ask("/", "deflate, gzip");
  EXPECT_THAT(packed, HasSubstr("content-encoding: gzip"));
  EXPECT_EQ(Unpack(packed.substr(packed.find("\r\n\r\n") + 4)), std::string(100000, 'x'));
  EXPECT_THAT(ask("/", "gzip;q=0"), EndsWith(std::string(100000, 'x')));
  EXPECT_THAT(ask("/", "br"), EndsWith(std::string(100000, 'x')));
  EXPECT_THAT(ask("/small", "gzip"), EndsWith(std::string(1023, 'x')));
}

TEST_F(HttpServerTest, KnowsWhoTakesGzip) {
  for (const char* yes :
       {"gzip", "GZIP", "br, gzip;q=0.1", "*", "gzip ; q=1", "identity,*;q=0.5"}) {
    EXPECT_TRUE(AcceptsGzip(yes)) << yes;
  }
  for (const char* no : {"", "br", "gzip;q=0", "*, gzip;q=0", "x-gzip", "*;q=0.0", "gzip;q=no"}) {
    EXPECT_FALSE(AcceptsGzip(no)) << no;
  }
}

TEST_F(HttpServerTest, AMalformedRequestIsRefusedAndItsConnectionClosed) {
  options_.limits.header_bytes_max = 2000;
  options_.limits.target_bytes_max = 500;
  options_.limits.body_bytes_max = 1000;
  Start();
  const std::pair<std::string, std::string> cases[] = {
      {"\x16\x03\x01 this is not HTTP\r\n\r\n", "HTTP/1.1 400 "},
      {"GET / HTTP/9.9\r\n\r\n", "HTTP/1.1 400 "},
      {"GET / HTTP/1.1\r\nNo colon\r\n\r\n", "HTTP/1.1 400 "},
      {absl::StrCat("GET /", std::string(600, 'a'), " HTTP/1.1\r\n\r\n"), "HTTP/1.1 414 "},
      {absl::StrCat("GET / HTTP/1.1\r\nX: ", std::string(100000, 'a'), "\r\n\r\n"),
       "HTTP/1.1 431 "},
      {absl::StrCat("POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n", std::string(100000, 'a')),
       "HTTP/1.1 413 "},
      {absl::StrCat("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5dc\r\n",
                    std::string(1500, 'a'), "\r\n0\r\n\r\n"),
       "HTTP/1.1 413 "},
  };
  for (const auto& [request, answer] : cases) {
    RawClient client(server_->port());
    client.Send(request);
    client.HalfClose();
    EXPECT_THAT(client.ReceiveAll(), StartsWith(answer)) << request.substr(0, 40);
  }
  EXPECT_THAT(Ask(), IsOk());
}

TEST_F(HttpServerTest, AClientThatHangsUpEarlyIsForgotten) {
  Start();
  { RawClient client(server_->port()); }
  RawClient client(server_->port());
  client.Send("GET / HT");
  client.HalfClose();
  EXPECT_EQ(client.ReceiveAll(), "");
}

TEST_F(HttpServerTest, AHalfClosedClientGetsItsAnswer) {
  Start();
  RawClient client(server_->port());
  client.Send(kGet);
  client.HalfClose();
  EXPECT_THAT(client.ReceiveAll(), EndsWith("GET /a ."));
}

TEST_F(HttpServerTest, ARequestThatTricklesInIsCut) {
  options_.limits.request_time_max = absl::Milliseconds(200);
  Start();
  RawClient client(server_->port());
  client.LimitWait({.tv_sec = 0, .tv_usec = 10'000});
  client.Send("GET / HTTP/1.1\r\nX: ");
  RawClient::Outcome outcome = RawClient::Outcome::kNothingYet;
  support::Await("the server to cut a request that trickles in", [&] {
    outcome = client.Send("a") ? client.Receive() : RawClient::Outcome::kClosed;
    return outcome != RawClient::Outcome::kNothingYet;
  });
  EXPECT_EQ(outcome, RawClient::Outcome::kClosed);
}

TEST_F(HttpServerTest, ASilentConnectionIsClosed) {
  options_.limits.request_time_max = absl::Milliseconds(50);
  Start();
  RawClient silent(server_->port());
  EXPECT_EQ(silent.ReceiveAll(), "");
  options_.limits = {};
  options_.limits.idle_time_max = absl::Milliseconds(50);
  Start();
  RawClient idle(server_->port());
  idle.Send(kGet);
  EXPECT_THAT(idle.ReceiveAll(), EndsWith("GET /a ."));
}

TEST_F(HttpServerTest, AHandshakeThatStallsOrIsNoneIsCut) {
  options_.limits.request_time_max = absl::Milliseconds(200);
  UseTls(authority_);
  Start();
  RawClient silent(server_->port());
  EXPECT_EQ(silent.ReceiveAll(), "");
  RawClient plain(server_->port());
  plain.Send(kGet);
  EXPECT_THAT(plain.ReceiveAll(), Not(HasSubstr("GET /a")));
}

TEST_F(HttpServerTest, AClientThatDoesNotReadItsAnswerIsDisconnected) {
  options_.limits.answer_time_max = absl::Milliseconds(100);
  options_.limits.connections_max = 1;
  Start([](const CallContext&, const HttpCall& call) {
    return Text(std::string(call.target == "/a" ? std::size_t{32} << 20 : 1, 'x'));
  });
  RawClient deaf(server_->port());
  deaf.Send(kGet);
  // The only connection is free again. On a busy machine the server may cut this one, too, so it is
  // retried.
  support::Await("an answer for the next client", [&] {
    RawClient next(server_->port());
    next.Send(kLastGet);
    return absl::EndsWith(next.ReceiveAll(), "\r\n\r\nx");
  });
}

TEST_F(HttpServerTest, WhenFullTheIdlestGivesWay) {
  options_.limits.connections_max = 2;
  Start();
  RawClient first(server_->port());
  first.Send(kGet);
  first.ReceiveUntil("GET /a .");
  RawClient second(server_->port());
  second.Send(kGet);
  second.ReceiveUntil("GET /a .");
  RawClient third(server_->port());
  third.Send(kGet);
  EXPECT_THAT(third.ReceiveUntil("GET /a ."), HasSubstr("GET /a ."));
  EXPECT_THAT(first.ReceiveAll(), EndsWith("GET /a ."));
  second.Send(kLastGet);
  EXPECT_THAT(second.ReceiveAll(), EndsWith("GET /last ."));
}

TEST_F(HttpServerTest, WhenAllAreBusyTheNextOneWaits) {
  options_.limits.connections_max = 2;
  Start([&](const CallContext& ctx, const HttpCall& call) {
    if (call.target == "/a") {
      gate_.Pass(ctx);
    }
    return Echo(ctx, call);
  });
  RawClient first(server_->port());
  RawClient second(server_->port());
  first.Send(kGet);
  second.Send(kGet);
  gate_.AwaitInside(2);
  RawClient third(server_->port());
  third.Send(kLastGet);
  gate_.Open();
  EXPECT_THAT(third.ReceiveAll(), EndsWith("GET /last ."));
}

// Takes all file descriptors of the process but one.
class FewDescriptors {
 public:
  FewDescriptors() {
    CSIDELTA_CHECK(getrlimit(RLIMIT_NOFILE, &before_) == 0);
    taken_.emplace_back(dup(STDERR_FILENO));
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(taken_.back().get()) + 16;
    CSIDELTA_CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    while (taken_.back().valid()) {
      taken_.emplace_back(dup(STDERR_FILENO));
    }
    taken_.resize(taken_.size() - 2);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
  std::vector<UniqueFd> taken_;
};

TEST_F(HttpServerTest, WithoutADescriptorAConnectionWaitsUntilThereIsOne) {
  static std::atomic<bool> said = false;
  said = false;
  Start();
  std::optional<RawClient> client;
  {
    const FewDescriptors few;
    SetLogSink([](LogLevel, const std::string& line) {
      said = said || absl::StrContains(line, "cannot accept a connection");
    });
    client.emplace(server_->port());
    client->Send(kLastGet);
    support::Await("the server to say so", [] { return said.load(); });
    SetLogSink(nullptr);
  }
  EXPECT_THAT(client->ReceiveAll(), EndsWith("GET /last ."));
}

TEST_F(HttpServerTest, AHundredClientsShareFewThreads) {
  options_.limits.handlers_max = 3;
  UseTls(authority_);
  Start([&](const CallContext& ctx, const HttpCall& call) {
    gate_.Pass(ctx);
    return Echo(ctx, call);
  });
  std::atomic<int> answered = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 100; ++i) {
      threads.emplace_back([&] { answered += Ask().ok() ? 1 : 0; });
    }
    gate_.AwaitInside(3);
    gate_.Open();
  }
  EXPECT_EQ(answered, 100);
  EXPECT_EQ(gate_.most_inside(), 3);
}

TEST_F(HttpServerTest, ANewCertificateIsUsedAndABrokenOneIsNot) {
  TestAuthority other;
  UseTls(other);
  options_.clock = &clock_;
  Start();
  EXPECT_THAT(Ask(), StatusIs(absl::StatusCode::kFailedPrecondition));
  UseTls(authority_);
  EXPECT_THAT(Ask(), StatusIs(absl::StatusCode::kFailedPrecondition));  // Not looked at yet.
  clock_.Advance(kCertificateAgeMax);
  EXPECT_THAT(Ask(), IsOk());
  {
    std::scoped_lock lock(mutex_);
    certificate_.key_pem = authority_.IssueServer("DNS:localhost").key_pem;
  }
  clock_.Advance(kCertificateAgeMax);
  EXPECT_THAT(Ask(), IsOk());
}

TEST_F(HttpServerTest, StopAnswersWhatRunsAndNothingElse) {
  Start([&](const CallContext& ctx, const HttpCall& call) {
    if (call.target == "/a") {
      gate_.Pass(ctx);
    }
    return Echo(ctx, call);
  });
  RawClient idle(server_->port());
  auto running = std::make_unique<RawClient>(server_->port());
  running->Send(kGet);
  gate_.AwaitInside(1);
  std::jthread stopper([&] { server_->Stop(); });
  EXPECT_EQ(idle.ReceiveAll(), "");  // Stopping has begun.
  gate_.Open();
  EXPECT_THAT(running->ReceiveAll(), AllOf(HasSubstr("Connection: close"), EndsWith("GET /a .")));
  running.reset();
  stopper.join();
  EXPECT_THAT(Ask(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(HttpServerTest, StopDoesNotWaitForEver) {
  options_.limits.stop_time_max = absl::Milliseconds(20);
  Start([&](const CallContext& ctx, const HttpCall& call) {
    gate_.Pass(ctx);
    return Echo(ctx, call);
  });
  RawClient running(server_->port());
  running.Send(kGet);
  RawClient half(server_->port());
  half.Send("GET / HT");
  gate_.AwaitInside(1);
  server_->Stop();
  EXPECT_EQ(half.ReceiveAll(), "");
}

TEST_F(HttpServerTest, HandlersHaveADeadline) {
  options_.clock = &clock_;
  options_.limits.handler_time_max = absl::Seconds(7);
  Start([&](const CallContext& ctx, const HttpCall&) {
    return Text(absl::FormatDuration(ctx.TimeLeft()));
  });
  const auto response = Ask();
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->body, "7s");
}

TEST_F(HttpServerTest, AHandlerThatThrowsEndsItsRequestAlone) {
  Start([&](const CallContext&, const HttpCall& call) -> HttpResponse {
    if (call.method == "GET") {
      throw std::length_error("a secret word");
    }
    if (call.method == "PUT") {
      throw 7;
    }
    return Text("served");
  });
  for (const char* method : {"GET", "PUT"}) {
    const auto broken = Ask(method);
    ASSERT_THAT(broken, IsOk());
    EXPECT_EQ(broken->status, 500);
    EXPECT_THAT(broken->body, Not(HasSubstr("secret")));
  }
  const auto response = Ask("POST");
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->body, "served");
}

TEST_F(HttpServerTest, AnAddressThatCannotBeListenedOnIsNamed) {
  Start();
  options_.port = server_->port();
  EXPECT_THAT(HttpServer::Start(options_, &Echo).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("listen on 127.0.0.1")));
  options_.address = "localhost";
  EXPECT_THAT(HttpServer::Start(options_, &Echo).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("localhost")));
  options_.address = "127.0.0.1";
  options_.port = 0;
  options_.read_certificate = []() -> absl::StatusOr<ServerCertificate> {
    return ServerCertificate{.certificate_pem = "no", .key_pem = "no"};
  };
  EXPECT_THAT(HttpServer::Start(options_, &Echo).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("server certificate")));
}

}  // namespace
}  // namespace csidelta::net::http_server_test
