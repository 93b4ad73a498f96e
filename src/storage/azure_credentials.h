#pragma once

#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "base/secret.h"
#include "net/http_client.h"
#include "net/url.h"
#include "storage/credentials.h"

namespace csidelta::storage {

// What the environment says of Azure: the variables that restic, Velero and Microsoft's own
// libraries read, by their names.
struct AzureEnvironment {
  std::map<std::string, std::string> variables = {};  // none is empty

  // `read` is std::getenv(), or a test's.
  static AzureEnvironment Read(const std::function<const char*(const char* name)>& read);
};

// What settings say of the storage account.
struct AzureAccount {
  // Variables as above that come before the credentials file and the environment.
  std::map<std::string, std::string> variables = {};
  std::string uri = {};           // "https://NAME.blob.core.windows.net", or ".../NAME"; "": made
  std::string key_variable = {};  // the name of the account's key in the credentials file
  // Whether requests carry a token of Entra ID. False: the token only fetches the account's key,
  // as Velero does. Counts where neither a key nor a SAS is given.
  bool use_aad = true;
};

// How requests are let in, and where: one of key, SAS and token.
struct AzureAccess {
  net::Url endpoint = {};    // its target: "", or "/NAME"
  std::string account = {};  // "" is allowed without a key
  std::string way = {};      // "by the account's key", for messages
  Secret key = {};           // raw bytes
  Secret sas = {};           // a query
  Secret token = {};
  absl::Time expires_at = absl::InfiniteFuture();
};

// The current access to a storage account. Values come from the settings, then from the file of
// NAME=VALUE lines that AZURE_CREDENTIALS_FILE names, then from the environment. The first of these
// that is set up: the account's key, a SAS (shared access signature), and tokens of Entra ID by
// client secret, client certificate, workload identity (a federated token) or the machine's managed
// identity. Files are read again for each sign-in. What has an end is renewed as Renewed does.
//
// `authority` and `metadata` are borrowed; the latter must not use a proxy. Thread-safe. Sources:
// learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow and
// .../certificate-credentials, .../managed-identities-azure-resources/how-to-use-vm-token.
class AzureCredentials : public RenewableCredentials {
 public:
  AzureCredentials(AzureEnvironment environment, AzureAccount account, net::HttpClient& authority,
                   net::HttpClient& metadata);

  // UNAUTHENTICATED if no way is set up, or the authority refuses; it names the way. UNAVAILABLE ·
  // DEADLINE_EXCEEDED · CANCELLED from the network. INVALID_ARGUMENT for malformed settings.
  absl::StatusOr<AzureAccess> Get(const CallContext& ctx);
  void Forget() override { kept_.Forget(); }
  bool MayBeExchanged() const override;
  struct Way {
    std::string text = {};  // AzureAccess::way
    bool is_key = false;    // the account's key signs
  };
  // That of the last Get().
  Way way() const;

 private:
  using Variables = std::map<std::string, std::string>;

  absl::StatusOr<AzureAccess> Load(const CallContext& ctx);
  absl::StatusOr<Variables> ReadVariables(const CallContext& ctx) const;
  // The next three have way, token and its end alone.
  absl::StatusOr<AzureAccess> FetchToken(const CallContext& ctx, const Variables& variables,
                                         const std::string& resource);
  absl::StatusOr<AzureAccess> AskAuthority(const CallContext& ctx, const Variables& variables,
                                           const std::string& url, const std::string& form);
  absl::StatusOr<AzureAccess> AskMetadata(const CallContext& ctx, const Variables& variables,
                                          const std::string& resource);
  // The account's key, as base64, and the way to it.
  absl::StatusOr<AzureAccess> FetchKey(const CallContext& ctx, const Variables& variables);

  const AzureEnvironment environment_;
  const AzureAccount account_;
  net::HttpClient& authority_;
  MetadataServer machine_;  // Of the one thread that loads.
  Renewed<AzureAccess> kept_;
  mutable Mutex mutex_;
  Way way_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::storage
