#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/support/http_test_server.h"

namespace csidelta::support {

// The services that give tokens for Google Cloud, all at one address: OAuth (/token), the exchange
// of foreign tokens (/sts), impersonation
// (/v1/projects/-/serviceAccounts/ACCOUNT:generateAccessToken) and the metadata server. It trusts
// nothing: signature, issuer, audience, scope, times, subject tokens and headers are verified by
// code of its own. Thread-safe. Source: RFC 7523, RFC 8693, google.aip.dev/auth,
// cloud.google.com/iam/docs.
class FakeTokenService {
 public:
  // `clock` is borrowed.
  explicit FakeTokenService(const Clock& clock);

  std::string url() const { return server_.url(); }
  // The credentials file of its one service account, "robot@project.iam.gserviceaccount.com".
  std::string KeyFile() const;

  // Whether a token that was given is good for Cloud Storage now.
  bool IsGood(const std::string& token) const;
  // Ends all tokens now, as when an account's sessions are revoked.
  void EndTokens();
  // The one subject token that is exchanged.
  void SetSubjectToken(const std::string& token);
  // Every request is refused with this status and body; 0: none.
  void Refuse(int status, const std::string& body);

  // What was wrong with requests that were refused.
  std::vector<std::string> refusals() const;
  int given() const;

 private:
  struct Token {
    std::string scope;
    absl::Time expires_at;
  };

  void Serve(const ServedRequest& request, ServedConnection& connection);
  // "" or what is wrong; sets the scope that is asked for.
  std::string VerifyAssertion(const std::string& assertion, std::string& scope) const;
  std::string VerifyForm(std::map<std::string, std::string>& form, std::string& scope) const;
  std::string VerifyImpersonation(const ServedRequest& request, std::string& scope) const;
  std::string VerifyMetadata(const ServedRequest& request, std::string& scope) const;

  mutable std::mutex mutex_;  // Guards all that follows but the server.
  const Clock& clock_;
  std::map<std::string, Token> tokens_;
  int given_ = 0;
  std::string subject_token_ = "subject-1";
  int refused_with_ = 0;
  std::string refusal_;
  std::vector<std::string> refusals_;
  HttpTestServer server_;
};

}  // namespace csidelta::support
