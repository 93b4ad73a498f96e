#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <fstream>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "k8s/cached_client.h"
#include "k8s/informer.h"
#include "k8s/object.h"
#include "k8s/object_cache.h"
#include "k8s/rest_client.h"
#include "tests/contract/api_client_contract.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_api_client.h"

namespace csidelta::contract::api_client_contract_test {
namespace {

class FakeSubject : public ApiClientSubject {
 public:
  FakeSubject() { fake_.RemoveType(kUnknownKind.plural); }
  k8s::ApiClient& client() override { return fake_; }
  std::string namespace_name() override { return "ns"; }

 private:
  support::FakeApiClient fake_;
};

// RestClient, over TLS, against a server that speaks for a fake; pages of two objects.
class RestSubject : public ApiClientSubject {
 public:
  RestSubject()
      : server_(fake_,
                {kConfigMaps, kClaims, kPods, kStorageClasses, kServiceAccounts, kSelfReviews,
                 kAccessReviews, kEvents},
                {.tls = true}) {
    path_ = testing::TempDir() + "kubeconfig-" + std::to_string(getpid());
    std::ofstream(path_) << server_.Kubeconfig("{token: abc}");
    k8s::ClientSettings settings;
    settings.own_kubeconfig = path_;
    settings.page_items_max = 2;
    client_ = k8s::MakeClient(settings);
  }
  ~RestSubject() override { unlink(path_.c_str()); }
  k8s::ApiClient& client() override { return *client_; }
  std::string namespace_name() override { return "ns"; }

 private:
  support::FakeApiClient fake_;
  support::ApiTestServer server_;
  std::string path_;
  std::unique_ptr<k8s::ApiClient> client_;
};

// A fake whose objects are read from a cache, which its informers fill as fast as they can.
class CachedSubject : public ApiClientSubject {
 public:
  CachedSubject() {
    fake_.RemoveType(kUnknownKind.plural);
    for (const k8s::ResourceType& type : {kConfigMaps, kClaims, kPods, kStorageClasses}) {
      cache_.Add(informers_.emplace_back(k8s::WatchedObjects{.type = type}));
    }
    for (k8s::Informer& informer : informers_) {
      threads_.emplace_back([this, &informer](const std::stop_token& stop) {
        CallContext ctx;
        ctx.stop = stop;
        informer.Run(ctx, fake_).IgnoreError();
      });
    }
    fake_.AwaitWatches(static_cast<int>(informers_.size()));
  }
  k8s::ApiClient& client() override { return reader_; }
  std::string namespace_name() override { return "ns"; }

 private:
  support::FakeApiClient fake_;
  k8s::ObjectCache cache_;
  k8s::RecordingClient noting_{fake_, cache_};
  k8s::CachedReader reader_{noting_, &cache_};
  std::deque<k8s::Informer> informers_;
  std::vector<std::jthread> threads_;
};

// RestClient against the API server that CSI_DELTA_TEST_KUBECONFIG names; each test in a namespace
// of its own, which is deleted afterwards.
class RealSubject : public ApiClientSubject {
 public:
  explicit RealSubject(const std::string& kubeconfig) {
    k8s::ClientSettings settings = k8s::ClientSettings::FromEnvironment();
    settings.own_kubeconfig = kubeconfig;
    client_ = k8s::MakeClient(settings);
    const absl::StatusOr<Json> created =
        client_->Create({}, kNamespaces, "",
                        Json{{"apiVersion", "v1"},
                             {"kind", "Namespace"},
                             {"metadata", {{"generateName", "csi-delta-contract-"}}}});
    CSIDELTA_CHECK(created.ok());
    namespace_ = k8s::Name(*created);
  }
  ~RealSubject() override {
    // Without a namespace controller the namespace stays; its name is never used again.
    client_->Delete({}, {kNamespaces, "", namespace_}, {}).IgnoreError();
  }
  k8s::ApiClient& client() override { return *client_; }
  std::string namespace_name() override { return namespace_; }

 private:
  inline static const k8s::ResourceType kNamespaces{"", "v1", "namespaces", "Namespace", false};
  std::unique_ptr<k8s::ApiClient> client_;
  std::string namespace_;
};

std::vector<ApiClientCase> Cases() {
  std::vector<ApiClientCase> cases = {
      {"Fake", [] { return std::make_unique<FakeSubject>(); }},
      {"Cached", [] { return std::make_unique<CachedSubject>(); }},
      {"Rest", [] { return std::make_unique<RestSubject>(); }},
  };
  if (const char* kubeconfig = std::getenv("CSI_DELTA_TEST_KUBECONFIG"); kubeconfig != nullptr) {
    cases.push_back(
        {"Real", [path = std::string(kubeconfig)] { return std::make_unique<RealSubject>(path); }});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Clients, ApiClientContract, testing::ValuesIn(Cases()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace csidelta::contract::api_client_contract_test
