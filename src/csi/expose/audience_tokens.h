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
  // The service account, "namespace/name"; "": the caller's own, which the API server reports.
  std::string service_account;
  // A file with a token that the kubelet writes and renews; if set, nothing else is requested.
  std::string token_path;
};

// Tokens of a service account, each for one audience: by TokenRequest, or from a projected file.
// Kept until shortly before they expire. Thread-safe; borrows `api`. The caller's own tokens are
// bound to the Pod that it runs in, so they end with it.
class AudienceTokens {
 public:
  static constexpr absl::Duration kLifetime = absl::Minutes(10);     // The least that servers give.
  static constexpr absl::Duration kRenewBefore = absl::Seconds(60);  // of its end

  AudienceTokens(k8s::ApiClient& api, AudienceTokenSettings settings)
      : api_(api), settings_(std::move(settings)), file_(settings_.token_path, "") {}

  // REQUIRES an audience. Errors are those of the API server and the file, and:
  //   FAILED_PRECONDITION  the caller is not a service account, and none was named
  absl::StatusOr<Secret> Token(const CallContext& ctx, const std::string& audience);

  // `token` was refused: the next one is a new one, if there is one.
  void Refuse(const CallContext& ctx, const std::string& audience, const Secret& token);

 private:
  struct Issued {
    Secret token;
    absl::Time expires_at;
  };

  // Whose token is requested: the service account, and the Pod that the token is bound to; an empty
  // name if none.
  struct Subject {
    k8s::ObjectKey account;
    std::string pod_name = {};
    std::string pod_uid = {};
  };

  absl::StatusOr<Subject> FindSubject(const CallContext& ctx);
  absl::StatusOr<Issued> Request(const CallContext& ctx, const std::string& audience);

  k8s::ApiClient& api_;
  const AudienceTokenSettings settings_;
  k8s::TokenSource file_;
  Mutex mutex_;
  std::map<std::string, Issued> issued_ ABSL_GUARDED_BY(mutex_);  // By audience.
};

}  // namespace csidelta::csi
