#pragma once

#include <openssl/ssl.h>

#include <memory>

#include "absl/status/statusor.h"
#include "net/http_client.h"

namespace csidelta::net {

struct SslContextDeleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using SslContext = std::unique_ptr<SSL_CTX, SslContextDeleter>;

// What our TLS client connections are made from: TLS 1.2 or newer, the server's certificate
// verified against options.ca_pem or the system's bundle unless told not to. Reads the bundle:
// SSL_CERT_FILE, else the places where distributions keep it.
// INVALID_ARGUMENT when a PEM text of `options` is malformed, FAILED_PRECONDITION when there is no
// bundle.
absl::StatusOr<SslContext> MakeSslContext(const TlsOptions& options);

// What TLS connections to our servers are made from: TLS 1.2 or newer, HTTP/1.1 by ALPN.
// INVALID_ARGUMENT when a text is malformed or the key is another certificate's.
absl::StatusOr<SslContext> MakeServerSslContext(const std::string& certificate_pem,
                                                const std::string& key_pem);

// Makes `ssl` send `host` (a name or an address) as the server's name and accept no other.
absl::Status ExpectServer(SSL* ssl, const std::string& host);

// The names of the certificate that the server has sent, verified or not, as
// "DNS:a.example, IP Address:10.0.0.1"; "none" without any. Short and printable.
std::string NamesOfServer(const SSL* ssl);

// OpenSSL's newest error of this thread as text; clears the others.
std::string TlsErrorText();

}  // namespace csidelta::net
