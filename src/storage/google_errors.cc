#include "storage/google_errors.h"

#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "storage/object_rules.h"
#include "storage/s3_errors.h"

namespace csidelta::storage {
namespace {

constexpr int64_t kErrorValuesMax = 1000;

constexpr char kBillingAdvice[] =
    "; enable billing for the project of the bucket, or end what disabled the project";
constexpr char kKeyAdvice[] =
    "; let the Cloud Storage service agent of the bucket's project use the key "
    "(roles/cloudkms.cryptoKeyEncrypterDecrypter), or name another";

// What a reason means where that is more than its HTTP status says, and what to do about it.
struct Meaning {
  absl::StatusCode code;
  const char* advice = "";
};

const std::map<absl::string_view, Meaning>& Meanings() {
  using Code = absl::StatusCode;
  static const auto* const meanings = new std::map<absl::string_view, Meaning>{
      {"rateLimitExceeded", {Code::kResourceExhausted}},
      {"userRateLimitExceeded", {Code::kResourceExhausted}},
      {"usageLimits.rateLimitExceeded", {Code::kResourceExhausted}},
      {"dailyLimitExceeded", {Code::kResourceExhausted}},
      {"quotaExceeded", {Code::kResourceExhausted, "; raise the quota of the project"}},
      {"authError", {Code::kUnauthenticated}},
      {"forbidden",
       {Code::kPermissionDenied, "; grant roles/storage.objectAdmin on the bucket, or less"}},
      {"insufficientPermissions",
       {Code::kPermissionDenied, "; the token lacks the scope devstorage.read_write"}},
      {"accountDisabled", {Code::kPermissionDenied, kBillingAdvice}},
      {"userProjectAccountProblem", {Code::kPermissionDenied, kBillingAdvice}},
      {"accessNotConfigured",
       {Code::kPermissionDenied, "; enable the Cloud Storage API in the project"}},
      {"userProjectMissing",
       {Code::kFailedPrecondition, "; turn off \"requester pays\", which is not supported"}},
      {"orgPolicyConstraintFailed", {Code::kFailedPrecondition}},
      {"cloudKmsBadKey", {Code::kFailedPrecondition, kKeyAdvice}},
      {"cloudKmsDisabledKey", {Code::kFailedPrecondition, kKeyAdvice}},
      {"cloudKmsEncryptionKeyNotFound", {Code::kFailedPrecondition, kKeyAdvice}},
      {"cloudKmsKeyLocationNotAllowed", {Code::kFailedPrecondition, kKeyAdvice}},
  };
  return *meanings;
}

}  // namespace

S3Error ReadGoogleError(const net::HttpResponse& response) {
  const absl::string_view text = absl::StripAsciiWhitespace(response.body);
  const absl::StatusOr<Json> json = ParseJsonObject(text, kErrorValuesMax);
  S3Error error;
  if (!json.ok()) {
    const bool is_page = text.empty() || absl::StartsWith(text, "<");
    error.code = is_page ? "" : "error";
    error.message = std::string(is_page ? "" : text);
    return error;
  }
  error.code = GetString(*json, {"error"});  // of a token service
  error.message = GetString(*json, {"error_description"});
  if (error.code.empty()) {
    error.code = GetString(*json, {"error", "status"});
    error.message = GetString(*json, {"error", "message"});
    for (const Json& one : JsonArrayAt(*json, {"error", "errors"})) {
      error.code = GetString(one, {"reason"});
      break;
    }
  }
  return error;
}

absl::Status GoogleStatus(const net::HttpResponse& response, bool of_object) {
  const S3Error error = ReadGoogleError(response);
  absl::Status status = S3Status(response, error, "");
  const std::string message = absl::AsciiStrToLower(error.message);
  if (error.code == "retentionPolicyNotMet" || error.code == "objectUnderActiveHold") {
    return AsRetained(absl::PermissionDeniedError(absl::StrCat(
        status.message(), "; the object is retained by the bucket's policy, its own, or a hold")));
  }
  if (absl::StrContains(message, "crc32c") && response.status == 400) {
    return absl::DataLossError(status.message());
  }
  if (response.status == 404 &&
      (!of_object || absl::StrContains(message, "bucket does not exist"))) {
    return absl::FailedPreconditionError(
        absl::StrCat(status.message(), "; make the bucket, or correct its name"));
  }
  const auto meaning = Meanings().find(error.code);
  if (meaning != Meanings().end()) {
    status = {meaning->second.code, absl::StrCat(status.message(), meaning->second.advice)};
  }
  return response.status == 412 && status.code() == absl::StatusCode::kAlreadyExists
             ? absl::FailedPreconditionError(status.message())
             : status;
}

}  // namespace csidelta::storage
