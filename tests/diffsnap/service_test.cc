#include "diffsnap/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "net/http_client.h"
#include "net/url.h"
#include "tests/diffsnap/fake_driver.h"
#include "tests/support/await.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/kind_names.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_authority.h"

namespace csidelta::diffsnap::service_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

TEST(DiffsnapServiceTest, TheUrlIsThatOfAService) {
  EXPECT_EQ(*ParseServiceUrl("https://diffsnap.csi.svc:8443"), "https://diffsnap.csi.svc:8443");
  EXPECT_EQ(*ParseServiceUrl("https://diffsnap.csi.svc:8443/"), "https://diffsnap.csi.svc:8443");
  for (const char* wrong : {"", "diffsnap:8443", "http://diffsnap:8443", "https://diffsnap/pages",
                            "https://diffsnap/?x=1", "https://me:secret@diffsnap"}) {
    EXPECT_THAT(ParseServiceUrl(wrong),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--url")))
        << wrong;
  }
}

TEST(DiffsnapServiceTest, AKeyThatCouldBeGuessedIsRefused) {
  EXPECT_EQ(CursorKeyOf(std::string(32, 'k'))->Reveal(), std::string(32, 'k'));
  EXPECT_EQ(CursorKeyOf(std::string(45, 'k'))->Reveal(),
            std::string(AsBytes(Sha256(std::string(45, 'k')))));
  for (const std::string& weak : {std::string(), std::string(31, 'k')}) {
    EXPECT_THAT(CursorKeyOf(weak),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("openssl rand -base64 32")));
  }
}

TEST(DiffsnapServiceTest, WhatIsMissingIsNamedBeforeAnythingStarts) {
  support::FakeApiClient api;
  CsiDriver driver;
  ServiceSettings settings;
  settings.url = "https://diffsnap:8443";
  settings.tls_cert_file = "tls.crt";
  settings.tls_key_file = "tls.key";
  settings.cursor_key_file = "no/such/key";
  settings.lease_namespace = "csi";
  const auto expect = [&](const ServiceSettings& wrong, const char* words) {
    const absl::Status refused = RunService(CallContext(), api, driver, wrong);
    EXPECT_THAT(std::string(refused.message()), HasSubstr(words));
  };
  expect(settings, "no/such/key");
  ServiceSettings wrong = settings;
  wrong.tls_key_file = "";
  expect(wrong, "--tls-key-file");
  wrong = settings;
  wrong.cursor_key_file = "";
  expect(wrong, "--cursor-key-file");
  wrong = settings;
  wrong.lease_namespace = "";
  expect(wrong, "--leader-election-namespace");
  wrong = settings;
  wrong.url = "http://diffsnap";
  expect(wrong, "--url");
  EXPECT_TRUE(api.calls().empty());
}

TEST(DiffsnapServiceTest, HealthFailsForEachLoopThatStandsStill) {
  const support::ScratchFolder folder;
  support::TestAuthority authority;
  const support::Credentials own = authority.IssueServer("IP:127.0.0.1");
  const auto write = [&](const char* name, const std::string& text) {
    const std::string path = absl::StrCat(folder.path(), "/", name);
    std::ofstream(path) << text;
    return path;
  };
  ServiceSettings settings;
  settings.listen = "127.0.0.1:0";
  settings.url = "https://diffsnap:8443";
  settings.tls_cert_file = write("tls.crt", own.certificate_pem);
  settings.tls_key_file = write("tls.key", own.key_pem);
  settings.cursor_key_file = write("key", std::string(32, 'k'));
  settings.lease_namespace = "csi";
  settings.page_entries_max = settings.connections_max = 16;
  settings.page_seconds_max = 60;
  settings.loop_age_max = absl::Nanoseconds(1);
  support::FakeApiClient api;
  CsiDriver driver;
  driver.name = "d";
  driver.driver = std::make_unique<FakeDriver>();
  std::stop_source stop;
  CallContext ctx = CallContext().WithTimeout(absl::Seconds(60));
  ctx.stop = stop.get_token();
  std::jthread service([&] { EXPECT_THAT(RunService(ctx, api, driver, settings), IsOk()); });
  net::HttpClientOptions client;
  client.tls.ca_pem = authority.ca_pem();
  net::HttpResponse ill;
  support::Await("a turn of each loop", [&] {
    const std::string holder =
        GetString(api.Find({LeaseType(), "csi", "csi-delta-diffsnap-d"}).value_or(Json()),
                  {"spec", "holderIdentity"});
    if (holder.empty()) {
      return false;
    }
    const std::string url =
        absl::StrCat("https://127.0.0.1", holder.substr(holder.rfind(':')), "/healthz");
    const auto answer = net::HttpClient(client).Send(
        ctx, {.method = "GET", .url = *net::ParseUrl(url), .headers = {}, .body = ""});
    EXPECT_THAT(answer, IsOk());
    ill = answer.value_or(net::HttpResponse());
    return absl::StrContains(ill.body, "the lease has stood still for ") &&
           absl::StrContains(ill.body, "the informer of differentialsnapshots has stood still") &&
           absl::StrContains(ill.body, "the informer of volumesnapshotcontents has stood still");
  });
  EXPECT_EQ(ill.status, 503);
  stop.request_stop();
}

}  // namespace
}  // namespace csidelta::diffsnap::service_test
