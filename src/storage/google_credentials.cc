#include "storage/google_credentials.h"

#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "net/url.h"
#include "storage/google_errors.h"
#include "storage/posix_file.h"

namespace csidelta::storage {
namespace {

constexpr char kStorageScope[] = "https://www.googleapis.com/auth/devstorage.read_write";
// What a token needs that is only exchanged for one of a service account.
constexpr char kCloudScope[] = "https://www.googleapis.com/auth/cloud-platform";
constexpr char kGoogleTokenUrl[] = "https://oauth2.googleapis.com/token";
constexpr char kGoogleUniverse[] = "googleapis.com";
constexpr char kMetadataFlavor[] = "metadata-flavor";
constexpr absl::Duration kTokenLifetime = absl::Hours(1);
// A clock that is a little ahead would sign in the future, which is refused.
constexpr absl::Duration kSignedBefore = absl::Seconds(10);
constexpr absl::Duration kTokenTimeMax = absl::Seconds(30);
constexpr int64_t kGoogleTokenBytesMax = int64_t{256} << 10;
constexpr int64_t kTokenValuesMax = 1000;
// Where a subject token may lie besides: the metadata server of Azure has no https.
constexpr absl::string_view kSubjectHosts[] = {"169.254.169.254"};

// Where a file sends a secret to.
absl::StatusOr<net::Url> TrustedUrl(const std::string& text) {
  absl::StatusOr<net::Url> url = net::ParseUrl(text);
  if (!url.ok() || !MayCarrySecrets(*url)) {
    return absl::InvalidArgumentError("a URL of the file is missing, or is not https");
  }
  return url;
}

// "key=value&...", percent-encoded.
std::string Form(std::initializer_list<std::pair<absl::string_view, absl::string_view>> fields) {
  std::string form;
  for (const auto& [name, value] : fields) {
    absl::StrAppend(&form, form.empty() ? "" : "&", name, "=", net::PercentEncode(value));
  }
  return form;
}

net::HttpRequest PostOf(net::Url url, const char* type, std::string body) {
  return {.method = "POST",
          .url = std::move(url),
          .headers = {{"content-type", type}},
          .body = std::move(body),
          .answer_bytes_max = kGoogleTokenBytesMax};
}

// The body of an answer; what a service refuses is UNAUTHENTICATED.
absl::StatusOr<std::string> BodyOfService(const CallContext& ctx,
                                          absl::StatusOr<net::HttpResponse> response) {
  if (!response.ok()) {
    return NotAnswered(ctx, response.status(), "no answer");
  }
  if (response->status == 200) {
    return std::move(response->body);
  }
  const absl::Status status = GoogleStatus(*response, /*of_object=*/true);
  return IsRetryable(status) ? absl::UnavailableError(status.message())
                             : absl::UnauthenticatedError(status.message());
}

// {"access_token", "expires_in"}, or, of impersonation, {"accessToken", "expireTime"}.
absl::StatusOr<GoogleToken> ParseToken(const CallContext& ctx,
                                       const absl::StatusOr<std::string>& body) {
  RETURN_IF_ERROR(body.status());
  const absl::StatusOr<Json> json = ParseJsonObject(*body, kTokenValuesMax);
  if (!json.ok()) {
    return absl::UnavailableError("the answer is something else than a token");
  }
  const bool is_plain = FindJson(*json, {"access_token"}) != nullptr;
  const std::string text = GetString(*json, {is_plain ? "access_token" : "accessToken"});
  const std::optional<absl::Time> expires_at =
      is_plain ? ctx.clock->Now() + absl::Seconds(GetInt(*json, {"expires_in"}, 0))
               : ParseRfc3339(GetString(*json, {"expireTime"}));
  // It becomes a header.
  if (text.empty() || !absl::c_all_of(text, absl::ascii_isgraph) || !expires_at.has_value()) {
    return absl::UnavailableError("the answer has no token, or not when it ends");
  }
  return GoogleToken{.text = Secret(text), .expires_at = *expires_at};
}

// A JSON web token (RFC 7519) that says `claims`, signed with the key of a service account.
absl::StatusOr<std::string> SignClaims(const Json& key, const Json& claims) {
  const Json header = {
      {"alg", "RS256"}, {"typ", "JWT"}, {"kid", GetString(key, {"private_key_id"})}};
  std::string text = absl::StrCat(absl::WebSafeBase64Escape(DumpJson(header)), ".",
                                  absl::WebSafeBase64Escape(DumpJson(claims)));
  ASSIGN_OR_RETURN(
      const std::string signature,
      Annotate(SignRsaSha256(GetString(key, {"private_key"}), text, RsaPadding::kPkcs1),
               "private_key"));
  return absl::StrCat(text, ".", absl::WebSafeBase64Escape(signature));
}

}  // namespace

GoogleEnvironment GoogleEnvironment::Read(
    const std::function<const char*(const char* name)>& read) {
  const auto get = [&](const char* name) {
    const char* value = read(name);
    return std::string(value == nullptr ? "" : value);
  };
  GoogleEnvironment environment;
  environment.access_token = Secret(get("GOOGLE_ACCESS_TOKEN"));
  environment.credentials_file = get("GOOGLE_APPLICATION_CREDENTIALS");
  if (const std::string home = get("HOME"); !home.empty()) {
    environment.well_known_file =
        absl::StrCat(home, "/.config/gcloud/application_default_credentials.json");
  }
  environment.emulator_host = get("STORAGE_EMULATOR_HOST");
  if (std::string host = get("GCE_METADATA_HOST"); !host.empty()) {
    environment.metadata_host = std::move(host);
  }
  return environment;
}

GoogleCredentials::GoogleCredentials(GoogleEnvironment environment, std::string service_account,
                                     net::HttpClient& services, net::HttpClient& metadata)
    : environment_(std::move(environment)),
      service_account_(std::move(service_account)),
      services_(services),
      metadata_(metadata) {}

std::string GoogleCredentials::Describe() const {
  const std::string account =
      service_account_.empty() ? "" : absl::StrCat(" for ", service_account_);
  if (!environment_.emulator_host.empty()) {
    return "none, as STORAGE_EMULATOR_HOST is set";
  }
  if (!environment_.access_token.empty()) {
    return absl::StrCat("GOOGLE_ACCESS_TOKEN", account);
  }
  return absl::StrCat(environment_.credentials_file.empty()
                          ? "those of gcloud, or of the metadata server"
                          : environment_.credentials_file,
                      account);
}

absl::StatusOr<GoogleToken> GoogleCredentials::Get(const CallContext& ctx) {
  if (!environment_.emulator_host.empty()) {
    return GoogleToken();
  }
  return kept_.Get(ctx, [&] { return Annotate(Load(ctx), "credentials for Google"); });
}

absl::StatusOr<GoogleToken> GoogleCredentials::Load(const CallContext& ctx) {
  if (service_account_.empty()) {
    return LoadOwn(ctx, kStorageScope);
  }
  ASSIGN_OR_RETURN(const GoogleToken own, LoadOwn(ctx, kCloudScope));
  const std::string url =
      absl::StrCat(environment_.iam_url, "/v1/projects/-/serviceAccounts/",
                   net::PercentEncode(service_account_), ":generateAccessToken");
  return Impersonate(ctx, own, url, Json::array(), kStorageScope);
}

absl::StatusOr<GoogleToken> GoogleCredentials::LoadOwn(const CallContext& ctx,
                                                       absl::string_view scope) {
  if (!environment_.access_token.empty()) {
    if (!absl::c_all_of(environment_.access_token.Reveal(), absl::ascii_isgraph)) {
      return absl::InvalidArgumentError("GOOGLE_ACCESS_TOKEN has a blank or a line break");
    }
    return GoogleToken{.text = environment_.access_token};
  }
  const bool is_named = !environment_.credentials_file.empty();
  const std::string& path = is_named ? environment_.credentials_file : environment_.well_known_file;
  std::optional<std::string> text;
  if (!path.empty()) {
    ASSIGN_OR_RETURN(text, ReadSmallFile(ctx, path));
  }
  if (text.has_value()) {
    const absl::StatusOr<Json> file = ParseJsonObject(*text, kTokenValuesMax);
    return Annotate(file.ok() ? FromFile(ctx, *file, scope) : file.status(), path);
  }
  if (is_named) {
    return absl::UnauthenticatedError(
        absl::StrCat("GOOGLE_APPLICATION_CREDENTIALS names ", path, ", which is not there"));
  }
  return Annotate(AskMetadata(ctx, scope), "metadata server");
}

absl::StatusOr<GoogleToken> GoogleCredentials::FromFile(const CallContext& ctx, const Json& file,
                                                        absl::string_view scope) {
  const std::string universe = GetString(file, {"universe_domain"});
  if (!universe.empty() && universe != kGoogleUniverse) {
    return absl::InvalidArgumentError("only the universe googleapis.com is supported");
  }
  const std::string type = GetString(file, {"type"});
  if (type == "service_account") {
    return SignIn(ctx, file, scope);
  }
  if (type == "authorized_user") {
    const std::string url = GetString(file, {"token_uri"});
    return AskForToken(ctx, url.empty() ? kGoogleTokenUrl : url,
                       Form({{"grant_type", "refresh_token"},
                             {"client_id", GetString(file, {"client_id"})},
                             {"client_secret", GetString(file, {"client_secret"})},
                             {"refresh_token", GetString(file, {"refresh_token"})}}));
  }
  const std::string url = GetString(file, {"service_account_impersonation_url"});
  if (type == "external_account") {
    ASSIGN_OR_RETURN(GoogleToken own, Exchange(ctx, file, url.empty() ? scope : kCloudScope));
    return url.empty() ? own : Impersonate(ctx, own, url, Json::array(), scope);
  }
  if (type == "impersonated_service_account") {
    const Json* const source = FindJson(file, {"source_credentials"});
    if (source == nullptr || GetString(*source, {"type"}) == type) {
      return absl::InvalidArgumentError("source_credentials is missing, or impersonates itself");
    }
    ASSIGN_OR_RETURN(const GoogleToken own, FromFile(ctx, *source, kCloudScope));
    return Impersonate(ctx, own, url, JsonArrayAt(file, {"delegates"}), scope);
  }
  return absl::InvalidArgumentError(
      "its type is none of service_account, authorized_user, external_account and "
      "impersonated_service_account");
}

absl::StatusOr<GoogleToken> GoogleCredentials::AskForToken(const CallContext& ctx,
                                                           const std::string& url,
                                                           std::string form) {
  ASSIGN_OR_RETURN(net::Url trusted, TrustedUrl(url));
  const std::string host = trusted.host;
  const net::HttpRequest request =
      PostOf(std::move(trusted), "application/x-www-form-urlencoded", std::move(form));
  return Annotate(
      ParseToken(ctx, BodyOfService(ctx, services_.Send(ctx.WithTimeout(kTokenTimeMax), request))),
      host);
}

absl::StatusOr<GoogleToken> GoogleCredentials::SignIn(const CallContext& ctx, const Json& key,
                                                      absl::string_view scope) {
  const std::string url = GetString(key, {"token_uri"});
  const absl::Time signed_at = ctx.clock->Now() - kSignedBefore;
  const Json claims = {{"iss", GetString(key, {"client_email"})},
                       {"scope", std::string(scope)},
                       {"aud", url},
                       {"iat", absl::ToUnixSeconds(signed_at)},
                       {"exp", absl::ToUnixSeconds(signed_at + kTokenLifetime)}};
  ASSIGN_OR_RETURN(const std::string assertion, SignClaims(key, claims));
  return AskForToken(ctx, url,
                     Form({{"grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"},
                           {"assertion", assertion}}));
}

absl::StatusOr<GoogleToken> GoogleCredentials::Exchange(const CallContext& ctx, const Json& account,
                                                        absl::string_view scope) {
  if (FindJson(account, {"workforce_pool_user_project"}) != nullptr) {
    return absl::InvalidArgumentError("workforce identity, for people, is not supported");
  }
  const Json* const source = FindJson(account, {"credential_source"});
  ASSIGN_OR_RETURN(const std::string subject,
                   Annotate(SubjectToken(ctx, source == nullptr ? Json::object() : *source),
                            "credential_source"));
  return AskForToken(
      ctx, GetString(account, {"token_url"}),
      Form({{"grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"},
            {"audience", GetString(account, {"audience"})},
            {"scope", scope},
            {"requested_token_type", "urn:ietf:params:oauth:token-type:access_token"},
            {"subject_token_type", GetString(account, {"subject_token_type"})},
            {"subject_token", subject}}));
}

absl::StatusOr<std::string> GoogleCredentials::SubjectToken(const CallContext& ctx,
                                                            const Json& source) {
  for (const auto& [member, kind] :
       {std::pair("environment_id", "AWS"), std::pair("executable", "a program"),
        std::pair("certificate", "a certificate")}) {
    if (FindJson(source, {member}) != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("a subject token of ", kind, " is not supported; use one of a file or URL"));
    }
  }
  const std::string path = GetString(source, {"file"});
  std::string text;
  if (!path.empty()) {
    ASSIGN_OR_RETURN(const std::optional<std::string> read, ReadSmallFile(ctx, path));
    text = read.value_or("");
  } else {
    ASSIGN_OR_RETURN(net::Url url, net::ParseUrl(GetString(source, {"url"})));
    if (!MayCarrySecrets(url, kSubjectHosts)) {
      return absl::InvalidArgumentError("its URL is not https");
    }
    net::HttpClient& http = url.scheme == "https" ? services_ : metadata_;
    net::HttpRequest request{.method = "GET",
                             .url = std::move(url),
                             .headers = {},
                             .body = "",
                             .answer_bytes_max = kGoogleTokenBytesMax};
    for (const auto& [name, value] : GetStringMap(source, {"headers"})) {
      request.headers.emplace_back(name, value);
    }
    ASSIGN_OR_RETURN(text, BodyOfService(ctx, http.Send(ctx.WithTimeout(kTokenTimeMax), request)));
  }
  if (GetString(source, {"format", "type"}) == "json") {
    const absl::StatusOr<Json> json = ParseJsonObject(text, kTokenValuesMax);
    text = json.ok() ? GetString(*json, {GetString(source, {"format", "subject_token_field_name"})})
                     : "";
  }
  absl::StripAsciiWhitespace(&text);
  return text.empty() ? absl::StatusOr<std::string>(absl::UnauthenticatedError(absl::StrCat(
                            "no subject token ", path.empty() ? "at its URL" : "in ", path)))
                      : text;
}

absl::StatusOr<GoogleToken> GoogleCredentials::Impersonate(const CallContext& ctx,
                                                           const GoogleToken& caller,
                                                           const std::string& url,
                                                           const Json& delegates,
                                                           absl::string_view scope) {
  ASSIGN_OR_RETURN(net::Url trusted, TrustedUrl(url));
  const Json body = {{"delegates", delegates},
                     {"scope", Json::array({std::string(scope)})},
                     {"lifetime", absl::StrCat(absl::ToInt64Seconds(kTokenLifetime), "s")}};
  net::HttpRequest request = PostOf(std::move(trusted), "application/json", DumpJson(body));
  request.headers.emplace_back("authorization", absl::StrCat("Bearer ", caller.text.Reveal()));
  return Annotate(
      ParseToken(ctx, BodyOfService(ctx, services_.Send(ctx.WithTimeout(kTokenTimeMax), request))),
      "impersonation");
}

absl::StatusOr<GoogleToken> GoogleCredentials::AskMetadata(const CallContext& ctx,
                                                           absl::string_view scope) {
  ASSIGN_OR_RETURN(net::Url url,
                   net::ParseUrl(absl::StrCat("http://", environment_.metadata_host)));
  url.target = absl::StrCat("/computeMetadata/v1/instance/service-accounts/default/token?",
                            Form({{"scopes", scope}}));
  const net::HttpRequest request{.method = "GET",
                                 .url = std::move(url),
                                 .headers = {{kMetadataFlavor, "Google"}},
                                 .body = "",
                                 .answer_bytes_max = kGoogleTokenBytesMax};
  ASSIGN_OR_RETURN(net::HttpResponse response,
                   machine_.Ask(ctx, request,
                                ", and no credentials were found in GOOGLE_ACCESS_TOKEN, "
                                "GOOGLE_APPLICATION_CREDENTIALS or the file of gcloud"));
  if (net::Header(response, kMetadataFlavor) != "Google") {
    return absl::UnauthenticatedError("what answers is not the metadata server of Google");
  }
  return ParseToken(ctx, BodyOfService(ctx, std::move(response)));
}

}  // namespace csidelta::storage
