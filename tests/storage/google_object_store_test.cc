#include "storage/google_object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "storage/google_errors.h"
#include "storage/location.h"
#include "storage/object_rules.h"
#include "storage/retrying_object_store.h"
#include "tests/support/bucket_words.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_google_server.h"
#include "tests/support/fake_token_service.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::storage::google_object_store_test {
namespace {

using namespace support::bucket_words;
using support::FakeGoogleServer;
using support::FakeTokenService;

// A server whose tokens come from a service, for the key of a service account; waiting takes no
// time.
class GoogleObjectStoreTest : public testing::Test {
 protected:
  GoogleObjectStoreTest() {
    clock_.SetAutoAdvance(true);
    ctx_.clock = &clock_;
    std::ofstream(folder_.path() + "/key.json") << tokens_.KeyFile();
  }

  GoogleObjectStore& Store(GoogleOptions options = {}) {
    options.endpoint = *net::ParseUrl(server_.url());
    options.bucket = "bucket";
    store_ = std::make_unique<GoogleObjectStore>(std::move(options), http_, credentials_, meter_);
    return *store_;
  }

  // Answers the first `times` requests of `method` otherwise.
  void Answer(const std::string& method, int times, int status, const std::string& body,
              const support::Headers& headers = {}) {
    auto left = std::make_shared<int>(times);
    server_.Interfere([=](const ServedRequest& request, ServedConnection& connection) {
      if (request.method != method || (*left)-- <= 0) {
        return false;
      }
      connection.Send(status, body, headers);
      return true;
    });
  }

  support::FakeClock clock_;  // Outlives the servers' threads.
  CallContext ctx_;
  const support::ScratchFolder folder_;
  FakeTokenService tokens_{clock_};
  FakeGoogleServer server_{
      {.accepts = [this](const std::string& token) { return tokens_.IsGood(token); }}};
  net::HttpClient http_{
      net::HttpClientOptions{.tls = {}, .proxy = {}, .limits = BucketHttpLimits()}};
  GoogleCredentials credentials_{
      {.credentials_file = folder_.path() + "/key.json"}, "", http_, http_};
  StoreMeter meter_;
  std::unique_ptr<GoogleObjectStore> store_;
};

TEST_F(GoogleObjectStoreTest, APutSaysNameChecksumAndKey) {
  GoogleObjectStore& store =
      Store({.prefix = "pre fix/", .storage_class = "COLDLINE", .kms_key_name = "projects/p/k"});
  ASSERT_THAT(store.Put(ctx_, "data/ab/pack", "bytes", {}), IsOk());
  ASSERT_THAT(store.Put(ctx_, "index/one", "bytes", {.if_absent = true}), IsOk());
  const auto said = server_.put_headers();
  EXPECT_EQ(server_.objects().at("pre fix/data/ab/pack"), "bytes");
  EXPECT_EQ(said.at("pre fix/data/ab/pack").at("storageClass"), "COLDLINE");
  EXPECT_EQ(said.at("pre fix/data/ab/pack").at("kmsKeyName"), "projects/p/k");
  EXPECT_EQ(said.at("pre fix/index/one").at("storageClass"), "STANDARD");  // Read in each run.
  EXPECT_THAT(tokens_.refusals(), IsEmpty());
  EXPECT_EQ(store.Describe(), "gs:bucket:/pre fix");
}

TEST_F(GoogleObjectStoreTest, OtherBytesAreNoticed) {
  GoogleObjectStore& store = Store();
  ASSERT_THAT(store.Put(ctx_, "one", "some bytes", {}), IsOk());
  server_.Spoil([](const ServedRequest&) { return support::Spoiling::kFlipped; });
  EXPECT_THAT(store.Put(ctx_, "two", "some bytes", {}),
              StatusIs(Code::kDataLoss, HasSubstr("stored other bytes")));
  EXPECT_THAT(store.Get(ctx_, "one", 100), StatusIs(Code::kDataLoss, HasSubstr("CRC32C")));
}

TEST_F(GoogleObjectStoreTest, AnUploadThatChangesOnTheWayIsRefusedByTheServer) {
  support::HttpTestServer changed([&](const ServedRequest& request, ServedConnection& connection) {
    std::string body = request.body;
    body[body.find("some bytes")] = 'S';
    const auto passed = http_.Send(
        CallContext(), {.method = request.method,
                        .url = *net::ParseUrl(server_.url() + request.target),
                        .headers = {{"content-type", request.headers.at("content-type")},
                                    {"authorization", request.headers.at("authorization")}},
                        .body = body});
    connection.Send(passed.ok() ? passed->status : 599, passed.ok() ? passed->body : "");
  });
  GoogleObjectStore store({.endpoint = *net::ParseUrl(changed.url()), .bucket = "bucket"}, http_,
                          credentials_, meter_);
  EXPECT_THAT(store.Put(ctx_, "one", "some bytes", {}),
              StatusIs(Code::kDataLoss, HasSubstr("CRC32C")));
  EXPECT_THAT(server_.objects(), IsEmpty());  // Never visible.
}

TEST_F(GoogleObjectStoreTest, AListingThatGoesOnPassesOverTheKeyItKnows) {
  GoogleObjectStore& store = Store();
  for (const char* key : {"data/a", "data/a-b", "data/a.c", "data/b", "other"}) {
    server_.SetObject(key, "x");
  }
  std::vector<std::string> keys;
  ASSERT_THAT(store.ListAfter(ctx_, "data/", "data/a",
                              [&](const ObjectInfo& object) {
                                keys.push_back(object.key);
                                EXPECT_EQ(object.modified_at,
                                          absl::FromUnixMillis(1'767'323'045'678));
                                return absl::OkStatus();
                              }),
              IsOk());
  EXPECT_THAT(keys, ElementsAre("data/a-b", "data/a.c", "data/b"));
}

TEST_F(GoogleObjectStoreTest, WhatIsNoListingIsNeverAnEmptyOne) {
  GoogleObjectStore& store = Store();
  for (const char* body : {"", "{}", "[]", R"({"kind":"storage#objects","items":[1]})",
                           R"({"kind":"storage#objects","items":[{"name":"a","size":"x"}]})",
                           R"({"kind":"storage#objects","items":[{"size":"1"}]})"}) {
    Answer("GET", 1, 200, body);
    EXPECT_THAT(store.List(ctx_, "", Ignore), StatusIs(Code::kUnavailable)) << body;
    Answer("GET", 1, 200, "{}");
    EXPECT_THAT(store.Stat(ctx_, "key"), StatusIs(Code::kUnavailable));
  }
}

TEST_F(GoogleObjectStoreTest, ARefusedTokenSaysWhichCredentialsItIsOf) {
  GoogleObjectStore& store = Store();
  Answer("GET", 1'000'000, 401, "");
  EXPECT_THAT(store.Get(ctx_, "key", 10),
              StatusIs(Code::kUnauthenticated, AllOf(HasSubstr("key.json"), HasSubstr("401"))));
  tokens_.Refuse(400, R"({"error":"invalid_grant","error_description":"Invalid JWT Signature."})");
  credentials_.Forget();
  EXPECT_THAT(store.Get(ctx_, "key", 10),
              StatusIs(Code::kUnauthenticated, HasSubstr("invalid_grant: Invalid JWT Signature.")));
  tokens_.Refuse(503, "<html>");
  EXPECT_THAT(store.Get(ctx_, "key", 10), StatusIs(Code::kUnavailable));
}

TEST_F(GoogleObjectStoreTest, WhatIsRetainedSaysSo) {
  GoogleObjectStore& store = Store();
  ASSERT_THAT(store.Put(ctx_, "one", "x", {}), IsOk());
  for (const char* reason : {"retentionPolicyNotMet", "objectUnderActiveHold"}) {
    server_.Retain(reason);
    const absl::Status status = store.Delete(ctx_, "one");
    EXPECT_THAT(status, StatusIs(Code::kPermissionDenied, HasSubstr(reason)));
    EXPECT_TRUE(IsRetained(status));
    EXPECT_TRUE(IsRetained(store.Put(ctx_, "one", "y", {})));
  }
}

TEST(GoogleErrorsTest, MapsStatusesAndReasons) {
  struct Case {
    int status;
    const char* reason;
    Code expected;
    const char* says = "";
  };
  const Case cases[] = {
      {400, "invalid", Code::kFailedPrecondition},
      {400, "userProjectMissing", Code::kFailedPrecondition, "requester pays"},
      {400, "cloudKmsDisabledKey", Code::kFailedPrecondition, "service agent"},
      {401, "authError", Code::kUnauthenticated},
      {403, "forbidden", Code::kPermissionDenied, "roles/storage.objectAdmin"},
      {403, "insufficientPermissions", Code::kPermissionDenied, "scope"},
      {403, "accountDisabled", Code::kPermissionDenied, "billing"},
      {403, "userProjectAccountProblem", Code::kPermissionDenied, "billing"},
      {403, "accessNotConfigured", Code::kPermissionDenied, "enable the Cloud Storage API"},
      {403, "rateLimitExceeded", Code::kResourceExhausted},
      {403, "userRateLimitExceeded", Code::kResourceExhausted},
      {403, "quotaExceeded", Code::kResourceExhausted, "quota"},
      {404, "notFound", Code::kNotFound},
      {408, "", Code::kUnavailable},
      {412, "conditionNotMet", Code::kFailedPrecondition},
      {412, "orgPolicyConstraintFailed", Code::kFailedPrecondition},
      {416, "requestedRangeNotSatisfiable", Code::kOutOfRange},
      {429, "rateLimitExceeded", Code::kResourceExhausted},
      {500, "internalError", Code::kUnavailable},
      {503, "backendError", Code::kUnavailable},
  };
  for (const Case& each : cases) {
    const std::string body =
        absl::StrCat(R"({"error":{"code":)", each.status,
                     R"(,"message":"why","errors":[{"reason":")", each.reason, R"("}]}})");
    const absl::Status status =
        GoogleStatus({.status = each.status, .headers = {}, .body = body}, true);
    EXPECT_THAT(status, StatusIs(each.expected, HasSubstr(each.says))) << each.reason;
    EXPECT_EQ(absl::StrContains(status.message(), "why"), *each.reason != '\0') << status;
  }
  for (const char* text : {"", "<html>why</html>", "No such object", "\x01\xff", "[[[["}) {
    EXPECT_THAT(GoogleStatus({.status = 404, .headers = {}, .body = text}, true),
                StatusIs(Code::kNotFound, Not(HasSubstr("html"))));
  }
}

TEST(GoogleLocationTest, AnEmulatorGetsNoToken) {
  FakeGoogleServer server({.accepts = [](const std::string& token) { return token.empty(); }});
  StoreSettings settings;
  settings.google_environment.access_token = Secret("secret");
  for (const std::string& host : {server.url(), server.url().substr(7)}) {
    settings.google_environment.emulator_host = host;
    const auto opened = OpenStore(*ParseLocation("gs:bucket:/repo"), settings, Random::Real());
    ASSERT_THAT(opened, IsOk());
    EXPECT_THAT((*opened)->store().Put({}, "config", "bytes", {}), IsOk());
    EXPECT_THAT((*opened)->store().Get({}, "config", 10), IsOkAndHolds("bytes"));
    EXPECT_THAT((*opened)->store().GetRetention({}, "config", ""), StatusIs(Code::kUnimplemented));
  }
}

TEST(GoogleLocationTest, RefusesSettingsThatCannotBe) {
  const auto open = [](const GoogleOptions& google) {
    StoreSettings settings;
    settings.google = google;
    return OpenStore(*ParseLocation("gs:bucket:/"), settings, Random::Real()).status();
  };
  for (const char* good : {"", "STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE"}) {
    EXPECT_THAT(open({.storage_class = good}), IsOk());
  }
  EXPECT_THAT(open({.storage_class = "GLACIER"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("COLDLINE")));
  EXPECT_THAT(open({.kms_key_name = "a\nb"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("KMS key")));
  EXPECT_THAT(open({.endpoint_url = "https://storage-psc.p.googleapis.com/storage/v1/"}), IsOk());
  EXPECT_THAT(open({.endpoint_url = "http://storage.example"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("must be https")));
}

}  // namespace
}  // namespace csidelta::storage::google_object_store_test
