#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "base/secret.h"
#include "k8s/api_client.h"
#include "k8s/token_source.h"

namespace csidelta::csi {

struct AudienceTokenSettings {
  // Whose tokens: "namespace/name"; "": the service account that we are, which the API server says.
  std::string service_account;
  // The Pod that a token dies with, in the namespace of the service account; "": it is bound to no
  // Pod.
  std::string pod_name;
  std::string pod_uid;
  // A token that the kubelet puts into a file and renews; then nothing else is asked for.
  std::string token_path;
};

// Tokens of a service account that are good for one audience each: TokenRequest, or a projected
// file. Kept until shortly before their end. Thread-safe; borrows `api`.
class AudienceTokens {
 public:
  static constexpr absl::Duration kLifetime = absl::Minutes(10);     // The least that servers give.
  static constexpr absl::Duration kRenewBefore = absl::Seconds(60);  // of its end

  AudienceTokens(k8s::ApiClient& api, AudienceTokenSettings settings)
      : api_(api), settings_(std::move(settings)), file_(settings_.token_path, "") {}

  // Errors, beside those of the API server and the file:
  //   FAILED_PRECONDITION  we are no service account, and none was named
  absl::StatusOr<Secret> Token(const CallContext& ctx, const std::string& audience);

  // `token` was refused: the next one is another, if there is one.
  void Refuse(const CallContext& ctx, const std::string& audience, const Secret& token);

 private:
  struct Issued {
    Secret token;
    absl::Time expires_at;
  };

  absl::StatusOr<k8s::ObjectKey> ServiceAccount(const CallContext& ctx);
  absl::StatusOr<Issued> Request(const CallContext& ctx, const std::string& audience);

  k8s::ApiClient& api_;
  const AudienceTokenSettings settings_;
  k8s::TokenSource file_;
  Mutex mutex_;
  std::map<std::string, Issued> issued_ ABSL_GUARDED_BY(mutex_);  // By audience.
};

}  // namespace csidelta::csi
