#include "tests/contract/snapshot_cluster_contract.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/check.h"
#include "k8s/object.h"
#include "k8s/rest_client.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"

namespace csidelta::contract::snapshot_cluster_contract_test {
namespace {

// "FAILED_PRECONDITION" as the sidecars write it: "FailedPrecondition".
std::string GoName(const std::string& code) {
  std::string name;
  bool upper = true;
  for (const char letter : code) {
    if (letter != '_') {
      name += static_cast<char>(upper ? letter : std::tolower(letter));
    }
    upper = letter == '_';
  }
  return name;
}

class FakeSubject : public SnapshotClusterSubject {
 public:
  // `lag`: a thread works that far behind; nothing: at once, in the thread of the call.
  explicit FakeSubject(std::optional<absl::Duration> lag) : lag_(lag) {
    cluster_.strict = true;
    cluster_.driver().takes_any_handle = false;
    cluster_.driver().cut_at_nanoseconds = 0;
    cluster_.driver().size_bytes = 1 << 20;
    api_.Seed(StorageClassType(),
              {{"metadata", {{"name", "fast"}}}, {"provisioner", "d.example.com"}});
    if (lag.has_value()) {
      cluster_.Run(*lag, absl::Milliseconds(20));
    }
  }
  k8s::ApiClient& client() override { return api_; }
  std::string namespace_name() override { return "ns"; }
  std::string driver_name() override { return cluster_.driver_name; }
  std::string storage_class() override { return "fast"; }
  void Fail(const std::string& method, const std::string& match, const std::string& code,
            const std::string& message) override {
    cluster_.driver().AddFault(
        {.method = method, .match = match, .code = GoName(code), .message = message});
  }
  void StopFailing() override { cluster_.LetDriverWork(); }
  std::set<std::string> DriverSnapshots() override {
    std::set<std::string> all = cluster_.driver().snapshots();
    for (const auto& [handle, members] : cluster_.driver().groups()) {
      all.insert(members.begin(), members.end());
    }
    return all;
  }
  absl::Duration grace_period() override { return absl::Seconds(10); }
  absl::Duration quiet_time() override { return lag_.has_value() ? *lag_ * 30 : absl::Duration(); }

 private:
  const std::optional<absl::Duration> lag_;
  support::FakeApiClient api_;
  support::FakeSnapshotCluster cluster_{api_};
};

// The programs of the cluster that a file describes: kubeconfig, storage_class, driver, and the
// control socket of the tests' own driver. Each test in a namespace of its own.
class RealSubject : public SnapshotClusterSubject {
 public:
  explicit RealSubject(const std::string& description) {
    std::ifstream file(description);
    bed_ = ParseJsonObject(std::string(std::istreambuf_iterator<char>(file), {})).value();
    k8s::ClientSettings settings = k8s::ClientSettings::FromEnvironment();
    settings.own_kubeconfig = GetString(bed_, {"kubeconfig"});
    client_ = k8s::MakeClient(settings);
    namespace_ = k8s::Name(client_
                               ->Create({}, kNamespaces, "",
                                        {{"apiVersion", "v1"},
                                         {"kind", "Namespace"},
                                         {"metadata", {{"generateName", "csi-delta-contract-"}}}})
                               .value());
  }
  ~RealSubject() override { client_->Delete({}, {kNamespaces, "", namespace_}, {}).IgnoreError(); }
  k8s::ApiClient& client() override { return *client_; }
  std::string namespace_name() override { return namespace_; }
  std::string driver_name() override { return GetString(bed_, {"driver"}); }
  std::string storage_class() override { return GetString(bed_, {"storage_class"}); }
  void Fail(const std::string& method, const std::string& match, const std::string& code,
            const std::string& message) override {
    Ask({{"op", "add"},
         {"rules",
          {{{"method", method}, {"match", match}, {"code", code}, {"message", message}}}}});
  }
  void StopFailing() override { Ask({{"op", "clear"}}); }
  std::set<std::string> DriverSnapshots() override {
    std::set<std::string> all;
    const Json answer = Ask({{"op", "snapshots"}});
    for (const Json& snapshot : answer["snapshots"]) {
      all.insert(GetString(snapshot, {"id"}));
    }
    return all;
  }
  absl::Duration grace_period() override { return absl::Seconds(60); }
  absl::Duration quiet_time() override { return absl::Seconds(3); }

 private:
  inline static const k8s::ResourceType kNamespaces{"", "v1", "namespaces", "Namespace", false};

  Json Ask(const Json& request) {
    const std::string path = GetString(bed_, {"driver_control"});
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    CSIDELTA_CHECK(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    const std::string line = DumpJson(request) + "\n";
    CSIDELTA_CHECK(write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
    std::string answer;
    char byte = 0;
    while (read(fd, &byte, 1) == 1 && byte != '\n') {
      answer += byte;
    }
    close(fd);
    const Json parsed = ParseJsonObject(answer).value();
    CSIDELTA_CHECK(GetBool(parsed, {"ok"}));
    return parsed;
  }

  Json bed_;
  std::unique_ptr<k8s::ApiClient> client_;
  std::string namespace_;
};

std::vector<SnapshotClusterCase> Cases() {
  std::vector<SnapshotClusterCase> cases = {
      {"Fake", [] { return std::make_unique<FakeSubject>(std::nullopt); }},
      {"Lagging", [] { return std::make_unique<FakeSubject>(absl::Milliseconds(2)); }},
  };
  if (const char* bed = std::getenv("CSI_DELTA_TEST_SNAPSHOT_BED"); bed != nullptr) {
    cases.push_back(
        {"Real", [path = std::string(bed)] { return std::make_unique<RealSubject>(path); }});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Clusters, SnapshotClusterContract, testing::ValuesIn(Cases()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace csidelta::contract::snapshot_cluster_contract_test
