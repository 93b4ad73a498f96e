#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "net/proxy.h"
#include "net/url.h"

namespace csidelta::net {

// The authorities to trust, and our own certificate. PEM texts, not paths.
struct TlsOptions {
  std::string ca_pem;  // "": the system's bundle
  std::string client_certificate_pem;
  std::string client_key_pem;
  std::string server_name;  // verified and sent instead of the URL's host when not ""
  bool insecure_skip_verify = false;
};

struct HttpLimits {
  int64_t header_bytes_max = int64_t{64} << 10;
  int64_t body_bytes_max = int64_t{64} << 20;  // of a body held in memory; streams have no limit
  int idle_connections_max = 16;               // kept per server
  absl::Duration idle_time_max = absl::Seconds(60);
  absl::Duration connect_time_max = absl::Seconds(15);  // name, TCP, proxy and TLS together
  // How long less than silence_bytes_min may move in either direction of a request. Who hands out
  // byte after byte is as good as silent.
  absl::Duration silence_max = absl::InfiniteDuration();
  int64_t silence_bytes_min = 1;
};

struct HttpClientOptions {
  TlsOptions tls;
  ProxySettings proxy;
  HttpLimits limits;
};

struct HttpRequest {
  std::string method;
  Url url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  // Sent behind `body`; borrowed until the call returns. For bodies that are too large to be
  // copied.
  absl::string_view borrowed_body = {};
  std::string body_end = {};  // sent behind both
  // Takes the place of HttpLimits::body_bytes_max when it is not negative.
  int64_t answer_bytes_max = -1;

  std::size_t BodyBytes() const { return body.size() + borrowed_body.size() + body_end.size(); }
};

struct HttpResponse {
  int status = 0;
  // Names in lower case; the last of a repeated one, but all of x-goog-hash with "," between.
  std::map<std::string, std::string> headers;
  std::string body;
};

// The value of a header, by its name in lower case; "" where none exists. Pure.
std::string Header(const HttpResponse& response, const std::string& name);

// Sends HTTP/1.1 requests over TLS or plain TCP and keeps connections for the next ones. The only
// place of the program that uses TLS. No I/O at construction: certificates are read at the first
// request.
//
// Calls block until answered, at most until ctx is over; a stop is noticed within 100 ms.
// Thread-safe: each running request has a connection of its own. Errors:
//   UNAVAILABLE          not connected, connection lost, silence, or an answer that is not HTTP
//   NOT_FOUND            no such host
//   FAILED_PRECONDITION  TLS refused: the certificate is not one that we trust
//   INVALID_ARGUMENT     our certificates, key or proxy are malformed
//   INTERNAL             the answer is larger than the limits
//   DEADLINE_EXCEEDED · CANCELLED   from ctx
// Any HTTP status is a success here. A request that fails on a kept connection before the first
// byte of an answer is sent again on a new one when its method is idempotent, and it has no
// condition that the first attempt may have ended.
class HttpClient {
 public:
  explicit HttpClient(HttpClientOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // The whole answer in memory. That to HEAD has no body, whatever its headers say.
  absl::StatusOr<HttpResponse> Send(const CallContext& ctx, const HttpRequest& request);

  // Returns what Send() does when the status is not 200. Else feeds `sink` the body's bytes as they
  // come until the body ends, or `sink` returns false; then the response has no body. After bytes
  // were delivered nothing is sent again.
  absl::StatusOr<HttpResponse> Stream(const CallContext& ctx, const HttpRequest& request,
                                      absl::FunctionRef<bool(absl::string_view bytes)> sink);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Whether a failed Send() or Stream() is sure that the server has not seen the request.
bool SurelyNotSent(const absl::Status& status);

// Where the certificates are that this machine trusts: SSL_CERT_FILE alone, else where
// distributions keep them.
std::vector<std::string> SystemBundlePaths();

// The text of the first of these that can be read; "" when none exists.
std::string SystemBundle();

}  // namespace csidelta::net
