#include "storage/s3_object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/crypto.h"
#include "storage/metered_object_store.h"
#include "storage/object_rules.h"
#include "storage/retrying_object_store.h"
#include "tests/support/await.h"
#include "tests/support/bucket_words.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_s3_server.h"

namespace csidelta::storage::s3_object_store_test {
namespace {

using namespace support::bucket_words;
using support::FakeS3Options;
using support::FakeS3Server;

// Credentials that can be exchanged, and count how often they are asked to.
class TestCredentials : public CredentialsProvider {
 public:
  absl::StatusOr<Credentials> Get(const CallContext&) override {
    return Credentials{.access_key_id = "AKIDTEST",
                       .secret_access_key = Secret(secret_key_),
                       .session_token = Secret(token_),
                       .source = "the environment"};
  }
  void Forget() override {
    ++forgotten_;
    token_ = next_token_;
    if (forgotten_ == exchanged_after_) {
      secret_key_ = "another";
    }
  }
  bool MayBeExchanged() const override { return exchanged_after_ > 0; }

  std::string secret_key_ = "secret/key+of=test";
  int exchanged_after_ = 0;  // looks; 0: never
  std::string token_;
  std::string next_token_;
  int forgotten_ = 0;
};

class S3ObjectStoreTest : public testing::Test {
 protected:
  void Start(FakeS3Options server_options = {}, S3Options options = {}) {
    server_ = std::make_unique<FakeS3Server>(std::move(server_options));
    options.endpoint = *net::ParseUrl(server_->url());
    options.bucket = "bucket";
    http_ = std::make_unique<net::HttpClient>(
        net::HttpClientOptions{.tls = {}, .proxy = {}, .limits = limits_});
    store_ = std::make_unique<S3ObjectStore>(std::move(options), *http_, credentials_, meter_);
  }

  // Server and store have the fake clock; waiting takes no time.
  void StartWithoutWaiting() {
    clock_.SetAutoAdvance(true);
    FakeS3Options options;
    options.clock = &clock_;
    Start(options);
    ctx_ = CallContext();
    ctx_.clock = &clock_;
  }

  // Answers every request that asks for `method` with what `handler` sends, the first `times`
  // times.
  void Answer(const std::string& method, int times,
              std::function<void(ServedConnection&)> handler) {
    auto left = std::make_shared<std::atomic<int>>(times);
    server_->Interfere([=](const ServedRequest& request, ServedConnection& connection) {
      if (request.method != method || left->fetch_sub(1) <= 0) {
        return false;
      }
      handler(connection);
      return true;
    });
  }
  void AnswerWith(const std::string& method, int status, const std::string& body,
                  const support::Headers& headers = {}) {
    Answer(method, 1'000'000,
           [=](ServedConnection& connection) { connection.Send(status, body, headers); });
  }

  net::HttpLimits limits_ = BucketHttpLimits();
  TestCredentials credentials_;
  StoreMeter meter_;
  CallContext ctx_ = CallContext().WithTimeout(absl::Seconds(60));
  support::FakeClock clock_;  // Outlives the server's threads.
  std::unique_ptr<FakeS3Server> server_;
  std::unique_ptr<net::HttpClient> http_;
  std::unique_ptr<S3ObjectStore> store_;
};

TEST_F(S3ObjectStoreTest, APutTellsTheHashAndAsksForWhatIsConfigured) {
  FakeS3Options server;
  server.clock = &clock_;
  Start(server, {.storage_class = "STANDARD_IA",
                 .server_side_encryption = "aws:kms",
                 .kms_key_id = "key-1",
                 .tagging = "a=1&b=2",
                 .object_lock_mode = "GOVERNANCE",
                 .object_lock_duration = absl::Hours(24),
                 .object_lock_exempt_prefixes = {"locks/"}});
  ctx_.clock = &clock_;
  ctx_.deadline = absl::InfiniteDuration();
  const std::string bytes(100'000, 'x');
  ASSERT_THAT(store_->Put(ctx_, "data/one", bytes, {.sha256_hex = Sha256Hex(bytes)}), IsOk());
  ASSERT_THAT(store_->Put(ctx_, "locks/one", bytes, {}), IsOk());
  const auto headers = server_->put_headers();
  const std::pair<std::string, std::string> expected[] = {
      {"x-amz-content-sha256", Sha256Hex(bytes)},
      {"x-amz-storage-class", "STANDARD_IA"},
      {"x-amz-server-side-encryption", "aws:kms"},
      {"x-amz-server-side-encryption-aws-kms-key-id", "key-1"},
      {"x-amz-tagging", "a=1&b=2"},
      {"x-amz-object-lock-mode", "GOVERNANCE"},
      {"x-amz-object-lock-retain-until-date", "2023-11-15T22:13:20Z"},
      {"content-length", "100000"}};
  for (const auto& [name, value] : expected) {
    EXPECT_THAT(headers.at("data/one"), Contains(Pair(name, value)));
  }
  EXPECT_THAT(headers.at("data/one"), Contains(Key("x-amz-checksum-sha256")));
  EXPECT_THAT(headers.at("locks/one"), Not(Contains(Key("x-amz-object-lock-mode"))));
  EXPECT_THAT(headers.at("locks/one"), Not(Contains(Key("x-amz-storage-class"))))
      << "what is read in each run is no pack";
  EXPECT_THAT(server_->refusals(), IsEmpty());
}

TEST_F(S3ObjectStoreTest, ExtendsTheRetentionOfOneVersion) {
  Start();
  const Retention retention{.mode = "COMPLIANCE", .until = absl::FromUnixSeconds(1'700'086'400)};
  ASSERT_THAT(store_->SetRetention(ctx_, "data/one", "a/b+c", retention), IsOk());
  EXPECT_THAT(server_->refusals(), IsEmpty());
  EXPECT_EQ(server_->requests().back().target, "/bucket/data/one?retention=&versionId=a%2Fb%2Bc");
  EXPECT_THAT(server_->requests().back().body,
              HasSubstr("<Mode>COMPLIANCE</Mode>"
                        "<RetainUntilDate>2023-11-15T22:13:20Z</RetainUntilDate>"));
  AnswerWith("PUT", 403, ErrorXml("AccessDenied"));
  EXPECT_THAT(
      store_->SetRetention(ctx_, "data/one", "a", retention),
      StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("extend the retention of data/one")));
}

TEST_F(S3ObjectStoreTest, ReadsTheRetentionOfOneVersion) {
  Start();
  AnswerWith("GET", 200,
             "<Retention><Mode>GOVERNANCE</Mode>"
             "<RetainUntilDate>2023-11-15T22:13:20.000Z</RetainUntilDate></Retention>");
  const absl::StatusOr<Retention> retention = store_->GetRetention(ctx_, "config", "v1");
  ASSERT_THAT(retention, IsOk());
  EXPECT_EQ(retention->mode, "GOVERNANCE");
  EXPECT_EQ(retention->until, absl::FromUnixSeconds(1'700'086'400));
  AnswerWith("GET", 404, ErrorXml("NoSuchObjectLockConfiguration"));
  EXPECT_EQ(store_->GetRetention(ctx_, "config", "v1")->mode, "");
  AnswerWith("GET", 404, ErrorXml("NoSuchKey"));
  EXPECT_THAT(store_->GetRetention(ctx_, "config", "v1"), StatusIs(absl::StatusCode::kNotFound));
  AnswerWith("GET", 200, "<Retention><Mode>GOVERNANCE</Mode></Retention>");
  EXPECT_THAT(store_->GetRetention(ctx_, "config", "v1"), Not(IsOk()));
}

TEST_F(S3ObjectStoreTest, ReadsWhatTheBucketDoesByItself) {
  Start();
  AnswerWith("GET", 404, ErrorXml("NoSuchLifecycleConfiguration"));
  EXPECT_EQ(store_->GetBucketDocument(ctx_, BucketDocument::kLifecycle).value_or("none"), "");
  AnswerWith("GET", 404, ErrorXml("ObjectLockConfigurationNotFoundError"));
  EXPECT_EQ(store_->GetBucketDocument(ctx_, BucketDocument::kObjectLock).value_or("none"), "");
  AnswerWith("GET", 200, "<VersioningConfiguration/>");
  EXPECT_EQ(store_->GetBucketDocument(ctx_, BucketDocument::kVersioning).value_or(""),
            "<VersioningConfiguration/>");
  EXPECT_EQ(server_->requests().back().target, "/bucket/?versioning=");
  AnswerWith("GET", 403, ErrorXml("AccessDenied"));
  EXPECT_THAT(store_->GetBucketDocument(ctx_, BucketDocument::kVersioning),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("versioning")));
  AnswerWith("GET", 501, ErrorXml("NotImplemented"));
  EXPECT_THAT(store_->GetBucketDocument(ctx_, BucketDocument::kLifecycle), Not(IsOk()));
}

TEST_F(S3ObjectStoreTest, ListsVersionsAndDeleteMarkersNewestFirst) {
  Start({}, {.prefix = "p/"});
  constexpr char kPage[] =
      "<ListVersionsResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
      "<NextKeyMarker>p%2Fkeys%2Fa</NextKeyMarker><NextVersionIdMarker>7</NextVersionIdMarker>"
      "<Version><Key>p%2Fconfig</Key><VersionId>1</VersionId><IsLatest>false</IsLatest>"
      "<LastModified>2023-01-01T00:00:00Z</LastModified><Size>155</Size></Version>"
      "<Version><Key>p%2Fnot%20ours</Key><VersionId>5</VersionId><Size>1</Size></Version>"
      "<DeleteMarker><Key>p%2Fconfig</Key><VersionId>2</VersionId><IsLatest>true</IsLatest>"
      "<LastModified>2023-02-01T00:00:00Z</LastModified></DeleteMarker></ListVersionsResult>";
  AnswerWith("GET", 200, kPage);
  const absl::StatusOr<VersionPage> page = store_->ListVersions(ctx_, "", {.key = "a", .id = "3"});
  ASSERT_THAT(page, IsOk());
  ASSERT_THAT(page->versions, SizeIs(2));
  EXPECT_EQ(page->versions[0].key, "config");
  EXPECT_EQ(page->versions[0].id, "2");
  EXPECT_TRUE(page->versions[0].is_delete_marker && page->versions[0].is_latest);
  EXPECT_EQ(page->versions[1].size_bytes, 155);
  EXPECT_EQ(page->next.key, "keys/a");
  EXPECT_EQ(page->next.id, "7");
  for (const char* wrong :
       {"", "<ListBucketResult/>",
        "<ListVersionsResult><IsTruncated>true</IsTruncated></ListVersionsResult>",
        "<ListVersionsResult><Version><Size>-1</Size></Version></ListVersionsResult>"}) {
    AnswerWith("GET", 200, wrong);
    EXPECT_THAT(store_->ListVersions(ctx_, "", {}), StatusIs(absl::StatusCode::kUnavailable));
  }
  AnswerWith("GET", 200,
             "<ListVersionsResult><Version><Key>other</Key></Version></ListVersionsResult>");
  EXPECT_THAT(store_->ListVersions(ctx_, "", {}), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(S3ObjectStoreTest, RestoresAndDeletesOneVersion) {
  Start({}, {.object_lock_mode = "COMPLIANCE", .object_lock_duration = absl::Hours(24)});
  ASSERT_THAT(store_->RestoreVersion(ctx_, "keys/one", "v 1"), IsOk());
  EXPECT_THAT(server_->refusals(), IsEmpty());
  const auto headers = server_->put_headers();
  EXPECT_THAT(headers.at("keys/one"),
              Contains(Pair("x-amz-copy-source", "/bucket/keys/one?versionId=v%201")));
  EXPECT_THAT(headers.at("keys/one"), Contains(Key("x-amz-object-lock-mode")));
  ASSERT_THAT(store_->DeleteVersion(ctx_, "keys/one", "v 1"), IsOk());
  EXPECT_EQ(server_->requests().back().target, "/bucket/keys/one?versionId=v%201");
  AnswerWith("PUT", 200, ErrorXml("InternalError"));
  EXPECT_THAT(store_->RestoreVersion(ctx_, "keys/one", "v1"), Not(IsOk()));
  AnswerWith("DELETE", 403,
             "<Error><Code>AccessDenied</Code><Message>object is WORM protected</Message></Error>");
  const absl::Status kept = store_->DeleteVersion(ctx_, "keys/one", "v1");
  EXPECT_TRUE(IsRetained(kept)) << kept;
}

TEST_F(S3ObjectStoreTest, BytesThatChangedAfterTheirHashAreRefused) {
  Start();
  EXPECT_THAT(store_->Put(ctx_, "data/one", "flipped", {.sha256_hex = Sha256Hex("bytes")}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("XAmzContentSHA256Mismatch")));
  EXPECT_THAT(server_->objects(), IsEmpty());
}

TEST_F(S3ObjectStoreTest, AChecksumOfOtherBytesIsDataLoss) {
  Start();
  AnswerWith("PUT", 200, "", {{"x-amz-checksum-sha256", "b3RoZXI="}});
  EXPECT_THAT(store_->Put(ctx_, "data/one", "bytes", {}), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(S3ObjectStoreTest, AnAnswerThatNamesNothingStoredIsNoSuccess) {
  Start();
  const support::Headers page = {{"Content-Type", "text/html; charset=utf-8"}, {"ETag", "\"1\""}};
  const std::pair<support::Headers, absl::StatusCode> answers[] = {
      {{}, absl::StatusCode::kUnavailable},
      {page, absl::StatusCode::kUnavailable},
      {{{"ETag", "\"1\""}}, absl::StatusCode::kOk}};
  for (const auto& [headers, code] : answers) {
    AnswerWith("PUT", 200, "<html>back soon</html>", headers);
    EXPECT_EQ(store_->Put(ctx_, "data/one", "bytes", {}).code(), code);
  }
  AnswerWith("GET", 200, "<html>back soon</html>", page);
  EXPECT_THAT(store_->Get(ctx_, "data/one", 100), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(store_->List(ctx_, "data/", Ignore), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(S3ObjectStoreTest, WhatAnAnswerDoesNotNameIsLookedUp) {
  FakeS3Options server;
  server.quirks = {.omits_etag = true};
  Start(server);
  EXPECT_THAT(store_->Put(ctx_, "locks/one", "bytes", {}), IsOk());
  AnswerWith("PUT", 200, "");
  EXPECT_THAT(store_->Put(ctx_, "locks/one", "other", {}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("put locks/one")))
      << "the one before has as many bytes";
  EXPECT_THAT(store_->Put(ctx_, "locks/two", "bytes", {}),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(S3ObjectStoreTest, APageOfNoTypeIsNoDeletion) {
  Start();
  for (const char* page : {"<!DOCTYPE html><html>back soon</html>", "\n<html>back soon</html>"}) {
    AnswerWith("DELETE", 200, page);
    EXPECT_THAT(store_->Delete(ctx_, "key"), StatusIs(absl::StatusCode::kUnavailable)) << page;
  }
  AnswerWith("DELETE", 200, "");
  EXPECT_THAT(store_->Delete(ctx_, "key"), IsOk());
}

TEST_F(S3ObjectStoreTest, AThousandObjectsAreDeletedWithOneRequest) {
  Start({}, {.prefix = "a&b <c>/"});
  std::vector<std::string> keys;
  for (int i = 0; i < 1001; ++i) {
    keys.push_back(absl::StrCat("data/", i));
    server_->SetObject("a&b <c>/" + keys.back(), "x");
  }
  int64_t gone = 0;
  MeteredObjectStore metered(*store_, meter_);
  EXPECT_THAT(DeleteObjects(ctx_, metered, keys,
                            [&](std::size_t, const absl::Status& deleted) {
                              gone += deleted.ok() ? 1 : 0;
                              return absl::OkStatus();
                            }),
              IsOk());
  EXPECT_EQ(gone, 1001);
  EXPECT_THAT(server_->objects(), IsEmpty());
  EXPECT_THAT(server_->requests(), SizeIs(2));
  EXPECT_EQ(meter_.Snapshot().delete_requests, 2);
  Start({}, {.prefix = "no\x01text/"});
  EXPECT_EQ(store_->deletion_limits().keys_per_request_max, 1);
}

TEST_F(S3ObjectStoreTest, OnlyWhatAnAnswerSaysOfAKeyIsItsDeletion) {
  Start();
  const auto gone = [](const std::string& key) {
    return absl::StrCat("<Deleted><Key>", key, "</Key></Deleted>");
  };
  const auto error = [](const std::string& key, const std::string& code) {
    return absl::StrCat("<Error><Key>", key, "</Key><Code>", code, "</Code></Error>");
  };
  using Code = absl::StatusCode;
  const std::tuple<std::string, Code, Code> answers[] = {
      {gone("a") + gone("b"), Code::kOk, Code::kOk},
      {gone("a"), Code::kOk, Code::kUnimplemented},
      {"", Code::kUnimplemented, Code::kUnimplemented},
      {error("a", "NoSuchKey") + gone("b"), Code::kOk, Code::kOk},
      {gone("a") + error("b", "AccessDenied"), Code::kOk, Code::kPermissionDenied},
      {gone("a") + gone("b") + error("b", "InternalError"), Code::kOk, Code::kUnavailable},
      {error("b", "SlowDown") + gone("b") + gone("a"), Code::kOk, Code::kResourceExhausted},
      {error("b", "") + gone("a"), Code::kOk, Code::kFailedPrecondition},
      {"<x>" + gone("b") + "</x>" + gone("a"), Code::kOk, Code::kUnimplemented}};
  const std::vector<std::string> keys = {"a", "b"};
  for (const auto& [answer, first, second] : answers) {
    AnswerWith("POST", 200, absl::StrCat("<DeleteResult>", answer, "</DeleteResult>"));
    const auto told = store_->DeleteBatch(ctx_, keys);
    ASSERT_THAT(told, IsOk()) << answer;
    EXPECT_EQ(told->at(0).code(), first) << answer;
    EXPECT_EQ(told->at(1).code(), second) << answer;
    EXPECT_EQ(IsRetained(told->at(1)), second == Code::kPermissionDenied) << answer;
    EXPECT_TRUE(told->at(1).ok() || absl::IsUnimplemented(told->at(1)) ||
                absl::StrContains(told->at(1).message(), "delete b"))
        << told->at(1);
  }
}

TEST_F(S3ObjectStoreTest, AfterAnAnswerThatIsNoneThereAreNoMoreBatches) {
  const std::string good = "<Deleted><Key>a</Key></Deleted><Deleted><Key>b</Key></Deleted>";
  const std::pair<int, std::string> answers[] = {
      {200, ""},
      {200, "garbage"},
      {200, absl::StrCat("<DeleteResult>", good)},
      {200, absl::StrCat("<Result>", good, "</Result>")},
      {200,
       absl::StrCat("<!DOCTYPE a [<!ENTITY b \"b\">]><DeleteResult>", good, "</DeleteResult>")},
      {200, absl::StrCat("<DeleteResult>", good, "<Deleted><Key>c</Key></Deleted></DeleteResult>")},
      {200, absl::StrCat("<DeleteResult>", good, "<Error><Code>X</Code></Error></DeleteResult>")},
      {200, absl::StrCat("<DeleteResult>", good, std::string(70'000, 'x'), "</DeleteResult>")},
      {400, ErrorXml("MalformedXML")},
      {403, ErrorXml("AccessDenied")},
      {404, ErrorXml("NoSuchBucket")},
      {405, ErrorXml("MethodNotAllowed")},
      {412, ErrorXml("PreconditionFailed")},
      {501, ErrorXml("NotImplemented")}};
  for (const auto& [status, answer] : answers) {
    Start();
    AnswerWith("POST", status, answer);
    EXPECT_THAT(store_->DeleteBatch(ctx_, std::vector<std::string>{"a", "b"}),
                StatusIs(absl::StatusCode::kUnimplemented))
        << answer;
    EXPECT_EQ(store_->deletion_limits().keys_per_request_max, 1) << answer;
    EXPECT_EQ(store_->deletion_limits().requests_in_flight_max, 64) << answer;
  }
  Start();
  AnswerWith("POST", 503, ErrorXml("SlowDown"));
  EXPECT_THAT(store_->DeleteBatch(ctx_, std::vector<std::string>{"a", "b"}),
              StatusIs(absl::StatusCode::kResourceExhausted));
  AnswerWith("POST", 200, "<html>back soon</html>", {{"Content-Type", "text/html"}});
  EXPECT_THAT(store_->DeleteBatch(ctx_, std::vector<std::string>{"a", "b"}),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(store_->deletion_limits().keys_per_request_max, 1000) << "it may do better";
}

TEST_F(S3ObjectStoreTest, AWrongKeyIsUnauthenticated) {
  FakeS3Options server;
  server.secret_access_key = "another";
  Start(server);
  EXPECT_THAT(store_->Get(ctx_, "key", 10),
              StatusIs(absl::StatusCode::kUnauthenticated,
                       AllOf(HasSubstr("SignatureDoesNotMatch"),
                             HasSubstr("the keys came from the environment"))));
  // An answer to HEAD does not say it.
  EXPECT_THAT(store_->Stat(ctx_, "key"),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("SignatureDoesNotMatch")));
}

TEST_F(S3ObjectStoreTest, AMissingObjectCostsOneRequest) {
  Start();
  EXPECT_THAT(store_->Stat(ctx_, "missing"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(server_->requests(), SizeIs(1));
}

TEST_F(S3ObjectStoreTest, AnUnclearHeadIsFollowedByGet) {
  Start();
  server_->SetObject("key", "bytes");
  server_->SetObject("empty", "");
  for (const int status : {400, 401, 403, 409}) {
    for (const std::string key : {"key", "empty"}) {
      bool is_first = true;
      server_->Interfere([&](const auto& request, auto& connection) {
        if (request.method != "HEAD" || !std::exchange(is_first, false)) {
          return false;
        }
        connection.Send(status, "");
        return true;
      });
      const absl::StatusOr<ObjectInfo> object = store_->Stat(ctx_, key);
      ASSERT_THAT(object, IsOk());
      EXPECT_EQ(object->size_bytes, key == "key" ? 5 : 0);
    }
  }
}

TEST_F(S3ObjectStoreTest, ASuccessWithoutWhatWasAskedForIsAskedAgain) {
  Start();
  AnswerWith("GET", 204, "");
  EXPECT_THAT(store_->Get(ctx_, "key", 10), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(store_->GetRange(ctx_, "key", {0, 4}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(store_->List(ctx_, "data/", Ignore), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(S3ObjectStoreTest, CredentialsThatAreExchangedAreWaitedFor) {
  StartWithoutWaiting();
  credentials_.exchanged_after_ = 10;
  ASSERT_THAT(store_->Put(ctx_, "key", "bytes", {}), IsOk());
  server_->SetSecretKey("another");
  EXPECT_THAT(store_->Get(ctx_, "key", 10), IsOkAndHolds("bytes"));
  EXPECT_EQ(credentials_.forgotten_, 10);
}

TEST_F(S3ObjectStoreTest, CredentialsThatAreRevokedEndInBoundedTime) {
  StartWithoutWaiting();
  credentials_.exchanged_after_ = 1'000'000;
  ASSERT_THAT(store_->Put(ctx_, "key", "bytes", {}), IsOk());
  server_->SetSecretKey("another");
  const absl::Time before = clock_.Now();
  EXPECT_THAT(
      store_->Get(ctx_, "key", 10),
      StatusIs(absl::StatusCode::kUnauthenticated, AllOf(HasSubstr("bucket bucket at 127.0.0.1"),
                                                         HasSubstr("403 SignatureDoesNotMatch"))));
  EXPECT_GE(clock_.Now() - before, kNewCredentialsTimeMax);
  EXPECT_LE(clock_.Now() - before, kNewCredentialsTimeMax + absl::Seconds(30));
}

TEST_F(S3ObjectStoreTest, CredentialsThatNeverWorkedAreNotWaitedFor) {
  FakeS3Options options;
  options.secret_access_key = "another";
  Start(options);
  credentials_.exchanged_after_ = 1'000'000;
  EXPECT_THAT(store_->Get(ctx_, "key", 10), StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_EQ(credentials_.forgotten_, 0);
}

TEST_F(S3ObjectStoreTest, AStraySignatureDoesNotMatchIsNoRefusal) {
  StartWithoutWaiting();
  ASSERT_THAT(store_->Put(ctx_, "key", "bytes", {}), IsOk());
  const auto refuse = [](ServedConnection& connection) {
    connection.Send(403, ErrorXml("SignatureDoesNotMatch"));
  };
  Answer("GET", 2, refuse);
  EXPECT_THAT(store_->Get(ctx_, "key", 10), IsOkAndHolds("bytes"));
  Answer("GET", 100, refuse);
  EXPECT_THAT(store_->Get(ctx_, "key", 10),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("a proxy on the way")));
  EXPECT_EQ(credentials_.forgotten_, 0);
}

// A process that begins by looking for what is not there yet, as init does.
TEST_F(S3ObjectStoreTest, KeysThatAMissingObjectWasAnsweredToAreGood) {
  StartWithoutWaiting();
  server_->SetObject("key", "bytes");
  EXPECT_THAT(store_->Stat(ctx_, "config"), StatusIs(absl::StatusCode::kNotFound));
  Answer("GET", 2, [](ServedConnection& connection) {
    connection.Send(403, ErrorXml("SignatureDoesNotMatch"));
  });
  EXPECT_THAT(store_->Get(ctx_, "key", 10), IsOkAndHolds("bytes"));
}

// Servers say so in words, beside errors of several names.
TEST_F(S3ObjectStoreTest, AnObjectLockIsTold) {
  StartWithoutWaiting();
  ASSERT_THAT(store_->Put(ctx_, "key", "bytes", {}), IsOk());
  const auto error = [](const std::string& code, const std::string& message) {
    return absl::StrCat("<Error><Code>", code, "</Code><Message>", message, "</Message></Error>");
  };
  AnswerWith("DELETE", 403,
             error("AccessDenied", "Access Denied because object protected by object lock."));
  EXPECT_TRUE(IsRetained(store_->Delete(ctx_, "key")));
  AnswerWith("DELETE", 400,
             error("InvalidRequest", "Object is WORM protected and cannot be overwritten"));
  EXPECT_TRUE(IsRetained(store_->Delete(ctx_, "key")));
  AnswerWith("DELETE", 400, error("InvalidRequest", "no"));
  EXPECT_FALSE(IsRetained(store_->Delete(ctx_, "key")));
  AnswerWith("DELETE", 403, error("AccessDenied", "no"));
  EXPECT_TRUE(IsRetained(store_->Delete(ctx_, "key"))) << "such servers do not tell the two apart";
}

TEST_F(S3ObjectStoreTest, ARightThatIsMissingIsNotWaitedFor) {
  Start();
  credentials_.exchanged_after_ = 1'000'000;
  ASSERT_THAT(store_->Put(ctx_, "key", "bytes", {}), IsOk());
  AnswerWith("DELETE", 403, ErrorXml("AccessDenied"));
  EXPECT_THAT(store_->Delete(ctx_, "key"),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("bucket bucket at"), HasSubstr("object lock"))));
  EXPECT_EQ(credentials_.forgotten_, 0);
}

TEST_F(S3ObjectStoreTest, AClockThatIsADayOffIsCorrected) {
  for (const absl::Duration off : {absl::Hours(24), -absl::Hours(24)}) {
    support::FakeClock own(clock_.Now() + off);
    FakeS3Options server;
    server.clock = &clock_;
    Start(server);
    CallContext ctx;
    ctx.clock = &own;
    server_->SetObject("key", "bytes");
    // HEAD says nothing but 403 and the date.
    EXPECT_THAT(store_->Stat(ctx, "key"), IsOk());
    EXPECT_THAT(store_->Put(ctx, "other", "bytes", {}), IsOk());
    EXPECT_THAT(server_->refusals(), SizeIs(1));
  }
}

TEST_F(S3ObjectStoreTest, AClockThatCannotBeCorrectedIsSaid) {
  Start();
  AnswerWith("GET", 403, ErrorXml("RequestTimeTooSkewed"));
  EXPECT_THAT(store_->Get(ctx_, "key", 10),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("RequestTimeTooSkewed")));
}

TEST_F(S3ObjectStoreTest, ABucketOfAnotherRegionIsMovedToOnce) {
  FakeS3Options server;
  server.region = "eu-test-1";
  server.quirks = {.region = support::S3Quirks::Region::kBySignature};
  Start(server);
  for (const char* key : {"one", "two"}) {
    ASSERT_THAT(store_->Put(ctx_, key, "x", {}), IsOk());
  }
  EXPECT_THAT(server_->requests(), SizeIs(3)) << "the region is asked for once";
  AnswerWith("GET", 400, ErrorXml("AuthorizationHeaderMalformed", "<Region>eu-test-2</Region>"));
  EXPECT_THAT(store_->Get(ctx_, "key", 10), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                     HasSubstr("\"eu-test-2\", not \"eu-test-1")));
  EXPECT_THAT(server_->requests(), SizeIs(4));
}

TEST_F(S3ObjectStoreTest, ARegionThatIsNoLabelOfAHostIsNotMovedTo) {
  Start();
  for (const char* region : {"eu.evil.example/", "EU", "-eu", "eu-", "e u", ""}) {
    AnswerWith(
        "GET", 400,
        ErrorXml("AuthorizationHeaderMalformed", absl::StrCat("<Region>", region, "</Region>")));
    const auto before = server_->requests().size();
    EXPECT_THAT(store_->Get(ctx_, "key", 10), StatusIs(absl::StatusCode::kFailedPrecondition));
    EXPECT_EQ(server_->requests().size(), before + 1) << region;
  }
  AnswerWith("PUT", 307, ErrorXml("TemporaryRedirect"), {{"Location", "https://elsewhere/"}});
  EXPECT_THAT(store_->Put(ctx_, "key", "x", {}), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(S3ObjectStoreTest, AMissingHostIsNoMissingObject) {
  Start();
  // A resolver must answer names below "onion" itself, with "not found" (RFC 7686): no question
  // leaves this machine.
  S3Options options{
      .endpoint = *net::ParseUrl("http://no-such-host.onion"), .bucket = "bucket", .prefix = ""};
  S3ObjectStore store(options, *http_, credentials_, meter_);
  clock_.SetAutoAdvance(true);
  CallContext ctx;
  ctx.clock = &clock_;
  const absl::Time before = clock_.Now();
  EXPECT_THAT(store.Get(ctx, "key", 10),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("resolve no-such-host.onion: no such host")));
  EXPECT_GE(clock_.Now() - before, absl::Seconds(3)) << "a resolver may just be starting";
}

TEST_F(S3ObjectStoreTest, WrongRangesAreDataLoss) {
  Start();
  const auto answer = [&](int status, const std::string& body, const std::string& range) {
    AnswerWith("GET", status, body, {{"Content-Range", range}});
    return store_->GetRange(ctx_, "key", {2, 3}).status();
  };
  EXPECT_THAT(answer(206, "cde", "bytes 2-4/10"), IsOk());
  EXPECT_THAT(answer(206, "cd", "bytes 2-4/10"), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(answer(206, "cdef", "bytes 2-4/10"), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(answer(206, "abc", "bytes 0-2/10"), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(answer(206, "cde", ""), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(answer(206, "cd", "bytes 2-3/4"), StatusIs(absl::StatusCode::kOutOfRange));
}

TEST_F(S3ObjectStoreTest, AServerWithoutRangesIsNoticed) {
  FakeS3Options server;
  server.heeds_ranges = false;
  Start(server);
  server_->SetObject("key", std::string(1 << 20, 'x'));
  server_->SetObject("small", "0123456789");
  for (const char* key : {"key", "small"}) {
    EXPECT_THAT(store_->GetRange(ctx_, key, {2, 3}),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("header Range")))
        << "what is read otherwise is not damaged";
  }
  EXPECT_THAT(store_->GetRange(ctx_, "key", {0, 1 << 20}), IsOk());
  Start();
  server_->SetObject("small", "0123456789");
  Answer("GET", 1, [](ServedConnection& connection) { connection.Send(200, "0123456789"); });
  EXPECT_THAT(store_->GetRange(ctx_, "small", {2, 3}), IsOkAndHolds("234"));
}

TEST_F(S3ObjectStoreTest, ASilentServerIsUnavailable) {
  // The server alone moves the clock: on and on, because the client may look at it for the first
  // time when the server is silent already.
  CallContext ctx;
  ctx.clock = &clock_;
  FakeS3Options server;
  server.clock = &clock_;
  Start(server);
  Answer("GET", 1, [this](ServedConnection& connection) {
    support::Await("the client to leave", [&] {
      clock_.Advance(absl::Seconds(20));
      return connection.stop().stop_requested() || connection.PeerIsGone();
    });
    connection.Cut();
  });
  EXPECT_THAT(store_->Get(ctx, "key", 10),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("silent for 1m")));
}

TEST_F(S3ObjectStoreTest, ARefusalBeforeTheBodyIsHeard) {
  FakeS3Options server;
  server.http.leave_body = true;
  Start(server);
  // More than the sockets' buffers hold: the server answers and closes in the middle of it.
  Answer("PUT", 1, [](ServedConnection& connection) {
    connection.Send(403, ErrorXml("AccessDenied"), {{"Connection", "close"}});
    connection.Cut();
  });
  EXPECT_THAT(store_->Put(ctx_, "key", std::string(64 << 20, 'x'), {}),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_F(S3ObjectStoreTest, HostileListingsAreErrors) {
  Start();
  const auto list = [&](const std::string& inner) {
    AnswerWith("GET", 200, absl::StrCat("<ListBucketResult>", inner, "</ListBucketResult>"));
    return store_->List(ctx_, "data/", Ignore);
  };
  constexpr char kLast[] = "<IsTruncated>false</IsTruncated>";
  const auto object = [&](const std::string& key, int size) {
    return absl::StrCat(kLast, "<Contents><Key>", key, "</Key><Size>", size, "</Size></Contents>");
  };
  EXPECT_THAT(list(kLast), IsOk());
  EXPECT_THAT(list(object("data/../x", 1)), IsOk());
  EXPECT_THAT(list(object("index/x", 1)), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(list("<IsTruncated>true</IsTruncated>"
                   "<NextContinuationToken>same</NextContinuationToken>"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no end")));
  // Cut short, or not the bucket's own: asked for again, never taken for all there is.
  for (const std::string& wrong :
       {std::string(), object("data/x", -1), std::string("<IsTruncated>true</IsTruncated>"),
        std::string("<IsTruncated>TRUE</IsTruncated>"),
        std::string("<Contents><Key>data/x</Key><Size>1</Size></Contents>")}) {
    EXPECT_THAT(list(wrong), StatusIs(absl::StatusCode::kUnavailable)) << wrong;
  }
  AnswerWith("GET", 200, std::string(std::size_t{9} << 20, ' '));
  EXPECT_THAT(store_->List(ctx_, "data/", Ignore), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(S3ObjectStoreTest, ObjectsWithOddNamesAreForeign) {
  Start();
  for (const char* key :
       {"data/a b", "data/a+b", "data/..", "data/../config", "data//x", "data/\x01",
        "data/\xc3\xa4", "data/a%2Fb", "data/a&amp;b", "data/x-tmp-1", "data/"}) {
    server_->SetObject(key, "x");
  }
  server_->SetObject("data/ours", "x");
  std::vector<std::string> listed;
  EXPECT_THAT(store_->List(ctx_, "data/",
                           [&](const ObjectInfo& object) {
                             listed.push_back(object.key);
                             return absl::OkStatus();
                           }),
              IsOk());
  EXPECT_THAT(listed, testing::ElementsAre("data/ours"));
}

TEST_F(S3ObjectStoreTest, AListingOfEmptyPagesEnds) {
  Start();
  auto page = std::make_shared<std::atomic<int>>(0);
  Answer("GET", 1'000'000, [=](ServedConnection& connection) {
    connection.Send(200, absl::StrCat("<ListBucketResult><IsTruncated>true</IsTruncated>"
                                      "<NextContinuationToken>",
                                      ++*page, "</NextContinuationToken></ListBucketResult>"));
  });
  EXPECT_THAT(store_->List(ctx_, "", Ignore),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no end")));
  EXPECT_LT(*page, 2000);
}

TEST_F(S3ObjectStoreTest, RedirectsAreNotFollowedButExplained) {
  Start({}, {.prefix = "repo/"});
  const std::pair<const char*, const char*> places[] = {
      {"https://store.test/bucket/repo/key?X-Amz-Signature=1",
       "it leads to https://store.test: if the bucket is there, write "
       "s3:https://store.test/bucket/repo"},
      {"http://bucket.store.test:9000/repo/key",
       "it leads to http://store.test:9000: if the bucket is there, write "
       "s3:http://store.test:9000/bucket/repo"},
      {"/elsewhere", "has another endpoint or region; the server answered"},
      {"", "has another endpoint or region; the server answered"}};
  for (const int status : {301, 302, 303, 307, 308}) {
    for (const auto& [location, sentence] : places) {
      const auto before = server_->requests().size();
      AnswerWith("GET", status, "", {{"Location", location}});
      const absl::Status refused = store_->Get(ctx_, "key", 10).status();
      EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(sentence)));
      EXPECT_THAT(refused.message(), Not(HasSubstr("Signature")));
      EXPECT_EQ(server_->requests().size(), before + 1);
    }
  }
  AnswerWith("HEAD", 301, "", {{"x-amz-bucket-region", "ap-south-1"}});
  EXPECT_THAT(store_->Stat(ctx_, "key"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("\"ap-south-1\"")));
}

TEST_F(S3ObjectStoreTest, MoreBodyThanPromisedSpoilsNoOtherAnswer) {
  Start();
  server_->SetObject("key", "right");
  Answer("GET", 1, [](ServedConnection& connection) {
    connection.Raw(
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong");
  });
  EXPECT_THAT(store_->Get(ctx_, "key", 10), IsOkAndHolds("first"));
  EXPECT_THAT(store_->Get(ctx_, "key", 10), IsOkAndHolds("right"));
}

TEST_F(S3ObjectStoreTest, AnEndlessBodyMeetsItsLimit) {
  Start();
  Answer("GET", 1, [](ServedConnection& connection) {
    connection.StartStream(200);
    while (connection.Chunk(std::string(1 << 16, 'x'))) {
    }
  });
  EXPECT_THAT(store_->Get(ctx_, "key", 1 << 20), StatusIs(absl::StatusCode::kResourceExhausted));
  Answer("GET", 1, [](ServedConnection& connection) {
    connection.Raw("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n");
  });
  EXPECT_THAT(store_->Get(ctx_, "key", 1 << 20), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(S3ObjectStoreTest, BrokenAndHostileAnswersAreUnavailable) {
  Start();
  server_->SetObject("key", "bytes");
  const std::string many(std::size_t{100} << 10, 'x');
  const std::string answers[] = {
      "",
      "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
      "garbage\r\n\r\n",
      absl::StrCat("HTTP/1.1 200 OK\r\nx: ", many, "\r\n\r\n"),
      absl::StrCat("HTTP/1.1 200 ", many, "\r\n\r\n"),
      "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nbytes!",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
      "HTTP/1.1 99999 OK\r\n\r\n",
      "HTTP/9.9 200 OK\r\n\r\n",
      absl::StrCat("HTTP/1.1 200 OK\r\nx: ", std::string(1, '\0'), "\r\n\r\n"),
  };
  for (const std::string& answer : answers) {
    Answer("GET", 1, [=](ServedConnection& connection) {
      connection.Raw(answer);
      connection.Cut();
    });
    EXPECT_THAT(store_->Get(ctx_, "key", 1000), StatusIs(absl::StatusCode::kUnavailable))
        << answer.substr(0, 80);
    EXPECT_THAT(store_->Get(ctx_, "key", 1000), IsOkAndHolds("bytes"));
  }
}

TEST_F(S3ObjectStoreTest, EveryKindOfPutTellsItsChecksum) {
  FakeS3Options server;
  server.session_token = "token";
  Start(server);
  credentials_.token_ = "token";
  EXPECT_THAT(store_->Put(ctx_, "config", "a", {.if_absent = true}), IsOk());
  EXPECT_THAT(store_->Put(ctx_, "locks/one", "", {}), IsOk());
  EXPECT_THAT(store_->Put(ctx_, "data/one", "b", {.sha256_hex = Sha256Hex("b")}), IsOk());
  for (const auto& [key, headers] : server_->put_headers()) {
    EXPECT_THAT(headers, Contains(Key("x-amz-checksum-sha256"))) << key;
    EXPECT_THAT(headers.at("authorization"), testing::AllOf(HasSubstr("x-amz-checksum-sha256"),
                                                            HasSubstr("x-amz-security-token")));
  }
  EXPECT_THAT(server_->put_headers(), SizeIs(3));
}

// As Backblaze B2 did.
TEST_F(S3ObjectStoreTest, AStoreThatRefusesTheChecksumGetsMd5InItsPlace) {
  FakeS3Options server;
  server.quirks = {.refuses_checksum = true};
  Start(server);
  EXPECT_THAT(store_->Put(ctx_, "data/one", "bytes", {}), IsOk());
  EXPECT_THAT(store_->Put(ctx_, "data/two", "", {}), IsOk());
  EXPECT_THAT(server_->requests(), SizeIs(3)) << "it is not tried for each object";
  EXPECT_THAT(server_->put_headers().at("data/two"),
              AllOf(Contains(Key("x-amz-content-sha256")),
                    Contains(Pair("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="))));
  Start(server, {.sends_checksum = false});
  EXPECT_THAT(store_->Put(ctx_, "data/one", "bytes", {}), IsOk());
  EXPECT_THAT(server_->requests(), SizeIs(1));
}

TEST_F(S3ObjectStoreTest, AnArchivedObjectIsToldWithHowManyAre) {
  Start({}, {.prefix = "repo/"});
  std::string classes = "GLACIER STANDARD GLACIER_IR DEEP_ARCHIVE";
  int listings = 0;
  server_->Interfere([&](const ServedRequest& request, ServedConnection& connection) {
    if (request.target.find("list-type") == std::string::npos) {
      connection.Send(403, ErrorXml("InvalidObjectState"));
      return true;
    }
    ++listings;
    std::string entries;
    for (const absl::string_view one : absl::StrSplit(classes, ' ', absl::SkipEmpty())) {
      absl::StrAppend(&entries, "<Contents><Key>repo/data/00/x</Key><Size>1</Size><StorageClass>",
                      one, "</StorageClass></Contents>");
    }
    connection.Send(200, absl::StrCat("<ListBucketResult><IsTruncated>false</IsTruncated>", entries,
                                      "</ListBucketResult>"));
    return true;
  });
  for (int look = 0; look < 2; ++look) {
    const absl::Status archived = store_->GetRange(ctx_, "data/00/x", {0, 1}).status();
    EXPECT_THAT(archived, StatusIs(absl::StatusCode::kFailedPrecondition,
                                   AllOf(HasSubstr("restore all archived objects below data/"),
                                         HasSubstr("2 of 4 packs are of an archive class"))));
    EXPECT_TRUE(IsArchived(archived));
  }
  EXPECT_EQ(listings, 1);
}

// What is counted is what is billed.
TEST_F(S3ObjectStoreTest, EveryRequestIsCounted) {
  for (const support::S3Quirks& quirks : support::kS3Quirks) {
    FakeS3Options server;
    server.region =
        quirks.region == support::S3Quirks::Region::kBySignature ? "eu-test-1" : "us-east-1";
    server.quirks = quirks;
    Start(server);
    StoreMeter& meter = meter_;
    const int64_t before = meter.Snapshot().requests();
    MeteredObjectStore metered(*store_, meter);
    for (int i = 0; i < 6; ++i) {
      metered.Put(ctx_, absl::StrCat("data/", i), "x", {}).IgnoreError();
    }
    metered.Put(ctx_, "config", "x", {.if_absent = true}).IgnoreError();
    metered.Stat(ctx_, "data/1").IgnoreError();
    metered.List(ctx_, "data/", Ignore).IgnoreError();
    metered.Delete(ctx_, "data/1").IgnoreError();
    DeleteObjects(ctx_, metered, std::vector<std::string>{"data/2", "data/3", "data/4"},
                  [](std::size_t, const absl::Status&) { return absl::OkStatus(); })
        .IgnoreError();
    EXPECT_EQ(meter.Snapshot().requests() - before, std::ssize(server_->requests())) << quirks;
  }
}

TEST_F(S3ObjectStoreTest, ALockLastsByTheServersClock) {
  support::FakeClock own(clock_.Now() - absl::Hours(48));
  FakeS3Options server;
  server.clock = &clock_;
  Start(server, {.object_lock_mode = "COMPLIANCE", .object_lock_duration = absl::Hours(24)});
  CallContext ctx;
  ctx.clock = &own;
  ASSERT_THAT(store_->Put(ctx, "data/one", "x", {}), IsOk());
  EXPECT_EQ(server_->put_headers().at("data/one").at("x-amz-object-lock-retain-until-date"),
            "2023-11-15T22:13:20Z");
}

TEST_F(S3ObjectStoreTest, PagesAreCounted) {
  Start();
  for (int i = 0; i < 10; ++i) {
    server_->SetObject(absl::StrCat("data/", i), "x");
  }
  MeteredObjectStore metered(*store_, meter_);
  EXPECT_THAT(metered.List(ctx_, "data/", Ignore), IsOk());
  EXPECT_EQ(meter_.Snapshot().list_requests, 3);
  EXPECT_THAT(server_->requests(), SizeIs(3));
}

TEST_F(S3ObjectStoreTest, RetryAfterIsAPauseOfTheStatus) {
  Start();
  const char* const date = "Tue, 14 Nov 2023 22:13:20 GMT";
  const std::pair<const char*, absl::Duration> pauses[] = {
      {"30", absl::Seconds(30)},
      {"Tue, 14 Nov 2023 22:14:20 GMT", absl::Seconds(60)},
      {"Tue, 14 Nov 2023 22:12:20 GMT", absl::ZeroDuration()},
      {"-1", absl::ZeroDuration()},
      {"99999999999", absl::ZeroDuration()},
      {"soon", absl::ZeroDuration()}};
  for (const auto& [text, pause] : pauses) {
    AnswerWith("GET", 503, ErrorXml("SlowDown"), {{"Date", date}, {"Retry-After", text}});
    const absl::Status status = store_->Get(ctx_, "key", 10).status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
    EXPECT_EQ(RequestedPause(status), pause) << text;
  }
}

TEST_F(S3ObjectStoreTest, AStormOf503sPasses) {
  Start();
  server_->SetObject("key", "bytes");
  const int statuses[] = {500, 503, 429, 502, 504, 408, 507};
  auto next = std::make_shared<std::size_t>(0);
  server_->Interfere([=](const ServedRequest&, ServedConnection& connection) {
    const std::size_t turn = (*next)++ % 8;
    if (turn == 7) {
      return false;
    }
    connection.Send(statuses[turn], turn == 1 ? ErrorXml("SlowDown") : "");
    return true;
  });
  RetryingObjectStore retrying(
      *store_,
      {.backoff = {.delay_first = absl::Milliseconds(1), .delay_max = absl::Milliseconds(2)}},
      Random::Real(), meter_);
  EXPECT_THAT(retrying.Put(ctx_, "new", "x", {}), IsOk());
  EXPECT_THAT(retrying.Get(ctx_, "key", 10), IsOkAndHolds("bytes"));
  EXPECT_EQ(meter_.Snapshot().retries, 14);
}

TEST_F(S3ObjectStoreTest, KeepsItsConnection) {
  Start();
  for (int i = 0; i < 10; ++i) {
    ASSERT_THAT(store_->Put(ctx_, absl::StrCat("key", i), std::string(1000, 'x'), {}), IsOk());
    EXPECT_THAT(store_->Stat(ctx_, absl::StrCat("key", i)), IsOk());
    EXPECT_THAT(store_->Get(ctx_, "none", 10), StatusIs(absl::StatusCode::kNotFound));
    EXPECT_THAT(store_->Stat(ctx_, "none"), StatusIs(absl::StatusCode::kNotFound));
  }
  EXPECT_EQ(server_->connection_count(), 1);
}

TEST_F(S3ObjectStoreTest, DescribesItselfWithoutSecrets) {
  Start();
  EXPECT_EQ(store_->Describe(), absl::StrCat("s3:", server_->url(), "/bucket"));
  S3ObjectStore other(
      {.endpoint = *net::ParseUrl("https://host:443"), .bucket = "b", .prefix = "x/y/"}, *http_,
      credentials_, meter_);
  EXPECT_EQ(other.Describe(), "s3:https://host/b/x/y");
}

}  // namespace
}  // namespace csidelta::storage::s3_object_store_test
