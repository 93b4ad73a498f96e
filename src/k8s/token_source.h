#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "k8s/config.h"

// Log-in programs of a kubeconfig, by the protocol client.authentication.k8s.io/v1 (and v1beta1,
// which differs in nothing that matters here):
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins.
namespace csidelta::k8s {

// A bearer token that lives in a file and is replaced there from time to time, as the kubelet does
// with those of service accounts. Read again when kReadAgainAfter has passed, and when the server
// refused it. A file that cannot be read leaves the last token in use. Thread-safe.
class TokenSource {
 public:
  static constexpr absl::Duration kReadAgainAfter = absl::Seconds(10);

  // `path` "" stands for a token that never changes.
  TokenSource(std::string path, std::string token);

  // "" when none exists at all. NOT_FOUND · PERMISSION_DENIED · INVALID_ARGUMENT from the file,
  // when no token has ever been read.
  absl::StatusOr<std::string> Token(const Clock& clock);

  // The server refused `token`: whether there is another one to try, having read the file again.
  bool Refresh(const Clock& clock, const std::string& refused_token);

 private:
  absl::Status ReadLocked(const Clock& clock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  absl::Time read_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// What a program answered. It has a token, or a certificate with its key, or both.
struct ExecCredential {
  std::string token;
  std::string client_certificate_pem;
  std::string client_key_pem;
  absl::Time expires_at = absl::InfiniteFuture();

  friend bool operator==(const ExecCredential&, const ExecCredential&) = default;
};

// What the program finds in KUBERNETES_EXEC_INFO. Pure.
std::string ExecInfo(const ClusterConfig& config, bool has_terminal);

// INVALID_ARGUMENT, naming the field, unless `answer` is an ExecCredential of `api_version` that
// holds credentials. Pure.
absl::StatusOr<ExecCredential> ParseExecCredential(absl::string_view answer,
                                                   absl::string_view api_version);

// The credentials that a log-in program prints. It runs at the first use, again when its answer has
// expired, and when the server refused it. One program runs at a time; other threads wait for its
// answer. Thread-safe.
class ExecLogin {
 public:
  // REQUIRES config.exec.
  ExecLogin(const ClusterConfig& config, ExecRunner run, bool has_terminal);

  // FAILED_PRECONDITION naming the command, and what to do.
  absl::StatusOr<ExecCredential> Credential(const CallContext& ctx);

  // The server refused this one: it is not used again.
  void Refuse(const ExecCredential& refused);

 private:
  const ExecPlugin plugin_;
  const std::string info_;
  const ExecRunner run_;
  const bool has_terminal_;
  Mutex mutex_;
  std::optional<ExecCredential> credential_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::k8s
