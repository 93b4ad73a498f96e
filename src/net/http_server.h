#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "net/http_client.h"

namespace csidelta::net {

// What a client asks for, read whole.
struct HttpCall {
  std::string method;
  std::string target;
  std::map<std::string, std::string> headers;  // names in lower case; repeated ones joined by ", "
  std::string body;
};

// PEM texts: the server's own certificate first, then its issuers.
struct ServerCertificate {
  std::string certificate_pem;
  std::string key_pem;

  friend bool operator==(const ServerCertificate&, const ServerCertificate&) = default;
};

struct HttpServerLimits {
  int connections_max = 256;  // when full, the one that has been idle longest gives way
  int handlers_max = 8;       // threads that answer
  int64_t header_bytes_max = int64_t{16} << 10;
  int64_t target_bytes_max = int64_t{8} << 10;
  int64_t body_bytes_max = int64_t{64} << 10;
  absl::Duration request_time_max = absl::Seconds(10);  // from its first byte, or the connection's
  absl::Duration handler_time_max = absl::Seconds(60);  // the deadline of a handler
  absl::Duration answer_time_max = absl::Seconds(60);   // until the client has taken the answer
  absl::Duration idle_time_max = absl::Seconds(60);     // between two requests
  absl::Duration stop_time_max = absl::Seconds(20);     // for what runs when the server is stopped
};

struct HttpServerOptions {
  std::string address = "127.0.0.1";  // numeric
  uint16_t port = 0;                  // 0: one that the system chooses
  // Where the certificate comes from: asked at the start, and again for a new connection when the
  // last look is kCertificateAgeMax old. A pair that cannot be read, or does not fit, is logged and
  // the old one stays. None: plain HTTP.
  std::function<absl::StatusOr<ServerCertificate>()> read_certificate;
  HttpServerLimits limits;
  const Clock* clock = &Clock::Real();  // for the age of the certificate and handlers' deadlines
};

inline constexpr absl::Duration kCertificateAgeMax = absl::Seconds(10);

// Answers one request; runs in several threads at once. `ctx` ends with handler_time_max, and is
// stopped when a stop of the server has lasted stop_time_max. Names of headers in lower case. One
// that throws ends its request, with 500, and is logged.
using HttpHandler = std::function<HttpResponse(const CallContext& ctx, const HttpCall& call)>;

// A small HTTP/1.1 server, over TLS 1.2 or newer or plain. One thread moves bytes, handlers_max
// threads answer, whatever the clients do: who is slow, silent or broken costs a connection for a
// limited time. Bodies from 1 KiB on are compressed when the client takes gzip. What is no request
// is answered 400, 413, 414 or 431, and the connection closed.
//
//   started --Stop()--> no new connections, idle ones closed, running requests answered
//                       --all answered, or stop_time_max and the handlers' stop--> stopped
//
// Start() and Stop() belong to one thread; the destructor stops.
class HttpServer {
 public:
  // FAILED_PRECONDITION when the address is taken or not this machine's; INVALID_ARGUMENT when it
  // or the certificate is malformed; errors of read_certificate.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpServerOptions options,
                                                           HttpHandler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  void Stop();

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace csidelta::net
