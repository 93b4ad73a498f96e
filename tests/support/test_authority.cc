#include "tests/support/test_authority.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include "base/check.h"

namespace csidelta::support {
namespace {

constexpr long kDaySeconds = 24L * 60 * 60;

template <typename Write>
std::string ToPem(Write write) {
  BIO* bio = BIO_new(BIO_s_mem());
  CSIDELTA_CHECK(write(bio) == 1);
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(bio, &data);
  std::string pem(data, static_cast<std::size_t>(bytes));
  BIO_free(bio);
  return pem;
}

void AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  CSIDELTA_CHECK(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* MakeCertificate(const std::string& common_name, EVP_PKEY* key, long serial) {
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -kDaySeconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate), kDaySeconds);
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                             0);
  return certificate;
}

}  // namespace

struct TestAuthority::Parts {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = MakeCertificate("test authority", key, 1);
  long last_serial = 1;

  Parts() = default;
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
};

TestAuthority::TestAuthority() : parts_(std::make_unique<Parts>()) {
  X509* own = parts_->certificate;
  X509_set_issuer_name(own, X509_get_subject_name(own));
  AddExtension(own, own, NID_basic_constraints, "critical,CA:TRUE");
  CSIDELTA_CHECK(X509_sign(own, parts_->key, EVP_sha256()) > 0);
}

TestAuthority::~TestAuthority() = default;

std::string TestAuthority::ca_pem() const {
  return ToPem([&](BIO* bio) { return PEM_write_bio_X509(bio, parts_->certificate); });
}

std::string TestAuthority::intermediate_pem() const {
  const Parts root;
  X509* certificate = MakeCertificate("test authority", parts_->key, 2);
  X509_NAME* issuer = X509_NAME_new();
  X509_NAME_add_entry_by_txt(issuer, "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>("root"), -1, -1, 0);
  X509_set_issuer_name(certificate, issuer);
  X509_NAME_free(issuer);
  AddExtension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE");
  CSIDELTA_CHECK(X509_sign(certificate, root.key, EVP_sha256()) > 0);
  std::string pem = ToPem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
  X509_free(certificate);
  return pem;
}

Credentials TestAuthority::Issue(const std::string& common_name, const std::string& names,
                                 EVP_PKEY* key) {
  X509* certificate = MakeCertificate(common_name, key, ++parts_->last_serial);
  X509_set_issuer_name(certificate, X509_get_subject_name(parts_->certificate));
  if (!names.empty()) {
    AddExtension(certificate, parts_->certificate, NID_subject_alt_name, names);
  }
  CSIDELTA_CHECK(X509_sign(certificate, parts_->key, EVP_sha256()) > 0);
  Credentials credentials{
      ToPem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); }), ToPem([&](BIO* bio) {
        return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
      })};
  X509_free(certificate);
  EVP_PKEY_free(key);
  return credentials;
}

Credentials TestAuthority::IssueServer(const std::string& names) {
  return Issue("server", names, EVP_EC_gen("P-256"));
}

Credentials TestAuthority::IssueClient(const std::string& common_name) {
  return Issue(common_name, "", EVP_EC_gen("P-256"));
}

Credentials TestAuthority::IssueRsaClient(const std::string& common_name) {
  return Issue(common_name, "", EVP_RSA_gen(2048));
}

}  // namespace csidelta::support
