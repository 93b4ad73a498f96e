#include "tests/support/longhorn/webhook_server.h"

#include <optional>
#include <string>
#include <utility>

#include "base/json.h"

namespace csidelta::longhorn_stand_in {
namespace {

// The API server sends an object twice at most, each of at most 3 MiB.
constexpr int64_t kReviewBytesMax = int64_t{8} << 20;
constexpr int kHandlersMax = 16;

net::HttpResponse Plain(int status, const std::string& text) {
  return {.status = status, .headers = {{"content-type", "text/plain"}}, .body = text};
}

// The API server asks with "?timeout=10s".
std::optional<Webhook> WebhookAt(const std::string& target) {
  const std::string path = target.substr(0, target.find('?'));
  if (path == kMutatePath) {
    return Webhook::kMutator;
  }
  return path == kValidatePath ? std::optional(Webhook::kValidator) : std::nullopt;
}

net::HttpResponse Answer(const net::HttpCall& call, const VolumeLookup& volumes,
                         const AdmissionRules& rules) {
  const std::optional<Webhook> webhook = WebhookAt(call.target);
  if (!webhook.has_value()) {
    return Plain(404, "no such webhook");
  }
  const absl::StatusOr<Json> review = ParseJsonObject(call.body);
  const absl::StatusOr<Json> answer =
      review.ok() ? AnswerReview(*webhook, *review, volumes, rules) : review.status();
  if (!answer.ok()) {
    return Plain(400, std::string(answer.status().message()));
  }
  return {
      .status = 200, .headers = {{"content-type", "application/json"}}, .body = DumpJson(*answer)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<net::HttpServer>> StartWebhookServer(
    uint16_t port, const net::ServerCertificate& certificate, const VolumeLookup& volumes,
    const AdmissionRules& rules) {
  net::HttpServerOptions options;
  options.port = port;
  options.read_certificate = [certificate]() -> absl::StatusOr<net::ServerCertificate> {
    return certificate;
  };
  options.limits.body_bytes_max = kReviewBytesMax;
  options.limits.handlers_max = kHandlersMax;
  return net::HttpServer::Start(std::move(options),
                                [&volumes, rules](const CallContext&, const net::HttpCall& call) {
                                  return Answer(call, volumes, rules);
                                });
}

}  // namespace csidelta::longhorn_stand_in
