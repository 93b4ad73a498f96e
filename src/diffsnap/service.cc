#include "diffsnap/service.h"

#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "diffsnap/class_secrets.h"
#include "diffsnap/page_service.h"
#include "diffsnap/reconciler.h"
#include "diffsnap/resolver.h"
#include "diffsnap/rest_server.h"
#include "k8s/config.h"
#include "k8s/leader_lease.h"
#include "net/http_server.h"
#include "net/listen_address.h"
#include "net/url.h"
#include "objects/differential_snapshot.h"

namespace csidelta::diffsnap {
namespace {

constexpr std::size_t kCursorKeyBytes = 32;
constexpr char kLeasePrefix[] = "csi-delta-diffsnap-";

std::string AudienceOf(const ServiceSettings& settings, const CsiDriver& driver) {
  return settings.audience.empty()
             ? absl::StrCat(objects::DifferentialSnapshot::Type().group, "/", driver.name)
             : settings.audience;
}

net::HttpResponse NoPagesHere() {
  net::HttpResponse response;
  response.status = 404;
  response.headers["content-type"] = "application/json";
  response.body = incremental::EncodeError(
      {.code = incremental::DifferentialErrorCode::kNotFound,
       .message = "this process serves no pages: ask the one with the role of a server"});
  return response;
}

bool IsForAnybody(absl::string_view target) {
  return target == "/healthz" || target == "/readyz" || target == "/metrics";
}

// All rooms of the service, wired. Borrows what it is given.
class Service {
 public:
  Service(k8s::ApiClient& api, CsiDriver& driver, const ServiceSettings& settings, std::string url,
          Secret cursor_key)
      : api_(api),
        settings_(settings),
        secrets_(api),
        pages_(pairs_, *driver.driver, CursorCodec(std::move(cursor_key)), &secrets_),
        access_(api, AudienceOf(settings, driver)),
        rest_(pairs_, access_, pages_,
              {.entries_max = settings.page_entries_max,
               .loops = [this] { return LoopAges(); },
               .loop_age_max = settings.loop_age_max}),
        driver_name_(driver.name),
        contents_(driver.name),
        reconciler_(api, contents_,
                    {.driver = driver.name,
                     .url = std::move(url),
                     .audience = AudienceOf(settings, driver),
                     .read_ca = [this] { return ReadCa(); },
                     .object_age_max = absl::Seconds(settings.keep_seconds)}),
        controller_(
            driver.name, pairs_, reconciler_, [this] { return lease_->leads(Clock::Real()); },
            Clock::Real()) {}

  absl::Status Run(const CallContext& ctx) {
    ASSIGN_OR_RETURN(const net::ListenAddress listen, net::ParseListenAddress(settings_.listen));
    ASSIGN_OR_RETURN(
        const std::unique_ptr<net::HttpServer> http,
        net::HttpServer::Start(ServerOptions(listen),
                               [this](const CallContext& call_ctx, const net::HttpCall& call) {
                                 return Answer(call_ctx, call);
                               }));
    CSIDELTA_LOG(kInfo, "serving DifferentialSnapshots", {"role", settings_.role},
                 {"listen", absl::StrCat(listen.address, ":", http->port())});
    std::stop_source stop;  // Later than ctx: until what is being answered is answered.
    CallContext inner = ctx;
    inner.stop = stop.get_token();
    std::jthread following([&] { controller_.informer().Run(inner, api_).IgnoreError(); });
    std::jthread indexing;
    std::jthread leading;
    std::jthread working;
    if (settings_.has_controller()) {
      // No other process has this port here: a process that comes after one that was killed need
      // not wait for the end of a lease that is its own.
      lease_.emplace(api_, k8s::LeaderLeaseOptions{
                               .namespace_name = settings_.lease_namespace,
                               .name = absl::StrCat(kLeasePrefix, driver_name_),
                               .holder = absl::StrCat(net::HostName(), ":", http->port())});
      made_lease_ = &*lease_;
      indexing = std::jthread([&] { content_informer_.Run(inner, api_).IgnoreError(); });
      leading = std::jthread([&] { lease_->Run(inner); });
      working = std::jthread([&] { controller_.Work(inner); });
    }
    ctx.clock->SleepFor(absl::InfiniteDuration(), ctx.stop);
    CSIDELTA_LOG(kInfo, "stopping");
    http->Stop();
    stop.request_stop();
    return absl::OkStatus();
  }

 private:
  net::HttpServerOptions ServerOptions(const net::ListenAddress& listen) const {
    net::HttpServerOptions options;
    options.address = listen.address;
    options.port = listen.port;
    options.limits.connections_max = static_cast<int>(settings_.connections_max);
    options.limits.handler_time_max = absl::Seconds(settings_.page_seconds_max);
    options.read_certificate = [this]() -> absl::StatusOr<net::ServerCertificate> {
      net::ServerCertificate pair;
      ASSIGN_OR_RETURN(pair.certificate_pem, k8s::ReadFile(settings_.tls_cert_file));
      ASSIGN_OR_RETURN(pair.key_pem, k8s::ReadFile(settings_.tls_key_file));
      return pair;
    };
    return options;
  }

  net::HttpResponse Answer(const CallContext& ctx, const net::HttpCall& call) {
    return settings_.has_server() || IsForAnybody(call.target) ? rest_.Handle(ctx, call)
                                                               : NoPagesHere();
  }

  // Those of the roles that this process does not have are as young as if they had just begun.
  std::vector<k8s::LoopAge> LoopAges() {
    const Clock& clock = Clock::Real();
    std::vector<k8s::LoopAge> loops;
    for (const k8s::Informer* const informer : {&controller_.informer(), &content_informer_}) {
      loops.push_back({.name = absl::StrCat("the informer of ", informer->objects().type.plural),
                       .age = informer->heartbeat().Age(clock)});
    }
    loops.push_back({.name = "a reconcile of DifferentialSnapshots",
                     .age = controller_.loop().oldest_reconcile()});
    if (const k8s::LeaderLease* const lease = made_lease_; lease != nullptr) {
      loops.push_back({.name = "the lease", .age = lease->heartbeat().Age(clock)});
    }
    return loops;
  }

  absl::StatusOr<std::string> ReadCa() const {
    return settings_.ca_file.empty() ? std::string() : k8s::ReadFile(settings_.ca_file);
  }

  k8s::ApiClient& api_;
  const ServiceSettings& settings_;
  PairTable pairs_;
  ClassSecrets secrets_;
  PageService pages_;
  AccessReviewer access_;
  RestServer rest_;
  const std::string driver_name_;
  std::optional<k8s::LeaderLease> lease_;
  std::atomic<const k8s::LeaderLease*> made_lease_ =
      nullptr;  // For probes, which may come earlier.
  ContentIndex contents_;
  k8s::Informer content_informer_{ContentIndex::Watched(), {&contents_}};
  Reconciler reconciler_;
  Controller controller_;
};

absl::Status CheckSettings(const ServiceSettings& settings) {
  if (settings.tls_cert_file.empty() || settings.tls_key_file.empty()) {
    return MissingFlag("--tls-cert-file and --tls-key-file", "there is no service without TLS");
  }
  if (settings.has_server() && settings.cursor_key_file.empty()) {
    return MissingFlag("--cursor-key-file", "all replicas need the same key");
  }
  if (settings.has_controller() && settings.lease_namespace.empty()) {
    return MissingFlag("--leader-election-namespace", "the leader's Lease is there");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ParseServiceUrl(absl::string_view text) {
  const absl::StatusOr<net::Url> url = net::ParseUrl(text);
  if (!url.ok() || url->scheme != "https" || url->target != "/" || !url->user_info.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--url ", text, " is not https://HOST:PORT, the address of the Service"));
  }
  return absl::StrCat("https://", url->Authority());
}

absl::StatusOr<Secret> CursorKeyOf(const std::string& text) {
  if (text.size() < kCursorKeyBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the key of cursors has ", text.size(),
                                                   " bytes; make one of ", kCursorKeyBytes,
                                                   " or more, as `openssl rand -base64 32` does"));
  }
  return text.size() == kCursorKeyBytes ? Secret(text) : Secret(std::string(AsBytes(Sha256(text))));
}

absl::Status RunService(const CallContext& ctx, k8s::ApiClient& api, CsiDriver& driver,
                        const ServiceSettings& settings) {
  RETURN_IF_ERROR(CheckSettings(settings));
  std::string url;
  if (settings.has_controller()) {
    ASSIGN_OR_RETURN(url, ParseServiceUrl(settings.url));
  }
  Secret key(std::string(kCursorKeyBytes, '\0'));  // No cursor is read without a server.
  if (settings.has_server()) {
    ASSIGN_OR_RETURN(const std::string text, k8s::ReadFile(settings.cursor_key_file));
    ASSIGN_OR_RETURN(key, CursorKeyOf(text));
  }
  return Service(api, driver, settings, std::move(url), std::move(key)).Run(ctx);
}

}  // namespace csidelta::diffsnap
