#include "net/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"
#include "net/resolver.h"
#include "net/tls_context.h"
#include "tests/support/await.h"
#include "tests/support/fake_clock.h"
#include "tests/support/http_test_server.h"
#include "tests/support/status_matchers.h"

namespace csidelta::net::http_client_test {
namespace {

using support::Credentials;
using support::HttpTestServer;
using support::IsOk;
using support::ServedConnection;
using support::ServedRequest;
using support::StatusIs;
using support::TestServerOptions;
using testing::AllOf;
using testing::HasSubstr;

void Echo(const ServedRequest& request, ServedConnection& connection) {
  connection.Send(200, request.method + " " + request.target + " " + request.body,
                  {{"X-Connection", std::to_string(request.connection)}});
}

class HttpClientTest : public testing::Test {
 protected:
  void Start(HttpTestServer::Handler handler, TestServerOptions options = {}) {
    server_ = std::make_unique<HttpTestServer>(std::move(handler), std::move(options));
    options_.tls.ca_pem = server_->authority().ca_pem();
  }

  // Waits for the handlers: those that wait for the client's end outlive the call, and must not
  // outlive what the test lent them.
  void EndServer() { server_.reset(); }

  HttpClient& client() {
    if (client_ == nullptr) {
      client_ = std::make_unique<HttpClient>(options_);
    }
    return *client_;
  }

  HttpRequest Request(const std::string& method, const std::string& path,
                      const std::string& host = "127.0.0.1") const {
    return {.method = method,
            .url = *ParseUrl(server_->url(host) + path),
            .headers = {{"X-Test", "yes"}},
            .body = method == "POST" ? "body" : ""};
  }

  absl::StatusOr<HttpResponse> Get(const std::string& path = "/") {
    return client().Send(ctx_, Request("GET", path));
  }

  support::FakeClock clock_;  // Outlives the threads of the server, which move it on.
  HttpClientOptions options_;
  CallContext ctx_ = CallContext().WithTimeout(absl::Seconds(60));
  std::unique_ptr<HttpTestServer> server_;
  std::unique_ptr<HttpClient> client_;
};

TEST_F(HttpClientTest, SendsAndReceives) {
  Start([](const ServedRequest& request, ServedConnection& connection) {
    EXPECT_EQ(request.headers.at("x-test"), "yes");
    Echo(request, connection);
  });
  const auto response = client().Send(ctx_, Request("POST", "/a?b=c"));
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->body, "POST /a?b=c body");
  EXPECT_EQ(response->headers.at("x-connection"), "1");
}

TEST_F(HttpClientTest, KeepsConnections) {
  Start(Echo, {.tls = true});
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(Get(), IsOk());
  }
  EXPECT_EQ(server_->connection_count(), 1);
}

TEST_F(HttpClientTest, ServesThreadsAtOnce) {
  Start(Echo, {.tls = true});
  HttpClient& shared = client();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, path = "/" + std::to_string(i)] {
      for (int round = 0; round < 10; ++round) {
        const auto response = shared.Send(ctx_, Request("GET", path));
        ASSERT_THAT(response, IsOk());
        EXPECT_EQ(response->body, "GET " + path + " ");
      }
    });
  }
  threads.clear();
  EXPECT_LE(server_->connection_count(), 8);
}

TEST_F(HttpClientTest, SendsAgainWhenAKeptConnectionIsClosed) {
  std::atomic<int> requests = 0;
  Start([&](const ServedRequest& request, ServedConnection& connection) {
    // The second request on a connection meets a server that has just gone.
    if (++requests == 2) {
      connection.Cut();
    } else {
      Echo(request, connection);
    }
  });
  EXPECT_THAT(Get(), IsOk());
  EXPECT_THAT(Get(), IsOk());
  EXPECT_EQ(server_->connection_count(), 2);
}

// Nor a PUT with a condition, which what the first one has done would refuse.
TEST_F(HttpClientTest, DoesNotSendAPostTwice) {
  std::atomic<int> posts = 0;
  Start([&](const ServedRequest& request, ServedConnection& connection) {
    if (request.method != "GET") {
      ++posts;
      connection.Cut();
    } else {
      Echo(request, connection);
    }
  });
  EXPECT_THAT(Get(), IsOk());
  const absl::Status status = client().Send(ctx_, Request("POST", "/")).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_FALSE(SurelyNotSent(status));
  EXPECT_EQ(posts, 1);
  EXPECT_THAT(Get(), IsOk());
  HttpRequest put = Request("PUT", "/");
  put.headers.emplace_back("If-None-Match", "*");
  EXPECT_THAT(client().Send(ctx_, put), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(posts, 2);
}

TEST_F(HttpClientTest, ARefusedConnectionIsSurelyNotSent) {
  Start(Echo);
  const HttpRequest request = Request("POST", "/");
  server_.reset();
  const absl::Status status = client().Send(ctx_, request).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("127.0.0.1")));
  EXPECT_TRUE(SurelyNotSent(status));
}

TEST_F(HttpClientTest, ReadsEveryFormOfBody) {
  Start([](const ServedRequest& request, ServedConnection& connection) {
    if (request.target == "/chunks") {
      connection.StartStream(200);
      connection.Chunk("one ");
      connection.Chunk("two");
      connection.EndStream();
    } else if (request.target == "/close") {
      connection.Raw("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end");
      connection.Cut();
    } else if (request.target == "/interim") {
      connection.Raw("HTTP/1.1 100 Continue\r\n\r\n");
      connection.Send(200, "after");
    } else {
      connection.Raw("HTTP/1.1 204 No Content\r\n\r\n");
    }
  });
  EXPECT_EQ(Get("/chunks")->body, "one two");
  EXPECT_EQ(Get("/interim")->body, "after");
  EXPECT_EQ(Get("/none")->status, 204);
  EXPECT_EQ(Get("/close")->body, "until the end");
}

TEST_F(HttpClientTest, BrokenAnswersAreUnavailable) {
  const char* const answers[] = {
      "",
      "garbage\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab",
      "HTTP/1.1 200 OK\r\nContent-Le",
  };
  for (const bool tls : {false, true}) {
    for (const char* answer : answers) {
      client_.reset();
      Start(
          [answer](const ServedRequest&, ServedConnection& connection) {
            connection.Raw(answer);
            connection.Cut();
          },
          {.tls = tls});
      EXPECT_THAT(Get(), StatusIs(absl::StatusCode::kUnavailable)) << answer;
    }
  }
}

TEST_F(HttpClientTest, LimitsBodyAndHeader) {
  options_.limits.body_bytes_max = 100;
  options_.limits.header_bytes_max = 1000;
  Start([](const ServedRequest& request, ServedConnection& connection) {
    if (request.target == "/body") {
      connection.Send(200, std::string(101, 'x'));
    } else {
      connection.Send(200, "", {{"X-Large", std::string(1000, 'x')}});
    }
  });
  EXPECT_THAT(Get("/body"), StatusIs(absl::StatusCode::kInternal, HasSubstr("100 bytes")));
  EXPECT_FALSE(Get("/header").ok());
}

TEST_F(HttpClientTest, StreamsBytesAsTheyCome) {
  std::stop_source delivered;  // Requested when the first piece has arrived.
  Start([&](const ServedRequest&, ServedConnection& connection) {
    connection.StartStream(200);
    connection.Chunk("first");
    support::Await("the first piece to arrive", [&] {
      return delivered.stop_requested() || connection.stop().stop_requested();
    });
    connection.Chunk("second");
    connection.EndStream();
  });
  std::string got;
  EXPECT_THAT(client().Stream(ctx_, Request("GET", "/"),
                              [&](absl::string_view bytes) {
                                got.append(bytes.data(), bytes.size());
                                delivered.request_stop();
                                return true;
                              }),
              IsOk());
  EXPECT_EQ(got, "firstsecond");
}

TEST_F(HttpClientTest, StreamKeepsTheBodyOfAnError) {
  Start([](const ServedRequest&, ServedConnection& connection) { connection.Send(410, "gone"); });
  const auto response =
      client().Stream(ctx_, Request("GET", "/"), [](absl::string_view) { return true; });
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->status, 410);
  EXPECT_EQ(response->body, "gone");
}

TEST_F(HttpClientTest, HeadHasNoBody) {
  Start([](const ServedRequest& request, ServedConnection& connection) {
    if (request.method == "HEAD") {
      connection.Raw("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n");
    } else {
      Echo(request, connection);
    }
  });
  for (int i = 0; i < 2; ++i) {
    const auto response = client().Send(ctx_, Request("HEAD", "/"));
    ASSERT_THAT(response, IsOk());
    EXPECT_EQ(response->headers.at("content-length"), "1000000000000");
    EXPECT_EQ(response->body, "");
    EXPECT_THAT(Get(), IsOk());
  }
  EXPECT_EQ(server_->connection_count(), 1);
}

TEST_F(HttpClientTest, SendsLargeBodiesFromWhereTheyAre) {
  std::string large(std::size_t{20} << 20, 'x');
  large.back() = 'y';
  for (const bool tls : {false, true}) {
    client_.reset();
    Start(
        [&](const ServedRequest& request, ServedConnection& connection) {
          connection.Send(200, request.body == "head" + large + "end" ? "same" : "other");
        },
        {.tls = tls});
    HttpRequest request = Request("PUT", "/");
    request.body = "head";
    request.borrowed_body = large;
    request.body_end = "end";
    const auto response = client().Send(ctx_, request);
    ASSERT_THAT(response, IsOk());
    EXPECT_EQ(response->body, "same");
  }
}

TEST_F(HttpClientTest, ARequestMayHaveALimitOfItsOwn) {
  options_.limits.body_bytes_max = 100;
  Start([](const ServedRequest& request, ServedConnection& connection) {
    if (request.target == "/chunks") {
      connection.StartStream(200);
      connection.Chunk(std::string(1000, 'x'));
      connection.EndStream();
    } else {
      connection.Send(200, std::string(1000, 'x'));
    }
  });
  for (const char* path : {"/", "/chunks"}) {
    HttpRequest request = Request("GET", path);
    request.answer_bytes_max = 1000;
    EXPECT_THAT(client().Send(ctx_, request), IsOk());
    request.answer_bytes_max = 999;
    EXPECT_THAT(client().Send(ctx_, request),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("999 bytes")));
  }
}

TEST_F(HttpClientTest, HearsAnAnswerThatComesBeforeTheBodyIsSent) {
  Start(
      [](const ServedRequest&, ServedConnection& connection) {
        connection.Send(403, "no");
        connection.Cut();
      },
      {.leave_body = true});
  const std::string large(std::size_t{64} << 20, 'x');
  HttpRequest request = Request("PUT", "/");
  request.borrowed_body = large;
  const auto response = client().Send(ctx_, request);
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->status, 403);
}

// A server that takes the request and never answers: on its clock, which is the client's, so much
// time goes by.
auto SilentFor(support::FakeClock& clock, absl::Duration silence) {
  return [&clock, silence](const ServedRequest&, ServedConnection& connection) {
    support::Await("the client to leave", [&] {
      clock.Advance(silence);  // Again and again: the client may not have begun to wait.
      return connection.stop().stop_requested() || connection.PeerIsGone();
    });
    connection.Cut();
  };
}

TEST_F(HttpClientTest, ASlowServerMeetsTheDeadline) {
  // By the real clock, which the I/O loop waits for. However slow the machine is, the deadline
  // comes.
  Start(SilentFor(clock_, absl::ZeroDuration()));
  EXPECT_THAT(client().Send(ctx_.WithTimeout(absl::Milliseconds(50)), Request("GET", "/")),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(HttpClientTest, ASilentServerIsUnavailable) {
  ctx_.clock = &clock_;
  ctx_.deadline = absl::InfiniteDuration();
  options_.limits.silence_max = absl::Seconds(50);
  Start(SilentFor(clock_, absl::Seconds(50)));
  EXPECT_THAT(Get(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("silent for 50s")));
}

// Each byte comes a second after the one before it, by the clock that the client goes by.
TEST_F(HttpClientTest, AServerThatDribblesIsAllButSilent) {
  ctx_.clock = &clock_;
  ctx_.deadline = absl::InfiniteDuration();
  options_.limits.silence_max = absl::Seconds(20);
  std::atomic<int> delivered = 0;
  Start([&](const ServedRequest&, ServedConnection& connection) {
    connection.StartStream(200);
    for (int sent = 1; connection.Chunk("x"); ++sent) {
      support::Await("a byte to arrive", [&] {
        return delivered >= sent || connection.stop().stop_requested() || connection.PeerIsGone();
      });
    }
  });
  const auto stream = [&](int64_t bytes_min) {
    delivered = 0;
    options_.limits.silence_bytes_min = bytes_min;
    HttpClient own(options_);
    return own
        .Stream(ctx_, Request("GET", "/"),
                [&](absl::string_view bytes) {
                  clock_.Advance(absl::Seconds(1) * std::ssize(bytes));
                  delivered += static_cast<int>(bytes.size());
                  return delivered < 100;
                })
        .status();
  };
  EXPECT_THAT(stream(10), IsOk());
  EXPECT_THAT(stream(1000), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("all but silent")));
  EXPECT_LT(delivered, 100);
  EndServer();
}

// Counts who looks at it.
class WatchedClock : public support::FakeClock {
 public:
  absl::Duration Uptime() const override {
    ++looks_;
    return FakeClock::Uptime();
  }

  // Returns when the client has looked a few times, so has seen what has moved; or is gone.
  void AwaitLooks(const std::function<bool()>& is_gone) const {
    const int until = looks_ + 12;
    support::Await("the client to look at its clock", [&] { return looks_ >= until || is_gone(); });
  }

 private:
  mutable std::atomic<int> looks_ = 0;
};

// Takes one connection, and of what is sent on it a part in each `interval` of a clock; answers
// 200 after `body_bytes`. Its socket holds little, the client's much more than is read in a minute.
class SlowReader {
 public:
  SlowReader(WatchedClock& clock, std::size_t body_bytes, std::size_t part_bytes,
             absl::Duration interval)
      : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int room_bytes = 64 << 10;
    setsockopt(listener_.get(), SOL_SOCKET, SO_RCVBUF, &room_bytes, sizeof(room_bytes));
    sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this, &clock, body_bytes, part_bytes, interval] {
      Serve(clock, body_bytes, part_bytes, interval);
    });
  }

  Url url() const { return *ParseUrl(absl::StrCat("http://127.0.0.1:", port_, "/")); }

  // The client is gone. What it has sent may hide that.
  void End() { is_over_ = true; }

 private:
  void Serve(WatchedClock& clock, std::size_t body_bytes, std::size_t part_bytes,
             absl::Duration interval) {
    const UniqueFd fd(accept(listener_.get(), nullptr, nullptr));
    std::string part(part_bytes, ' ');
    for (std::size_t taken = 0; taken < body_bytes && !is_over_;) {
      if (part_bytes > 0) {
        const ssize_t count = recv(fd.get(), part.data(), part.size(), MSG_WAITALL);
        taken += count > 0 ? static_cast<std::size_t>(count) : 0;
      }
      clock.AwaitLooks([this] { return is_over_.load(); });
      clock.Advance(interval);
    }
    constexpr absl::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    send(fd.get(), kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL);
    support::Await("the client to leave", [this] { return is_over_.load(); });
  }

  const UniqueFd listener_;
  uint16_t port_ = 0;
  std::atomic<bool> is_over_ = false;
  std::jthread thread_;
};

// On a slow line the socket's buffer takes for long what the client sends, and then nothing for
// longer than a server may be silent: what is acknowledged meanwhile counts.
TEST_F(HttpClientTest, APutGoesOnWhileItsPeerReadsAndNoLonger) {
  const std::string body(std::size_t{4} << 20, 'x');
  struct Row {
    std::size_t part_bytes;
    absl::Duration interval;
    bool ends;
  };
  for (const Row& row : {Row{256 << 10, absl::Seconds(40), true},  // more than 128 KiB a minute
                         Row{32 << 10, absl::Seconds(40), false},  // less
                         Row{0, absl::Seconds(40), false}}) {      // nothing
    SCOPED_TRACE(absl::StrCat(row.part_bytes, " bytes at a time"));
    WatchedClock clock;
    SlowReader peer(clock, body.size(), row.part_bytes, row.interval);
    options_.limits.silence_max = absl::Seconds(60);
    options_.limits.silence_bytes_min = 128 << 10;
    HttpClient client(options_);
    CallContext ctx;
    ctx.clock = &clock;
    const absl::Duration began = clock.Uptime();
    const auto response =
        client.Send(ctx, {.method = "PUT", .url = peer.url(), .headers = {}, .body = body});
    peer.End();
    if (row.ends) {
      EXPECT_THAT(response, IsOk());
      EXPECT_GE(clock.Uptime() - began, 5 * options_.limits.silence_max);
    } else {
      EXPECT_THAT(response, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("silent")));
    }
  }
}

TEST_F(HttpClientTest, AForeignClocksDeadlineCountsToo) {
  Start(SilentFor(clock_, absl::Seconds(10)));
  CallContext ctx;
  ctx.clock = &clock_;
  ctx = ctx.WithTimeout(absl::Seconds(10));
  const support::AwaitEnd end("the deadline of a clock of its own");
  EXPECT_THAT(client().Send(ctx, Request("GET", "/")),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(HttpClientTest, AStopIsNoticedAtOnce) {
  // Of a clock that stands still: neither a deadline nor the server's silence ends it.
  CallContext ctx;
  ctx.clock = &clock_;
  std::stop_source stop;
  Start([&](const ServedRequest& request, ServedConnection& connection) {
    stop.request_stop();
    SilentFor(clock_, absl::ZeroDuration())(request, connection);
  });
  ctx.stop = stop.get_token();
  {
    const support::AwaitEnd end("a request that was stopped");
    EXPECT_THAT(client().Send(ctx, Request("GET", "/")), StatusIs(absl::StatusCode::kCancelled));
  }
  EndServer();
}

TEST_F(HttpClientTest, VerifiesTheServer) {
  Start(Echo, {.tls = true, .names = "DNS:elsewhere.test"});
  EXPECT_THAT(Get(), StatusIs(absl::StatusCode::kFailedPrecondition,
                              testing::AllOf(HasSubstr("the certificate of 127.0.0.1 is not"),
                                             HasSubstr("names are DNS:elsewhere.test"))));
  options_.tls.server_name = "elsewhere.test";
  EXPECT_THAT(HttpClient(options_).Send(ctx_, Request("GET", "/")), IsOk());
  options_.tls.ca_pem = support::TestAuthority().ca_pem();
  EXPECT_THAT(HttpClient(options_).Send(ctx_, Request("GET", "/")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not trusted")));
  options_.tls.insecure_skip_verify = true;
  EXPECT_THAT(HttpClient(options_).Send(ctx_, Request("GET", "/")), IsOk());
}

// As Go does, and so the rest of a cluster.
TEST_F(HttpClientTest, AnIntermediateThatIsTrustedEndsTheChain) {
  Start(Echo, {.tls = true});
  options_.tls.ca_pem = server_->authority().intermediate_pem();
  EXPECT_THAT(HttpClient(options_).Send(ctx_, Request("GET", "/")), IsOk());
}

TEST_F(HttpClientTest, AMalformedCertificateDoesNotHideTheNext) {
  Start(Echo, {.tls = true});
  const std::string good = server_->authority().ca_pem();
  const std::string bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  const std::string torn = "-----BEGIN CERTIFICATE-----\n*&^%\n";
  for (const std::string& bundle : {bad + good, good + bad, torn + good, bad + torn + bad + good}) {
    options_.tls.ca_pem = bundle;
    EXPECT_THAT(HttpClient(options_).Send(ctx_, Request("GET", "/")), IsOk()) << bundle;
  }
  options_.tls.ca_pem = bad;
  EXPECT_THAT(HttpClient(options_).Send(ctx_, Request("GET", "/")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("CA certificate 1")));
}

TEST_F(HttpClientTest, ALaterConnectionResumesTheSession) {
  options_.limits.idle_connections_max = 0;
  Start(
      [](const ServedRequest& request, ServedConnection& connection) {
        connection.Send(200, request.tls_is_resumed ? "resumed" : "new");
      },
      {.tls = true});
  std::vector<std::string> answers;
  for (int i = 0; i < 3; ++i) {
    const auto response = Get();
    ASSERT_THAT(response, IsOk());
    answers.push_back(response->body);
  }
  EXPECT_THAT(answers, testing::ElementsAre("new", "resumed", "resumed"));
  EXPECT_EQ(server_->connection_count(), 3);
}

TEST_F(HttpClientTest, ShowsItsCertificate) {
  Start([](const ServedRequest& request,
           ServedConnection& connection) { connection.Send(200, request.client_common_name); },
        {.tls = true, .ask_for_client_certificate = true});
  EXPECT_FALSE(HttpClient(options_).Send(ctx_, Request("GET", "/")).ok());
  const Credentials own = server_->authority().IssueClient("velero");
  options_.tls.client_certificate_pem = own.certificate_pem;
  options_.tls.client_key_pem = own.key_pem;
  const auto response = HttpClient(options_).Send(ctx_, Request("GET", "/"));
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->body, "velero");
}

TEST_F(HttpClientTest, SaysWhichPemIsMalformed) {
  Start(Echo, {.tls = true});
  options_.tls.ca_pem = "not PEM";
  EXPECT_THAT(HttpClient(options_).Send(ctx_, Request("GET", "/")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("CA")));
  options_.tls.ca_pem = server_->authority().ca_pem();
  const Credentials own = server_->authority().IssueClient("velero");
  options_.tls.client_certificate_pem = own.certificate_pem;
  options_.tls.client_key_pem = server_->authority().IssueClient("other").key_pem;
  EXPECT_THAT(HttpClient(options_).Send(ctx_, Request("GET", "/")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("client key"), HasSubstr("values mismatch"))));
}

TEST(SslContextTest, SpeaksTls12AtLeast) {
  support::TestAuthority authority;
  TlsOptions options;
  options.ca_pem = authority.ca_pem();
  const auto client = MakeSslContext(options);
  ASSERT_THAT(client, IsOk());
  EXPECT_EQ(SSL_CTX_get_min_proto_version(client->get()), TLS1_2_VERSION);
  const Credentials own = authority.IssueServer("DNS:localhost");
  const auto server = MakeServerSslContext(own.certificate_pem, own.key_pem);
  ASSERT_THAT(server, IsOk());
  EXPECT_EQ(SSL_CTX_get_min_proto_version(server->get()), TLS1_2_VERSION);
}

TEST(SystemBundleTest, TheVariableTakesTheOthersPlace) {
  const char* const before = std::getenv("SSL_CERT_FILE");
  const std::string restored = before == nullptr ? "" : before;
  setenv("SSL_CERT_FILE", "/some/bundle.pem", 1);
  EXPECT_THAT(SystemBundlePaths(), testing::ElementsAre("/some/bundle.pem"));
  setenv("SSL_CERT_FILE", "", 1);
  EXPECT_THAT(SystemBundlePaths(), testing::Contains("/etc/ssl/certs/ca-certificates.crt"));
  unsetenv("SSL_CERT_FILE");
  EXPECT_THAT(SystemBundlePaths(), testing::Contains("/etc/ssl/certs/ca-certificates.crt"));
  if (!restored.empty()) {
    setenv("SSL_CERT_FILE", restored.c_str(), 1);
  }
}

TEST_F(HttpClientTest, GoesThroughTheProxy) {
  Start(Echo, {.tls = true});
  std::string asked;
  std::string authorization;
  HttpTestServer proxy([&](const ServedRequest& request, ServedConnection& connection) {
    asked = request.method + " " + request.target;
    authorization = request.headers.at("proxy-authorization");
    connection.Raw("HTTP/1.1 200 Connection established\r\n\r\n");
    connection.Tunnel(server_->port());
  });
  options_.proxy.https_proxy = "http://user:secret@127.0.0.1:" + std::to_string(proxy.port());
  const auto response = client().Send(ctx_, Request("GET", "/x", "api.test"));
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->body, "GET /x ");
  EXPECT_EQ(asked, "CONNECT api.test:" + std::to_string(server_->port()));
  EXPECT_EQ(authorization, "Basic dXNlcjpzZWNyZXQ=");
  client_.reset();  // Ends the tunnel.
}

// Many proxies let CONNECT reach port 443 alone.
TEST_F(HttpClientTest, AsksTheProxyItselfForWhatIsNotEncrypted) {
  std::string asked;
  std::string authorization;
  HttpTestServer proxy([&](const ServedRequest& request, ServedConnection& connection) {
    asked = absl::StrCat(request.method, " ", request.target, " of ", request.headers.at("host"));
    authorization = request.headers.at("proxy-authorization");
    connection.Send(200, "by the proxy");
  });
  options_.proxy.http_proxy = absl::StrCat("http://user:secret@127.0.0.1:", proxy.port());
  const auto response =
      client().Send(ctx_, {.method = "GET", .url = *ParseUrl("http://bucket.invalid:9000/x?y=z")});
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->body, "by the proxy");
  EXPECT_EQ(asked, "GET http://bucket.invalid:9000/x?y=z of bucket.invalid:9000");
  EXPECT_EQ(authorization, "Basic dXNlcjpzZWNyZXQ=");
}

TEST_F(HttpClientTest, SaysWhatTheProxyRefused) {
  Start(Echo, {.tls = true});
  int status = 407;
  HttpTestServer proxy([&](const ServedRequest&, ServedConnection& connection) {
    connection.Send(status, "");
    connection.Cut();
  });
  options_.proxy.always = "http://127.0.0.1:" + std::to_string(proxy.port());
  EXPECT_THAT(Get(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("password")));
  status = 503;
  EXPECT_THAT(Get(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("503")));
}

TEST(ResolveHostTest, AddressesAndTheHostsFileNeedNoServer) {
  EXPECT_THAT(ResolveHost({}, "10.1.2.3"), support::IsOkAndHolds(testing::ElementsAre("10.1.2.3")));
  EXPECT_THAT(ResolveHost({}, "fd00::1"), support::IsOkAndHolds(testing::ElementsAre("fd00::1")));
  EXPECT_THAT(ResolveHost({}, "localhost"), support::IsOkAndHolds(testing::Contains("127.0.0.1")));
}

TEST(ResolveHostTest, AStopEndsIt) {
  std::stop_source stop;
  stop.request_stop();
  CallContext ctx;
  ctx.stop = stop.get_token();
  EXPECT_THAT(ResolveHost(ctx, "no-such-host.invalid"),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("no-such-host.invalid")));
}

}  // namespace
}  // namespace csidelta::net::http_client_test
