#include "storage/s3_errors.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "storage/object_rules.h"

namespace csidelta::storage {
namespace {

constexpr std::size_t kMessageBytesMax = 300;
constexpr int kInsufficientStorage = 507;

// Names of errors that say more than the HTTP status beside them.
const std::map<absl::string_view, absl::StatusCode>& CodesByName() {
  using Code = absl::StatusCode;
  static const auto* const codes = new std::map<absl::string_view, Code>{
      {"NoSuchBucket", Code::kFailedPrecondition},
      {"NoSuchKey", Code::kNotFound},
      {"InvalidAccessKeyId", Code::kUnauthenticated},
      {"XAdminUserNotFound", Code::kUnauthenticated},  // versitygw, with 404
      {"SignatureDoesNotMatch", Code::kUnauthenticated},
      {"ExpiredToken", Code::kUnauthenticated},
      {"ExpiredTokenException", Code::kUnauthenticated},
      {"InvalidToken", Code::kUnauthenticated},
      {"InvalidClientTokenId", Code::kUnauthenticated},
      {"InvalidIdentityToken", Code::kUnauthenticated},
      {"IDPCommunicationError", Code::kUnavailable},
      {"TokenRefreshRequired", Code::kUnauthenticated},
      {"RequestTimeTooSkewed", Code::kFailedPrecondition},
      {"RequestTimeout", Code::kUnavailable},
      {"IncompleteBody", Code::kUnavailable},
      {"OperationAborted", Code::kUnavailable},
      {"ConditionalRequestConflict", Code::kUnavailable},
      {"InternalError", Code::kUnavailable},
      {"ServiceUnavailable", Code::kUnavailable},
      {"BadDigest", Code::kDataLoss},
      {"InvalidDigest", Code::kDataLoss},
      {"XAmzContentSHA256Mismatch", Code::kDataLoss},
      {"XAmzContentChecksumMismatch", Code::kDataLoss},
  };
  return *codes;
}

// Whether requests come too fast, by parts of the names that botocore takes for that. KMS puts its
// own name before them.
bool ReportsThrottled(absl::string_view code) {
  constexpr absl::string_view kParts[] = {"SlowDown", "Throttl", "TooManyRequests", "LimitExceeded",
                                          "PriorRequestNotComplete"};
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [code](absl::string_view part) { return absl::StrContains(code, part); });
}

// Whether there is no room: of a disk, of what was bought, or of what an administrator allows.
bool ReportsFull(int status, absl::string_view code) {
  constexpr absl::string_view kNames[] = {
      "InsufficientCapacity",           "InsufficientStorage", "QuotaExceeded", "StorageFull",
      "XMinioAdminBucketQuotaExceeded", "XMinioStorageFull"};
  return status == kInsufficientStorage ||
         std::find(std::begin(kNames), std::end(kNames), code) != std::end(kNames);
}

// Whether an object lock is why. Servers have no error code for that, only these words beside
// AccessDenied, InvalidRequest and the like.
bool ReportsRetained(const S3Error& error) {
  return absl::StrContains(absl::AsciiStrToLower(error.message), "object lock") ||
         absl::StrContains(error.message, "WORM");
}

absl::StatusCode CodeOfStatus(int status) {
  switch (status) {
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kNotFound;
    case 412:
      return absl::StatusCode::kAlreadyExists;
    case 416:
      return absl::StatusCode::kOutOfRange;
    case 429:
      return absl::StatusCode::kResourceExhausted;
    case 408:
    case 425:
      return absl::StatusCode::kUnavailable;
    case 501:
    case 505:
      return absl::StatusCode::kFailedPrecondition;
    default:
      // Gateways have numbers of their own for a server that is away, such as 520 to 530.
      return status / 100 == 5 ? absl::StatusCode::kUnavailable
                               : absl::StatusCode::kFailedPrecondition;
  }
}

std::string Printable(absl::string_view text) {
  std::string clean(text.substr(0, kMessageBytesMax));
  std::replace_if(
      clean.begin(), clean.end(),
      [](char c) { return !absl::ascii_isprint(static_cast<unsigned char>(c)); }, '?');
  return clean;
}

}  // namespace

S3Error ReadS3Error(const net::HttpResponse& response) {
  S3Error error;
  // An answer of a proxy, or to HEAD, is no XML: then the status has to do.
  if (absl::StatusOr<S3Error> parsed = ParseS3Error(response.body); parsed.ok()) {
    error = *std::move(parsed);
  }
  if (const std::string region = net::Header(response, "x-amz-bucket-region"); !region.empty()) {
    error.region = region;
  }
  return error;
}

absl::Status S3Status(const net::HttpResponse& response, const S3Error& error,
                      const std::string& region) {
  std::string text = absl::StrCat("the server answered ", response.status);
  if (!error.code.empty()) {
    absl::StrAppend(&text, " ", Printable(error.code), ": ", Printable(error.message));
  }
  for (const char* const name : {"x-amz-request-id", "x-ms-request-id"}) {
    if (const std::string id = net::Header(response, name); !id.empty()) {
      absl::StrAppend(&text, " (request ", Printable(id), ")");
    }
  }
  const bool is_redirect = response.status / 100 == 3;
  const bool is_other_region =
      !error.region.empty() && error.region != region &&
      (is_redirect || error.code == "AuthorizationHeaderMalformed" || response.status == 400);
  if (is_other_region) {
    return absl::FailedPreconditionError(
        absl::StrCat("the bucket is in region \"", Printable(error.region), "\", not \"", region,
                     "\"; set AWS_REGION to the right one; ", text));
  }
  if (is_redirect) {
    return absl::FailedPreconditionError(absl::StrCat("the bucket has another endpoint or region",
                                                      error.endpoint.empty() ? "" : ": ",
                                                      Printable(error.endpoint), "; ", text));
  }
  if (error.code == "NoSuchBucket") {
    absl::StrAppend(&text, "; make the bucket, or correct its name");
  }
  if (error.code == "InvalidObjectState") {
    return AsArchived(absl::FailedPreconditionError(absl::StrCat(
        text,
        "; the object is archived, by a lifecycle rule of the bucket, say: restore all archived "
        "objects below data/ as docs/limits.md shows, then try again")));
  }
  if (ReportsFull(response.status, error.code)) {
    return AsFull(absl::ResourceExhaustedError(absl::StrCat(
        "the bucket is full, or its quota is used up: ", text, "; make room, or raise the quota")));
  }
  if (ReportsThrottled(error.code)) {
    return absl::ResourceExhaustedError(text);
  }
  const auto named = CodesByName().find(error.code);
  absl::Status status(named != CodesByName().end() ? named->second : CodeOfStatus(response.status),
                      text);
  return ReportsRetained(error) ? AsRetained(std::move(status)) : status;
}

}  // namespace csidelta::storage
