#include "cli/certificates.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "net/system_bundle.h"

namespace csidelta::cli {
namespace {

constexpr absl::string_view kPemCertificate = "-----BEGIN CERTIFICATE-----";

}  // namespace

absl::Status TrustBesides(const std::string& pem, absl::string_view source,
                          storage::StoreSettings& settings) {
  if (!absl::StrContains(pem, kPemCertificate)) {
    return absl::InvalidArgumentError(absl::StrCat(source, " holds no certificate as PEM"));
  }
  for (net::TlsOptions* tls : {&settings.tls, &settings.sts_tls}) {
    // In this order: what is behind a malformed one is not read, and the bundle is no fallback.
    tls->ca_pem = absl::StrCat(pem, "\n", tls->ca_pem.empty() ? net::SystemBundle() : tls->ca_pem);
  }
  return absl::OkStatus();
}

}  // namespace csidelta::cli
