#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "net/http_server.h"
#include "tests/support/longhorn/admission.h"

namespace csidelta::longhorn_stand_in {

inline constexpr char kMutatePath[] = "/v1/webhook/mutation";
inline constexpr char kValidatePath[] = "/v1/webhook/validation";

// Serves both webhooks over HTTPS on a port of 127.0.0.1, 0 for one that the system chooses; POST
// of an AdmissionReview. Borrows `volumes`. Errors of HttpServer::Start().
absl::StatusOr<std::unique_ptr<net::HttpServer>> StartWebhookServer(
    uint16_t port, const net::ServerCertificate& certificate, const VolumeLookup& volumes,
    const AdmissionRules& rules);

}  // namespace csidelta::longhorn_stand_in
