#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/secret.h"
#include "diffsnap/csi_drivers.h"
#include "k8s/api_client.h"
#include "k8s/heartbeat.h"

namespace csidelta::diffsnap {

// What the service of DifferentialSnapshots is told, as it is written on the command line.
struct ServiceSettings {
  std::string role = "both";  // controller, server, both
  std::string listen = "0.0.0.0:8443";
  std::string url;
  std::string tls_cert_file;
  std::string tls_key_file;
  std::string ca_file;
  std::string audience;  // "": one for this driver, so that no other's server can use the tokens
  std::string cursor_key_file;
  std::string lease_namespace;
  int64_t page_entries_max = 0;
  int64_t page_seconds_max = 0;
  int64_t connections_max = 0;
  int64_t keep_seconds = 0;
  absl::Duration loop_age_max = k8s::kLoopAgeMax;  // older ones stand still, says /healthz

  bool has_controller() const { return role != "server"; }
  bool has_server() const { return role != "controller"; }
};

// The URL without a slash at its end. INVALID_ARGUMENT unless it is https://HOST[:PORT].
absl::StatusOr<std::string> ParseServiceUrl(absl::string_view text);

// The key in the text of a file: 32 bytes as they are, of more the digest. INVALID_ARGUMENT when
// there are fewer, which could be guessed.
absl::StatusOr<Secret> CursorKeyOf(const std::string& text);

// Serves the DifferentialSnapshots of one driver until `ctx` is stopped: follows the objects, moves
// them on while it leads, and answers who reads pages, as settings.role says. Stops in order: what
// is being answered is answered, the lease is given up. Borrows `api` and `driver`.
absl::Status RunService(const CallContext& ctx, k8s::ApiClient& api, CsiDriver& driver,
                        const ServiceSettings& settings);

}  // namespace csidelta::diffsnap
