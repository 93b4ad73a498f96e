#include "tests/support/longhorn/manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "net/http_client.h"
#include "net/url.h"
#include "tests/support/await.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/longhorn/control.h"
#include "tests/support/longhorn/kinds.h"
#include "tests/support/longhorn/webhook_server.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_authority.h"

namespace csidelta::longhorn_stand_in::manager_test {
namespace {

using support::Await;
using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

constexpr char kNamespace[] = "longhorn-system";

// The manager and its control requests, on an API server in memory that asks no webhooks.
class ManagerTest : public testing::Test {
 protected:
  ManagerTest()
      : manager_(api_, engines_, {}, CertificateOf(authority_.IssueServer("IP:127.0.0.1")), 0) {
    for (const char* plural : {"snapshots", "volumes", "engines", "volumeattachments"}) {
      api_.SetStatusSubresource(plural, true);
    }
    EXPECT_THAT(manager_.Start(), IsOk());
  }
  static net::ServerCertificate CertificateOf(const support::Credentials& credentials) {
    return {.certificate_pem = credentials.certificate_pem, .key_pem = credentials.key_pem};
  }

  // The answer of a control request; "" and a failure when it was refused.
  std::string Ask(const std::string& target, const std::string& body = "") {
    const net::HttpResponse answer =
        control_.Handle({}, {.method = "POST", .target = target, .headers = {}, .body = body});
    EXPECT_EQ(answer.status, 200) << target << ": " << answer.body;
    return answer.body;
  }
  absl::StatusOr<net::HttpResponse> Post(const std::string& path, const std::string& body) {
    net::HttpClientOptions options;
    options.tls.ca_pem = authority_.ca_pem();
    net::HttpClient client(options);
    net::HttpRequest request{.method = "POST", .url = {}, .headers = {}, .body = body};
    request.url = net::ParseUrl(absl::StrCat("https://127.0.0.1:", manager_.port(), path)).value();
    return client.Send(CallContext().WithTimeout(absl::Seconds(20)), request);
  }
  void AddVolume() {
    ASSERT_THAT(api_.Create({}, VolumeType(), kNamespace,
                            {{"apiVersion", kApiVersion},
                             {"kind", "Volume"},
                             {"metadata", {{"name", "pvc-1"}}},
                             {"spec", {{"size", "1048576"}}}}),
                IsOk());
    Await("the engine of the volume", [this] {
      return api_.Find({AttachmentType(), kNamespace, "pvc-1"}).has_value() &&
             api_.Find({EngineType(), kNamespace, EngineName("pvc-1")}).has_value();
    });
  }
  static Json Review(const std::string& volume) {
    return {{"request",
             {{"uid", "r-1"},
              {"operation", "CREATE"},
              {"resource", {{"group", kGroup}, {"version", kVersion}, {"resource", "snapshots"}}},
              {"name", "one"},
              {"object", {{"metadata", {{"name", "one"}}}, {"spec", {{"volume", volume}}}}}}}};
  }

  support::FakeApiClient api_;
  support::TestAuthority authority_;
  Engines engines_;
  Manager manager_;
  Control control_{api_, engines_, manager_, kNamespace};
};

TEST_F(ManagerTest, ServesTheWebhooksOverTls) {
  AddVolume();
  const auto allowed = Post(absl::StrCat(kMutatePath, "?timeout=10s"), DumpJson(Review("pvc-1")));
  ASSERT_THAT(allowed, IsOk());
  EXPECT_EQ(allowed->status, 200);
  EXPECT_THAT(allowed->body, HasSubstr("JSONPatch"));
  const auto denied = Post(kMutatePath, DumpJson(Review("pvc-2")));
  ASSERT_THAT(denied, IsOk());
  EXPECT_THAT(denied->body, HasSubstr("failed to get volume pvc-2"));
  EXPECT_EQ(Post(kValidatePath, "no review").value().status, 400);
  EXPECT_EQ(Post("/elsewhere", "{}").value().status, 404);
}

TEST_F(ManagerTest, AStoppedManagerIsAwayAndComesBackOnItsPort) {
  const uint16_t port = manager_.port();
  Ask("/manager-stop");
  EXPECT_THAT(Post(kMutatePath, "{}"), StatusIs(absl::StatusCode::kUnavailable));
  Ask("/manager-start");
  EXPECT_EQ(manager_.port(), port);
  EXPECT_EQ(Post(kMutatePath, "{}").value().status, 400);
}

TEST_F(ManagerTest, AttachesWritesAndShowsTheChain) {
  AddVolume();
  // It runs already, so that nothing waits for the time that an attachment takes.
  engines_.Handle("pvc-1", [](Engine& engine) { engine.Start(); });
  Ask("/attach/pvc-1");
  Await("the volume to be attached", [this] {
    const Json volume = api_.Find({VolumeType(), kNamespace, "pvc-1"}).value_or(Json());
    return GetString(volume, {"status", "state"}) == "attached";
  });
  Ask("/write/pvc-1/7/hello");
  EXPECT_EQ(Ask("/read/pvc-1/volume-head/7"), "hello\n");
  ASSERT_THAT(api_.Create({}, SnapshotType(), kNamespace,
                          {{"apiVersion", kApiVersion},
                           {"kind", "Snapshot"},
                           {"metadata", {{"name", "one"}}},
                           {"spec", {{"volume", "pvc-1"}, {"createSnapshot", true}}}}),
              IsOk());
  Await("the snapshot to be taken",
        [this] { return ParseJson(Ask("/engine-snapshots/pvc-1")).value().contains("one"); });
  EXPECT_EQ(Ask("/read/pvc-1/one/7"), "hello\n");
  EXPECT_NE(Ask("/queued"), "0\n");
  Ask("/switches", R"({"attachesToDelete": true})");
  Ask("/detach/pvc-1");
  Await("the ticket to go", [this] {
    const Json attachment = api_.Find({AttachmentType(), kNamespace, "pvc-1"}).value_or(Json());
    return FindJson(attachment, {"spec", "attachmentTickets", "csi-stand-in"}) == nullptr;
  });
}

TEST_F(ManagerTest, UnknownRequestsAreRefused) {
  for (const char* target :
       {"/", "/nonsense", "/nonsense/pvc-1", "/read/pvc-1/one/x", "/engine-snapshots/pvc-9"}) {
    const net::HttpResponse answer =
        control_.Handle({}, {.method = "POST", .target = target, .headers = {}, .body = ""});
    EXPECT_EQ(answer.status, 400) << target;
  }
}

}  // namespace
}  // namespace csidelta::longhorn_stand_in::manager_test
