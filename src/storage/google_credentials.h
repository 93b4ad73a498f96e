#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/json.h"
#include "base/secret.h"
#include "net/http_client.h"
#include "storage/credentials.h"

namespace csidelta::storage {

struct GoogleToken {
  Secret text;  // "": no token is sent
  absl::Time expires_at = absl::InfiniteFuture();
};

// Where Google's libraries and restic look, as the environment says it. "" is what is not set.
struct GoogleEnvironment {
  Secret access_token = {};           // GOOGLE_ACCESS_TOKEN
  std::string credentials_file = {};  // GOOGLE_APPLICATION_CREDENTIALS
  std::string well_known_file = {};   // that of gcloud below HOME, which need not be there
  std::string emulator_host = {};  // STORAGE_EMULATOR_HOST: a URL, or HOST:PORT, which means http
  std::string metadata_host = "169.254.169.254";  // GCE_METADATA_HOST, maybe with a port
  std::string iam_url =
      "https://iamcredentials.googleapis.com";  // of impersonation; tests have theirs

  // `read` is std::getenv(), or a test's.
  static GoogleEnvironment Read(const std::function<const char*(const char* name)>& read);
};

// Access tokens for Google Cloud Storage, of the first of these that is set up: an emulator, which
// gets none; GOOGLE_ACCESS_TOKEN; the file of GOOGLE_APPLICATION_CREDENTIALS; that of gcloud; the
// metadata server, which is also workload identity of GKE. A file is a service account's key,
// `authorized_user`, `external_account` whose subject token is in a file or at a URL, or
// `impersonated_service_account`. With `service_account` the token of all but an emulator is
// exchanged for one of that account.
//
// Tokens are renewed as Renewed does; files are read again for each, because they are rotated.
// Secrets go where a file says only by https, or to this machine. Thread-safe. Errors:
//   UNAUTHENTICATED   none are set up, or their service refuses them
//   INVALID_ARGUMENT  a file is malformed, or of a kind that is not supported, which is named
//   UNAVAILABLE · DEADLINE_EXCEEDED · CANCELLED   from the network
// Source of the forms: google.aip.dev/auth/4110 to 4117, RFC 7523, RFC 8693.
//
// `services` and `metadata` are borrowed; the latter must not use a proxy.
class GoogleCredentials : public RenewableCredentials {
 public:
  GoogleCredentials(GoogleEnvironment environment, std::string service_account,
                    net::HttpClient& services, net::HttpClient& metadata);

  absl::StatusOr<GoogleToken> Get(const CallContext& ctx);
  void Forget() override { kept_.Forget(); }
  bool MayBeExchanged() const override {
    return environment_.emulator_host.empty() && environment_.access_token.empty();
  }
  // Which of them are used, for messages; without secrets.
  std::string Describe() const;

 private:
  absl::StatusOr<GoogleToken> Load(const CallContext& ctx);
  absl::StatusOr<GoogleToken> LoadOwn(const CallContext& ctx, absl::string_view scope);
  absl::StatusOr<GoogleToken> FromFile(const CallContext& ctx, const Json& file,
                                       absl::string_view scope);
  absl::StatusOr<GoogleToken> SignIn(const CallContext& ctx, const Json& key,
                                     absl::string_view scope);
  absl::StatusOr<GoogleToken> Exchange(const CallContext& ctx, const Json& account,
                                       absl::string_view scope);
  absl::StatusOr<std::string> SubjectToken(const CallContext& ctx, const Json& source);
  absl::StatusOr<GoogleToken> AskMetadata(const CallContext& ctx, absl::string_view scope);
  absl::StatusOr<GoogleToken> Impersonate(const CallContext& ctx, const GoogleToken& caller,
                                          const std::string& url, const Json& delegates,
                                          absl::string_view scope);
  absl::StatusOr<GoogleToken> AskForToken(const CallContext& ctx, const std::string& url,
                                          std::string form);

  const GoogleEnvironment environment_;
  const std::string service_account_;
  net::HttpClient& services_;
  net::HttpClient& metadata_;
  MetadataServer machine_{metadata_};  // Of the one thread that loads.
  Renewed<GoogleToken> kept_;
};

}  // namespace csidelta::storage
