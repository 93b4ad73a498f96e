#include "k8s/token_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace csidelta::k8s::exec_login_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

constexpr char kV1[] = "client.authentication.k8s.io/v1";

std::string Answer(const std::string& status) {
  return absl::StrCat(R"({"apiVersion":")", kV1, R"(","kind":"ExecCredential","status":)", status,
                      "}");
}

TEST(ParseExecCredentialTest, ReadsATokenOrACertificate) {
  const auto token = ParseExecCredential(
      Answer(R"({"token":"t","expirationTimestamp":"2023-11-14T22:13:20Z"})"), kV1);
  ASSERT_THAT(token, IsOk());
  EXPECT_EQ(token->token, "t");
  EXPECT_EQ(token->expires_at, absl::FromUnixSeconds(1'700'000'000));
  const auto certificate =
      ParseExecCredential(Answer(R"({"clientCertificateData":"cert","clientKeyData":"key"})"), kV1);
  ASSERT_THAT(certificate, IsOk());
  EXPECT_EQ(certificate->client_certificate_pem, "cert");
  EXPECT_EQ(certificate->client_key_pem, "key");
  EXPECT_EQ(certificate->expires_at, absl::InfiniteFuture());
}

TEST(ParseExecCredentialTest, NamesWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "the answer"},
      {"Password:", "the answer"},
      {"[]", "the answer"},
      {R"({"kind":"Status"})", "kind"},
      {R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1"})",
       "apiVersion"},
      {Answer("{}"), "neither"},
      {Answer(R"({"token":7})"), "neither"},
      {Answer(R"({"token":"a\nb"})"), "status.token"},
      {Answer(R"({"clientKeyData":"key"})"), "go together"},
      {Answer(R"({"token":"t","expirationTimestamp":"soon"})"), "expirationTimestamp"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(ParseExecCredential(text, kV1),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)))
        << text;
  }
}

class ExecLoginTest : public testing::Test {
 protected:
  ExecLoginTest() { ctx_.clock = &clock_; }

  // Whose program answers with a token of its own each time, good for a minute.
  ExecLogin Login(ExecPlugin plugin = {.api_version = kV1, .command = "login"},
                  bool has_terminal = false) {
    ClusterConfig config;
    config.exec = std::move(plugin);
    return ExecLogin(
        config,
        [this](const CallContext&, const ExecPlugin&,
               const std::string&) -> absl::StatusOr<std::string> {
          ++runs_;
          if (!failure_.ok()) {
            return failure_;
          }
          return Answer(absl::StrCat(R"({"token":"t)", runs_, R"(","expirationTimestamp":")",
                                     FormatRfc3339(clock_.Now() + absl::Minutes(1)), R"("})"));
        },
        has_terminal);
  }

  support::FakeClock clock_;
  CallContext ctx_;
  int runs_ = 0;
  absl::Status failure_;
};

TEST_F(ExecLoginTest, RunsAgainOnlyWhenTheAnswerHasExpiredOrWasRefused) {
  ExecLogin login = Login();
  EXPECT_EQ(login.Credential(ctx_)->token, "t1");
  EXPECT_EQ(login.Credential(ctx_)->token, "t1");
  clock_.Advance(absl::Minutes(1));
  const ExecCredential second = *login.Credential(ctx_);
  EXPECT_EQ(second.token, "t2");
  login.Refuse(second);
  EXPECT_EQ(login.Credential(ctx_)->token, "t3");
  login.Refuse(second);  // Another client's request was slow: the newer one stays.
  EXPECT_EQ(login.Credential(ctx_)->token, "t3");
}

TEST_F(ExecLoginTest, SaysWhatToInstall) {
  failure_ = absl::NotFoundError("aws: No such file or directory");
  ExecLogin login =
      Login({.api_version = kV1, .command = "aws", .install_hint = "see https://aws.example/cli"});
  EXPECT_THAT(login.Credential(ctx_), StatusIs(absl::StatusCode::kFailedPrecondition,
                                               testing::AllOf(HasSubstr("aws: No such file"),
                                                              HasSubstr("aws.example/cli"))));
  failure_ = absl::OkStatus();
  EXPECT_THAT(login.Credential(ctx_), IsOk());
}

TEST_F(ExecLoginTest, AProgramThatMustAskIsNotRunWithoutATerminal) {
  ExecLogin silent = Login(
      {.api_version = kV1, .command = "login", .interactive = ExecPlugin::Interactive::kAlways});
  EXPECT_THAT(silent.Credential(ctx_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no terminal")));
  EXPECT_EQ(runs_, 0);
  ExecLogin asking = Login(
      {.api_version = kV1, .command = "login", .interactive = ExecPlugin::Interactive::kAlways},
      /*has_terminal=*/true);
  EXPECT_THAT(asking.Credential(ctx_), IsOk());
}

}  // namespace
}  // namespace csidelta::k8s::exec_login_test
