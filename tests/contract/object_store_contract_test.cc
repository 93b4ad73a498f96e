#include <gmock/gmock.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "storage/credentials.h"
#include "storage/file_object_store.h"
#include "storage/folder_object_store.h"
#include "storage/limited_object_store.h"
#include "storage/location.h"
#include "storage/metered_object_store.h"
#include "storage/retrying_object_store.h"
#include "storage/s3_object_store.h"
#include "tests/contract/object_store_contract.h"
#include "tests/support/fake_object_store.h"
#include "tests/support/fake_s3_server.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::contract::object_store_contract_test {
namespace {

class FakeSubject : public ObjectStoreSubject {
 public:
  storage::ObjectStore& store() override { return fake_; }

 private:
  support::FakeObjectStore fake_;
};

// In a directory that is not there yet.
class FileSubject : public ObjectStoreSubject {
 public:
  storage::ObjectStore& store() override { return store_; }

 private:
  const support::ScratchFolder parent_;
  storage::FileObjectStore store_{parent_.path() + "/deep/repo", Random::Real()};
};

// Every decorator, around a fake.
class DecoratedSubject : public ObjectStoreSubject {
 public:
  storage::ObjectStore& store() override { return retrying_; }

 private:
  support::FakeObjectStore fake_;
  storage::StoreMeter meter_;
  storage::MeteredObjectStore metered_{fake_, meter_};
  storage::LimitedObjectStore limited_{metered_,
                                       {.upload_bytes_per_second = int64_t{1} << 40,
                                        .download_bytes_per_second = int64_t{1} << 40,
                                        .requests_per_second = 1'000'000,
                                        .requests_in_flight_max = 2}};
  storage::RetryingObjectStore retrying_{limited_, {}, Random::Real(), meter_};
};

// A folder of a fake, with strangers beside it.
class FolderSubject : public ObjectStoreSubject {
 public:
  FolderSubject() {
    for (const char* key : {"config", "some/config", "some/folders/config", "some/folder"}) {
      fake_.SetObject(key, "not ours");
    }
  }
  storage::ObjectStore& store() override { return folder_; }

 private:
  support::FakeObjectStore fake_;
  storage::FolderObjectStore folder_{fake_, "some/folder/"};
};

struct S3Case {
  bool path_style = true;
  bool tls = false;
  bool knows_if_none_match = true;
};

class S3Subject : public ObjectStoreSubject {
 public:
  explicit S3Subject(const S3Case& kind)
      : server_({.knows_if_none_match = kind.knows_if_none_match,
                 .http = {.tls = kind.tls, .names = "DNS:localhost,DNS:bucket.localhost"}}),
        proxy_([this](const support::ServedRequest&, support::ServedConnection& connection) {
          connection.Raw("HTTP/1.1 200 Connection established\r\n\r\n");
          connection.Tunnel(server_.port());
        }),
        http_(HttpOptions(kind)),
        credentials_({"AKIDTEST", Secret("secret/key+of=test"), Secret()}),
        store_({.endpoint = *net::ParseUrl(server_.url("localhost")),
                .bucket = "bucket",
                .prefix = "deep prefix/repo/",
                .path_style = kind.path_style},
               http_, credentials_, meter_) {
    server_.SetObject("deep prefix/other", "not ours");
    server_.SetObject("deep prefix/repo/not a key", "nor this");
  }
  ~S3Subject() override { EXPECT_THAT(server_.refusals(), testing::IsEmpty()); }
  storage::ObjectStore& store() override { return store_; }

 private:
  // Nobody resolves the bucket's own host: a proxy leads there.
  net::HttpClientOptions HttpOptions(const S3Case& kind) {
    net::HttpClientOptions options;
    options.tls.ca_pem = server_.authority().ca_pem();
    options.limits = storage::S3HttpLimits();
    options.proxy.always = kind.path_style ? "" : proxy_.url();
    return options;
  }

  support::FakeS3Server server_;
  support::HttpTestServer proxy_;
  net::HttpClient http_;
  storage::StaticCredentials credentials_;
  storage::StoreMeter meter_;
  storage::S3ObjectStore store_;
};

// The store at the location that CSI_DELTA_TEST_STORE names ("s3:http://host:port/bucket"), with
// the AWS environment's keys; each test below a prefix of its own, which is emptied afterwards.
class RealSubject : public ObjectStoreSubject {
 public:
  explicit RealSubject(const std::string& text) {
    const uint64_t number = Random::Real().Below(uint64_t{1} << 60);
    const auto location = storage::ParseLocation(absl::StrCat(text, "/", absl::Hex(number)));
    CSIDELTA_CHECK(location.ok());
    storage::StoreSettings settings;
    settings.environment = storage::CredentialsEnvironment::Read(
        [](const char* name) -> const char* { return std::getenv(name); });
    auto opened = storage::OpenStore(*location, settings, Random::Real());
    CSIDELTA_CHECK(opened.ok());
    opened_ = *std::move(opened);
  }
  ~RealSubject() override {
    EXPECT_TRUE(
        store()
            .List({}, "",
                  [&](const storage::ObjectInfo& object) { return store().Delete({}, object.key); })
            .ok());
  }
  storage::ObjectStore& store() override { return opened_->store(); }

 private:
  std::unique_ptr<storage::OpenedStore> opened_;
};

ObjectStoreCase MakeS3Case(const char* name, const S3Case& kind) {
  return {name, [kind] { return std::make_unique<S3Subject>(kind); }};
}

std::vector<ObjectStoreCase> Cases() {
  std::vector<ObjectStoreCase> cases = {
      {"Fake", [] { return std::make_unique<FakeSubject>(); }},
      {"File", [] { return std::make_unique<FileSubject>(); }},
      {"Folder", [] { return std::make_unique<FolderSubject>(); }},
      {"Decorated", [] { return std::make_unique<DecoratedSubject>(); }},
      MakeS3Case("S3Path", {}),
      MakeS3Case("S3VirtualHost", {.path_style = false, .tls = true}),
      MakeS3Case("S3Tls", {.tls = true}),
      MakeS3Case("S3WithoutConditions", {.knows_if_none_match = false}),
  };
  if (const char* location = std::getenv("CSI_DELTA_TEST_STORE"); location != nullptr) {
    cases.push_back(
        {.name = "Real",
         .make = [text = std::string(location)] { return std::make_unique<RealSubject>(text); },
         .if_absent_excludes = false});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Stores, ObjectStoreContract, testing::ValuesIn(Cases()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace csidelta::contract::object_store_contract_test
