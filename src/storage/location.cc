#include "storage/location.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "storage/file_object_store.h"
#include "storage/forwarding_object_store.h"

namespace csidelta::storage {
namespace {

constexpr absl::string_view kAzureScheme = "azure:";
constexpr absl::string_view kGoogleScheme = "gs:";
// Places that restic knows and we do not.
constexpr absl::string_view kForeignSchemes[] = {"b2:", "rclone:", "rest:", "sftp:", "swift:"};
// A full disk or a lost mount does not heal in the minutes that one waits for a service.
constexpr int kDirectoryAttemptsMax = 4;
constexpr absl::string_view kForms =
    "a path, s3:https://HOST/BUCKET/PREFIX, azure:CONTAINER:/PREFIX or gs:BUCKET:/PREFIX";

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("repository location: ", what));
}

bool IsBucketName(absl::string_view name) {
  constexpr std::size_t kNameBytesMax = 255;  // Old buckets of us-east-1 may be so long.
  return !name.empty() && name.size() <= kNameBytesMax && name != "." && name != ".." &&
         absl::c_all_of(name, [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("-._", c);
         });
}

// The segments of "/pre/fix/".
absl::Status SetPrefix(const std::vector<absl::string_view>& segments, Location& location) {
  for (const absl::string_view segment : segments) {
    if (segment == "." || segment == "..") {
      return Malformed("a prefix has no \".\" and \"..\"");
    }
  }
  location.prefix = absl::StrJoin(segments, "/");
  if (!location.prefix.empty()) {
    location.prefix.push_back('/');
  }
  return absl::OkStatus();
}

// Cuts "/bucket/pre/fix/" into its parts.
absl::Status SplitPath(absl::string_view path, Location& location) {
  if (absl::StrContains(path, "?")) {
    return Malformed("a URL of S3 has no query");
  }
  std::vector<absl::string_view> segments = absl::StrSplit(path, '/', absl::SkipEmpty());
  if (segments.empty()) {
    return Malformed("the bucket is missing: s3:https://HOST/BUCKET");
  }
  if (absl::StartsWith(segments.front(), "arn:")) {
    return Malformed(
        "the ARN of an access point is not supported; give the bucket, or the alias of the access "
        "point");
  }
  if (!IsBucketName(segments.front())) {
    return Malformed("not a bucket's name");
  }
  location.bucket = std::string(segments.front());
  segments.erase(segments.begin());
  return SetPrefix(segments, location);
}

// "BUCKET:/PREFIX", where `scheme` stood before it.
absl::StatusOr<Location> ParseBucketAndPath(Location::Kind kind, absl::string_view scheme,
                                            absl::string_view rest) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(rest, absl::MaxSplits(':', 1));
  if (!absl::StrContains(rest, ":") || absl::StartsWith(parts.second, "//")) {
    return Malformed(
        absl::StrCat("give \"", scheme, "NAME:/PREFIX\", with a colon behind the name"));
  }
  if (!IsBucketName(parts.first)) {
    return Malformed(absl::StrCat("not the name of a ",
                                  kind == Location::Kind::kAzure ? "container" : "bucket"));
  }
  if (absl::c_any_of(parts.second, absl::ascii_iscntrl)) {
    return Malformed("a prefix has no control characters");
  }
  Location location{.kind = kind, .bucket = std::string(parts.first)};
  RETURN_IF_ERROR(SetPrefix(absl::StrSplit(parts.second, '/', absl::SkipEmpty()), location));
  return location;
}

absl::StatusOr<Location> ParseS3(absl::string_view rest) {
  if (absl::StrContains(rest, "#")) {
    return Malformed("a URL of S3 has no fragment, and a prefix no \"#\"");
  }
  const bool has_scheme = !absl::ConsumePrefix(&rest, "//") && absl::StrContains(rest, "://");
  const std::string url_text = absl::StrCat(has_scheme ? "" : "https://", rest);
  Location location{.kind = Location::Kind::kS3};
  absl::StatusOr<net::Url> url = net::ParseUrl(url_text);
  if (!url.ok()) {
    return Malformed(url.status().message());
  }
  if (!url->user_info.empty()) {
    return Malformed("keys do not belong into the URL; set AWS_ACCESS_KEY_ID and its secret");
  }
  RETURN_IF_ERROR(SplitPath(url->target, location));
  location.endpoint = *std::move(url);
  location.endpoint.target = "/";
  return location;
}

// Cuts ".amazonaws.com", or what another partition has, off the end of `host`.
bool ConsumeAwsDomain(absl::string_view& host) {
  return absl::c_any_of(kAwsPartitions, [&](const auto& one) {
    return absl::ConsumeSuffix(&host, absl::StrCat(".", one.second));
  });
}

bool IsAws(absl::string_view host) { return ConsumeAwsDomain(host); }

bool IsAddress(absl::string_view host) {
  return absl::StrContains(host, ":") || host.find_first_not_of(".0123456789") == host.npos;
}

// They become headers.
absl::Status CheckTexts(const S3Options& options) {
  for (const auto& [name, text] :
       {std::pair("region", &options.region), std::pair("storage class", &options.storage_class),
        std::pair("encryption", &options.server_side_encryption),
        std::pair("KMS key", &options.kms_key_id), std::pair("tagging", &options.tagging)}) {
    if (!absl::c_all_of(*text, absl::ascii_isgraph)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the ", name, " has a blank or another character that none has"));
    }
  }
  if (absl::c_linear_search(kArchiveClasses, options.storage_class)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "objects of storage class ", options.storage_class,
        " cannot be read until the bucket has restored them, and a repository reads its own in "
        "each run; use GLACIER_IR, STANDARD_IA or INTELLIGENT_TIERING"));
  }
  const std::string& mode = options.object_lock_mode;
  if (!mode.empty() && mode != "GOVERNANCE" && mode != "COMPLIANCE") {
    return absl::InvalidArgumentError("the mode of object locks is GOVERNANCE or COMPLIANCE");
  }
  if (mode.empty() != (options.object_lock_duration <= absl::ZeroDuration())) {
    return absl::InvalidArgumentError("object locks need both a mode and a duration");
  }
  return absl::OkStatus();
}

absl::StatusOr<S3Options> MakeS3Options(const Location& location, const StoreSettings& settings) {
  S3Options options = settings.s3;
  options.endpoint = location.endpoint;
  options.bucket = location.bucket;
  options.prefix = location.prefix;
  const std::string& host = location.endpoint.host;
  for (const std::string& region :
       {settings.region, settings.environment.region, RegionOfHost(host)}) {
    if (!region.empty()) {
      options.region = region;
      break;
    }
  }
  // A certificate for *.host does not name a host with one more dot.
  const bool is_plain_label = !absl::StrContains(location.bucket, ".");
  options.path_style = settings.style == BucketStyle::kPath ||
                       (settings.style == BucketStyle::kAuto && !(IsAws(host) && is_plain_label));
  if (!options.path_style && IsAddress(host)) {
    return Malformed("an address has no virtual hosts; use the path style");
  }
  RETURN_IF_ERROR(CheckTexts(options));
  return options;
}

absl::StatusOr<AzureOptions> MakeAzureOptions(const Location& location,
                                              const StoreSettings& settings) {
  if (!settings.s3.object_lock_mode.empty()) {
    return absl::InvalidArgumentError(
        "object locks are supported in buckets of S3 alone; in Azure, soft delete of the storage "
        "account keeps blobs that are deleted (a retention policy would also keep locks)");
  }
  AzureOptions options = settings.azure;
  options.container = location.bucket;
  options.prefix = location.prefix;
  RETURN_IF_ERROR(CheckAzureOptions(options));
  return options;
}

// The order of its members is that in which they lean on each other.
class Stack : public OpenedStore {
 public:
  Stack(const StoreSettings& settings, Random& random) : settings_(settings), random_(random) {}

  void UseDirectory(const std::string& directory) {
    RetryOptions retry = settings_.retry;
    retry.backoff.attempts_max = std::min(retry.backoff.attempts_max, kDirectoryAttemptsMax);
    Decorate(std::make_unique<FileObjectStore>(directory, random_), retry);
  }

  void UseS3(S3Options options) {
    MakeClients();
    CredentialsEnvironment environment = settings_.environment;
    if (environment.region.empty()) {
      environment.region = options.region;
    }
    auto chain = std::make_unique<CredentialsChain>(std::move(environment), *sts_, *metadata_);
    Decorate(std::make_unique<S3ObjectStore>(std::move(options), *http_, *chain, meter_),
             settings_.retry);
    credentials_ = std::move(chain);
  }

  void UseAzure(AzureOptions options) {
    MakeClients();
    auto credentials = std::make_unique<AzureCredentials>(settings_.azure_environment,
                                                          options.account, *sts_, *metadata_);
    Decorate(std::make_unique<AzureObjectStore>(std::move(options), *http_, *credentials, random_,
                                                meter_),
             settings_.retry);
    credentials_ = std::move(credentials);
  }

  void UseGoogle(GoogleOptions options) {
    MakeClients();
    auto credentials = std::make_unique<GoogleCredentials>(
        settings_.google_environment, options.service_account, *sts_, *metadata_);
    Decorate(std::make_unique<GoogleObjectStore>(std::move(options), *http_, *credentials, meter_),
             settings_.retry);
    credentials_ = std::move(credentials);
  }

  ObjectStore& store() override { return *stores_.back(); }
  const StoreMeter& meter() const override { return meter_; }

 private:
  void MakeClients() {
    http_ = std::make_unique<net::HttpClient>(
        net::HttpClientOptions{settings_.tls, settings_.proxy, BucketHttpLimits()});
    sts_ = std::make_unique<net::HttpClient>(
        net::HttpClientOptions{settings_.sts_tls, settings_.proxy, BucketHttpLimits()});
    metadata_ = std::make_unique<net::HttpClient>(
        net::HttpClientOptions{net::TlsOptions(), net::ProxySettings(), BucketHttpLimits()});
  }

  void Decorate(std::unique_ptr<ObjectStore> place, const RetryOptions& retry) {
    stores_.push_back(std::move(place));
    stores_.push_back(std::make_unique<MeteredObjectStore>(*stores_.back(), meter_));
    stores_.push_back(
        std::make_unique<RetryingObjectStore>(*stores_.back(), retry, random_, meter_));
    stores_.push_back(std::make_unique<LimitedObjectStore>(*stores_.back(), settings_.limits));
    if (settings_.read_only) {
      stores_.push_back(std::make_unique<ReadOnlyObjectStore>(*stores_.back()));
    }
  }

  const StoreSettings settings_;
  Random& random_;
  StoreMeter meter_;
  std::unique_ptr<net::HttpClient> http_;
  std::unique_ptr<net::HttpClient> sts_;
  std::unique_ptr<net::HttpClient> metadata_;
  std::unique_ptr<RenewableCredentials> credentials_;
  std::vector<std::unique_ptr<ObjectStore>> stores_;  // each around the one before
};

}  // namespace

std::string RegionOfHost(absl::string_view host) {
  const bool is_aws = ConsumeAwsDomain(host);
  const bool is_s3 = absl::ConsumePrefix(&host, "s3.") || absl::ConsumePrefix(&host, "s3-");
  if (!is_aws || !is_s3) {
    return "";
  }
  absl::ConsumePrefix(&host, "dualstack.");
  return absl::StrContains(host, ".") || host == "accelerate" ? "" : std::string(host);
}

absl::StatusOr<Location> ParseLocation(absl::string_view text) {
  if (absl::StrContains(text, absl::string_view("\0", 1))) {
    return Malformed("it has a zero byte");
  }
  if (absl::ConsumePrefix(&text, "s3:")) {
    return ParseS3(text);
  }
  if (absl::ConsumePrefix(&text, kAzureScheme)) {
    return ParseBucketAndPath(Location::Kind::kAzure, kAzureScheme, text);
  }
  if (absl::ConsumePrefix(&text, kGoogleScheme)) {
    return ParseBucketAndPath(Location::Kind::kGoogle, kGoogleScheme, text);
  }
  for (const absl::string_view scheme : kForeignSchemes) {
    if (absl::StartsWith(text, scheme)) {
      return Malformed(absl::StrCat("\"", scheme, "\" is not supported; give ", kForms));
    }
  }
  absl::ConsumePrefix(&text, "local:");
  if (text.empty()) {
    return Malformed(absl::StrCat("it is empty; give ", kForms));
  }
  if (absl::StrContains(text, "://")) {
    return Malformed(absl::StrCat("a URL begins with \"s3:\"; give ", kForms));
  }
  return Location{.kind = Location::Kind::kDirectory, .directory = std::string(text)};
}

absl::StatusOr<std::unique_ptr<OpenedStore>> OpenStore(const Location& location,
                                                       const StoreSettings& settings,
                                                       Random& random) {
  auto stack = std::make_unique<Stack>(settings, random);
  if (location.kind == Location::Kind::kDirectory) {
    stack->UseDirectory(location.directory);
  } else if (location.kind == Location::Kind::kAzure) {
    ASSIGN_OR_RETURN(AzureOptions options, MakeAzureOptions(location, settings));
    stack->UseAzure(std::move(options));
  } else if (location.kind == Location::Kind::kGoogle) {
    GoogleOptions options = settings.google;
    options.bucket = location.bucket;
    options.prefix = location.prefix;
    RETURN_IF_ERROR(CompleteGoogleOptions(settings.google_environment.emulator_host, options));
    stack->UseGoogle(std::move(options));
  } else {
    ASSIGN_OR_RETURN(S3Options options, MakeS3Options(location, settings));
    stack->UseS3(std::move(options));
  }
  return stack;
}

}  // namespace csidelta::storage
