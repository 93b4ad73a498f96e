#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "net/http_client.h"
#include "net/url.h"

struct ssl_ctx_st;
struct ssl_session_st;

namespace csidelta::net {

// What spares a later connection to the same server most of the TLS handshake.
using TlsSession = std::shared_ptr<ssl_session_st>;

// The server to connect to, and through what.
struct Destination {
  Url url;                    // only scheme, host and port count
  std::optional<Url> proxy;   // reached first; asked to CONNECT, or for each URL without TLS
  ssl_ctx_st* tls = nullptr;  // borrowed; nullptr for plain TCP
  TlsSession session;         // of an earlier connection, or null
  std::string server_name;    // what the certificate must name
  absl::Duration connect_time_max;
};

// How far an exchange has come; tells whether it may be repeated.
struct Progress {
  bool answer_started = false;
  bool may_be_kept = false;  // the connection can carry the next exchange
};

// One connection to one server, for one exchange after another. Not thread-safe. Errors as of
// HttpClient; after one the connection is of no more use.
class Connection {
 public:
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const CallContext& ctx,
                                                          const Destination& destination);
  ~Connection();

  // Sends `request` and reads the answer. With `sink` and status 200 the body's bytes go there as
  // they come, until it returns false; otherwise the body is kept in memory, up to the limit.
  absl::StatusOr<HttpResponse> Exchange(
      const CallContext& ctx, const HttpRequest& request, const HttpLimits& limits,
      const absl::FunctionRef<bool(absl::string_view bytes)>* sink, Progress& progress);

  // Null when none exists, or none yet: servers hand it out with the first answer.
  TlsSession Session() const;

  // False when the other side has closed, or sent something that was not requested.
  bool IsQuiet();

 private:
  class Impl;
  explicit Connection(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace csidelta::net
