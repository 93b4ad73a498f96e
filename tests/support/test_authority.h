#pragma once

#include <memory>
#include <string>

struct evp_pkey_st;
struct x509_st;

namespace csidelta::support {

// A certificate and its key, as PEM texts.
struct Credentials {
  std::string certificate_pem;
  std::string key_pem;
};

// A certificate authority of the test's own, with keys made on the spot. Not thread-safe.
class TestAuthority {
 public:
  TestAuthority();
  ~TestAuthority();

  std::string ca_pem() const;
  // The same authority, as one that another issued: not self-signed.
  std::string intermediate_pem() const;
  // `names` is a list as OpenSSL writes it: "DNS:api.test,IP:127.0.0.1".
  Credentials IssueServer(const std::string& names);
  Credentials IssueClient(const std::string& common_name);
  Credentials IssueRsaClient(const std::string& common_name);

 private:
  // Takes `key`.
  Credentials Issue(const std::string& common_name, const std::string& names, evp_pkey_st* key);

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace csidelta::support
