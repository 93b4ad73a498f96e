// What every store promises; the fake and real buckets run the same suite in
// tests/contract.
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "storage/azure_object_store.h"
#include "storage/file_object_store.h"
#include "storage/folder_object_store.h"
#include "storage/google_object_store.h"
#include "storage/limited_object_store.h"
#include "storage/metered_object_store.h"
#include "storage/retrying_object_store.h"
#include "storage/s3_object_store.h"
#include "tests/contract/object_store_contract.h"
#include "tests/support/fake_azure_server.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_google_server.h"
#include "tests/support/fake_object_store.h"
#include "tests/support/fake_s3_server.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::storage::store_contract_test {
namespace {

using contract::ObjectStoreCase;
using contract::ObjectStoreContract;
using contract::ObjectStoreSubject;

// In a directory that is not there yet.
class FileSubject : public ObjectStoreSubject {
 public:
  ObjectStore& store() override { return store_; }

 private:
  const support::ScratchFolder parent_;
  FileObjectStore store_{parent_.path() + "/deep/repo", Random::Real()};
};

// Every decorator, around a fake that takes batches.
class DecoratedSubject : public ObjectStoreSubject {
 public:
  DecoratedSubject() { fake_.TakeBatches(3); }
  ObjectStore& store() override { return retrying_; }
  bool Refuse(const std::string& key) override {
    fake_.AddFault({.operation = support::StoreOperation::kDelete,
                    .key_prefix = key,
                    .last_call = 100,
                    .status = absl::PermissionDeniedError("delete " + key)});
    return true;
  }

 private:
  support::FakeObjectStore fake_;
  StoreMeter meter_;
  MeteredObjectStore metered_{fake_, meter_};
  LimitedObjectStore limited_{metered_,
                              {.upload_bytes_per_second = int64_t{1} << 40,
                               .download_bytes_per_second = int64_t{1} << 40,
                               .requests_per_second = 1'000'000,
                               .requests_in_flight_max = 2}};
  RetryingObjectStore retrying_{limited_, {}, Random::Real(), meter_};
};

// A folder of a fake, with strangers beside it.
class FolderSubject : public ObjectStoreSubject {
 public:
  FolderSubject() {
    for (const char* key : {"config", "some/config", "some/folders/config", "some/folder"}) {
      fake_.SetObject(key, "foreign");
    }
  }
  ObjectStore& store() override { return folder_; }

 private:
  support::FakeObjectStore fake_;
  FolderObjectStore folder_{fake_, "some/folder/"};
};

struct S3Case {
  bool path_style = true;
  bool tls = false;
  support::S3Quirks quirks = {};
  absl::Duration server_ahead = absl::ZeroDuration();
  std::size_t page_objects_max = 4;
  bool sends_checksum = true;

  bool is_elsewhere() const { return quirks.region != support::S3Quirks::Region::kAny; }
  bool has_regional_host() const { return quirks.region == support::S3Quirks::Region::kByHost; }
};

CredentialsEnvironment KeysOfFake() {
  const support::FakeS3Options fake;
  CredentialsEnvironment environment;
  environment.keys = {.access_key_id = fake.access_key_id,
                      .secret_access_key = Secret(fake.secret_access_key),
                      .session_token = Secret()};
  return environment;
}

class S3Subject : public ObjectStoreSubject {
 public:
  explicit S3Subject(const S3Case& kind)
      : skew_(kind.server_ahead),
        clock_(absl::Now() + skew_),
        server_({.region = kind.is_elsewhere() ? "eu-test-1" : "us-east-1",
                 .page_objects_max = kind.page_objects_max,
                 .quirks = kind.quirks,
                 .clock = skew_ == absl::ZeroDuration() ? &Clock::Real() : &clock_,
                 .http = {.tls = kind.tls || kind.has_regional_host(),
                          .names = "DNS:localhost,DNS:bucket.localhost,"
                                   "DNS:s3.us-east-1.localhost,DNS:s3.eu-test-1.localhost"}}),
        proxy_([this](const support::ServedRequest&, support::ServedConnection& connection) {
          connection.Raw("HTTP/1.1 200 Connection established\r\n\r\n");
          connection.Tunnel(server_.port());
        }),
        http_(HttpOptions(kind)),
        store_({.endpoint = *net::ParseUrl(
                    server_.url(kind.has_regional_host() ? "s3.us-east-1.localhost" : "localhost")),
                .bucket = "bucket",
                .prefix = "deep prefix/repo/",
                .path_style = kind.path_style,
                .sends_checksum = kind.sends_checksum},
               http_, credentials_, meter_),
        retrying_(
            store_,
            {.backoff = {.delay_first = absl::Milliseconds(1), .delay_max = absl::Milliseconds(1)}},
            Random::Real(), meter_),
        is_retried_(kind.quirks.throttles) {
    server_.SetObject("deep prefix/other", "foreign");
    server_.SetObject("deep prefix/repo/not a key", "nor this");
  }
  ~S3Subject() override {
    std::vector<std::string> refusals = server_.refusals();
    if (skew_ != absl::ZeroDuration()) {
      std::erase_if(refusals, [](const auto& refusal) { return refusal.ends_with(": clock"); });
    }
    EXPECT_THAT(refusals, testing::IsEmpty());
  }
  ObjectStore& store() override {
    return is_retried_ ? static_cast<ObjectStore&>(retrying_) : store_;
  }
  bool Refuse(const std::string& key) override {
    server_.Refuse("deep prefix/repo/" + key);
    return true;
  }

 private:
  // The bucket's own host cannot be resolved: a proxy leads there.
  net::HttpClientOptions HttpOptions(const S3Case& kind) {
    net::HttpClientOptions options;
    options.tls.ca_pem = server_.authority().ca_pem();
    options.limits = BucketHttpLimits();
    options.proxy.always = kind.path_style && !kind.has_regional_host() ? "" : proxy_.url();
    return options;
  }

  const absl::Duration skew_;
  const support::FakeClock clock_;
  support::FakeS3Server server_;
  support::HttpTestServer proxy_;
  net::HttpClient http_;
  CredentialsChain credentials_{KeysOfFake(), http_, http_};
  StoreMeter meter_;
  S3ObjectStore store_;
  RetryingObjectStore retrying_;
  const bool is_retried_;
};

// The token and the server's certificate are verified, as at Google.
class GoogleSubject : public ObjectStoreSubject {
 public:
  GoogleSubject()
      : server_({.http = {.tls = true}}),
        http_({.tls = {.ca_pem = server_.authority().ca_pem()},
               .proxy = {},
               .limits = BucketHttpLimits()}),
        store_({.endpoint = *net::ParseUrl(server_.url("localhost")),
                .bucket = "bucket",
                .prefix = "deep prefix/repo/"},
               http_, credentials_, meter_) {
    server_.SetObject("deep prefix/other", "foreign");
    server_.SetObject("deep prefix/repo/not a key", "nor this");
  }
  ~GoogleSubject() override { EXPECT_THAT(server_.refusals(), testing::IsEmpty()); }
  ObjectStore& store() override { return store_; }

 private:
  support::FakeGoogleServer server_;
  net::HttpClient http_;
  GoogleCredentials credentials_{{.access_token = Secret("token")}, "", http_, http_};
  StoreMeter meter_;
  GoogleObjectStore store_;
};

ObjectStoreCase MakeS3Case(const char* name, const S3Case& kind) {
  const bool is_heeded = kind.quirks.if_none_match != support::S3Quirks::Condition::kIgnored;
  return {.name = name,
          .make = [kind] { return std::make_unique<S3Subject>(kind); },
          .if_absent_excludes = is_heeded,
          .if_absent_is_heeded = is_heeded};
}

struct AzureCase {
  bool account_in_path = true;  // as in emulators
  bool tls = false;
  support::BatchManner batch = support::BatchManner::kHeeded;
  std::map<std::string, std::string> variables = {{"AZURE_ACCOUNT_KEY", kKey}};

  static constexpr char kKey[] = "c2VjcmV0L2tleStvZj10ZXN0";
};

// Small blocks, so that larger objects are put in some.
class AzureSubject : public ObjectStoreSubject {
 public:
  explicit AzureSubject(const AzureCase& kind)
      : server_({.key = kind.variables.contains("AZURE_ACCOUNT_KEY") ? AzureCase::kKey : "",
                 .sas = "sv=2021-12-02&sig=a%2Bb%3D",
                 .account_in_path = kind.account_in_path,
                 .batch = kind.batch,
                 .http = {.tls = kind.tls}}),
        http_(HttpOptions()),
        credentials_({.variables = kind.variables}, {.uri = server_.uri()}, http_, http_),
        store_({.container = "container",
                .prefix = "deep prefix/repo/",
                .access_tier = "Cool",
                .block_bytes = 256 << 10},
               http_, credentials_, Random::Real(), meter_) {
    server_.SetObject("deep prefix/other", "foreign");
    server_.SetObject("deep prefix/repo/not a key", "nor this");
    server_.SetObject("deep prefix/repo/nor\x01this", "name that XML cannot have");
  }
  ~AzureSubject() override { EXPECT_THAT(server_.refusals(), testing::IsEmpty()); }
  ObjectStore& store() override { return store_; }
  bool Refuse(const std::string& key) override {
    server_.Refuse("deep prefix/repo/" + key);
    return true;
  }

 private:
  net::HttpClientOptions HttpOptions() {
    net::HttpClientOptions options;
    options.tls.ca_pem = server_.authority().ca_pem();
    options.limits = BucketHttpLimits();
    return options;
  }

  support::FakeAzureServer server_;
  net::HttpClient http_;
  AzureCredentials credentials_;
  StoreMeter meter_;
  AzureObjectStore store_;
};

ObjectStoreCase MakeAzureCase(const char* name, AzureCase kind) {
  kind.variables["AZURE_ACCOUNT_NAME"] = "teststore";
  return {.name = name, .make = [kind] { return std::make_unique<AzureSubject>(kind); }};
}

// The same suite for each way in which servers differ from AWS.
std::vector<ObjectStoreCase> QuirkyCases() {
  std::vector<ObjectStoreCase> cases;
  for (const support::S3Quirks& quirks : support::kS3Quirks) {
    cases.push_back(MakeS3Case(quirks.name, {.quirks = quirks}));
  }
  cases.push_back(MakeS3Case("ServerAhead", {.server_ahead = absl::Hours(24)}));
  cases.push_back(MakeS3Case("ServerBehind", {.server_ahead = -absl::Hours(24)}));
  cases.push_back(MakeS3Case("PagesOfOne", {.page_objects_max = 1}));
  cases.push_back(
      MakeS3Case("ChecksumOff", {.quirks = {.refuses_checksum = true}, .sends_checksum = false}));
  return cases;
}
INSTANTIATE_TEST_SUITE_P(QuirkyS3, ObjectStoreContract, testing::ValuesIn(QuirkyCases()),
                         [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Stores, ObjectStoreContract,
    testing::Values(
        ObjectStoreCase{"File", [] { return std::make_unique<FileSubject>(); }},
        ObjectStoreCase{"Folder", [] { return std::make_unique<FolderSubject>(); }},
        ObjectStoreCase{"Decorated", [] { return std::make_unique<DecoratedSubject>(); }},
        ObjectStoreCase{"Google", [] { return std::make_unique<GoogleSubject>(); }},
        MakeAzureCase("AzurePath", {}),
        MakeAzureCase("AzureTls", {.account_in_path = false, .tls = true}),
        MakeAzureCase("AzureBatchRefused", {.batch = support::BatchManner::kNotImplemented}),
        MakeAzureCase("AzureBatchFails", {.batch = support::BatchManner::kFails}),
        MakeAzureCase("AzureBatchMalformed", {.batch = support::BatchManner::kMalformed}),
        MakeAzureCase("AzureBatchLeavesOut", {.batch = support::BatchManner::kLeavesOut}),
        MakeAzureCase("AzureBatchForeign", {.batch = support::BatchManner::kForeign}),
        MakeAzureCase("AzureBatchCutOff", {.batch = support::BatchManner::kCutOff}),
        MakeAzureCase("AzureBatchHostile", {.batch = support::BatchManner::kHostile}),
        MakeAzureCase("AzureSas",
                      {.variables = {{"AZURE_ACCOUNT_SAS", "?sv=2021-12-02&sig=a%2Bb%3D"}}}),
        MakeS3Case("S3Path", {}), MakeS3Case("S3VirtualHost", {.path_style = false, .tls = true}),
        MakeS3Case("S3Tls", {.tls = true})),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace csidelta::storage::store_contract_test
