#include "net/tls_context.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace csidelta::net {
namespace {

constexpr char kPemBegin[] = "-----BEGIN ";
constexpr unsigned char kAlpnHttp11[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

struct BioDeleter {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct X509Deleter {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
struct KeyDeleter {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Bio = std::unique_ptr<BIO, BioDeleter>;
using Certificate = std::unique_ptr<X509, X509Deleter>;

absl::StatusOr<SslContext> NewContext(const SSL_METHOD* method) {
  static std::once_flag initialized;
  // No configuration file: a static executable has no modules to load from one.
  std::call_once(initialized, [] { OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr); });
  SslContext context(SSL_CTX_new(method));
  if (context == nullptr) {
    return absl::InternalError(absl::StrCat("TLS: ", TlsErrorText()));
  }
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  return context;
}

Bio BioOf(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Certificate NextCertificate(BIO* bio) {
  return Certificate(PEM_read_bio_X509(bio, nullptr, nullptr, nullptr));
}

bool IsEndOfPem(unsigned long error) {
  return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

absl::Status TrustPem(SSL_CTX* context, const std::string& pem) {
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  int certificates = 0;
  std::string malformed;  // What is wrong with the last such one.
  std::size_t begin = pem.find(kPemBegin);
  for (int position = 1; begin != std::string::npos; ++position) {
    // Block by block: one that has no end takes none of the others with it.
    const std::size_t end = pem.find(kPemBegin, begin + 1);
    const std::string block = pem.substr(begin, end - begin);
    begin = end;
    const Bio bio = BioOf(block);
    const Certificate certificate = NextCertificate(bio.get());
    if (certificate == nullptr) {
      if (!IsEndOfPem(ERR_peek_last_error())) {  // Else a key, or something else.
        malformed = absl::StrCat("CA certificate ", position, ": ", TlsErrorText());
        CSIDELTA_LOG(kWarn, "a CA certificate is malformed and left out", {"error", malformed});
      }
      ERR_clear_error();
      continue;
    }
    if (X509_STORE_add_cert(store, certificate.get()) != 1) {
      return absl::InvalidArgumentError(absl::StrCat("CA certificate: ", TlsErrorText()));
    }
    ++certificates;
  }
  if (certificates > 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(malformed.empty() ? "CA data holds no certificate" : malformed);
}

absl::Status TrustSystem(SSL_CTX* context) {
  const std::vector<std::string> paths = SystemBundlePaths();
  for (const std::string& path : paths) {
    if (SSL_CTX_load_verify_locations(context, path.c_str(), nullptr) == 1) {
      return absl::OkStatus();
    }
  }
  if (paths.size() == 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot read SSL_CERT_FILE ", paths.front(), ": ", TlsErrorText()));
  }
  ERR_clear_error();
  return absl::FailedPreconditionError(
      "no certificates to trust: give the server's CA, or install the CA bundle, or set "
      "SSL_CERT_FILE");
}

int ChooseHttp11(SSL*, const unsigned char** chosen, unsigned char* chosen_bytes,
                 const unsigned char* offered, unsigned offered_bytes, void*) {
  unsigned char* found = nullptr;
  const int outcome = SSL_select_next_proto(&found, chosen_bytes, kAlpnHttp11, sizeof(kAlpnHttp11),
                                            offered, offered_bytes);
  *chosen = found;
  return outcome == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

int NoPassphrase(char*, int, int, void*) { return -1; }

// `whose` is for messages: "client".
absl::Status UseCertificate(SSL_CTX* context, absl::string_view whose,
                            const std::string& certificate_pem, const std::string& key_pem) {
  const Bio certificates = BioOf(certificate_pem);
  const Certificate own = NextCertificate(certificates.get());
  if (own == nullptr || SSL_CTX_use_certificate(context, own.get()) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(whose, " certificate: ", TlsErrorText()));
  }
  while (Certificate issuer = NextCertificate(certificates.get())) {
    if (SSL_CTX_add0_chain_cert(context, issuer.get()) == 1) {
      issuer.release();  // The context owns it now.
    }
  }
  ERR_clear_error();
  const Bio text = BioOf(key_pem);
  const std::unique_ptr<EVP_PKEY, KeyDeleter> key(
      PEM_read_bio_PrivateKey(text.get(), nullptr, &NoPassphrase, nullptr));
  if (key == nullptr || SSL_CTX_use_PrivateKey(context, key.get()) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(whose, " key: ", TlsErrorText()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string TlsErrorText() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  if (code == 0) {
    return "malformed";
  }
  std::array<char, 256> text{};
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

std::string NamesOfServer(const SSL* ssl) {
  constexpr std::size_t kTextMax = 300;
  // Kept even if the verification failed.
  const STACK_OF(X509)* const chain = SSL_get0_verified_chain(ssl);
  if (chain == nullptr || sk_X509_num(chain) == 0) {
    return "none";
  }
  const X509* const own = sk_X509_value(chain, 0);
  const int at = X509_get_ext_by_NID(own, NID_subject_alt_name, -1);
  const Bio text(BIO_new(BIO_s_mem()));
  if (at < 0 || X509V3_EXT_print(text.get(), X509_get_ext(own, at), 0, 0) != 1) {
    return "none";
  }
  char* data = nullptr;
  const long length = BIO_get_mem_data(text.get(), &data);
  return absl::CHexEscape(
      absl::string_view(data, std::min(static_cast<std::size_t>(length), kTextMax)));
}

absl::StatusOr<SslContext> MakeSslContext(const TlsOptions& options) {
  ASSIGN_OR_RETURN(SslContext context, NewContext(TLS_client_method()));
  SSL_CTX_set_alpn_protos(context.get(), kAlpnHttp11, sizeof(kAlpnHttp11));
  if (options.insecure_skip_verify) {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  } else {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    // A certificate that is trusted ends the chain, self-signed or not: what Go does, and so the
    // rest of the cluster. Many a bundle holds the issuing intermediate alone.
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context.get()), X509_V_FLAG_PARTIAL_CHAIN);
    RETURN_IF_ERROR(options.ca_pem.empty() ? TrustSystem(context.get())
                                           : TrustPem(context.get(), options.ca_pem));
  }
  if (!options.client_certificate_pem.empty() || !options.client_key_pem.empty()) {
    RETURN_IF_ERROR(UseCertificate(context.get(), "client", options.client_certificate_pem,
                                   options.client_key_pem));
  }
  return context;
}

absl::StatusOr<SslContext> MakeServerSslContext(const std::string& certificate_pem,
                                                const std::string& key_pem) {
  ASSIGN_OR_RETURN(SslContext context, NewContext(TLS_server_method()));
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_alpn_select_cb(context.get(), &ChooseHttp11, nullptr);
  RETURN_IF_ERROR(UseCertificate(context.get(), "server", certificate_pem, key_pem));
  return context;
}

absl::Status ExpectServer(SSL* ssl, const std::string& host) {
  std::array<unsigned char, 16> address;
  const bool is_address = inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
                          inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
  X509_VERIFY_PARAM* parameters = SSL_get0_param(ssl);
  bool accepted = false;
  if (is_address) {
    accepted = X509_VERIFY_PARAM_set1_ip_asc(parameters, host.c_str()) == 1;
  } else {
    X509_VERIFY_PARAM_set_hostflags(parameters, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    accepted = X509_VERIFY_PARAM_set1_host(parameters, host.data(), host.size()) == 1 &&
               SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
  }
  return accepted ? absl::OkStatus()
                  : absl::InvalidArgumentError(absl::StrCat("not a server name: ", host));
}

}  // namespace csidelta::net
