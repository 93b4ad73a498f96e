#include "diffsnap/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/crypto.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/status_matchers.h"

namespace csidelta::diffsnap::service_test {
namespace {

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

}  // namespace
}  // namespace csidelta::diffsnap::service_test
