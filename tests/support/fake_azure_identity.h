#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/support/http_test_server.h"

namespace csidelta::support {

struct FakeAzureIdentityOptions {
  std::string tenant = "tenant-1";
  std::string client = "client-1";
  std::string secret = "se/cret+1";      // "": refused
  std::string certificate_pem = {};      // whose key signs assertions; "": refused
  std::string federated_token = {};      // accepted in place of an assertion; "": refused
  std::string account_key = "a2V5LTE=";  // what listing the keys of an account shows
  absl::Duration token_time = absl::Hours(1);
  const Clock* clock = &Clock::Real();
};

// Entra ID's token endpoint, the instance metadata of a machine, and listKeys of the resource
// manager, on one address. Verifies signature, audience, scope and times of what it is sent, by
// code of its own, from the documentation: learn.microsoft.com/entra/identity-platform,
// v2-oauth2-client-creds-grant-flow and certificate-credentials;
// .../managed-identities-azure-resources/how-to-use-vm-token;
// learn.microsoft.com/rest/api/storagerp/storage-accounts/list-keys. Thread-safe.
class FakeAzureIdentity {
 public:
  using Interference =
      std::function<bool(const ServedRequest& request, ServedConnection& connection)>;
  // Told of each token that is given out for storage.
  using OnToken = std::function<void(const std::string& token, absl::Time expires_at)>;

  FakeAzureIdentity(FakeAzureIdentityOptions options, OnToken on_token);

  std::string url() const { return server_.url(); }
  void Interfere(Interference interference);
  void SetFederatedToken(const std::string& token);
  int64_t request_count() const { return server_.request_count(); }
  // "METHOD path" of each request, and behind it why it was refused.
  std::vector<std::string> requests() const;

 private:
  void Serve(const ServedRequest& request, ServedConnection& connection);
  // "" or why not.
  std::string CheckForm(const std::map<std::string, std::string>& form, const std::string& path);
  std::string CheckAssertion(const std::string& assertion, const std::string& audience);
  void GiveToken(const std::string& resource, bool as_text, ServedConnection& connection);
  void Refuse(int status, const std::string& why, ServedConnection& connection);

  mutable std::mutex mutex_;  // Guards all that follows but the server.
  FakeAzureIdentityOptions options_;
  OnToken on_token_;
  Interference interference_;
  int tokens_ = 0;
  std::set<std::string> management_tokens_;
  std::set<std::string> seen_ids_;
  std::vector<std::string> requests_;
  HttpTestServer server_;
};

}  // namespace csidelta::support
