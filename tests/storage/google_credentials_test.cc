#include "storage/google_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "tests/support/bucket_words.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_token_service.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::storage::google_credentials_test {
namespace {

using namespace support::bucket_words;

constexpr char kRobot[] = "robot@project.iam.gserviceaccount.com";

// Files of credentials. $URL stands for the service's own, $DIR for the test's folder.
constexpr char kUser[] =
    R"({"type":"authorized_user","client_id":"client","client_secret":"s+cret",)"
    R"("refresh_token":"1//refresh","token_uri":"$URL/token"})";
constexpr char kExternal[] =
    R"({"type":"external_account","token_url":"$URL/sts",)"
    R"("subject_token_type":"urn:ietf:params:oauth:token-type:jwt",)"
    R"("audience":"//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/)"
    R"(providers/q","credential_source":$SOURCE$MORE})";
constexpr char kOfFile[] = R"({"file":"$DIR/subject"})";
constexpr char kOfUrl[] = R"({"url":"$URL/subject","headers":{"X-Asks":"yes"},)"
                          R"("format":{"type":"json","subject_token_field_name":"id_token"}})";
constexpr char kImpersonating[] =
    R"(,"service_account_impersonation_url":"$URL/v1/projects/-/serviceAccounts/)"
    R"(robot@project.iam.gserviceaccount.com:generateAccessToken")";

class GoogleCredentialsTest : public testing::Test {
 protected:
  GoogleCredentialsTest() {
    clock_.SetAutoAdvance(true);
    ctx_.clock = &clock_;
    environment_.iam_url = service_.url();
    environment_.metadata_host = "127.0.0.1:1";  // Nothing listens there.
    Write("subject", "subject-1\n");
  }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  void UseFile(const std::string& text, const std::string& source = "",
               const std::string& more = "") {
    environment_.credentials_file =
        Write("credentials.json",
              absl::StrReplaceAll(absl::StrReplaceAll(text, {{"$SOURCE", source}, {"$MORE", more}}),
                                  {{"$URL", service_.url()}, {"$DIR", folder_.path()}}));
  }

  absl::StatusOr<std::string> Get(const std::string& service_account = "") {
    GoogleCredentials credentials(environment_, service_account, http_, http_);
    ASSIGN_OR_RETURN(const GoogleToken token, credentials.Get(ctx_));
    return token.text.Reveal();
  }

  void ExpectGood(const std::string& service_account = "") {
    const auto token = Get(service_account);
    ASSERT_THAT(token, IsOk());
    EXPECT_TRUE(service_.IsGood(*token)) << *token;
    EXPECT_THAT(service_.refusals(), IsEmpty());
  }

  const support::ScratchFolder folder_;
  support::FakeClock clock_;
  CallContext ctx_;
  support::FakeTokenService service_{clock_};
  net::HttpClient http_{net::HttpClientOptions{}};
  GoogleEnvironment environment_;
};

TEST_F(GoogleCredentialsTest, ReadsTheEnvironment) {
  const std::map<std::string, std::string> set = {{"GOOGLE_ACCESS_TOKEN", "t"},
                                                  {"GOOGLE_APPLICATION_CREDENTIALS", "/key"},
                                                  {"STORAGE_EMULATOR_HOST", "localhost:1"},
                                                  {"GCE_METADATA_HOST", "here:2"},
                                                  {"HOME", "/users/of"}};
  const auto environment = GoogleEnvironment::Read([&](const char* name) {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  });
  EXPECT_EQ(environment.access_token, Secret("t"));
  EXPECT_EQ(environment.credentials_file, "/key");
  EXPECT_EQ(environment.well_known_file,
            "/users/of/.config/gcloud/application_default_credentials.json");
  EXPECT_EQ(environment.emulator_host, "localhost:1");
  EXPECT_EQ(environment.metadata_host, "here:2");
  EXPECT_EQ(GoogleEnvironment::Read([](const char*) { return nullptr; }).metadata_host,
            "169.254.169.254");
}

TEST_F(GoogleCredentialsTest, AServiceAccountSignsForEachToken) {
  UseFile(service_.KeyFile());
  GoogleCredentials credentials(environment_, "", http_, http_);
  const auto first = credentials.Get(ctx_);
  ASSERT_THAT(first, IsOk());
  EXPECT_TRUE(service_.IsGood(first->text.Reveal()));
  EXPECT_EQ(credentials.Get(ctx_)->text, first->text);
  clock_.Advance(absl::Minutes(56));  // Renewed before it ends.
  const auto second = credentials.Get(ctx_);
  ASSERT_THAT(second, IsOk());
  EXPECT_FALSE(second->text == first->text);
  EXPECT_THAT(service_.refusals(), IsEmpty());
}

TEST_F(GoogleCredentialsTest, AUsersRefreshTokenIsExchanged) {
  UseFile(kUser);
  environment_.well_known_file = std::exchange(environment_.credentials_file, "");
  ExpectGood();
}

TEST_F(GoogleCredentialsTest, AnExternalAccountExchangesWhatAFileOrUrlHas) {
  for (const char* source : {kOfFile, kOfUrl}) {
    for (const char* more : {"", kImpersonating}) {
      UseFile(kExternal, source, more);
      ExpectGood();
    }
  }
}

TEST_F(GoogleCredentialsTest, ASubjectTokenIsReadAgain) {
  UseFile(kExternal, kOfFile);
  GoogleCredentials credentials(environment_, "", http_, http_);
  ASSERT_THAT(credentials.Get(ctx_), IsOk());
  service_.SetSubjectToken("subject-2");
  credentials.Forget();
  EXPECT_THAT(credentials.Get(ctx_), StatusIs(Code::kUnauthenticated, HasSubstr("subject token")));
  Write("subject", "subject-2\n");
  EXPECT_THAT(credentials.Get(ctx_), IsOk());
  EXPECT_THAT(service_.refusals(), ElementsAre("subject token"));
}

TEST_F(GoogleCredentialsTest, ImpersonationIsOfAFileOrAnOption) {
  UseFile(R"({"type":"impersonated_service_account","source_credentials":$SOURCE$MORE})",
          service_.KeyFile(), kImpersonating);
  ExpectGood();
  UseFile(service_.KeyFile());
  ExpectGood(kRobot);
  environment_.credentials_file = "";
  environment_.metadata_host = service_.url().substr(7);
  ExpectGood(kRobot);
}

TEST_F(GoogleCredentialsTest, TheMetadataServerComesLast) {
  environment_.metadata_host = service_.url().substr(7);
  environment_.well_known_file = folder_.path() + "/none";
  ExpectGood();
  support::HttpTestServer other([](const support::ServedRequest&, auto& connection) {
    connection.Send(200, R"({"access_token":"stolen","expires_in":3600})");
  });
  environment_.metadata_host = other.url().substr(7);
  EXPECT_THAT(Get(), StatusIs(Code::kUnauthenticated, HasSubstr("not the metadata server")));
  environment_.metadata_host = "127.0.0.1:1";
  EXPECT_THAT(Get(), StatusIs(Code::kUnauthenticated, AllOf(HasSubstr("does not answer"),
                                                            HasSubstr("GOOGLE_ACCESS_TOKEN"))));
}

TEST_F(GoogleCredentialsTest, TheEnvironmentComesFirst) {
  UseFile(service_.KeyFile());
  environment_.access_token = Secret("given");
  EXPECT_THAT(Get(), support::IsOkAndHolds("given"));
  EXPECT_FALSE(GoogleCredentials(environment_, "", http_, http_).MayBeExchanged());
  environment_.emulator_host = "localhost:1";
  EXPECT_THAT(Get(kRobot), support::IsOkAndHolds(""));
  EXPECT_EQ(service_.given(), 0);
}

TEST_F(GoogleCredentialsTest, MalformedFilesAreRefusedByName) {
  const std::string key = service_.KeyFile();
  const std::pair<std::string, const char*> cases[] = {
      {"", "credentials.json"},
      {"{}", "its type is none of"},
      {R"({"type":"gdch_service_account"})", "its type is none of"},
      {R"({"type":"service_account","private_key":"x","token_uri":"$URL/token"})", "private_key"},
      {absl::StrReplaceAll(key, {{service_.url(), "http://attacker.example"}}), "not https"},
      {absl::StrReplaceAll(key, {{service_.url(), "http://127.attacker.example"}}), "not https"},
      {absl::StrReplaceAll(key, {{"googleapis.com", "other.example"}}), "universe"},
      {R"({"type":"impersonated_service_account"})", "source_credentials"},
      {R"({"type":"impersonated_service_account","source_credentials":)"
       R"({"type":"impersonated_service_account"}})",
       "impersonates itself"},
      {absl::StrReplaceAll(kExternal, {{"$SOURCE", R"({"environment_id":"aws1"})"}, {"$MORE", ""}}),
       "of AWS is not supported"},
      {absl::StrReplaceAll(kExternal, {{"$SOURCE", R"({"executable":{}})"}, {"$MORE", ""}}),
       "of a program is not supported"},
      {absl::StrReplaceAll(kExternal,
                           {{"$SOURCE", R"({"url":"http://a.example"})"}, {"$MORE", ""}}),
       "not https"},
      {absl::StrReplaceAll(
           kExternal,
           {{"$SOURCE", kOfFile}, {"$MORE", R"(,"service_account_impersonation_url":"http://a")"}}),
       "not https"},
  };
  for (const auto& [text, why] : cases) {
    UseFile(text);
    EXPECT_THAT(Get(), StatusIs(Code::kInvalidArgument,
                                AllOf(HasSubstr(why), Not(HasSubstr("PRIVATE KEY")))))
        << text;
  }
  EXPECT_THAT(service_.refusals(), IsEmpty());
  environment_.credentials_file = folder_.path() + "/none";
  EXPECT_THAT(Get(), StatusIs(Code::kUnauthenticated, HasSubstr("which is not there")));
}

TEST_F(GoogleCredentialsTest, AnAnswerWithoutATokenIsAskedForAgain) {
  UseFile(service_.KeyFile());
  for (const char* body : {"", "<html>", "{}", R"({"access_token":"a b","expires_in":3600})",
                           R"({"access_token":7})", R"({"accessToken":"t","expireTime":"soon"})"}) {
    service_.Refuse(200, body);
    EXPECT_THAT(Get(), StatusIs(Code::kUnavailable)) << body;
  }
  service_.Refuse(429, "");
  EXPECT_THAT(Get(), StatusIs(Code::kUnavailable));
}

}  // namespace
}  // namespace csidelta::storage::google_credentials_test
