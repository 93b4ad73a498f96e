#include "net/http_client.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "net/connection.h"
#include "net/tls_context.h"

namespace csidelta::net {
namespace {

constexpr StatusMark kNotSent("csi-delta/request-not-sent");

using Sink = absl::FunctionRef<bool(absl::string_view bytes)>;

bool IsIdempotent(const HttpRequest& request) {
  const absl::string_view method = request.method;
  // A condition that holds no more for what the first attempt has done.
  const bool is_conditional =
      std::any_of(request.headers.begin(), request.headers.end(), [](const auto& header) {
        return absl::EqualsIgnoreCase(header.first, "if-none-match") ||
               absl::EqualsIgnoreCase(header.first, "if-match");
      });
  return method == "GET" || method == "HEAD" || method == "DELETE" ||
         (method == "PUT" && !is_conditional);
}

}  // namespace

std::string Header(const HttpResponse& response, const std::string& name) {
  const auto found = response.headers.find(name);
  return found == response.headers.end() ? "" : found->second;
}

bool SurelyNotSent(const absl::Status& status) { return kNotSent.IsOn(status); }

class HttpClient::Impl {
 public:
  explicit Impl(HttpClientOptions options) : options_(std::move(options)) {}

  absl::StatusOr<HttpResponse> Run(const CallContext& ctx, const HttpRequest& request,
                                   const Sink* sink) {
    const std::string server = absl::StrCat(request.url.scheme, "://", request.url.Authority());
    std::unique_ptr<Connection> connection = TakeIdle(ctx, server);
    if (connection != nullptr) {
      Progress progress;
      absl::StatusOr<HttpResponse> response =
          connection->Exchange(ctx, request, options_.limits, sink, progress);
      const bool went_stale = absl::IsUnavailable(response.status()) && !progress.answer_started;
      if (!went_stale || !IsIdempotent(request)) {
        return Finish(ctx, server, std::move(connection), progress, std::move(response));
      }
    }
    absl::StatusOr<std::unique_ptr<Connection>> opened = Open(ctx, request.url, server);
    if (!opened.ok()) {
      return kNotSent.On(opened.status());
    }
    Progress progress;
    absl::StatusOr<HttpResponse> response =
        (*opened)->Exchange(ctx, request, options_.limits, sink, progress);
    return Finish(ctx, server, *std::move(opened), progress, std::move(response));
  }

 private:
  struct Idle {
    std::unique_ptr<Connection> connection;
    absl::Duration since;  // By the clock's Uptime().
  };

  absl::StatusOr<std::unique_ptr<Connection>> Open(const CallContext& ctx, const Url& url,
                                                   const std::string& server) {
    Destination destination{
        .url = url,
        .proxy = {},
        .tls = nullptr,
        .session = nullptr,
        .server_name = options_.tls.server_name.empty() ? url.host : options_.tls.server_name,
        .connect_time_max = options_.limits.connect_time_max};
    ASSIGN_OR_RETURN(destination.proxy, ProxyFor(url, options_.proxy));
    if (url.scheme == "https") {
      ASSIGN_OR_RETURN(destination.tls, TlsContext());
      const MutexLock lock(mutex_);
      // With a certificate of our own some servers refuse what they cannot tie to it.
      destination.session =
          options_.tls.client_certificate_pem.empty() ? sessions_[server] : nullptr;
    }
    absl::StatusOr<std::unique_ptr<Connection>> opened = Connection::Open(ctx, destination);
    if (!opened.ok()) {  // Perhaps for the session's sake: the next one restarts.
      const MutexLock lock(mutex_);
      sessions_.erase(server);
    }
    return opened;
  }

  // Made at the first use, because it reads files. A failure is tried again by the next request.
  absl::StatusOr<SSL_CTX*> TlsContext() {
    const MutexLock lock(mutex_);
    if (tls_ == nullptr) {
      ASSIGN_OR_RETURN(tls_, MakeSslContext(options_.tls));
    }
    return tls_.get();
  }

  std::unique_ptr<Connection> TakeIdle(const CallContext& ctx, const std::string& server) {
    std::vector<Idle> dropped;  // Closed after the lock is gone.
    const MutexLock lock(mutex_);
    std::vector<Idle>& idle = idle_[server];
    while (!idle.empty()) {
      Idle newest = std::move(idle.back());
      idle.pop_back();
      const bool is_fresh = ctx.clock->Uptime() - newest.since < options_.limits.idle_time_max;
      if (is_fresh && newest.connection->IsQuiet()) {
        return std::move(newest.connection);
      }
      dropped.push_back(std::move(newest));
    }
    return nullptr;
  }

  absl::StatusOr<HttpResponse> Finish(const CallContext& ctx, const std::string& server,
                                      std::unique_ptr<Connection> connection,
                                      const Progress& progress,
                                      absl::StatusOr<HttpResponse> response) {
    if (response.ok() && progress.may_be_kept) {
      TlsSession session = connection->Session();
      const MutexLock lock(mutex_);
      if (session != nullptr) {
        sessions_[server] = std::move(session);
      }
      std::vector<Idle>& idle = idle_[server];
      if (static_cast<int>(idle.size()) < options_.limits.idle_connections_max) {
        idle.push_back(Idle{std::move(connection), ctx.clock->Uptime()});
      }
    }
    return response;
  }

  const HttpClientOptions options_;
  Mutex mutex_;  // Guards what follows; never held across I/O.
  SslContext tls_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<Idle>> idle_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, TlsSession> sessions_ ABSL_GUARDED_BY(mutex_);
};

HttpClient::HttpClient(HttpClientOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
HttpClient::~HttpClient() = default;

absl::StatusOr<HttpResponse> HttpClient::Send(const CallContext& ctx, const HttpRequest& request) {
  return impl_->Run(ctx, request, nullptr);
}

absl::StatusOr<HttpResponse> HttpClient::Stream(const CallContext& ctx, const HttpRequest& request,
                                                Sink sink) {
  return impl_->Run(ctx, request, &sink);
}

std::vector<std::string> SystemBundlePaths() {
  if (const char* path = std::getenv("SSL_CERT_FILE"); path != nullptr && *path != '\0') {
    return {path};
  }
  // Of Debian, Fedora, SUSE and Alpine.
  return {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
          "/etc/ssl/ca-bundle.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
          "/etc/ssl/cert.pem"};
}

std::string SystemBundle() {
  for (const std::string& path : SystemBundlePaths()) {
    std::ifstream file(path);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (!text.empty()) {
      return text;
    }
  }
  return "";
}

}  // namespace csidelta::net
