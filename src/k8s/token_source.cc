#include "k8s/token_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"

namespace csidelta::k8s {
namespace {

constexpr char kKind[] = "ExecCredential";

bool MayStandInAHeader(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); });
}

}  // namespace

TokenSource::TokenSource(std::string path, std::string token)
    : path_(std::move(path)), token_(std::move(token)) {}

absl::Status TokenSource::ReadLocked(const Clock& clock) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path_));
  absl::StripAsciiWhitespace(&text);
  if (text.empty() || !MayStandInAHeader(text)) {
    return absl::InvalidArgumentError(absl::StrCat("token file ", path_, ": not a token"));
  }
  token_ = std::move(text);
  read_at_ = clock.Now();
  return absl::OkStatus();
}

absl::StatusOr<std::string> TokenSource::Token(const Clock& clock) {
  const MutexLock lock(mutex_);
  if (path_.empty()) {
    if (!MayStandInAHeader(token_)) {
      return absl::InvalidArgumentError("the token holds characters that no token has");
    }
    return token_;
  }
  if (clock.Now() - read_at_ >= kReadAgainAfter) {
    const absl::Status status = ReadLocked(clock);
    if (!status.ok() && token_.empty()) {
      return status;
    }
  }
  return token_;
}

bool TokenSource::Refresh(const Clock& clock, const std::string& refused_token) {
  const MutexLock lock(mutex_);
  if (path_.empty()) {
    return false;
  }
  return token_ != refused_token || (ReadLocked(clock).ok() && token_ != refused_token);
}

std::string ExecInfo(const ClusterConfig& config, bool has_terminal) {
  const ExecPlugin& plugin = *config.exec;
  Json spec = {
      {"interactive", has_terminal && plugin.interactive != ExecPlugin::Interactive::kNever}};
  if (plugin.provides_cluster_info) {
    Json cluster = {{"server", config.server}};
    if (!config.ca_pem.empty()) {
      cluster["certificate-authority-data"] = absl::Base64Escape(config.ca_pem);
    }
    if (!config.tls_server_name.empty()) {
      cluster["tls-server-name"] = config.tls_server_name;
    }
    if (!config.proxy_url.empty()) {
      cluster["proxy-url"] = config.proxy_url;
    }
    if (config.insecure_skip_tls_verify) {
      cluster["insecure-skip-tls-verify"] = true;
    }
    if (!config.exec_cluster_config.is_null()) {
      cluster["config"] = config.exec_cluster_config;
    }
    spec["cluster"] = std::move(cluster);
  }
  return DumpJson({{"apiVersion", plugin.api_version}, {"kind", kKind}, {"spec", std::move(spec)}});
}

absl::StatusOr<ExecCredential> ParseExecCredential(absl::string_view answer,
                                                   absl::string_view api_version) {
  ASSIGN_OR_RETURN(const Json json, Annotate(ParseJsonObject(answer), "the answer"));
  if (GetString(json, {"kind"}) != kKind) {
    return absl::InvalidArgumentError("kind: not ExecCredential");
  }
  if (GetString(json, {"apiVersion"}) != api_version) {
    return absl::InvalidArgumentError(
        absl::StrCat("apiVersion: not ", api_version, ", which the kubeconfig names"));
  }
  ExecCredential credential{
      .token = GetString(json, {"status", "token"}),
      .client_certificate_pem = GetString(json, {"status", "clientCertificateData"}),
      .client_key_pem = GetString(json, {"status", "clientKeyData"})};
  if (credential.client_certificate_pem.empty() != credential.client_key_pem.empty()) {
    return absl::InvalidArgumentError(
        "status: clientCertificateData and clientKeyData go together");
  }
  if (credential.token.empty() && credential.client_certificate_pem.empty()) {
    return absl::InvalidArgumentError("status: neither a token nor a client certificate");
  }
  if (!MayStandInAHeader(credential.token)) {
    return absl::InvalidArgumentError("status.token: has characters that no token has");
  }
  if (const std::string expiration = GetString(json, {"status", "expirationTimestamp"});
      !expiration.empty()) {
    const std::optional<absl::Time> time = ParseRfc3339(expiration);
    if (!time.has_value()) {
      return absl::InvalidArgumentError("status.expirationTimestamp: not RFC 3339");
    }
    credential.expires_at = *time;
  }
  return credential;
}

ExecLogin::ExecLogin(const ClusterConfig& config, ExecRunner run, bool has_terminal)
    : plugin_(*config.exec),
      info_(ExecInfo(config, has_terminal)),
      run_(std::move(run)),
      has_terminal_(has_terminal) {}

absl::StatusOr<ExecCredential> ExecLogin::Credential(const CallContext& ctx) {
  const MutexLock lock(mutex_);
  if (credential_.has_value() && ctx.clock->Now() < credential_->expires_at) {
    return *credential_;
  }
  if (plugin_.interactive == ExecPlugin::Interactive::kAlways && !has_terminal_) {
    return absl::FailedPreconditionError(
        absl::StrCat("the log-in program ", plugin_.command,
                     " asks (interactiveMode: Always), and no terminal is attached"));
  }
  absl::StatusOr<std::string> answer = run_(ctx, plugin_, info_);
  RETURN_IF_ERROR(ctx.Check());
  if (!answer.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        answer.status().message(), plugin_.install_hint.empty() ? "" : "; ", plugin_.install_hint));
  }
  absl::StatusOr<ExecCredential> credential = ParseExecCredential(*answer, plugin_.api_version);
  if (!credential.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the log-in program ", plugin_.command, " answered: ", credential.status().message()));
  }
  credential_ = *std::move(credential);
  return *credential_;
}

void ExecLogin::Refuse(const ExecCredential& refused) {
  const MutexLock lock(mutex_);
  if (credential_ == refused) {
    credential_.reset();
  }
}

}  // namespace csidelta::k8s
