#include "storage/azure_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "storage/azure_object_store.h"
#include "tests/support/bucket_words.h"
#include "tests/support/fake_azure_identity.h"
#include "tests/support/fake_azure_server.h"
#include "tests/support/fake_clock.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::storage::azure_credentials_test {
namespace {

using namespace support::bucket_words;
using support::FakeAzureIdentity;
using support::FakeAzureIdentityOptions;
using support::FakeAzureServer;

using Variables = std::map<std::string, std::string>;
constexpr char kTokenPath[] = "POST /tenant-1/oauth2/v2.0/token";

// A storage account that lets in the bearers of what the identity service gives out.
class AzureCredentialsTest : public testing::Test {
 protected:
  AzureCredentialsTest() {
    clock_.SetAutoAdvance(true);
    ctx_.clock = &clock_;
    identity_options_.clock = &clock_;
    server_options_.key = "";
    server_options_.clock = &clock_;
  }

  void Start(Variables variables) {
    server_ = std::make_unique<FakeAzureServer>(server_options_);
    identity_ = std::make_unique<FakeAzureIdentity>(
        identity_options_, [this](const std::string& token, absl::Time expires_at) {
          server_->AllowToken(token, expires_at);
        });
    variables.insert({{"AZURE_ACCOUNT_NAME", "teststore"},
                      {"AZURE_TENANT_ID", "tenant-1"},
                      {"AZURE_CLIENT_ID", "client-1"},
                      {"AZURE_AUTHORITY_HOST", identity_->url() + "/"},
                      {"AZURE_RESOURCE_MANAGER_ENDPOINT", identity_->url()},
                      {"AZURE_POD_IDENTITY_AUTHORITY_HOST", identity_->url()}});
    account_.uri = server_->uri();
    credentials_ = std::make_unique<AzureCredentials>(
        AzureEnvironment{.variables = std::move(variables)}, account_, http_, http_);
    store_ = std::make_unique<AzureObjectStore>(
        AzureOptions{.container = "container", .block_bytes = 1000}, http_, *credentials_,
        Random::Real(), meter_);
  }

  absl::Status Put() { return store_->Put(ctx_, "key", "bytes", {}); }

  std::string File(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  const support::ScratchFolder folder_;
  support::FakeClock clock_;
  CallContext ctx_;
  support::FakeAzureOptions server_options_;
  FakeAzureIdentityOptions identity_options_;
  AzureAccount account_;
  net::HttpClient http_{net::HttpClientOptions{}};
  StoreMeter meter_;
  std::unique_ptr<FakeAzureServer> server_;
  std::unique_ptr<FakeAzureIdentity> identity_;
  std::unique_ptr<AzureCredentials> credentials_;
  std::unique_ptr<AzureObjectStore> store_;
};

TEST_F(AzureCredentialsTest, SignsInByClientSecret) {
  Start({{"AZURE_CLIENT_SECRET", "se/cret+1"}});
  EXPECT_THAT(Put(), IsOk());
  EXPECT_THAT(Put(), IsOk());
  EXPECT_THAT(identity_->requests(), ElementsAre(kTokenPath));
  EXPECT_EQ(credentials_->way().text, "by the client secret (AZURE_CLIENT_SECRET)");
  EXPECT_FALSE(credentials_->way().is_key);
  EXPECT_TRUE(credentials_->MayBeExchanged());
}

TEST_F(AzureCredentialsTest, SignsInByClientCertificate) {
  const support::Credentials client = support::TestAuthority().IssueRsaClient("client");
  identity_options_.certificate_pem = client.certificate_pem;
  const std::string pem = client.key_pem + client.certificate_pem;
  Start({{"AZURE_CLIENT_CERTIFICATE_PATH", File("client.pem", pem)}});
  EXPECT_THAT(Put(), IsOk());
  credentials_->Forget();
  EXPECT_THAT(Put(), IsOk()) << "each assertion has an id of its own";
  Start({{"AZURE_CLIENT_CERTIFICATE", pem}});
  EXPECT_THAT(Put(), IsOk());
  const std::string other =
      client.key_pem + support::TestAuthority().IssueRsaClient("other").certificate_pem;
  Start({{"AZURE_CLIENT_CERTIFICATE", other}});
  EXPECT_THAT(Put(), StatusIs(absl::StatusCode::kUnauthenticated,
                              AllOf(HasSubstr("by the client certificate"),
                                    HasSubstr("AADSTS700027"), Not(HasSubstr("Trace ID")))));
}

TEST_F(AzureCredentialsTest, ReadsTheFederatedTokenAgainForEachSignIn) {
  identity_options_.federated_token = "first";
  Start({{"AZURE_FEDERATED_TOKEN_FILE", File("token", "first\n")}});
  EXPECT_THAT(Put(), IsOk());
  identity_->SetFederatedToken("second");
  File("token", "second");
  clock_.Advance(absl::Minutes(56));
  EXPECT_THAT(Put(), IsOk());
  EXPECT_THAT(identity_->requests(), ElementsAre(kTokenPath, kTokenPath));
  credentials_->Forget();
  identity_->SetFederatedToken("third");
  EXPECT_THAT(Put(), StatusIs(absl::StatusCode::kUnauthenticated,
                              AllOf(HasSubstr("workload identity"), HasSubstr("AADSTS700024"))));
}

TEST_F(AzureCredentialsTest, SignsInByManagedIdentityLast) {
  Start({});
  EXPECT_THAT(Put(), IsOk());
  EXPECT_THAT(identity_->requests(), ElementsAre("GET /metadata/identity/oauth2/token"));
  Start({{"AZURE_CLIENT_ID", "another"}});
  EXPECT_THAT(Put(), StatusIs(absl::StatusCode::kUnauthenticated,
                              AllOf(HasSubstr("managed identity"), HasSubstr("answered 400"))));
  identity_->Interfere([](const ServedRequest&, ServedConnection& connection) {
    connection.Send(410, "");
    return true;
  });
  EXPECT_THAT(Put(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(AzureCredentialsTest, AnIdentityServiceThatStartsIsAskedAgain) {
  Start({});
  identity_->Interfere([left = 2](const ServedRequest&, ServedConnection& connection) mutable {
    const bool is_starting = left-- > 0;
    if (is_starting) {
      connection.Send(200, "");
    }
    return is_starting;
  });
  EXPECT_THAT(Put(), IsOk());
}

TEST_F(AzureCredentialsTest, AMachineWithoutIdentitySaysWhatIsMissing) {
  Start({{"AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1"}});
  EXPECT_THAT(Put(), StatusIs(absl::StatusCode::kUnauthenticated,
                              HasSubstr("no key, SAS, client secret, certificate")));
}

TEST_F(AzureCredentialsTest, ListsTheKeysOfTheAccountAsVeleroDoes) {
  server_options_.key = "a2V5LTE=";
  account_.use_aad = false;
  account_.variables = {{"AZURE_RESOURCE_GROUP", "group-1"}, {"AZURE_SUBSCRIPTION_ID", "sub-1"}};
  Start({{"AZURE_CLIENT_SECRET", "se/cret+1"}, {"AZURE_RESOURCE_GROUP", "of the cluster"}});
  EXPECT_THAT(Put(), IsOk());
  EXPECT_THAT(server_->requests().back().headers.at("authorization"),
              HasSubstr("SharedKey teststore:"));
  EXPECT_THAT(credentials_->way().text, HasSubstr("key, listed by the client secret"));
  EXPECT_TRUE(credentials_->way().is_key);
  account_.variables["AZURE_RESOURCE_GROUP"] = "group-2";
  Start({{"AZURE_CLIENT_SECRET", "se/cret+1"}});
  EXPECT_THAT(Put(), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("list the account's")));
  account_.variables.erase("AZURE_RESOURCE_GROUP");
  Start({{"AZURE_CLIENT_SECRET", "se/cret+1"}});
  EXPECT_THAT(Put(), StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr("AZURE_RESOURCE_GROUP is not set")));
}

TEST_F(AzureCredentialsTest, TheCredentialsFileComesBeforeTheEnvironment) {
  server_options_.key = "a2V5LTI=";
  account_.key_variable = "MY_KEY";
  Start({{"AZURE_CREDENTIALS_FILE",
          File("cloud",
               "\xEF\xBB\xBF# of the team\n\nexport MY_KEY = 'a2V5LTI=' # second\r\n"
               "AZURE_CLIENT_CERTIFICATE=\"-----BEGIN\nlines=\\\"and\\\"\n\"\n"
               "AZURE_ACCOUNT_NAME=teststore # a comment\n")},
         {"AZURE_ACCOUNT_NAME", "other"},
         {"AZURE_ACCOUNT_KEY", "b3RoZXI="}});
  EXPECT_THAT(Put(), IsOk());
  EXPECT_TRUE(credentials_->MayBeExchanged());
  // Who rotates keys writes another file.
  server_->SetKey("a2V5LTM=");
  File("cloud", "MY_KEY=a2V5LTM=\nAZURE_ACCOUNT_NAME=teststore");
  EXPECT_THAT(Put(), IsOk());
  EXPECT_THAT(server_->refusals(), SizeIs(3)) << "the same key is tried three times";
}

TEST_F(AzureCredentialsTest, RefusesWhatIsIncompleteOrMalformed) {
  struct Case {
    Variables variables;
    const char* why;
  };
  const Case cases[] = {
      {{{"AZURE_ACCOUNT_KEY", "not base64"}}, "not base64"},
      {{{"AZURE_ACCOUNT_SAS", "no signature"}}, "AZURE_ACCOUNT_SAS is not a SAS"},
      {{{"AZURE_CLIENT_SECRET", "s"}, {"AZURE_TENANT_ID", ""}}, "AZURE_TENANT_ID is not set"},
      {{{"AZURE_CLIENT_SECRET", "s"}, {"AZURE_CLIENT_ID", ""}}, "AZURE_CLIENT_ID is not set"},
      {{{"AZURE_CLIENT_SECRET", "s"}, {"AZURE_CLOUD_NAME", "Moon"}}, "AZURE_CLOUD_NAME is none of"},
      {{{"AZURE_CLIENT_SECRET", "s"}, {"AZURE_AUTHORITY_HOST", "http://login.example"}},
       "must be https"},
      {{{"AZURE_CLIENT_SECRET", "s"}, {"AZURE_AUTHORITY_HOST", "http://127.attacker.example"}},
       "must be https"},
      {{{"AZURE_CLIENT_CERTIFICATE", "-"}}, "no certificate"},
      {{{"AZURE_CLIENT_CERTIFICATE",
         "-----BEGIN CERTIFICATE-----\naaaa\n-----END CERTIFICATE-----"}},
       "no RSA private key"},
      {{{"AZURE_CLIENT_CERTIFICATE", "-"}, {"AZURE_CLIENT_CERTIFICATE_PASSWORD", "p"}},
       "AZURE_CLIENT_CERTIFICATE_PASSWORD is not supported"},
      {{{"AZURE_USERNAME", "u"}}, "AZURE_USERNAME): this way is not supported"},
      {{{"AZURE_CREDENTIALS_FILE", File("malformed", "no value\nA=1")}}, "is not NAME=VALUE"},
      {{{"AZURE_CREDENTIALS_FILE", File("open", "A='1\n")}}, "is not closed"}};
  for (const Case& one : cases) {
    Start(one.variables);
    EXPECT_THAT(Put(), StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(HasSubstr("sign-in to Azure"), HasSubstr(one.why))));
    EXPECT_THAT(identity_->requests(), IsEmpty()) << one.why;
  }
  account_.key_variable = "ABSENT";
  Start({});
  EXPECT_THAT(Put(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no ABSENT")));
}

TEST_F(AzureCredentialsTest, FindsTheAccountOfEachCloud) {
  struct Case {
    Variables variables;
    std::string uri;
    std::string host;
    std::string path;
  };
  const Case cases[] = {
      {{}, "", "acc.blob.core.windows.net:443", ""},
      {{{"AZURE_CLOUD_NAME", "azureusgovernment"}}, "", "acc.blob.core.usgovcloudapi.net:443", ""},
      {{{"AZURE_CLOUD_NAME", "AzureChinaCloud"}}, "", "acc.blob.core.chinacloudapi.cn:443", ""},
      {{{"AZURE_ENDPOINT_SUFFIX", "storage.test:10000"}}, "", "acc.blob.storage.test:10000", ""},
      {{}, "https://acc.z1.blob.storage.azure.net/", "acc.z1.blob.storage.azure.net:443", ""},
      {{}, "http://127.0.0.1:10000/acc", "127.0.0.1:10000", "/acc"}};
  for (const Case& one : cases) {
    Variables variables = one.variables;
    variables.insert({{"AZURE_ACCOUNT_NAME", "acc"}, {"AZURE_ACCOUNT_KEY", "a2V5"}});
    AzureCredentials credentials({.variables = variables}, {.uri = one.uri}, http_, http_);
    const absl::StatusOr<AzureAccess> access = credentials.Get(ctx_);
    ASSERT_THAT(access, IsOk()) << one.host;
    EXPECT_EQ(access->endpoint.Authority(), one.host);
    EXPECT_EQ(access->endpoint.target, one.path);
    EXPECT_FALSE(credentials.MayBeExchanged());
  }
  for (const char* name : {"a.example/", "", "a b"}) {
    AzureCredentials credentials({.variables = {{"AZURE_ACCOUNT_NAME", name}}}, {}, http_, http_);
    EXPECT_THAT(credentials.Get(ctx_), StatusIs(absl::StatusCode::kInvalidArgument)) << name;
  }
}

TEST_F(AzureCredentialsTest, ReadsTheEnvironment) {
  const Variables set = {
      {"AZURE_ACCOUNT_NAME", "a"}, {"AZURE_CLIENT_SECRET", ""}, {"HOME", "/users/of"}};
  const AzureEnvironment environment = AzureEnvironment::Read([&](const char* name) {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  });
  EXPECT_THAT(environment.variables, ElementsAre(testing::Pair("AZURE_ACCOUNT_NAME", "a")));
}

TEST_F(AzureCredentialsTest, AnAuthorityThatIsAwayIsAskedAgainLater) {
  Start({{"AZURE_CLIENT_SECRET", "se/cret+1"}});
  for (const int status : {429, 500, 503}) {
    identity_->Interfere([&](const ServedRequest&, ServedConnection& connection) {
      connection.Send(status, "{}");
      return true;
    });
    EXPECT_TRUE(IsRetryable(Put())) << status;
  }
  identity_->Interfere([&](const ServedRequest&, ServedConnection& connection) {
    connection.Send(200, "<html>");
    return true;
  });
  EXPECT_THAT(Put(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no JSON came")));
}

}  // namespace
}  // namespace csidelta::storage::azure_credentials_test
