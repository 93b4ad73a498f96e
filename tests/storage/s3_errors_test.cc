#include "storage/s3_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "storage/object_rules.h"
#include "tests/support/status_matchers.h"

namespace csidelta::storage::s3_errors_test {
namespace {

using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

absl::Status Map(const net::HttpResponse& response) {
  return S3Status(response, ReadS3Error(response), "us-east-1");
}

net::HttpResponse Answer(int status, const std::string& code, const std::string& more = "") {
  return {.status = status,
          .headers = {},
          .body = code.empty() ? ""
                               : absl::StrCat("<Error><Code>", code,
                                              "</Code><Message>why</Message>", more, "</Error>")};
}

TEST(S3ErrorsTest, MapsStatusesAndNames) {
  using Code = absl::StatusCode;
  struct Case {
    int status;
    const char* code;
    Code expected;
  };
  const Case cases[] = {
      {400, "InvalidArgument", Code::kFailedPrecondition},
      {400, "RequestTimeout", Code::kUnavailable},
      {400, "ExpiredToken", Code::kUnauthenticated},
      {400, "BadDigest", Code::kDataLoss},
      {400, "XAmzContentSHA256Mismatch", Code::kDataLoss},
      {400, "IncompleteBody", Code::kUnavailable},
      {401, "", Code::kUnauthenticated},
      {403, "", Code::kPermissionDenied},
      {403, "AccessDenied", Code::kPermissionDenied},
      {403, "SignatureDoesNotMatch", Code::kUnauthenticated},
      {403, "InvalidAccessKeyId", Code::kUnauthenticated},
      {403, "RequestTimeTooSkewed", Code::kFailedPrecondition},
      {403, "QuotaExceeded", Code::kResourceExhausted},
      {403, "InvalidObjectState", Code::kFailedPrecondition},
      {404, "XAdminUserNotFound", Code::kUnauthenticated},
      {404, "", Code::kNotFound},
      {404, "NoSuchKey", Code::kNotFound},
      {404, "NoSuchBucket", Code::kFailedPrecondition},
      {405, "MethodNotAllowed", Code::kFailedPrecondition},
      {408, "", Code::kUnavailable},
      {409, "OperationAborted", Code::kUnavailable},
      {409, "InvalidBucketState", Code::kFailedPrecondition},
      {412, "PreconditionFailed", Code::kAlreadyExists},
      {416, "InvalidRange", Code::kOutOfRange},
      {429, "", Code::kResourceExhausted},
      {500, "InternalError", Code::kUnavailable},
      {501, "NotImplemented", Code::kFailedPrecondition},
      {505, "", Code::kFailedPrecondition},
      {425, "", Code::kUnavailable},
      {520, "", Code::kUnavailable},
      {524, "", Code::kUnavailable},
      {530, "", Code::kUnavailable},
      {400, "IDPCommunicationError", Code::kUnavailable},
      {502, "", Code::kUnavailable},
      {503, "SlowDown", Code::kResourceExhausted},
      {503, "ServiceUnavailable", Code::kUnavailable},
      {400, "ThrottlingException", Code::kResourceExhausted},
      {400, "KMS.ThrottlingException", Code::kResourceExhausted},
      {400, "LimitExceededException", Code::kResourceExhausted},
      {400, "KMS.DisabledException", Code::kFailedPrecondition},
      {503, "", Code::kUnavailable},
      {504, "", Code::kUnavailable},
      {507, "", Code::kResourceExhausted},
      {100, "", Code::kFailedPrecondition},
      {999, "", Code::kFailedPrecondition},
  };
  for (const Case& each : cases) {
    EXPECT_THAT(Map(Answer(each.status, each.code)), StatusIs(each.expected))
        << each.status << " " << each.code;
  }
}

TEST(S3ErrorsTest, AFullBucketIsDistinguishedFromABusyOne) {
  const std::pair<int, const char*> fulls[] = {{507, ""},
                                               {507, "XMinioStorageFull"},
                                               {403, "QuotaExceeded"},
                                               {400, "XMinioAdminBucketQuotaExceeded"},
                                               {503, "InsufficientCapacity"}};
  for (const auto& [status, code] : fulls) {
    const absl::Status told = Map(Answer(status, code));
    EXPECT_TRUE(IsFull(told)) << status << " " << code;
    EXPECT_THAT(told, StatusIs(absl::StatusCode::kResourceExhausted,
                               AllOf(HasSubstr("the bucket is full"), HasSubstr(code),
                                     HasSubstr("; make room"))));
  }
  EXPECT_FALSE(IsFull(Map(Answer(503, "SlowDown"))));
  EXPECT_FALSE(IsFull(Map(Answer(429, ""))));
}

TEST(S3ErrorsTest, ABucketThatIsNotThereSaysWhatToDo) {
  EXPECT_THAT(Map(Answer(404, "NoSuchBucket")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("make the bucket, or")));
}

// By a lifecycle rule, say.
TEST(S3ErrorsTest, AnArchivedObjectIsNoMissingRight) {
  EXPECT_THAT(Map(Answer(403, "InvalidObjectState")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("is archived"), HasSubstr("docs/limits.md"))));
}

TEST(S3ErrorsTest, NamesTheRightRegion) {
  const auto wrong = [](const char* region) {
    return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(absl::StrCat("\"", region)));
  };
  EXPECT_THAT(Map(Answer(400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>")),
              wrong("eu-west-1"));
  for (const int status : {301, 307, 400}) {
    net::HttpResponse head = Answer(status, "");
    head.headers["x-amz-bucket-region"] = "ap-south-1";
    EXPECT_THAT(Map(head), wrong("ap-south-1")) << status;
  }
  EXPECT_THAT(Map(Answer(301, "PermanentRedirect")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("endpoint or region")));
  EXPECT_THAT(Map(Answer(301, "PermanentRedirect", "<Endpoint>b.s3.eu-west-1.example</Endpoint>")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("b.s3.eu-west-1.example")));
}

TEST(S3ErrorsTest, MessagesAreShortAndPrintable) {
  const net::HttpResponse answer = Answer(
      403, "AccessDenied", absl::StrCat("<Message>\n\t", std::string(5000, 'x'), "</Message>"));
  const std::string message(Map(answer).message());
  EXPECT_LT(message.size(), 1000u);
  EXPECT_THAT(message, AllOf(HasSubstr("403 AccessDenied"), Not(HasSubstr("\n"))));
  EXPECT_THAT(Map({.status = 502, .headers = {}, .body = "<html>oh</html>"}),
              StatusIs(absl::StatusCode::kUnavailable, "the server answered 502"));
}

}  // namespace
}  // namespace csidelta::storage::s3_errors_test
