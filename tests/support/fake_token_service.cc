#include "tests/support/fake_token_service.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "net/url.h"
#include "tests/support/fake_bucket_server.h"

namespace csidelta::support {
namespace {

using Json = nlohmann::json;

constexpr char kRobot[] = "robot@project.iam.gserviceaccount.com";
constexpr char kStorage[] = "https://www.googleapis.com/auth/devstorage.read_write";
constexpr char kCloud[] = "https://www.googleapis.com/auth/cloud-platform";
constexpr char kAudience[] =
    "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q";

// One for all tests of a program: it takes a while to make.
EVP_PKEY* RobotKey() {
  static EVP_PKEY* const key = EVP_RSA_gen(2048);
  return key;
}

std::map<std::string, std::string> ParseForm(const std::string& text) {
  return ReadPairs(absl::StrReplaceAll(text, {{"+", " "}}));
}

std::string Decoded(absl::string_view text) {
  std::string bytes;
  return absl::WebSafeBase64Unescape(text, &bytes) ? bytes : "";
}

}  // namespace

FakeTokenService::FakeTokenService(const Clock& clock)
    : clock_(clock), server_([this](const ServedRequest& request, ServedConnection& connection) {
        Serve(request, connection);
      }) {}

std::string FakeTokenService::KeyFile() const {
  BIO* memory = BIO_new(BIO_s_mem());
  PEM_write_bio_PKCS8PrivateKey(memory, RobotKey(), nullptr, nullptr, 0, nullptr, nullptr);
  char* bytes = nullptr;
  const auto size_bytes = static_cast<std::size_t>(BIO_get_mem_data(memory, &bytes));
  const std::string pem(bytes, size_bytes);
  BIO_free(memory);
  return Json{{"type", "service_account"},           {"client_email", kRobot},
              {"private_key_id", "key-1"},           {"private_key", pem},
              {"universe_domain", "googleapis.com"}, {"token_uri", url() + "/token"}}
      .dump();
}

bool FakeTokenService::IsGood(const std::string& token) const {
  std::scoped_lock lock(mutex_);
  const auto found = tokens_.find(token);
  return found != tokens_.end() && found->second.scope == kStorage &&
         clock_.Now() < found->second.expires_at;
}

void FakeTokenService::EndTokens() {
  std::scoped_lock lock(mutex_);
  tokens_.clear();
}

void FakeTokenService::SetSubjectToken(const std::string& token) {
  std::scoped_lock lock(mutex_);
  subject_token_ = token;
}

void FakeTokenService::Refuse(int status, const std::string& body) {
  std::scoped_lock lock(mutex_);
  refused_with_ = status;
  refusal_ = body;
}

std::vector<std::string> FakeTokenService::refusals() const {
  std::scoped_lock lock(mutex_);
  return refusals_;
}

int FakeTokenService::given() const {
  std::scoped_lock lock(mutex_);
  return given_;
}

std::string FakeTokenService::VerifyAssertion(const std::string& assertion,
                                              std::string& scope) const {
  const std::vector<std::string> parts = absl::StrSplit(assertion, '.');
  if (parts.size() != 3) {
    return "not three parts";
  }
  const Json header = Json::parse(Decoded(parts[0]), nullptr, false);
  const Json claims = Json::parse(Decoded(parts[1]), nullptr, false);
  const std::string text = absl::StrCat(parts[0], ".", parts[1]);
  const std::string signature = Decoded(parts[2]);
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  EVP_DigestVerifyInit(context, nullptr, EVP_sha256(), nullptr, RobotKey());
  const bool is_signed =
      EVP_DigestVerify(context, reinterpret_cast<const unsigned char*>(signature.data()),
                       signature.size(), reinterpret_cast<const unsigned char*>(text.data()),
                       text.size()) == 1;
  EVP_MD_CTX_free(context);
  if (!is_signed || !header.is_object() || !claims.is_object()) {
    return "signature";
  }
  const int64_t now = absl::ToUnixSeconds(clock_.Now());
  const int64_t issued_at = claims.value("iat", int64_t{0});
  const int64_t ends_at = claims.value("exp", int64_t{0});
  scope = claims.value("scope", "");
  return header.value("alg", "") != "RS256" || header.value("kid", "") != "key-1" ? "header"
         : claims.value("iss", "") != kRobot                                      ? "issuer"
         : claims.value("aud", "") != url() + "/token"                            ? "audience"
         : issued_at > now || ends_at <= now || ends_at - issued_at > 3600        ? "times"
                                                                                  : "";
}

std::string FakeTokenService::VerifyForm(std::map<std::string, std::string>& form,
                                         std::string& scope) const {
  constexpr char kAccess[] = "urn:ietf:params:oauth:token-type:access_token";
  scope = form["scope"];
  if (form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer") {
    return VerifyAssertion(form["assertion"], scope);
  }
  if (form["grant_type"] == "refresh_token") {
    scope = kStorage;  // It was consented to when the refresh token was given.
    return form["client_id"] == "client" && form["client_secret"] == "s+cret" &&
                   form["refresh_token"] == "1//refresh"
               ? ""
               : "refresh token";
  }
  return form["grant_type"] != "urn:ietf:params:oauth:grant-type:token-exchange" ? "grant type"
         : form["audience"] != kAudience                                         ? "audience"
         : form["requested_token_type"] != kAccess                               ? "requested type"
         : form["subject_token_type"] != "urn:ietf:params:oauth:token-type:jwt"  ? "subject type"
         : form["subject_token"] != subject_token_                               ? "subject token"
                                                                                 : "";
}

std::string FakeTokenService::VerifyImpersonation(const ServedRequest& request,
                                                  std::string& scope) const {
  const auto header = request.headers.find("authorization");
  const auto caller = tokens_.find(header == request.headers.end() ? "" : header->second.substr(7));
  const Json body = Json::parse(request.body, nullptr, false);
  if (caller == tokens_.end() || caller->second.scope != kCloud) {
    return "caller";
  }
  if (!absl::EndsWith(net::PercentDecode(request.target),
                      absl::StrCat("/serviceAccounts/", kRobot, ":generateAccessToken")) ||
      !body.is_object() || body.value("lifetime", "") != "3600s" ||
      body.value("scope", Json()) != Json::array({kStorage})) {
    return "body";
  }
  scope = kStorage;
  return "";
}

std::string FakeTokenService::VerifyMetadata(const ServedRequest& request,
                                             std::string& scope) const {
  const auto flavor = request.headers.find("metadata-flavor");
  const std::pair<std::string, std::string> parts = absl::StrSplit(request.target, '?');
  scope = ParseForm(parts.second)["scopes"];
  return flavor != request.headers.end() && flavor->second == "Google" ? "" : "Metadata-Flavor";
}

void FakeTokenService::Serve(const ServedRequest& request, ServedConnection& connection) {
  std::scoped_lock lock(mutex_);
  if (refused_with_ != 0) {
    connection.Send(refused_with_, refusal_);
    return;
  }
  if (request.target == "/subject") {  // An identity provider that gives the subject token.
    connection.Send(
        200, request.headers.contains("x-asks") ? Json{{"id_token", subject_token_}}.dump() : "{}");
    return;
  }
  std::map<std::string, std::string> form = ParseForm(request.body);
  const bool is_metadata = absl::StartsWith(
      request.target, "/computeMetadata/v1/instance/service-accounts/default/token?");
  const bool impersonates = absl::StartsWith(request.target, "/v1/projects/-/serviceAccounts/");
  std::string scope;
  const std::string wrong = is_metadata    ? VerifyMetadata(request, scope)
                            : impersonates ? VerifyImpersonation(request, scope)
                                           : VerifyForm(form, scope);
  const bool is_storage = scope == kStorage || scope == kCloud;
  if (!wrong.empty() || !is_storage) {
    refusals_.push_back(wrong.empty() ? "scope" : wrong);
    connection.Send(400, Json{{"error", "invalid_grant"}, {"error_description", wrong}}.dump());
    return;
  }
  const std::string token = absl::StrCat("ya29.", ++given_);
  tokens_[token] = {.scope = scope, .expires_at = clock_.Now() + absl::Hours(1)};
  const Json answer =
      impersonates
          ? Json{{"accessToken", token},
                 {"expireTime", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", tokens_[token].expires_at,
                                                 absl::UTCTimeZone())}}
          : Json{{"access_token", token}, {"expires_in", 3600}, {"token_type", "Bearer"}};
  connection.Send(200, answer.dump(), {{"Metadata-Flavor", "Google"}});
}

}  // namespace csidelta::support
