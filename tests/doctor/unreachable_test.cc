// The doctor without an API server: one fault, in time. With the real client and short real time.

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "doctor/checkup.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "k8s/config.h"
#include "k8s/rest_client.h"
#include "tests/support/scratch_file.h"

namespace csidelta::doctor::unreachable_test {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// A port of this machine that accepts connections and never answers, or refuses them.
class SilentPort {
 public:
  explicit SilentPort(bool listens) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
    if (listens) {
      EXPECT_EQ(::listen(fd_, 16), 0);
    }
  }
  ~SilentPort() { ::close(fd_); }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;

  int port() const { return port_; }

 private:
  const int fd_;
  int port_ = 0;
};

std::vector<Finding> FindingsAt(int port, const std::string& context) {
  support::ScratchFile kubeconfig;
  kubeconfig.Write(
      absl::StrCat("{apiVersion: v1, kind: Config, current-context: x,\n",
                   "clusters: [{name: c, cluster: {server: \"https://127.0.0.1:", port,
                   "\", insecure-skip-tls-verify: true}}], users: [{name: u, user: {token: t}}],\n",
                   "contexts: [{name: x, context: {cluster: c, user: u}}]}\n"));
  k8s::ClientSettings settings;
  settings.kubeconfig = kubeconfig.path();
  settings.kubecontext = context;
  const std::unique_ptr<k8s::ApiClient> api = k8s::MakeClient(settings);
  CheckupOptions options;
  options.reach_time_max = absl::Milliseconds(500);
  std::vector<Finding> findings;
  RunCheckup(CallContext().WithTimeout(absl::Seconds(55)), *api, options, Random::Real(),
             [&](const Finding& finding) { findings.push_back(finding); });
  return findings;
}

TEST(UnreachableTest, AClosedPortAndOneThatNeverAnswersAreOneFaultInTime) {
  EXPECT_LE(CheckupOptions().reach_time_max, absl::Seconds(9));
  for (const bool listens : {false, true}) {
    const SilentPort server(listens);
    const absl::Time begin = absl::Now();
    const std::vector<Finding> findings = FindingsAt(server.port(), "");
    EXPECT_LE(absl::Now() - begin, absl::Seconds(9));
    ASSERT_THAT(findings, SizeIs(2)) << listens;
    EXPECT_EQ(ToString(findings[0].severity), ToString(Severity::kFault));
    EXPECT_THAT(findings[0].text, HasSubstr("the API server does not answer"));
    EXPECT_THAT(findings[1].text, HasSubstr(" checks not made because of this"));
  }
}

TEST(UnreachableTest, AContextThatThereIsNotIsOneFault) {
  const SilentPort server(false);
  const std::vector<Finding> findings = FindingsAt(server.port(), "other");
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_THAT(findings[0].text, HasSubstr("other"));
  EXPECT_THAT(findings[0].remediation, HasSubstr("--context"));
}

}  // namespace
}  // namespace csidelta::doctor::unreachable_test
