#pragma once

#include <functional>
#include <memory>
#include <string>

#include "k8s/api_client.h"
#include "tests/support/http_test_server.h"

namespace csidelta::support {

// Serves an ApiClient, such as a FakeApiClient, under the paths and with the words of a Kubernetes
// API server, so that a client's every byte is tested against known objects. Kinds are taken from
// `types`; pages of lists are cut as the request says. Borrows the client.
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
  void Handle(const ServedRequest& request, ServedConnection& connection);
  void HandleList(const k8s::ResourceType& type, const std::string& namespace_name,
                  const std::map<std::string, std::string>& query, ServedConnection& connection);
  void HandleWatch(const k8s::ResourceType& type, const std::string& namespace_name,
                   const std::map<std::string, std::string>& query, ServedConnection& connection);
  void HandleObject(const ServedRequest& request, const k8s::ObjectKey& key,
                    const std::string& subresource, ServedConnection& connection);

  k8s::ApiClient& served_;
  const std::vector<k8s::ResourceType> types_;
  const Fault fault_;
  std::unique_ptr<HttpTestServer> http_;
};

}  // namespace csidelta::support
