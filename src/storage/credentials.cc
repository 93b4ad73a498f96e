#include "storage/credentials.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "net/proxy.h"
#include "net/url.h"
#include "storage/posix_file.h"
#include "storage/s3_errors.h"
#include "storage/s3_xml.h"
#include "storage/shared_credentials.h"

namespace csidelta::storage {
namespace {

constexpr int64_t kAnswerBytesMax = int64_t{256} << 10;
constexpr absl::Duration kStsTimeMax = absl::Seconds(30);
constexpr absl::Duration kMetadataTimeMax = absl::Seconds(2);
constexpr int kMetadataLooksMax = 3;
constexpr absl::Duration kContainerTimeMax = absl::Seconds(10);
constexpr absl::string_view kContainerHosts[] = {"169.254.170.2", "169.254.170.23", "fd00:ec2::23"};
// STS calls a good token bad until it has learnt of its issuer's keys.
constexpr int kTokenAttemptsMax = 4;
constexpr absl::Duration kBeforeAnotherQuestion = absl::Seconds(1);
constexpr char kMetadataTokenPath[] = "/latest/api/token";
constexpr char kMetadataRolesPath[] = "/latest/meta-data/iam/security-credentials/";

std::string StsUrl(const CredentialsEnvironment& environment) {
  if (!environment.sts_url.empty()) {
    return environment.sts_url;
  }
  if (environment.region.empty()) {
    return "https://sts.amazonaws.com";
  }
  return absl::StrCat("https://sts.", environment.region, ".", AwsDomain(environment.region));
}

// What containers and instances are told. `source` is for the message.
absl::StatusOr<Credentials> ParseJsonCredentials(const std::string& text,
                                                 absl::string_view source) {
  const absl::StatusOr<Json> parsed = ParseJsonObject(text);
  if (!parsed.ok()) {
    return absl::UnavailableError(
        absl::StrCat(source, " answered with something else than credentials"));
  }
  const Json& json = *parsed;
  Credentials credentials{.access_key_id = GetString(json, {"AccessKeyId"}),
                          .secret_access_key = Secret(GetString(json, {"SecretAccessKey"})),
                          .session_token = Secret(GetString(json, {"Token"}))};
  const std::string code = GetString(json, {"Code"});
  const std::optional<absl::Time> expires_at = ParseRfc3339(GetString(json, {"Expiration"}));
  if ((!code.empty() && code != "Success") || credentials.access_key_id.empty() ||
      credentials.secret_access_key.empty() || !expires_at.has_value()) {
    return absl::UnauthenticatedError(absl::StrCat(source, ": the role has no credentials"));
  }
  credentials.expires_at = *expires_at;
  return credentials;
}

bool IsPlain(absl::string_view text) { return absl::c_all_of(text, absl::ascii_isgraph); }

// A line break at the end of a mounted secret would be seen by the server as another key.
absl::Status CheckPlain(const Credentials& credentials) {
  const std::pair<const char*, absl::string_view> parts[] = {
      {"access key", credentials.access_key_id},
      {"secret key", credentials.secret_access_key.Reveal()},
      {"session token", credentials.session_token.Reveal()}};
  for (const auto& [name, text] : parts) {
    if (!IsPlain(text)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the ", name, " has a blank, a line break or another character that no key has"));
    }
  }
  return absl::OkStatus();
}

// The answer's body; errors say `source`.
absl::StatusOr<std::string> BodyOf(const net::HttpResponse& response, absl::string_view source) {
  if (response.status == 200) {
    return response.body;
  }
  const std::string text = absl::StrCat(source, " answered ", response.status);
  return IsRetryable(S3Status(response, {}, "")) ? absl::UnavailableError(text)
                                                 : absl::UnauthenticatedError(text);
}

}  // namespace

absl::Status NotAnswered(const CallContext& ctx, const absl::Status& status,
                         absl::string_view source) {
  if (absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) || !ctx.Check().ok()) {
    return Annotate(status, source);
  }
  return absl::UnavailableError(absl::StrCat(source, ": ", status.message()));
}

bool MayCarrySecrets(const net::Url& url, absl::Span<const absl::string_view> others) {
  return url.scheme == "https" || net::IsLoopback(url.host) ||
         absl::c_linear_search(others, url.host);
}

absl::StatusOr<net::HttpResponse> MetadataServer::Ask(const CallContext& ctx,
                                                      const net::HttpRequest& request,
                                                      absl::string_view without) {
  absl::StatusOr<net::HttpResponse> response;
  // Nothing is what a service says that has just begun.
  const auto says_nothing = [&] {
    return !response.ok() || (response->status == 200 && response->body.empty());
  };
  for (int looks = 1;; ++looks) {
    response = http_.Send(ctx.WithTimeout(kMetadataTimeMax), request);
    if (!says_nothing() || !ctx.Check().ok() || looks == kMetadataLooksMax) {
      break;
    }
    ctx.clock->SleepFor(kBeforeAnotherQuestion, ctx.stop);
  }
  has_answered_ = has_answered_ || response.ok();
  if (!has_answered_ && ctx.Check().ok()) {
    return absl::UnauthenticatedError(absl::StrCat("instance metadata does not answer (",
                                                   response.status().message(), ")", without));
  }
  return response.ok() ? std::move(response)
                       : NotAnswered(ctx, response.status(), "instance metadata");
}

absl::string_view AwsDomain(absl::string_view region) {
  return absl::c_find_if(kAwsPartitions,
                         [region](const auto& one) { return absl::StartsWith(region, one.first); })
      ->second;
}

CredentialsEnvironment CredentialsEnvironment::Read(
    const std::function<const char*(const char* name)>& read) {
  const auto get = [&](const char* name) {
    const char* value = read(name);
    return std::string(value == nullptr ? "" : value);
  };
  const auto first = [](std::string one, std::string other) {
    return one.empty() ? std::move(other) : std::move(one);
  };
  CredentialsEnvironment environment;
  environment.keys = {.access_key_id = get("AWS_ACCESS_KEY_ID"),
                      .secret_access_key = Secret(get("AWS_SECRET_ACCESS_KEY")),
                      .session_token = Secret(get("AWS_SESSION_TOKEN"))};
  environment.role_arn = get("AWS_ROLE_ARN");
  environment.role_session_name = first(get("AWS_ROLE_SESSION_NAME"), "csi-delta");
  environment.web_identity_token_file = get("AWS_WEB_IDENTITY_TOKEN_FILE");
  environment.sts_url = get("AWS_ENDPOINT_URL_STS");
  environment.region = first(get("AWS_REGION"), get("AWS_DEFAULT_REGION"));
  const std::string home = get("HOME");
  const auto at_home = [&](absl::string_view file) {
    return home.empty() ? std::string() : absl::StrCat(home, "/.aws/", file);
  };
  environment.shared_credentials_file =
      first(get("AWS_SHARED_CREDENTIALS_FILE"), at_home("credentials"));
  environment.config_file = first(get("AWS_CONFIG_FILE"), at_home("config"));
  environment.profile = get("AWS_PROFILE");
  environment.container_path = get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  environment.container_url = get("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  environment.container_token_file = get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  environment.container_token = Secret(get("AWS_CONTAINER_AUTHORIZATION_TOKEN"));
  environment.metadata_url =
      first(get("AWS_EC2_METADATA_SERVICE_ENDPOINT"), environment.metadata_url);
  environment.metadata_disabled = absl::EqualsIgnoreCase(get("AWS_EC2_METADATA_DISABLED"), "true");
  return environment;
}

CredentialsChain::CredentialsChain(CredentialsEnvironment environment, net::HttpClient& sts,
                                   net::HttpClient& metadata)
    : environment_(std::move(environment)), sts_(sts), metadata_(metadata) {}

absl::StatusOr<Credentials> CredentialsChain::Get(const CallContext& ctx) {
  return kept_.Get(ctx, [&] { return Annotate(LoadPlain(ctx), "credentials for S3"); });
}

absl::StatusOr<Credentials> CredentialsChain::LoadPlain(const CallContext& ctx) {
  ASSIGN_OR_RETURN(Credentials loaded, Load(ctx));
  RETURN_IF_ERROR(CheckPlain(loaded));
  return loaded;
}

absl::StatusOr<Credentials> CredentialsChain::Load(const CallContext& ctx) {
  const auto from = [](absl::StatusOr<Credentials> loaded, absl::string_view source) {
    if (loaded.ok() && loaded->source.empty()) {
      loaded->source = std::string(source);
    }
    return loaded;
  };
  if (HasFixedKeys()) {
    return from(environment_.keys, "the environment (AWS_ACCESS_KEY_ID)");
  }
  if (!environment_.role_arn.empty() && !environment_.web_identity_token_file.empty()) {
    return from(AssumeRole(ctx), absl::StrCat("web identity, role ", environment_.role_arn));
  }
  ASSIGN_OR_RETURN(std::optional<Credentials> shared, ReadSharedFiles(ctx));
  if (shared.has_value()) {
    return *std::move(shared);
  }
  if (!environment_.container_path.empty() || !environment_.container_url.empty()) {
    return from(AskContainer(ctx), "the container's endpoint of credentials");
  }
  constexpr char kNone[] =
      "none found in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), by web identity, "
      "or in a shared credentials file";
  if (environment_.metadata_disabled) {
    return absl::UnauthenticatedError(kNone);
  }
  absl::StatusOr<Credentials> of_instance = AskInstance(ctx);
  return absl::IsUnauthenticated(of_instance.status())
             ? absl::UnauthenticatedError(
                   absl::StrCat(kNone, ", and ", of_instance.status().message()))
             : of_instance;
}

absl::StatusOr<std::optional<Credentials>> CredentialsChain::ReadSharedFiles(
    const CallContext& ctx) {
  const std::string profile = environment_.profile.empty() ? "default" : environment_.profile;
  bool is_there = false;
  for (const std::string& path : {environment_.shared_credentials_file, environment_.config_file}) {
    std::optional<std::string> text;
    if (!path.empty()) {
      ASSIGN_OR_RETURN(text, ReadSmallFile(ctx, path));
    }
    if (text.has_value()) {
      ASSIGN_OR_RETURN(SharedProfile found, ParseSharedCredentials(*text, profile));
      if (found.credentials.has_value()) {
        found.credentials->source = absl::StrCat(path, ", profile \"", profile, "\"");
        return std::move(found.credentials);
      }
      is_there = is_there || found.is_there;
    }
  }
  if (!environment_.profile.empty() && !is_there) {
    return absl::UnauthenticatedError(absl::StrCat(
        "AWS_PROFILE is \"", profile, "\", but neither ", environment_.shared_credentials_file,
        " nor ", environment_.config_file, " has such a profile"));
  }
  return std::nullopt;
}

absl::StatusOr<Credentials> CredentialsChain::AssumeRole(const CallContext& ctx) {
  ASSIGN_OR_RETURN(const std::optional<std::string> token,
                   ReadSmallFile(ctx, environment_.web_identity_token_file));
  if (!token.has_value()) {
    return absl::UnauthenticatedError(
        absl::StrCat("web identity: no token in ", environment_.web_identity_token_file));
  }
  ASSIGN_OR_RETURN(net::Url url, net::ParseUrl(StsUrl(environment_)));
  if (url.scheme != "https" && environment_.sts_url.empty()) {
    return absl::InvalidArgumentError("web identity: STS wants https");
  }
  const net::HttpRequest request{
      .method = "POST",
      .url = std::move(url),
      .headers = {{"content-type", "application/x-www-form-urlencoded"}},
      .body = absl::StrCat(
          "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=",
          net::PercentEncode(environment_.role_arn),
          "&RoleSessionName=", net::PercentEncode(environment_.role_session_name),
          "&WebIdentityToken=", net::PercentEncode(absl::StripAsciiWhitespace(*token))),
      .answer_bytes_max = kAnswerBytesMax};
  for (int attempt = 1;; ++attempt) {
    const absl::StatusOr<net::HttpResponse> response =
        sts_.Send(ctx.WithTimeout(kStsTimeMax), request);
    if (!response.ok()) {
      return NotAnswered(ctx, response.status(), "web identity");
    }
    if (response->status == 200) {
      absl::StatusOr<Credentials> role = ParseAssumeRoleResponse(response->body);
      return role.ok() ? role
                       : NotAnswered(ctx, absl::UnavailableError(role.status().message()),
                                     "web identity");
    }
    const S3Error error = ReadS3Error(*response);
    if (error.code == "InvalidIdentityToken" && attempt < kTokenAttemptsMax) {
      ctx.clock->SleepFor(kBeforeAnotherQuestion, ctx.stop);
      RETURN_IF_ERROR(ctx.Check());
      continue;
    }
    absl::Status status = S3Status(*response, error, environment_.region);
    if (!IsRetryable(status)) {
      status = absl::UnauthenticatedError(status.message());
    }
    return Annotate(status, "web identity");
  }
}

absl::StatusOr<std::string> CredentialsChain::AskMetadata(const CallContext& ctx,
                                                          const std::string& path,
                                                          const std::string& token) {
  ASSIGN_OR_RETURN(net::Url url, net::ParseUrl(environment_.metadata_url));
  url.target = path;
  net::HttpRequest request{.method = token.empty() ? "PUT" : "GET",
                           .url = std::move(url),
                           .headers = {},
                           .body = "",
                           .answer_bytes_max = kAnswerBytesMax};
  request.headers.emplace_back(
      token.empty() ? "x-aws-ec2-metadata-token-ttl-seconds" : "x-aws-ec2-metadata-token",
      token.empty() ? "21600" : token);
  ASSIGN_OR_RETURN(const net::HttpResponse response, machine_.Ask(ctx, request));
  return BodyOf(response, absl::StrCat("instance metadata, asked for ", path, ","));
}

absl::StatusOr<Credentials> CredentialsChain::AskContainer(const CallContext& ctx) {
  constexpr char kSource[] = "the container's endpoint of credentials";
  const bool is_path = !environment_.container_path.empty();
  ASSIGN_OR_RETURN(net::Url url, net::ParseUrl(is_path ? environment_.container_host_url
                                                       : environment_.container_url));
  if (is_path) {
    url.target = environment_.container_path;
  } else if (!MayCarrySecrets(url, kContainerHosts)) {
    return absl::InvalidArgumentError(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI must be https, or name this machine");
  }
  std::string token = environment_.container_token.Reveal();
  if (!environment_.container_token_file.empty()) {
    ASSIGN_OR_RETURN(const std::optional<std::string> text,
                     ReadSmallFile(ctx, environment_.container_token_file));
    token = text.value_or("");
  }
  token = std::string(absl::StripAsciiWhitespace(token));
  if (!IsPlain(absl::StrReplaceAll(token, {{" ", ""}})) || !IsPlain(url.target)) {
    return absl::InvalidArgumentError(absl::StrCat(kSource, ": its token or path is malformed"));
  }
  net::HttpRequest request{.method = "GET",
                           .url = std::move(url),
                           .headers = {},
                           .body = "",
                           .answer_bytes_max = kAnswerBytesMax};
  if (!token.empty()) {
    request.headers.emplace_back("authorization", token);
  }
  absl::StatusOr<net::HttpResponse> response =
      metadata_.Send(ctx.WithTimeout(kContainerTimeMax), request);
  if (!response.ok()) {
    return NotAnswered(ctx, response.status(), kSource);
  }
  ASSIGN_OR_RETURN(const std::string text, BodyOf(*response, kSource));
  return ParseJsonCredentials(text, kSource);
}

absl::StatusOr<Credentials> CredentialsChain::AskInstance(const CallContext& ctx) {
  ASSIGN_OR_RETURN(const std::string token, AskMetadata(ctx, kMetadataTokenPath, ""));
  if (token.empty()) {
    return absl::UnauthenticatedError("instance metadata gave an empty token");
  }
  ASSIGN_OR_RETURN(const std::string roles, AskMetadata(ctx, kMetadataRolesPath, token));
  const std::vector<std::string> names = absl::StrSplit(roles, absl::ByAnyChar("\r\n"));
  if (names.front().empty()) {
    return absl::UnauthenticatedError("instance metadata: the instance has no role");
  }
  ASSIGN_OR_RETURN(const std::string text,
                   AskMetadata(ctx, kMetadataRolesPath + net::PercentEncode(names.front()), token));
  ASSIGN_OR_RETURN(Credentials of_role, ParseJsonCredentials(text, "instance metadata"));
  of_role.source = absl::StrCat("the instance's role ", absl::CHexEscape(names.front()));
  return of_role;
}

}  // namespace csidelta::storage
