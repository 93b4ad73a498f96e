#include <gmock/gmock.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "storage/credentials.h"
#include "storage/location.h"
#include "tests/contract/object_store_contract.h"
#include "tests/support/fake_object_store.h"

namespace csidelta::contract::object_store_contract_test {
namespace {

class FakeSubject : public ObjectStoreSubject {
 public:
  storage::ObjectStore& store() override { return fake_; }

 private:
  support::FakeObjectStore fake_;
};

// The store at the location that CSI_DELTA_TEST_STORE names ("s3:http://host:port/bucket"), with
// the credentials and proxies of the environment; each test below a prefix of its own, which is
// emptied afterwards.
class RealSubject : public ObjectStoreSubject {
 public:
  explicit RealSubject(const std::string& text) {
    const uint64_t number = Random::Real().Below(uint64_t{1} << 60);
    const auto location = storage::ParseLocation(absl::StrCat(text, "/", absl::Hex(number)));
    CSIDELTA_CHECK(location.ok());
    const auto read = [](const char* name) -> const char* { return std::getenv(name); };
    storage::StoreSettings settings;
    settings.environment = storage::CredentialsEnvironment::Read(read);
    settings.azure_environment = storage::AzureEnvironment::Read(read);
    settings.azure.block_bytes = int64_t{1} << 20;  // What is larger is put in blocks.
    settings.google_environment = storage::GoogleEnvironment::Read(read);
    settings.proxy = net::ProxySettings::FromEnvironment();
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

std::vector<ObjectStoreCase> Cases() {
  std::vector<ObjectStoreCase> cases = {
      {"Fake", [] { return std::make_unique<FakeSubject>(); }},
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
