#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "k8s/api_client.h"
#include "tests/support/http_test_server.h"

namespace csidelta::support {

// Serves an ApiClient, such as a FakeApiClient, under the paths and with the words of a Kubernetes
// API server, so that a client's every byte is tested against known objects. Kinds are taken from
// `types`. The pages of a list are cut as the request says, and are of one moment, as those of a
// real server; the last few lists are remembered, later pages of others are 410. Borrows the
// client.
class ApiTestServer {
 public:
  // Looked at before each request is served; returns true when it answered itself.
  using Fault = std::function<bool(const ServedRequest& request, ServedConnection& connection)>;

  ApiTestServer(k8s::ApiClient& served, std::vector<k8s::ResourceType> types,
                TestServerOptions options = {}, Fault fault = nullptr);
  ~ApiTestServer();

  HttpTestServer& http() { return *http_; }
  // A kubeconfig for this server; `user` is YAML in flow style, such as "{token: abc}".
  std::string Kubeconfig(const std::string& user = "{}") const;

 private:
  // What is there of a kind, each object as text.
  struct Listing {
    std::string resource_version;
    std::vector<std::string> items;
  };

  void Handle(const ServedRequest& request, ServedConnection& connection);
  absl::StatusOr<std::shared_ptr<const Listing>> List(
      const k8s::ResourceType& type, const std::string& namespace_name,
      const std::map<std::string, std::string>& query);
  absl::StatusOr<std::shared_ptr<const Listing>> Find(const std::string& name);
  // The name by which later pages are asked for.
  std::string Remember(std::shared_ptr<const Listing> listing);
  void HandleList(const k8s::ResourceType& type, const std::string& namespace_name,
                  const std::map<std::string, std::string>& query, ServedConnection& connection);
  void HandleWatch(const k8s::ResourceType& type, const std::string& namespace_name,
                   const std::map<std::string, std::string>& query, ServedConnection& connection);
  void HandleObject(const ServedRequest& request, const k8s::ObjectKey& key,
                    const std::string& subresource, ServedConnection& connection);

  k8s::ApiClient& served_;
  const std::vector<k8s::ResourceType> types_;
  const Fault fault_;
  std::mutex mutex_;
  std::deque<std::pair<std::string, std::shared_ptr<const Listing>>>
      listings_;               // Guarded by mutex_; those that have later pages, by their names.
  int64_t listing_count_ = 0;  // Guarded by mutex_.
  std::unique_ptr<HttpTestServer> http_;
};

}  // namespace csidelta::support
