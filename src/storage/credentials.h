#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "net/http_client.h"
#include "storage/renewed.h"
#include "storage/s3_signer.h"

namespace csidelta::storage {

// The partitions of AWS, as its SDKs have them: how the names of their regions begin, and the
// domain of their services. The last one has all other regions.
inline constexpr std::pair<absl::string_view, absl::string_view> kAwsPartitions[] = {
    {"cn-", "amazonaws.com.cn"},   {"eusc-", "amazonaws.eu"},      {"us-iso-", "c2s.ic.gov"},
    {"us-isob-", "sc2s.sgov.gov"}, {"us-isof-", "csp.hci.ic.gov"}, {"eu-isoe-", "cloud.adc-e.uk"},
    {"", "amazonaws.com"}};

// The domain of the services of `region`. Pure.
absl::string_view AwsDomain(absl::string_view region);

// The error of a source of credentials that gave no answer, while there was time left for one:
// never that something is not there.
absl::Status NotAnswered(const CallContext& ctx, const absl::Status& status,
                         absl::string_view source);

// Whether secrets may be sent there: over TLS, to this machine, or to one of `others`, which are
// services of a cloud beside a machine that have no TLS. Pure.
bool MayCarrySecrets(const net::Url& url, absl::Span<const absl::string_view> others = {});

// The metadata server of the machine, of any cloud. Where there is none, packets are lost without
// an answer; where there is one, it may be slow or say nothing while a node starts. Borrows `http`,
// which must not use a proxy.
class MetadataServer {
 public:
  explicit MetadataServer(net::HttpClient& http) : http_(http) {}

  // Looks three times. UNAUTHENTICATED, with `without` behind it, while it has never answered: this
  // is no such machine. Not thread-safe.
  absl::StatusOr<net::HttpResponse> Ask(const CallContext& ctx, const net::HttpRequest& request,
                                        absl::string_view without = "");

 private:
  net::HttpClient& http_;
  bool has_answered_ = false;
};

// The current credentials for S3. Thread-safe.
class CredentialsProvider : public RenewableCredentials {
 public:
  // UNAUTHENTICATED when none exist, or when their source refuses us; INVALID_ARGUMENT when a
  // file of the user's is malformed; UNAVAILABLE · DEADLINE_EXCEEDED · CANCELLED from the network.
  virtual absl::StatusOr<Credentials> Get(const CallContext& ctx) = 0;
};

// Where the AWS SDKs look, as the environment says it. "" is what is not set.
struct CredentialsEnvironment {
  Credentials keys;               // AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
  std::string role_arn;           // AWS_ROLE_ARN
  std::string role_session_name;  // AWS_ROLE_SESSION_NAME
  std::string web_identity_token_file;  // AWS_WEB_IDENTITY_TOKEN_FILE
  std::string sts_url;                  // AWS_ENDPOINT_URL_STS; else STS of the region
  std::string region;                   // AWS_REGION, AWS_DEFAULT_REGION
  std::string shared_credentials_file;  // AWS_SHARED_CREDENTIALS_FILE; else ~/.aws/credentials
  std::string config_file;              // AWS_CONFIG_FILE; else ~/.aws/config
  std::string profile;                  // AWS_PROFILE; "": the one called default
  // Of the container's own endpoint: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and _FULL_URI, and the
  // token to show there, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE before AWS_CONTAINER_..._TOKEN.
  std::string container_path;
  std::string container_url;
  std::string container_token_file;
  Secret container_token;
  std::string container_host_url = "http://169.254.170.2";  // where container_path is
  std::string metadata_url = "http://169.254.169.254";      // AWS_EC2_METADATA_SERVICE_ENDPOINT
  bool metadata_disabled = false;                           // AWS_EC2_METADATA_DISABLED

  // `read` is std::getenv(), or a test's.
  static CredentialsEnvironment Read(const std::function<const char*(const char* name)>& read);
};

// The first of these that is set up: environment, web identity (AssumeRoleWithWebIdentity of STS),
// shared files (credentials, then settings), the container's endpoint, instance metadata (IMDSv2).
// What has an end is renewed as Renewed does. A source that is set up and does not answer, or
// answers like a server that is still starting, is UNAVAILABLE; instance metadata that never
// answered is taken for a machine without it after three looks.
//
// `sts` and `metadata` are borrowed; the latter must not use a proxy.
class CredentialsChain : public CredentialsProvider {
 public:
  CredentialsChain(CredentialsEnvironment environment, net::HttpClient& sts,
                   net::HttpClient& metadata);

  absl::StatusOr<Credentials> Get(const CallContext& ctx) override;
  void Forget() override { kept_.Forget(); }
  bool MayBeExchanged() const override { return !HasFixedKeys(); }

 private:
  bool HasFixedKeys() const {
    return !environment_.keys.access_key_id.empty() && !environment_.keys.secret_access_key.empty();
  }
  absl::StatusOr<Credentials> LoadPlain(const CallContext& ctx);
  absl::StatusOr<Credentials> Load(const CallContext& ctx);
  absl::StatusOr<std::optional<Credentials>> ReadSharedFiles(const CallContext& ctx);
  absl::StatusOr<Credentials> AssumeRole(const CallContext& ctx);
  absl::StatusOr<Credentials> AskContainer(const CallContext& ctx);
  absl::StatusOr<Credentials> AskInstance(const CallContext& ctx);
  absl::StatusOr<std::string> AskMetadata(const CallContext& ctx, const std::string& path,
                                          const std::string& token);

  const CredentialsEnvironment environment_;
  net::HttpClient& sts_;
  net::HttpClient& metadata_;
  MetadataServer machine_{metadata_};  // Of the one thread that loads.
  Renewed<Credentials> kept_;
};

}  // namespace csidelta::storage
