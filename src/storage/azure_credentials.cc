#include "storage/azure_credentials.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/crypto.h"
#include "base/json.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "storage/posix_file.h"
#include "storage/s3_errors.h"

namespace csidelta::storage {
namespace {

constexpr int64_t kTokenBytesMax = int64_t{256} << 10;
constexpr int64_t kAzureJsonValuesMax = 1000;  // in such an answer
constexpr absl::Duration kAuthorityTimeMax = absl::Seconds(30);
constexpr absl::Duration kAssertionTime = absl::Minutes(10);
constexpr char kStorageResource[] = "https://storage.azure.com";  // the same in all clouds
constexpr char kCertificateBegin[] = "-----BEGIN CERTIFICATE-----";
constexpr char kCertificateEnd[] = "-----END CERTIFICATE-----";

constexpr char kFormBegin[] = "grant_type=client_credentials&client_id=";
constexpr char kAssertionForm[] =
    "&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer"
    "&client_assertion=";
// All that the environment is asked for.
constexpr absl::string_view kAzureVariables =
    "AZURE_ACCOUNT_KEY AZURE_ACCOUNT_NAME AZURE_ACCOUNT_SAS AZURE_AUTHORITY_HOST "
    "AZURE_CLIENT_CERTIFICATE AZURE_CLIENT_CERTIFICATE_PASSWORD AZURE_CLIENT_CERTIFICATE_PATH "
    "AZURE_CLIENT_ID AZURE_CLIENT_SECRET AZURE_CLOUD_NAME AZURE_CREDENTIALS_FILE "
    "AZURE_ENDPOINT_SUFFIX AZURE_FEDERATED_TOKEN_FILE AZURE_POD_IDENTITY_AUTHORITY_HOST "
    "AZURE_RESOURCE_GROUP AZURE_RESOURCE_MANAGER_ENDPOINT AZURE_STORAGE_ACCOUNT_ACCESS_KEY "
    "AZURE_SUBSCRIPTION_ID AZURE_TENANT_ID AZURE_USERNAME";

struct Cloud {
  absl::string_view name;
  absl::string_view other_name;
  absl::string_view authority;
  absl::string_view storage_suffix;
  absl::string_view management;
  absl::string_view management_resource;  // what its tokens are for
};
constexpr Cloud kClouds[] = {
    {"AzurePublicCloud", "AzureCloud", "https://login.microsoftonline.com", "core.windows.net",
     "https://management.azure.com", "https://management.azure.com"},
    {"AzureUSGovernmentCloud", "AzureUSGovernment", "https://login.microsoftonline.us",
     "core.usgovcloudapi.net", "https://management.usgovcloudapi.net",
     "https://management.core.usgovcloudapi.net"},
    {"AzureChinaCloud", "AzureChina", "https://login.chinacloudapi.cn", "core.chinacloudapi.cn",
     "https://management.chinacloudapi.cn", "https://management.core.chinacloudapi.cn"}};

std::string ValueOf(const std::map<std::string, std::string>& variables, const std::string& name) {
  const auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

absl::StatusOr<std::string> Require(const std::map<std::string, std::string>& variables,
                                    const std::string& name) {
  std::string value = ValueOf(variables, name);
  return value.empty() ? absl::StatusOr<std::string>(
                             absl::InvalidArgumentError(absl::StrCat(name, " is not set")))
                       : value;
}

absl::StatusOr<Cloud> FindCloud(const std::map<std::string, std::string>& variables) {
  const std::string name = ValueOf(variables, "AZURE_CLOUD_NAME");
  for (const Cloud& cloud : kClouds) {
    if (name.empty() || absl::EqualsIgnoreCase(name, cloud.name) ||
        absl::EqualsIgnoreCase(name, cloud.other_name)) {
      return cloud;
    }
  }
  return absl::InvalidArgumentError(
      "AZURE_CLOUD_NAME is none of AzurePublicCloud, AzureUSGovernmentCloud and AzureChinaCloud; "
      "for another cloud leave it out, and set AZURE_AUTHORITY_HOST and AZURE_ENDPOINT_SUFFIX");
}

absl::StatusOr<net::Url> ParseSafeUrl(const std::string& text, absl::string_view what) {
  ASSIGN_OR_RETURN(net::Url url, Annotate(net::ParseUrl(text), what));
  return MayCarrySecrets(url) ? absl::StatusOr<net::Url>(std::move(url))
                              : absl::InvalidArgumentError(absl::StrCat(what, ": must be https"));
}

absl::StatusOr<net::Url> EndpointOf(const AzureAccount& account,
                                    const std::map<std::string, std::string>& variables) {
  std::string text = account.uri;
  if (text.empty()) {
    ASSIGN_OR_RETURN(const std::string name, Require(variables, "AZURE_ACCOUNT_NAME"));
    if (!absl::c_all_of(name, absl::ascii_isalnum)) {
      return absl::InvalidArgumentError(
          "the name of a storage account has only letters and digits");
    }
    ASSIGN_OR_RETURN(const Cloud cloud, FindCloud(variables));
    const std::string suffix = ValueOf(variables, "AZURE_ENDPOINT_SUFFIX");
    text = absl::StrCat("https://", name, ".blob.",
                        suffix.empty() ? cloud.storage_suffix : absl::string_view(suffix));
  }
  ASSIGN_OR_RETURN(net::Url url,
                   Annotate(net::ParseUrl(text), "the address of the storage account"));
  if (!url.user_info.empty() || absl::StrContains(url.target, "?")) {
    return absl::InvalidArgumentError(
        "the address of the storage account has no query and no password; a SAS belongs into "
        "AZURE_ACCOUNT_SAS");
  }
  url.target = std::string(absl::StripSuffix(url.target, "/"));
  return url;
}

// A value between quotes, which may hold line breaks; takes it off `text`.
absl::StatusOr<std::string> TakeQuoted(absl::string_view& text) {
  const char quote = text.front();
  std::size_t end = 1;
  while (end < text.size() && text[end] != quote) {
    end += quote == '"' && text[end] == '\\' ? 2 : 1;
  }
  if (end >= text.size()) {
    return absl::InvalidArgumentError("a quotation mark is not closed");
  }
  std::string value(text.substr(1, end - 1));
  text.remove_prefix(end + 1);
  return quote == '"' ? absl::StrReplaceAll(value, {{"\\n", "\n"}, {"\\\"", "\""}, {"\\\\", "\\"}})
                      : value;
}

// Lines of NAME=VALUE as Velero reads them. Messages do not repeat the text.
absl::StatusOr<std::map<std::string, std::string>> ParseVariables(absl::string_view text) {
  std::map<std::string, std::string> variables;
  absl::ConsumePrefix(&text, "\xEF\xBB\xBF");
  for (text = absl::StripLeadingAsciiWhitespace(text); !text.empty();
       text = absl::StripLeadingAsciiWhitespace(text)) {
    const absl::string_view line = text.substr(0, text.find('\n'));
    const std::size_t equals = line.find('=');
    if (line.front() == '#') {
      text.remove_prefix(line.size());
      continue;
    }
    if (equals == line.npos) {
      return absl::InvalidArgumentError("a line is not NAME=VALUE");
    }
    absl::string_view name = line.substr(0, equals);
    absl::ConsumePrefix(&name, "export ");
    std::string& value = variables[std::string(absl::StripAsciiWhitespace(name))];
    const absl::string_view rest = absl::StripLeadingAsciiWhitespace(line.substr(equals + 1));
    if (absl::StartsWith(rest, "\"") || absl::StartsWith(rest, "'")) {
      text.remove_prefix(line.size() - rest.size());
      ASSIGN_OR_RETURN(value, TakeQuoted(text));
      text.remove_prefix(std::min(text.find('\n'), text.size()));
    } else {
      value = std::string(absl::StripAsciiWhitespace(rest.substr(0, rest.find(" #"))));
      text.remove_prefix(line.size());
    }
  }
  std::erase_if(variables, [](const auto& one) { return one.second.empty(); });
  return variables;
}

// A JWT that says who we are, signed with the key of the first certificate in `pem` (PS256).
absl::StatusOr<std::string> MakeAssertion(const std::string& pem, const std::string& client,
                                          const std::string& audience, absl::Time now) {
  const std::size_t begin = std::min(pem.find(kCertificateBegin), pem.size());
  const std::size_t end = std::min(pem.find(kCertificateEnd, begin), pem.size());
  std::string der;
  if (begin == end ||
      !absl::Base64Unescape(absl::StrReplaceAll(pem.substr(begin, end - begin),
                                                {{kCertificateBegin, ""}, {"\n", ""}, {"\r", ""}}),
                            &der)) {
    return absl::InvalidArgumentError("no certificate as PEM");
  }
  const auto base64 = [](absl::string_view text) { return absl::WebSafeBase64Escape(text); };
  std::array<uint8_t, 16> id;
  SecureRandom::Real().Fill(absl::MakeSpan(id));
  const int64_t seconds = absl::ToUnixSeconds(now);
  const Json header = {
      {"alg", "PS256"}, {"typ", "JWT"}, {"x5t#S256", base64(AsBytes(Sha256(der)))}};
  const Json claims = {
      {"aud", audience}, {"iss", client},
      {"sub", client},   {"jti", base64({reinterpret_cast<const char*>(id.data()), id.size()})},
      {"nbf", seconds},  {"exp", seconds + absl::ToInt64Seconds(kAssertionTime)}};
  const std::string text = absl::StrCat(base64(DumpJson(header)), ".", base64(DumpJson(claims)));
  ASSIGN_OR_RETURN(const std::string signature, SignRsaSha256(pem, text, RsaPadding::kPss));
  return absl::StrCat(text, ".", base64(signature));
}

// An answer of `source` as JSON. Of an error only the first line of its description counts.
absl::StatusOr<Json> ReadJson(const CallContext& ctx,
                              const absl::StatusOr<net::HttpResponse>& response,
                              absl::string_view source) {
  if (!response.ok()) {
    return NotAnswered(ctx, response.status(), source);
  }
  absl::StatusOr<Json> json = ParseJsonObject(response->body, kAzureJsonValuesMax);
  if (response->status == 200) {
    return json.ok() ? json : absl::UnavailableError(absl::StrCat(source, ": no JSON came"));
  }
  std::string code;
  std::string why;
  if (json.ok()) {  // Entra ID has flat errors, the resource manager has nested ones.
    code = absl::StrCat(GetString(*json, {"error"}), GetString(*json, {"error", "code"}));
    why = absl::StrCat(GetString(*json, {"error_description"}),
                       GetString(*json, {"error", "message"}));
  }
  why = why.substr(0, why.find_first_of("\r\n"));
  const absl::Status status =
      S3Status(*response, {.code = code, .message = why, .region = "", .endpoint = ""}, "");
  return Annotate(IsRetryable(status) ? status : absl::UnauthenticatedError(status.message()),
                  source);
}

// {"access_token": "...", "expires_in": 3599}; the machine's identity has the number as a text.
absl::StatusOr<AzureAccess> ReadToken(const absl::StatusOr<Json>& json, absl::Time now) {
  RETURN_IF_ERROR(json.status());
  std::string text = GetString(*json, {"access_token"});
  int64_t seconds = GetInt(*json, {"expires_in"});
  const bool has_end = seconds > 0 || absl::SimpleAtoi(GetString(*json, {"expires_in"}), &seconds);
  if (text.empty() || !has_end || !absl::c_all_of(text, absl::ascii_isgraph)) {
    return absl::UnavailableError("the answer is not a token");
  }
  return AzureAccess{.token = Secret(std::move(text)), .expires_at = now + absl::Seconds(seconds)};
}

absl::StatusOr<std::string> ReadPresentFile(const CallContext& ctx, const std::string& path) {
  ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadSmallFile(ctx, path));
  return text.has_value() ? absl::StatusOr<std::string>(*text)
                          : absl::UnauthenticatedError(absl::StrCat("there is no file ", path));
}

// The part of a form that proves who asks; "" where none is set up. Sets `way` first.
absl::StatusOr<std::string> MakeProof(const CallContext& ctx,
                                      const std::map<std::string, std::string>& variables,
                                      const std::string& token_url, std::string& way) {
  if (const std::string secret = ValueOf(variables, "AZURE_CLIENT_SECRET"); !secret.empty()) {
    way = "by the client secret (AZURE_CLIENT_SECRET)";
    return absl::StrCat("&client_secret=", net::PercentEncode(secret));
  }
  std::string pem = ValueOf(variables, "AZURE_CLIENT_CERTIFICATE");
  const std::string path = ValueOf(variables, "AZURE_CLIENT_CERTIFICATE_PATH");
  if (!pem.empty() || !path.empty()) {
    way = "by the client certificate (AZURE_CLIENT_CERTIFICATE)";
    if (variables.contains("AZURE_CLIENT_CERTIFICATE_PASSWORD")) {
      return absl::InvalidArgumentError(
          "AZURE_CLIENT_CERTIFICATE_PASSWORD is not supported; give a key without a passphrase");
    }
    if (pem.empty()) {
      ASSIGN_OR_RETURN(pem, ReadPresentFile(ctx, path));
    }
    ASSIGN_OR_RETURN(
        const std::string assertion,
        MakeAssertion(pem, ValueOf(variables, "AZURE_CLIENT_ID"), token_url, ctx.clock->Now()));
    return absl::StrCat(kAssertionForm, assertion);
  }
  if (variables.contains("AZURE_USERNAME")) {
    way = "by user name and password (AZURE_USERNAME)";
    return absl::InvalidArgumentError("this way is not supported");
  }
  if (const std::string file = ValueOf(variables, "AZURE_FEDERATED_TOKEN_FILE"); !file.empty()) {
    way = "by the workload identity (AZURE_FEDERATED_TOKEN_FILE)";
    ASSIGN_OR_RETURN(const std::string token, ReadPresentFile(ctx, file));
    return absl::StrCat(kAssertionForm, net::PercentEncode(absl::StripAsciiWhitespace(token)));
  }
  way = "by the machine's managed identity";
  return "";
}

}  // namespace

AzureEnvironment AzureEnvironment::Read(const std::function<const char*(const char* name)>& read) {
  AzureEnvironment environment;
  const std::vector<std::string> names = absl::StrSplit(kAzureVariables, ' ');
  for (const std::string& name : names) {
    const char* const value = read(name.c_str());
    if (value != nullptr && *value != '\0') {
      environment.variables[name] = value;
    }
  }
  return environment;
}

AzureCredentials::AzureCredentials(AzureEnvironment environment, AzureAccount account,
                                   net::HttpClient& authority, net::HttpClient& metadata)
    : environment_(std::move(environment)),
      account_(std::move(account)),
      authority_(authority),
      machine_(metadata) {}

bool AzureCredentials::MayBeExchanged() const {
  const auto is_set = [&](const char* name) { return environment_.variables.contains(name); };
  return is_set("AZURE_CREDENTIALS_FILE") ||
         !(is_set("AZURE_ACCOUNT_KEY") || is_set("AZURE_STORAGE_ACCOUNT_ACCESS_KEY") ||
           is_set("AZURE_ACCOUNT_SAS"));
}

AzureCredentials::Way AzureCredentials::way() const {
  const MutexLock lock(mutex_);
  return way_;
}

absl::StatusOr<AzureAccess> AzureCredentials::Get(const CallContext& ctx) {
  return kept_.Get(ctx, [&]() -> absl::StatusOr<AzureAccess> {
    absl::StatusOr<AzureAccess> loaded = Annotate(Load(ctx), "sign-in to Azure");
    const MutexLock lock(mutex_);
    way_ = loaded.ok() ? Way{loaded->way, !loaded->key.empty()} : way_;
    return loaded;
  });
}

absl::StatusOr<AzureCredentials::Variables> AzureCredentials::ReadVariables(
    const CallContext& ctx) const {
  Variables variables = account_.variables;
  std::erase_if(variables, [](const auto& one) { return one.second.empty(); });
  if (const std::string path = ValueOf(environment_.variables, "AZURE_CREDENTIALS_FILE");
      !path.empty()) {
    ASSIGN_OR_RETURN(const std::string text, ReadPresentFile(ctx, path));
    ASSIGN_OR_RETURN(Variables of_file, Annotate(ParseVariables(text), path));
    variables.merge(of_file);
  }
  variables.insert(environment_.variables.begin(), environment_.variables.end());
  return variables;
}

absl::StatusOr<AzureAccess> AzureCredentials::Load(const CallContext& ctx) {
  ASSIGN_OR_RETURN(const Variables variables, ReadVariables(ctx));
  AzureAccess access{.account = ValueOf(variables, "AZURE_ACCOUNT_NAME")};
  ASSIGN_OR_RETURN(access.endpoint, EndpointOf(account_, variables));
  std::string key = ValueOf(variables, account_.key_variable);
  if (!account_.key_variable.empty() && key.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the credentials have no ", account_.key_variable));
  }
  for (const char* const name : {"AZURE_ACCOUNT_KEY", "AZURE_STORAGE_ACCOUNT_ACCESS_KEY"}) {
    key = key.empty() ? ValueOf(variables, name) : std::move(key);
  }
  std::string sas(absl::StripAsciiWhitespace(ValueOf(variables, "AZURE_ACCOUNT_SAS")));
  if (key.empty() && !sas.empty()) {
    if (!absl::c_all_of(sas, absl::ascii_isgraph) || !absl::StrContains(sas, "sig=")) {
      return absl::InvalidArgumentError("AZURE_ACCOUNT_SAS is not a SAS");
    }
    access.sas = Secret(std::string(absl::StripPrefix(sas, "?")));
    access.way = "by a SAS";
    return access;
  }
  if (!key.empty() || !account_.use_aad) {
    access.way = "by the account's key";
    if (key.empty()) {
      ASSIGN_OR_RETURN(const AzureAccess listed, FetchKey(ctx, variables));
      key = listed.key.Reveal();
      access.way = listed.way;
    }
    RETURN_IF_ERROR(Require(variables, "AZURE_ACCOUNT_NAME").status());
    std::string raw;
    if (!absl::Base64Unescape(absl::StripAsciiWhitespace(key), &raw)) {
      return absl::InvalidArgumentError("the account's key is not base64");
    }
    access.key = Secret(std::move(raw));
    return access;
  }
  if (!MayCarrySecrets(access.endpoint)) {
    return absl::InvalidArgumentError("a token is sent to https addresses alone");
  }
  ASSIGN_OR_RETURN(AzureAccess token, FetchToken(ctx, variables, kStorageResource));
  token.endpoint = access.endpoint;
  return token;
}

absl::StatusOr<AzureAccess> AzureCredentials::FetchToken(const CallContext& ctx,
                                                         const Variables& variables,
                                                         const std::string& resource) {
  ASSIGN_OR_RETURN(const Cloud cloud, FindCloud(variables));
  const std::string host = ValueOf(variables, "AZURE_AUTHORITY_HOST");
  const std::string url = absl::StrCat(
      absl::StripSuffix(host.empty() ? cloud.authority : absl::string_view(host), "/"), "/",
      net::PercentEncode(ValueOf(variables, "AZURE_TENANT_ID")), "/oauth2/v2.0/token");
  std::string way;
  const absl::StatusOr<std::string> proof = MakeProof(ctx, variables, url, way);
  RETURN_IF_ERROR(Annotate(proof.status(), way));
  absl::StatusOr<AzureAccess> token =
      proof->empty()
          ? AskMetadata(ctx, variables, resource)
          : AskAuthority(
                ctx, variables, url,
                absl::StrCat("&scope=", net::PercentEncode(resource + "/.default"), *proof));
  RETURN_IF_ERROR(Annotate(token.status(), way));
  token->way = way;
  return token;
}

absl::StatusOr<AzureAccess> AzureCredentials::AskAuthority(const CallContext& ctx,
                                                           const Variables& variables,
                                                           const std::string& url,
                                                           const std::string& form) {
  RETURN_IF_ERROR(Require(variables, "AZURE_TENANT_ID").status());
  ASSIGN_OR_RETURN(const std::string client, Require(variables, "AZURE_CLIENT_ID"));
  ASSIGN_OR_RETURN(net::Url parsed, ParseSafeUrl(url, "AZURE_AUTHORITY_HOST"));
  const absl::Time now = ctx.clock->Now();
  const net::HttpRequest request{.method = "POST",
                                 .url = std::move(parsed),
                                 .headers = {{"content-type", "application/x-www-form-urlencoded"}},
                                 .body = absl::StrCat(kFormBegin, net::PercentEncode(client), form),
                                 .answer_bytes_max = kTokenBytesMax};
  return ReadToken(ReadJson(ctx, authority_.Send(ctx.WithTimeout(kAuthorityTimeMax), request),
                            request.url.HostHeader()),
                   now);
}

absl::StatusOr<AzureAccess> AzureCredentials::AskMetadata(const CallContext& ctx,
                                                          const Variables& variables,
                                                          const std::string& resource) {
  const std::string host = ValueOf(variables, "AZURE_POD_IDENTITY_AUTHORITY_HOST");
  ASSIGN_OR_RETURN(net::Url url, net::ParseUrl(host.empty() ? "http://169.254.169.254" : host));
  url.target = absl::StrCat("/metadata/identity/oauth2/token?api-version=2018-02-01&resource=",
                            net::PercentEncode(resource + "/"));
  if (const std::string client = ValueOf(variables, "AZURE_CLIENT_ID"); !client.empty()) {
    absl::StrAppend(&url.target, "&client_id=", net::PercentEncode(client));
  }
  const net::HttpRequest request{.method = "GET",
                                 .url = std::move(url),
                                 .headers = {{"metadata", "true"}},
                                 .body = "",
                                 .answer_bytes_max = kTokenBytesMax};
  const absl::Time now = ctx.clock->Now();
  ASSIGN_OR_RETURN(
      const net::HttpResponse response,
      machine_.Ask(ctx, request,
                   ", and no key, SAS, client secret, certificate or federated token is set up"));
  const absl::StatusOr<Json> json = ReadJson(ctx, response, "instance metadata");
  // While the service is updated it answers 404 and 410.
  return response.status == 404 || response.status == 410
             ? absl::UnavailableError(json.status().message())
             : ReadToken(json, now);
}

absl::StatusOr<AzureAccess> AzureCredentials::FetchKey(const CallContext& ctx,
                                                       const Variables& variables) {
  constexpr char kWhat[] = "list the account's keys";
  std::string path;
  for (const auto& [name, before] :
       {std::pair("AZURE_SUBSCRIPTION_ID", "/subscriptions/"),
        std::pair("AZURE_RESOURCE_GROUP", "/resourceGroups/"),
        std::pair("AZURE_ACCOUNT_NAME", "/providers/Microsoft.Storage/storageAccounts/")}) {
    ASSIGN_OR_RETURN(const std::string value, Annotate(Require(variables, name), kWhat));
    absl::StrAppend(&path, before, net::PercentEncode(value));
  }
  ASSIGN_OR_RETURN(const Cloud cloud, FindCloud(variables));
  const std::string management = ValueOf(variables, "AZURE_RESOURCE_MANAGER_ENDPOINT");
  ASSIGN_OR_RETURN(net::Url url,
                   ParseSafeUrl(management.empty() ? std::string(cloud.management) : management,
                                "AZURE_RESOURCE_MANAGER_ENDPOINT"));
  url.target = absl::StrCat(path, "/listKeys?api-version=2019-06-01");
  ASSIGN_OR_RETURN(const AzureAccess token,
                   FetchToken(ctx, variables, std::string(cloud.management_resource)));
  const net::HttpRequest request{
      .method = "POST",
      .url = std::move(url),
      .headers = {{"authorization", absl::StrCat("Bearer ", token.token.Reveal())}},
      .body = "",
      .answer_bytes_max = kTokenBytesMax};
  ASSIGN_OR_RETURN(const Json json,
                   ReadJson(ctx, authority_.Send(ctx.WithTimeout(kAuthorityTimeMax), request),
                            absl::StrCat(kWhat, " ", token.way)));
  for (const Json& key : JsonArrayAt(json, {"keys"})) {
    if (absl::EqualsIgnoreCase(GetString(key, {"permissions"}), "full")) {
      return AzureAccess{.way = absl::StrCat("by the account's key, listed ", token.way),
                         .key = Secret(GetString(key, {"value"}))};
    }
  }
  return absl::UnavailableError(absl::StrCat(kWhat, ": the answer has no key"));
}

}  // namespace csidelta::storage
