#include "tests/support/fake_azure_identity.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include <array>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "tests/support/fake_bucket_server.h"

namespace csidelta::support {
namespace {

constexpr char kStorageScope[] = "https://storage.azure.com/.default";
constexpr char kManagementScope[] = "https://management.azure.com/.default";
constexpr char kAssertionType[] = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

Certificate ReadCertificate(const std::string& pem) {
  BIO* memory = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  Certificate certificate(PEM_read_bio_X509(memory, nullptr, nullptr, nullptr), X509_free);
  BIO_free(memory);
  return certificate;
}

std::string Thumbprint(X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size_bytes = 0;
  X509_digest(certificate, EVP_sha256(), digest.data(), &size_bytes);
  return absl::WebSafeBase64Escape({reinterpret_cast<const char*>(digest.data()), size_bytes});
}

// RSASSA-PSS over SHA-256, salt as long as the hash: PS256 of RFC 7518.
bool IsSignedBy(X509* certificate, const std::string& text, const std::string& signature) {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  EVP_PKEY_CTX* options = nullptr;
  const bool is_good =
      EVP_DigestVerifyInit(context, &options, EVP_sha256(), nullptr,
                           X509_get0_pubkey(certificate)) == 1 &&
      EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) == 1 &&
      EVP_PKEY_CTX_set_rsa_pss_saltlen(options, 32) == 1 &&
      EVP_DigestVerify(context, reinterpret_cast<const unsigned char*>(signature.data()),
                       signature.size(), reinterpret_cast<const unsigned char*>(text.data()),
                       text.size()) == 1;
  EVP_MD_CTX_free(context);
  return is_good;
}

}  // namespace

FakeAzureIdentity::FakeAzureIdentity(FakeAzureIdentityOptions options, OnToken on_token)
    : options_(std::move(options)),
      on_token_(std::move(on_token)),
      server_([this](const ServedRequest& request, ServedConnection& connection) {
        Serve(request, connection);
      }) {}

void FakeAzureIdentity::Interfere(Interference interference) {
  std::scoped_lock lock(mutex_);
  interference_ = std::move(interference);
}

void FakeAzureIdentity::SetFederatedToken(const std::string& token) {
  std::scoped_lock lock(mutex_);
  options_.federated_token = token;
}

std::vector<std::string> FakeAzureIdentity::requests() const {
  std::scoped_lock lock(mutex_);
  return requests_;
}

void FakeAzureIdentity::Serve(const ServedRequest& request, ServedConnection& connection) {
  std::scoped_lock lock(mutex_);
  const std::pair<std::string, std::string> target =
      absl::StrSplit(request.target, absl::MaxSplits('?', 1));
  requests_.push_back(absl::StrCat(request.method, " ", target.first));
  if (interference_ && interference_(request, connection)) {
    return;
  }
  std::map<std::string, std::string> query = ReadPairs(target.second);
  const auto header = [&](const char* name) {
    const auto found = request.headers.find(name);
    return found == request.headers.end() ? "" : found->second;
  };
  if (request.method == "POST" && target.first == "/" + options_.tenant + "/oauth2/v2.0/token") {
    std::map<std::string, std::string> form = ReadPairs(request.body);
    const std::string why = CheckForm(form, target.first);
    why.empty() ? GiveToken(form["scope"], false, connection) : Refuse(401, why, connection);
  } else if (request.method == "GET" && target.first == "/metadata/identity/oauth2/token") {
    const bool is_good = header("metadata") == "true" && query["api-version"] == "2018-02-01" &&
                         (query["client_id"].empty() || query["client_id"] == options_.client) &&
                         absl::EndsWith(query["resource"], ".com/");
    is_good ? GiveToken(query["resource"] + ".default", true, connection)
            : Refuse(400, "Identity not found", connection);
  } else if (request.method == "POST" &&
             target.first ==
                 "/subscriptions/sub-1/resourceGroups/group-1/providers/"
                 "Microsoft.Storage/storageAccounts/teststore/listKeys") {
    const std::string shown = header("authorization");
    management_tokens_.contains(shown.substr(shown.find(' ') + 1))
        ? connection.Send(
              200, absl::StrCat("{\"keys\":[{\"keyName\":\"ro\",\"value\":\"no\",\"permissions\":"
                                "\"READ\"},{\"keyName\":\"key1\",\"value\":\"",
                                options_.account_key, "\",\"permissions\":\"FULL\"}]}"))
        : Refuse(403, "AuthorizationFailed", connection);
  } else {
    Refuse(404, "no such path", connection);
  }
}

std::string FakeAzureIdentity::CheckForm(const std::map<std::string, std::string>& form,
                                         const std::string& path) {
  const auto get = [&](const char* name) {
    const auto found = form.find(name);
    return found == form.end() ? "" : found->second;
  };
  if (get("grant_type") != "client_credentials" || get("client_id") != options_.client) {
    return "AADSTS700016: application not found";
  }
  if (get("scope") != kStorageScope && get("scope") != kManagementScope) {
    return "AADSTS70011: scope " + get("scope");
  }
  if (!get("client_secret").empty()) {
    return get("client_secret") == options_.secret ? "" : "AADSTS7000215: invalid client secret";
  }
  if (get("client_assertion_type") != kAssertionType) {
    return "AADSTS7000218: no proof";
  }
  const std::string assertion = get("client_assertion");
  if (!options_.federated_token.empty()) {
    return assertion == options_.federated_token ? "" : "AADSTS700024: assertion is not valid now";
  }
  return CheckAssertion(assertion, server_.url() + path);
}

std::string FakeAzureIdentity::CheckAssertion(const std::string& assertion,
                                              const std::string& audience) {
  const std::vector<std::string> parts = absl::StrSplit(assertion, '.');
  std::vector<std::string> raw(3);
  for (std::size_t i = 0; i < 3; ++i) {
    if (parts.size() != 3 || !absl::WebSafeBase64Unescape(parts[i], &raw[i])) {
      return "AADSTS50027: not a JWT";
    }
  }
  const absl::StatusOr<Json> header = ParseJsonObject(raw[0]);
  const absl::StatusOr<Json> claims = ParseJsonObject(raw[1]);
  const Certificate certificate = ReadCertificate(options_.certificate_pem);
  if (!header.ok() || !claims.ok() || certificate == nullptr) {
    return "AADSTS50027: malformed";
  }
  if (GetString(*header, {"alg"}) != "PS256" ||
      GetString(*header, {"x5t#S256"}) != Thumbprint(certificate.get())) {
    return "AADSTS700027: certificate is not registered";
  }
  if (!IsSignedBy(certificate.get(), parts[0] + "." + parts[1], raw[2])) {
    return "AADSTS700027: signature";
  }
  const int64_t now = absl::ToUnixSeconds(options_.clock->Now());
  const int64_t end = GetInt(*claims, {"exp"});
  if (GetString(*claims, {"aud"}) != audience || GetString(*claims, {"iss"}) != options_.client ||
      GetString(*claims, {"sub"}) != options_.client) {
    return "AADSTS700021: audience or subject";
  }
  if (GetInt(*claims, {"nbf"}) > now || end <= now || end > now + 24 * 3600) {
    return "AADSTS700024: assertion is not valid now";
  }
  const bool is_new = seen_ids_.insert(GetString(*claims, {"jti"})).second;
  return is_new ? "" : "AADSTS50012: replayed";
}

void FakeAzureIdentity::GiveToken(const std::string& resource, bool as_text,
                                  ServedConnection& connection) {
  const std::string token = absl::StrCat("token-", ++tokens_);
  if (resource == kStorageScope) {
    on_token_(token, options_.clock->Now() + options_.token_time);
  } else {
    management_tokens_.insert(token);
  }
  const char* const quote = as_text ? "\"" : "";
  connection.Send(200, absl::StrCat("{\"token_type\":\"Bearer\",\"expires_in\":", quote,
                                    absl::ToInt64Seconds(options_.token_time), quote,
                                    ",\"access_token\":\"", token, "\"}"));
}

void FakeAzureIdentity::Refuse(int status, const std::string& why, ServedConnection& connection) {
  absl::StrAppend(&requests_.back(), " ", why);
  connection.Send(status, absl::StrCat("{\"error\":\"invalid_client\",\"error_description\":\"",
                                       why, "\\r\\nTrace ID: 1\"}"));
}

}  // namespace csidelta::support
