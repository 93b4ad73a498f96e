#include "storage/azure_object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "storage/location.h"
#include "storage/object_rules.h"
#include "storage/retrying_object_store.h"
#include "tests/support/bucket_words.h"
#include "tests/support/fake_azure_server.h"
#include "tests/support/fake_clock.h"

namespace csidelta::storage::azure_object_store_test {
namespace {

using namespace support::bucket_words;
using support::FakeAzureServer;

class AzureObjectStoreTest : public testing::Test {
 protected:
  AzureObjectStoreTest() {
    clock_.SetAutoAdvance(true);
    ctx_.clock = &clock_;
    options_.container = "container";
    options_.block_bytes = 1000;
  }

  void Start(std::map<std::string, std::string> variables = {
                 {"AZURE_ACCOUNT_KEY", "c2VjcmV0L2tleStvZj10ZXN0"}}) {
    server_options_.clock = &clock_;
    server_ = std::make_unique<FakeAzureServer>(server_options_);
    variables["AZURE_ACCOUNT_NAME"] = "teststore";
    credentials_ =
        std::make_unique<AzureCredentials>(AzureEnvironment{.variables = variables},
                                           AzureAccount{.uri = server_->uri()}, http_, http_);
    store_ =
        std::make_unique<AzureObjectStore>(options_, http_, *credentials_, Random::Real(), meter_);
  }

  // Answers requests of `method` whose target has `part`, the first `times` times.
  void Answer(const std::string& method, const std::string& part, int times, int status,
              const std::string& body, const support::Headers& headers = {}) {
    server_->Interfere(
        [=, left = times](const ServedRequest& request, ServedConnection& connection) mutable {
          if (request.method != method || !absl::StrContains(request.target, part) || left-- <= 0) {
            return false;
          }
          connection.Send(status, body, headers);
          return true;
        });
  }
  void AnswerWith(const std::string& method, int status, const std::string& body) {
    Answer(method, "", 1'000'000, status, body);
  }

  std::set<std::string> Listed() {
    std::set<std::string> keys;
    EXPECT_THAT(store_->List(ctx_, "",
                             [&](const ObjectInfo& object) {
                               keys.insert(object.key);
                               return absl::OkStatus();
                             }),
                IsOk());
    return keys;
  }

  support::FakeClock clock_;
  CallContext ctx_;
  AzureOptions options_;
  support::FakeAzureOptions server_options_;
  net::HttpClient http_{
      net::HttpClientOptions{.tls = {}, .proxy = {}, .limits = BucketHttpLimits()}};
  StoreMeter meter_;
  std::unique_ptr<FakeAzureServer> server_;
  std::unique_ptr<AzureCredentials> credentials_;
  std::unique_ptr<AzureObjectStore> store_;
};

// The example of authorize-with-shared-key in the documentation.
TEST_F(AzureObjectStoreTest, SignsWhatTheDocumentationSays) {
  net::HttpRequest request;
  request.method = "GET";
  request.url.target = "/mycontainer?restype=container&comp=metadata&timeout=20&Prefix=a%2Fb%20c";
  request.headers = {{"X-MS-version", "2015-02-21"},
                     {"x-ms-date", " Fri, 26 Jun 2015 23:39:12 GMT "}};
  EXPECT_EQ(AzureStringToSign(request, "myaccount"),
            "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\n"
            "x-ms-version:2015-02-21\n/myaccount/mycontainer\ncomp:metadata\nprefix:a/b c\n"
            "restype:container\ntimeout:20");
  request.method = "PUT";
  request.body = "ab";
  request.borrowed_body = "cde";
  request.body_end = "f";
  EXPECT_THAT(AzureStringToSign(request, "myaccount"), testing::StartsWith("PUT\n\n\n6\n"));
}

TEST_F(AzureObjectStoreTest, PacksAloneGetTheAccessTier) {
  options_.access_tier = "Cold";
  Start();
  ASSERT_THAT(store_->Put(ctx_, "data/00/one", "pack", {}), IsOk());
  ASSERT_THAT(store_->Put(ctx_, "data/00/two", std::string(2500, 'x'), {}), IsOk());
  ASSERT_THAT(store_->Put(ctx_, "index/one", "index", {}), IsOk());
  const auto headers = server_->put_headers();
  EXPECT_THAT(headers.at("data/00/one"), Contains(Pair("x-ms-access-tier", "Cold")));
  EXPECT_THAT(headers.at("data/00/two"), Contains(Pair("x-ms-access-tier", "Cold")));
  EXPECT_THAT(headers.at("index/one"), Not(Contains(Key("x-ms-access-tier"))));
  EXPECT_THAT(server_->refusals(), IsEmpty());
}

TEST_F(AzureObjectStoreTest, ChecksItsOptions) {
  const auto check = [](const std::string& tier, int64_t block_bytes = int64_t{1} << 20) {
    AzureOptions options{.access_tier = tier, .block_bytes = block_bytes};
    const absl::Status status = CheckAzureOptions(options);
    return status.ok() ? "OK " + options.access_tier : std::string(status.message());
  };
  EXPECT_EQ(check(""), "OK ");
  EXPECT_EQ(check("cool"), "OK Cool");
  EXPECT_EQ(check("HOT"), "OK Hot");
  EXPECT_THAT(check("Archive"), HasSubstr("cannot be read until they are rehydrated"));
  EXPECT_THAT(check("Premium"), HasSubstr("Hot, Cool or Cold"));
  EXPECT_THAT(check("", 1000), HasSubstr("a block has from"));
  EXPECT_THAT(check("", int64_t{4001} << 20), HasSubstr("a block has from"));
}

TEST_F(AzureObjectStoreTest, OpensBehindAllDecorators) {
  Start();
  StoreSettings settings;
  settings.azure_environment.variables = {{"AZURE_ACCOUNT_NAME", "teststore"},
                                          {"AZURE_ACCOUNT_KEY", "c2VjcmV0L2tleStvZj10ZXN0"}};
  settings.azure.account.uri = server_->uri();
  const Location location = *ParseLocation("azure:container:/pre/fix");
  auto opened = OpenStore(location, settings, Random::Real());
  ASSERT_THAT(opened, IsOk());
  EXPECT_EQ((*opened)->store().Describe(), "azure:container:/pre/fix/");
  EXPECT_THAT((*opened)->store().Put(ctx_, "config", "bytes", {.if_absent = true}), IsOk());
  EXPECT_THAT(server_->objects(), Contains(Key("pre/fix/config")));
  settings.azure.access_tier = "Archive";
  EXPECT_THAT(OpenStore(location, settings, Random::Real()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rehydrated")));
  settings.azure.access_tier = "";
  settings.s3.object_lock_mode = "COMPLIANCE";
  EXPECT_THAT(OpenStore(location, settings, Random::Real()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("object locks")));
}

TEST_F(AzureObjectStoreTest, AnInterruptedCommitShowsNothingAndTheNextAttemptSucceeds) {
  Start();
  const std::string bytes(3500, 'x');
  server_->Interfere([](const ServedRequest& request, ServedConnection& connection) {
    const bool is_commit = absl::StrContains(request.target, "comp=blocklist");
    if (is_commit) {
      connection.Cut();
    }
    return is_commit;
  });
  EXPECT_THAT(store_->Put(ctx_, "data/large", bytes, {}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(server_->uncommitted_blocks(), 4u);
  EXPECT_THAT(Listed(), IsEmpty());
  EXPECT_THAT(store_->Stat(ctx_, "data/large"), StatusIs(absl::StatusCode::kNotFound));
  server_->Interfere(nullptr);
  EXPECT_THAT(store_->Put(ctx_, "data/large", bytes, {}), IsOk());
  EXPECT_THAT(store_->Get(ctx_, "data/large", 10'000), IsOkAndHolds(bytes));
  EXPECT_THAT(Listed(), UnorderedElementsAre("data/large"));
  EXPECT_EQ(server_->uncommitted_blocks(), 0u);
  EXPECT_THAT(server_->refusals(), IsEmpty());
}

TEST_F(AzureObjectStoreTest, TwoWritersOfOneKeyDoNotMixTheirBlocks) {
  Start();
  const std::string mine(2500, 'm');
  const std::string others(2500, 'o');
  AzureObjectStore other(options_, http_, *credentials_, Random::Real(), meter_);
  ASSERT_THAT(store_->Put(ctx_, "data/key", mine, {}), IsOk());
  ASSERT_THAT(other.Put(ctx_, "data/key", others, {}), IsOk());
  std::set<std::string> ids;
  for (const ServedRequest& request : server_->requests()) {
    if (absl::StrContains(request.target, "comp=block&")) {
      EXPECT_TRUE(ids.insert(request.target).second) << request.target;
    }
  }
  EXPECT_THAT(ids, SizeIs(6));
  EXPECT_THAT(store_->Get(ctx_, "data/key", 10'000), IsOkAndHolds(others));
  // Blocks that another commit dropped: the whole object is put again.
  Answer("PUT", "comp=blocklist", 1, 400, ErrorXml("InvalidBlockList"));
  EXPECT_THAT(store_->Put(ctx_, "data/key", mine, {}), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(AzureObjectStoreTest, CountsEachRequestOfAnUploadInBlocks) {
  Start();
  ASSERT_THAT(store_->Put(ctx_, "data/large", std::string(2500, 'x'), {}), IsOk());
  // The decorator around the store counts the call as one.
  EXPECT_EQ(meter_.Snapshot().put_requests + 1, std::ssize(server_->requests()));
}

TEST_F(AzureObjectStoreTest, AConditionIsHeededWithAndWithoutBlocks) {
  Start();
  for (const std::string& bytes : {std::string("small"), std::string(2500, 'x')}) {
    const std::string key = absl::StrCat("key", bytes.size());
    EXPECT_THAT(store_->Put(ctx_, key, bytes, {.if_absent = true}), IsOk());
    EXPECT_THAT(store_->Put(ctx_, key, bytes, {.if_absent = true}),
                StatusIs(absl::StatusCode::kAlreadyExists));
    EXPECT_THAT(store_->Put(ctx_, key, bytes, {}), IsOk());
  }
  AnswerWith("PUT", 412, ErrorXml("ConditionNotMet"));
  EXPECT_THAT(store_->Put(ctx_, "key", "b", {.if_absent = true}),
              StatusIs(absl::StatusCode::kAlreadyExists));
  AnswerWith("PUT", 403, ErrorXml("UnauthorizedBlobOverwrite"));
  EXPECT_THAT(store_->Put(ctx_, "key", "b", {.if_absent = true}),
              StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(AzureObjectStoreTest, AnAnswerOfOtherBytesIsDataLoss) {
  Start();
  Answer("PUT", "", 1, 201, "", {{"x-ms-content-crc64", "AAAAAAAAAAA="}});
  EXPECT_THAT(store_->Put(ctx_, "key", "bytes", {}), StatusIs(absl::StatusCode::kDataLoss));
  AnswerWith("PUT", 400, ErrorXml("Crc64Mismatch"));
  EXPECT_THAT(store_->Put(ctx_, "key", "bytes", {}), StatusIs(absl::StatusCode::kDataLoss));
  AnswerWith("PUT", 400, ErrorXml("Md5Mismatch"));
  EXPECT_THAT(store_->Put(ctx_, "key", "bytes", {}), StatusIs(absl::StatusCode::kDataLoss));
  Answer("PUT", "", 1, 201, "", {{"Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="}});
  EXPECT_THAT(store_->Put(ctx_, "key", "bytes", {}), StatusIs(absl::StatusCode::kDataLoss));
  AnswerWith("PUT", 200, "");
  EXPECT_THAT(store_->Put(ctx_, "key", "bytes", {}), StatusIs(absl::StatusCode::kUnavailable));
}

// The CRC-64 is what the service answered to these bytes (recordings of the tests of its SDKs).
TEST_F(AzureObjectStoreTest, AServerThatDoesNotVerifyACrc64GetsAnMd5ForTheRestOfTheRun) {
  const std::pair<int, std::string> answers[] = {
      {500,
       "<Error><Code>FeatureNotSupported</Code><Message>x-ms-content-crc64 header or parameter"
       " is not supported in Azurite strict mode.</Message></Error>"},
      {400, ErrorXml("Crc64Mismatch")},
      {201, ""}};  // Azurite with --loose
  for (const auto& [status, body] : answers) {
    Start();
    Answer("PUT", "", 1, status, body);
    const int64_t before = meter_.Snapshot().put_requests;
    ASSERT_THAT(store_->Put(ctx_, "key", "Hello World", {.if_absent = true}), IsOk());
    ASSERT_THAT(store_->Put(ctx_, "other", std::string(1500, 'x'), {.if_absent = true}), IsOk());
    std::string sums;
    for (const ServedRequest& request : server_->requests()) {
      sums += request.headers.contains("x-ms-content-crc64") ? "C" : "";
      sums += request.headers.contains("content-md5") ? "M" : "";
    }
    EXPECT_EQ(sums, "CMMMM");  // The first one twice, two blocks, their list.
    EXPECT_EQ(server_->requests()[0].headers.at("x-ms-content-crc64"), "YeJLfssylmU=");
    EXPECT_EQ(server_->requests()[1].headers.contains("if-none-match"), status != 201);
    // The decorator around the store counts each call as one.
    EXPECT_EQ(meter_.Snapshot().put_requests - before + 2, 5);
  }
}

TEST_F(AzureObjectStoreTest, ARefusedSignatureOverACrc64IsNoRefusalOfTheHeader) {
  Start();
  AnswerWith("PUT", 403,
             "<Error><Code>AuthenticationFailed</Code><AuthenticationErrorDetail>MAC signature, of "
             "x-ms-content-crc64:a</AuthenticationErrorDetail></Error>");
  EXPECT_FALSE(store_->Put(ctx_, "key", "bytes", {}).ok());
  EXPECT_FALSE(server_->requests().back().headers.contains("content-md5"));
}

TEST_F(AzureObjectStoreTest, SaysWhatARefusalMeans) {
  using Code = absl::StatusCode;
  struct Case {
    int status;
    const char* error;
    Code code;
    const char* text;
    bool is_retained = false;
  };
  const Case cases[] = {
      {404, "BlobNotFound", Code::kNotFound, "404 BlobNotFound: m (request"},
      {404, "ContainerNotFound", Code::kFailedPrecondition, "make the container"},
      {404, "ResourceNotFound", Code::kFailedPrecondition, "container container"},
      {409, "ContainerBeingDeleted", Code::kFailedPrecondition, "is being deleted"},
      {409, "AccountBeingCreated", Code::kUnavailable, ""},
      {409, "BlobArchived", Code::kFailedPrecondition, "the object is archived"},
      {409, "BlobBeingRehydrated", Code::kFailedPrecondition, "up to 15 hours"},
      {409, "BlobImmutableDueToPolicy", Code::kPermissionDenied, "", true},
      {409, "SnapshotsPresent", Code::kPermissionDenied, "snapshots of the blob", true},
      {412, "LeaseIdMissing", Code::kPermissionDenied, "a lease keeps", true},
      {403, "AuthorizationPermissionMismatch", Code::kPermissionDenied, "Blob Data Contributor"},
      {403, "KeyBasedAuthenticationNotPermitted", Code::kPermissionDenied, "Entra ID"},
      {403, "AuthorizationFailure", Code::kPermissionDenied,
       "signed in by the account's key); the firewall of the storage account may refuse this "
       "network, "
       "or the key is wrong"},
      {403, "AuthenticationFailed", Code::kUnauthenticated, "key, SAS or clock"},
      {503, "ServerBusy", Code::kResourceExhausted, ""},
      {429, "TooManyRequests", Code::kResourceExhausted, ""},
      {500, "OperationTimedOut", Code::kUnavailable, ""},
      {500, "InternalError", Code::kUnavailable, ""}};
  Start();
  for (const Case& one : cases) {
    Answer("GET", "", 1'000'000, one.status, ErrorXml(one.error), {{"x-ms-request-id", "r1"}});
    const absl::Status status = store_->Get(ctx_, "key", 10).status();
    EXPECT_THAT(status, StatusIs(one.code, AllOf(HasSubstr(one.error), HasSubstr(one.text),
                                                 Not(HasSubstr("RequestId")))));
    EXPECT_EQ(IsRetained(status), one.is_retained) << one.error;
  }
  Start({{"AZURE_ACCOUNT_SAS", "sig=SECRET"}});
  AnswerWith("GET", 403, ErrorXml("AuthorizationFailure"));
  EXPECT_THAT(std::string(store_->Get(ctx_, "key", 10).status().message()),
              testing::EndsWith("this network"));
}

TEST_F(AzureObjectStoreTest, OnlyWhatABatchAnswersOfAKeyIsItsDeletion) {
  Start();
  const auto part = [](const std::string& id, const std::string& status, const std::string& code) {
    return absl::StrCat("--x\r\nContent-Type: application/http\r\n",
                        id.empty() ? "" : "Content-ID: ", id, id.empty() ? "" : "\r\n",
                        "\r\nHTTP/1.1 ", status, "\r\na: b\r\n\r\n",
                        code.empty() ? "" : ErrorXml(code), "\r\n");
  };
  const auto answer = [this](const std::string& parts, const std::string& end = "--x--") {
    Answer("POST", "comp=batch", 1'000'000, 202, parts + end,
           {{"Content-Type", "multipart/mixed; boundary=x"}});
    return store_->DeleteBatch(ctx_, std::vector<std::string>{"a", "b"});
  };
  const std::string gone = part("0", "202 Accepted", "");
  using Code = absl::StatusCode;
  const std::pair<std::string, Code> seconds[] = {
      {part("1", "202 Accepted", ""), Code::kOk},
      {part("1", "404 The specified blob does not exist.", "BlobNotFound"), Code::kOk},
      {part("1", "404 None", "ContainerNotFound"), Code::kFailedPrecondition},
      {part("1", "412 Lease", "LeaseIdMissing"), Code::kPermissionDenied},
      {part("1", "503 Busy", "ServerBusy") + part("1", "202 Accepted", ""),
       Code::kResourceExhausted},
      {part("1", "401 No", "InvalidAuthenticationInfo"), Code::kUnimplemented},
      {part("1", "403 No", "AuthenticationFailed"), Code::kUnimplemented},
      {"", Code::kUnimplemented}};
  for (const auto& [second, code] : seconds) {
    const auto told = answer(gone + second);
    ASSERT_THAT(told, IsOk()) << second;
    EXPECT_THAT(told->at(0), IsOk()) << second;
    EXPECT_EQ(told->at(1).code(), code) << second << told->at(1);
    EXPECT_EQ(IsRetained(told->at(1)), code == Code::kPermissionDenied);
  }
  EXPECT_THAT(answer(part("", "503 Busy", "ServerBusy")), StatusIs(Code::kResourceExhausted));
  EXPECT_EQ(store_->deletion_limits().keys_per_request_max, 256);
  const std::pair<std::string, std::string> bad[] = {
      {gone, ""},
      {gone, "--y--"},
      {gone + part("2", "202 Accepted", ""), "--x--"},
      {gone + part("one", "202 Accepted", ""), "--x--"},
      {part("", "400 Bad", "InvalidInput"), "--x--"},
      {"--x\r\n", "--x--"},
      {"--x\r\nContent-ID: 0\r\n\r\nHTTP/1.1 OK\r\n\r\n", "--x--"},
      {"", ""}};
  for (const auto& [parts, end] : bad) {
    Start();
    EXPECT_THAT(answer(parts, end), StatusIs(Code::kUnimplemented)) << parts << end;
    EXPECT_EQ(store_->deletion_limits().keys_per_request_max, 1) << parts << end;
  }
}

TEST_F(AzureObjectStoreTest, TheServersClockIsBelieved) {
  Start();
  support::FakeClock ours(clock_.Now() - absl::Hours(5));
  ctx_.clock = &ours;
  EXPECT_THAT(store_->Put(ctx_, "key", "bytes", {}), IsOk());
  EXPECT_THAT(server_->refusals(), IsEmpty());
}

TEST_F(AzureObjectStoreTest, AStraySignatureIsNoRefusal) {
  Start();
  ASSERT_THAT(store_->Put(ctx_, "key", "bytes", {}), IsOk());
  Answer("GET", "", 2, 403,
         ErrorXml("AuthenticationFailed",
                  "<AuthenticationErrorDetail>The MAC signature found in"
                  "</AuthenticationErrorDetail>"));
  EXPECT_THAT(store_->Get(ctx_, "key", 10), IsOkAndHolds("bytes"));
}

TEST_F(AzureObjectStoreTest, ASasIsSentWithEachRequestAndShownInNoMessage) {
  server_options_.key = "";
  server_options_.sas = "sv=2021-12-02&se=2030&sig=SECRET%3D";
  Start({{"AZURE_ACCOUNT_SAS", "?sv=2021-12-02&se=2030&sig=SECRET%3D\n"}});
  EXPECT_THAT(store_->Put(ctx_, "data/large", std::string(2500, 'x'), {}), IsOk());
  EXPECT_THAT(Listed(), UnorderedElementsAre("data/large"));
  Start({{"AZURE_ACCOUNT_SAS", "sv=2021-12-02&se=2020&sig=SECRET%3D"}});
  EXPECT_THAT(store_->Put(ctx_, "key", "bytes", {}),
              StatusIs(absl::StatusCode::kUnauthenticated,
                       AllOf(HasSubstr("the SAS has expired"), HasSubstr("signed in by a SAS"),
                             Not(HasSubstr("SECRET")))));
}

TEST_F(AzureObjectStoreTest, ReadsTheListingsOfTheService) {
  const absl::StatusOr<ListPage> page = ParseBlobList(
      "\xEF\xBB\xBF<EnumerationResults ServiceEndpoint=\"x\"><Prefix>p</Prefix><Blobs>"
      "<Blob><Name>a&amp;b</Name><Properties><Content-Length>5</Content-Length>"
      "<Last-Modified>Tue, 14 Nov 2023 22:13:20 GMT</Last-Modified></Properties></Blob>"
      "<Blob><Name Encoded=\"true\">c%2Fd%EF%BF%BE</Name><Properties/></Blob>"
      "<Blob><Name>folder</Name><Properties><ResourceType>directory</ResourceType></Properties>"
      "</Blob><Blob><Name>gone</Name><Deleted>true</Deleted></Blob>"
      "<Blob><Name>old</Name><Snapshot>2023</Snapshot></Blob>"
      "<Blob><Name>v</Name><VersionId>1</VersionId><IsCurrentVersion>false</IsCurrentVersion>"
      "</Blob><Blob><Name>last</Name><IsCurrentVersion>true</IsCurrentVersion></Blob>"
      "<BlobPrefix><Name>sub/</Name></BlobPrefix></Blobs><NextMarker>2!x</NextMarker>"
      "</EnumerationResults>");
  ASSERT_THAT(page, IsOk());
  ASSERT_THAT(page->objects, SizeIs(3));
  EXPECT_EQ(page->objects[0].key, "a&b");
  EXPECT_EQ(page->objects[0].size_bytes, 5);
  EXPECT_EQ(page->objects[0].modified_at, absl::FromUnixSeconds(1'700'000'000));
  EXPECT_EQ(page->objects[1].key, "c/d\xEF\xBF\xBE");
  EXPECT_EQ(page->objects[2].key, "last");
  EXPECT_THAT(page->folders, testing::ElementsAre("sub/"));
  EXPECT_EQ(page->next_token, "2!x");
  for (const char* xml :
       {"", "<html/>", "<EnumerationResults><Blobs/></EnumerationResults>", "<Error/>",
        "<EnumerationResults><Blobs><Blob><Name>a</Name><Properties><Content-Length>-1"
        "</Content-Length></Properties></Blob></Blobs><NextMarker/></EnumerationResults>"}) {
    EXPECT_THAT(ParseBlobList(xml), StatusIs(absl::StatusCode::kInvalidArgument)) << xml;
  }
}

}  // namespace
}  // namespace csidelta::storage::azure_object_store_test
