#include "storage/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "storage/shared_credentials.h"
#include "tests/support/bucket_words.h"
#include "tests/support/fake_clock.h"
#include "tests/support/http_test_server.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::storage::credentials_test {
namespace {

using namespace support::bucket_words;
using support::HttpTestServer;

class CredentialsTest : public testing::Test {
 protected:
  CredentialsTest() {
    environment_.metadata_disabled = true;
    ctx_.clock = &clock_;
  }

  std::string File(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  std::string KeysFile(const std::string& id) {
    return File("keys", "[default]\naws_access_key_id=" + id + "\naws_secret_access_key=x\n");
  }

  void Serve(HttpTestServer::Handler handler) {
    server_ = std::make_unique<HttpTestServer>(std::move(handler));
  }

  CredentialsChain& chain() {
    if (chain_ == nullptr) {
      chain_ = std::make_unique<CredentialsChain>(environment_, http_, http_);
    }
    return *chain_;
  }

  // An answer of STS whose keys end at `expiry`.
  static std::string Role(const std::string& id, absl::Time expiry) {
    return absl::StrCat(
        "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
        "<AccessKeyId>",
        id, "</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>",
        "<Expiration>", absl::FormatTime(absl::RFC3339_sec, expiry, absl::UTCTimeZone()),
        "</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
        "</AssumeRoleWithWebIdentityResponse>");
  }

  void UseInstance() {
    environment_.metadata_disabled = false;
    environment_.metadata_url = server_->url();
    clock_.SetAutoAdvance(true);
  }

  void UseWebIdentity() {
    environment_.role_arn = "arn:aws:iam::1:role/r";
    environment_.role_session_name = "session";
    environment_.web_identity_token_file = File("token", "web+token\n");
    environment_.sts_url = server_->url();
  }

  const support::ScratchFolder folder_;
  support::FakeClock clock_;
  CallContext ctx_;
  CredentialsEnvironment environment_;
  net::HttpClient http_{net::HttpClientOptions{}};
  std::unique_ptr<HttpTestServer> server_;
  std::unique_ptr<CredentialsChain> chain_;
};

TEST_F(CredentialsTest, ReadsTheEnvironment) {
  const std::map<std::string, std::string> set = {{"AWS_ACCESS_KEY_ID", "id"},
                                                  {"AWS_SECRET_ACCESS_KEY", "secret"},
                                                  {"AWS_DEFAULT_REGION", "eu-west-1"},
                                                  {"AWS_EC2_METADATA_DISABLED", "True"},
                                                  {"HOME", "/users/of"}};
  const auto environment = CredentialsEnvironment::Read([&](const char* name) {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  });
  EXPECT_EQ(environment.keys.access_key_id, "id");
  EXPECT_EQ(environment.keys.secret_access_key, Secret("secret"));
  EXPECT_TRUE(environment.keys.session_token.empty());
  EXPECT_EQ(environment.region, "eu-west-1");
  EXPECT_EQ(environment.profile, "");
  EXPECT_EQ(environment.config_file, "/users/of/.aws/config");
  EXPECT_EQ(environment.shared_credentials_file, "/users/of/.aws/credentials");
  EXPECT_EQ(environment.role_session_name, "csi-delta");
  EXPECT_EQ(environment.metadata_url, "http://169.254.169.254");
  EXPECT_TRUE(environment.metadata_disabled);
}

TEST_F(CredentialsTest, TheEnvironmentComesFirst) {
  Serve([](const ServedRequest&, ServedConnection& connection) { connection.Send(500, ""); });
  UseWebIdentity();
  environment_.shared_credentials_file = KeysFile("file");
  environment_.keys.access_key_id = "environment";
  environment_.keys.secret_access_key = Secret("secret");
  environment_.keys.session_token = Secret("token");
  const auto credentials = chain().Get(ctx_);
  ASSERT_THAT(credentials, IsOk());
  EXPECT_EQ(credentials->access_key_id, "environment");
  EXPECT_EQ(credentials->session_token, Secret("token"));
  EXPECT_EQ(credentials->source, "the environment (AWS_ACCESS_KEY_ID)");
  EXPECT_EQ(server_->connection_count(), 0);
}

TEST_F(CredentialsTest, WebIdentityComesBeforeTheFile) {
  std::string body;
  Serve([&](const ServedRequest& request, ServedConnection& connection) {
    body = request.body;
    connection.Send(200, Role("role", clock_.Now() + absl::Hours(1)));
  });
  UseWebIdentity();
  environment_.shared_credentials_file = KeysFile("file");
  const auto credentials = chain().Get(ctx_);
  ASSERT_THAT(credentials, IsOk());
  EXPECT_EQ(credentials->access_key_id, "role");
  EXPECT_EQ(credentials->source, "web identity, role arn:aws:iam::1:role/r");
  EXPECT_EQ(body,
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3A"
            "role%2Fr&RoleSessionName=session&WebIdentityToken=web%2Btoken");
}

TEST_F(CredentialsTest, AreFetchedAgainFiveMinutesBeforeTheirEnd) {
  std::atomic<int> asked = 0;
  std::atomic<bool> refuses = false;
  Serve([&](const ServedRequest&, ServedConnection& connection) {
    if (refuses) {
      connection.Send(503, "");
      return;
    }
    connection.Send(200, Role(absl::StrCat("role", ++asked), clock_.Now() + absl::Hours(1)));
  });
  UseWebIdentity();
  const auto id = [&] {
    const auto credentials = chain().Get(ctx_);
    return credentials.ok() ? credentials->access_key_id : credentials.status().ToString();
  };
  EXPECT_EQ(id(), "role1");
  clock_.Advance(absl::Minutes(55) - absl::Nanoseconds(1));
  EXPECT_EQ(id(), "role1");
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(id(), "role2");
  // While the old ones are valid, a failure does no harm.
  refuses = true;
  clock_.Advance(absl::Minutes(57));
  EXPECT_EQ(id(), "role2");
  clock_.Advance(absl::Minutes(4));
  EXPECT_THAT(chain().Get(ctx_), StatusIs(absl::StatusCode::kUnavailable));
  refuses = false;
  EXPECT_EQ(id(), "role3");
  chain().Forget();
  EXPECT_EQ(id(), "role4");
}

TEST_F(CredentialsTest, ManyThreadsAskOnce) {
  std::atomic<int> asked = 0;
  Serve([&](const ServedRequest&, ServedConnection& connection) {
    ++asked;
    connection.Send(200, Role("role", clock_.Now() + absl::Hours(1)));
  });
  UseWebIdentity();
  CredentialsChain& shared = chain();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { EXPECT_THAT(shared.Get(ctx_), IsOk()); });
  }
  threads.clear();
  EXPECT_EQ(asked, 1);
}

TEST_F(CredentialsTest, ARefusedRoleIsUnauthenticated) {
  Serve([](const ServedRequest&, ServedConnection& connection) {
    connection.Send(400,
                    "<ErrorResponse><Error><Code>InvalidIdentityToken</Code>"
                    "<Message>no</Message></Error></ErrorResponse>");
  });
  UseWebIdentity();
  clock_.SetAutoAdvance(true);
  EXPECT_THAT(chain().Get(ctx_),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("InvalidIdentityToken")));
  chain_.reset();
  environment_.web_identity_token_file = folder_.path() + "/none";
  EXPECT_THAT(chain().Get(ctx_), StatusIs(absl::StatusCode::kUnauthenticated));
}

// What AWS says to repeat.
TEST_F(CredentialsTest, StsMayRefuseAGoodTokenForAMoment) {
  std::atomic<int> asked = 0;
  Serve([&](const ServedRequest&, ServedConnection& connection) {
    if (++asked < 4) {
      connection.Send(400,
                      "<ErrorResponse><Error><Code>InvalidIdentityToken</Code></Error>"
                      "</ErrorResponse>");
    } else {
      connection.Send(200, Role("id", absl::FromUnixSeconds(2'000'000'000)));
    }
  });
  UseWebIdentity();
  clock_.SetAutoAdvance(true);
  EXPECT_THAT(chain().Get(ctx_), IsOk());
}

// A host or an object that is not found is something else.
TEST_F(CredentialsTest, ASourceThatDoesNotAnswerIsUnavailable) {
  Serve([&](const ServedRequest&, ServedConnection& connection) {
    connection.Send(200, "<html>please wait</html>");
  });
  UseWebIdentity();
  EXPECT_THAT(chain().Get(ctx_), StatusIs(absl::StatusCode::kUnavailable));
  environment_.sts_url = "http://no-such-host.onion";
  chain_.reset();
  EXPECT_THAT(chain().Get(ctx_), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("onion")));
  environment_.role_arn = "";
  environment_.container_url = server_->url();
  chain_.reset();
  EXPECT_THAT(chain().Get(ctx_), StatusIs(absl::StatusCode::kUnavailable));
  server_.reset();
  EXPECT_THAT(chain().Get(ctx_), StatusIs(absl::StatusCode::kUnavailable));
}

// What the metadata of an instance with a role answers.
void SendRole(const ServedRequest& request, ServedConnection& connection) {
  if (request.method == "PUT") {
    connection.Send(200, "token");
  } else if (absl::EndsWith(request.target, "/")) {
    connection.Send(200, "role");
  } else {
    connection.Send(200, R"({"Code":"Success","AccessKeyId":"id","SecretAccessKey":"s",)"
                         R"("Token":"t","Expiration":"2024-01-01T00:00:00Z"})");
  }
}

TEST_F(CredentialsTest, InstanceMetadataThatStartsIsAskedAgain) {
  std::atomic<int> asked = 0;
  std::atomic<bool> is_gone = false;
  Serve([&](const ServedRequest& request, ServedConnection& connection) {
    if (++asked <= 2 || is_gone) {
      connection.Cut();
    } else {
      SendRole(request, connection);
    }
  });
  UseInstance();
  EXPECT_THAT(chain().Get(ctx_), IsOk());
  is_gone = true;
  clock_.Advance(absl::Hours(24 * 365));
  EXPECT_THAT(chain().Get(ctx_), StatusIs(absl::StatusCode::kUnavailable)) << "it was there";
}

TEST_F(CredentialsTest, InstanceMetadataThatSaysNothingIsAskedAgain) {
  std::atomic<int> asked = 0;
  Serve([&](const ServedRequest& request, ServedConnection& connection) {
    if (++asked % 2 == 1) {
      connection.Send(200, "");
    } else {
      SendRole(request, connection);
    }
  });
  UseInstance();
  EXPECT_THAT(chain().Get(ctx_), IsOk());
  EXPECT_EQ(asked, 6);
}

TEST_F(CredentialsTest, TheFilesProfileIsRead) {
  environment_.shared_credentials_file =
      File("file",
           "# as Velero mounts it\n[default]\naws_access_key_id=first\naws_secret_access_key=a\n"
           "[other]\naws_access_key_id=second\naws_secret_access_key=b\n");
  environment_.profile = "other";
  const auto credentials = chain().Get(ctx_);
  ASSERT_THAT(credentials, IsOk());
  EXPECT_EQ(credentials->access_key_id, "second");
  EXPECT_EQ(credentials->source,
            absl::StrCat(environment_.shared_credentials_file, ", profile \"other\""));
}

TEST_F(CredentialsTest, WithoutAnySourceItSaysWhereItLooked) {
  environment_.shared_credentials_file = folder_.path() + "/none";
  EXPECT_THAT(chain().Get(ctx_),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("shared credentials file")));
}

TEST_F(CredentialsTest, TheInstanceIsAskedWithAToken) {
  std::vector<std::string> asked;
  Serve([&](const ServedRequest& request, ServedConnection& connection) {
    asked.push_back(request.method + " " + request.target);
    if (request.method == "PUT") {
      EXPECT_EQ(request.headers.at("x-aws-ec2-metadata-token-ttl-seconds"), "21600");
      connection.Send(200, "token");
    } else if (request.headers.at("x-aws-ec2-metadata-token") != "token") {
      connection.Send(401, "");
    } else if (absl::EndsWith(request.target, "/")) {
      connection.Send(200, "node role\n");
    } else {
      connection.Send(200, R"({"Code":"Success","AccessKeyId":"id","SecretAccessKey":"s",)"
                           R"("Token":"t","Expiration":"2033-01-01T00:00:00Z"})");
    }
  });
  UseInstance();
  const auto credentials = chain().Get(ctx_);
  ASSERT_THAT(credentials, IsOk());
  EXPECT_EQ(credentials->access_key_id, "id");
  EXPECT_EQ(credentials->session_token, Secret("t"));
  EXPECT_EQ(credentials->source, "the instance's role node role");
  EXPECT_THAT(
      asked, ElementsAre("PUT /latest/api/token", "GET /latest/meta-data/iam/security-credentials/",
                         "GET /latest/meta-data/iam/security-credentials/node%20role"));
}

TEST_F(CredentialsTest, AnInstanceWithoutRoleHasNoCredentials) {
  for (const int status : {200, 404}) {
    chain_.reset();
    Serve([=](const ServedRequest& request, ServedConnection& connection) {
      connection.Send(request.method == "PUT" ? 200 : status, request.method == "PUT" ? "t" : "");
    });
    UseInstance();
    EXPECT_THAT(chain().Get(ctx_),
                StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("AWS_ACCESS_KEY_ID")))
        << status;
  }
}

TEST_F(CredentialsTest, TheContainerIsAskedBeforeTheInstance) {
  std::vector<std::string> asked;
  Serve([&](const ServedRequest& request, ServedConnection& connection) {
    const auto token = request.headers.find("authorization");
    asked.push_back(absl::StrCat(request.method, " ", request.target, " ",
                                 token == request.headers.end() ? "-" : token->second));
    connection.Send(200, R"({"AccessKeyId":"task","SecretAccessKey":"s","Token":"t",)"
                         R"("Expiration":"2033-01-01T00:00:00Z"})");
  });
  UseInstance();
  environment_.container_host_url = server_->url();
  environment_.container_path = "/v2/credentials/1";
  auto credentials = chain().Get(ctx_);
  ASSERT_THAT(credentials, IsOk());
  EXPECT_EQ(credentials->access_key_id, "task");
  EXPECT_EQ(credentials->session_token, Secret("t"));
  chain_.reset();
  environment_.container_path = "";
  environment_.container_url = server_->url() + "/v1/credentials";
  environment_.container_token = Secret("in the environment");
  environment_.container_token_file = File("token", "from a file\n");
  EXPECT_THAT(chain().Get(ctx_), IsOk());
  EXPECT_THAT(asked, ElementsAre("GET /v2/credentials/1 -", "GET /v1/credentials from a file"));
}

TEST_F(CredentialsTest, AContainersEndpointMustBeNearOrSecret) {
  for (const char* url : {"http://example.org/keys", "http://169.254.170.3/keys", "ftp://host/",
                          "http://127.attacker.example/keys"}) {
    chain_.reset();
    environment_.container_url = url;
    EXPECT_THAT(chain().Get(ctx_), StatusIs(absl::StatusCode::kInvalidArgument)) << url;
  }
}

// Either would be a header, or a request, made by an attacker.
TEST_F(CredentialsTest, AContainersTokenAndPathAreOfOneLine) {
  environment_.container_host_url = "http://127.0.0.1:1";
  environment_.container_path = "/keys";
  environment_.container_token = Secret("a\r\nx-header: b");
  EXPECT_THAT(chain().Get(ctx_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("malformed")));
  chain_.reset();
  environment_.container_token = Secret("a token");
  environment_.container_path = "/keys HTTP/1.1\r\nx-header: b";
  EXPECT_THAT(chain().Get(ctx_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("malformed")));
}

TEST_F(CredentialsTest, ARefusalOfTheContainerIsSaid) {
  int status = 403;
  Serve([&](const ServedRequest&, ServedConnection& connection) { connection.Send(status, "{}"); });
  environment_.container_url = server_->url();
  EXPECT_THAT(chain().Get(ctx_), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("403")));
  status = 500;
  EXPECT_THAT(chain().Get(ctx_), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("500")));
  status = 200;
  EXPECT_THAT(chain().Get(ctx_),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("no credentials")));
}

TEST_F(CredentialsTest, TheFileOfSettingsComesAfterThatOfKeys) {
  environment_.config_file =
      File("config",
           "[default]\naws_access_key_id=settings\naws_secret_access_key=x\n"
           "[profile work]\nregion=eu-west-1\naws_access_key_id=w\naws_secret_access_key=x\n");
  environment_.shared_credentials_file = folder_.path() + "/none";
  auto credentials = chain().Get(ctx_);
  ASSERT_THAT(credentials, IsOk());
  EXPECT_EQ(credentials->access_key_id, "settings");
  chain_.reset();
  environment_.shared_credentials_file = KeysFile("keys");
  credentials = chain().Get(ctx_);
  ASSERT_THAT(credentials, IsOk());
  EXPECT_EQ(credentials->access_key_id, "keys");
  chain_.reset();
  environment_.profile = "work";
  credentials = chain().Get(ctx_);
  ASSERT_THAT(credentials, IsOk());
  EXPECT_EQ(credentials->access_key_id, "w");
}

TEST_F(CredentialsTest, AProfileThatIsNowhereIsSaid) {
  environment_.shared_credentials_file = KeysFile("keys");
  environment_.profile = "wrok";
  EXPECT_THAT(chain().Get(ctx_),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("\"wrok\"")));
}

TEST_F(CredentialsTest, ALineBreakInAKeyIsSaidWithoutTheKey) {
  environment_.keys.access_key_id = "id";
  environment_.keys.secret_access_key = Secret("hunter2\n");
  EXPECT_THAT(chain().Get(ctx_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(HasSubstr("secret key"), Not(HasSubstr("hunter2")))));
}

TEST(SharedCredentialsTest, ReadsProfiles) {
  const std::string text =
      "\n; comment\n[default]\n  aws_access_key_id = AKID  \r\nAWS_SECRET_ACCESS_KEY=a=b/c+\n"
      "region = eu-west-1\n[profile two]\naws_access_key_id=2\naws_secret_access_key=22\n"
      "aws_session_token=222\n[empty]\nregion=x\n";
  const auto one = ParseSharedCredentials(text, "default");
  ASSERT_THAT(one, IsOk());
  ASSERT_TRUE(one->credentials.has_value());
  EXPECT_EQ(one->credentials->access_key_id, "AKID");
  EXPECT_EQ(one->credentials->secret_access_key.Reveal(), "a=b/c+");
  EXPECT_TRUE(one->credentials->session_token.empty());
  const auto two = ParseSharedCredentials(text, "two");
  ASSERT_TRUE(two.ok() && two->credentials.has_value());
  EXPECT_EQ(two->credentials->session_token.Reveal(), "222");
  const std::tuple<std::string, const char*, bool> without[] = {
      {text, "empty", true}, {text, "none", false}, {"", "default", false}};
  for (const auto& [file, profile, is_there] : without) {
    const auto found = ParseSharedCredentials(file, profile);
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(found->is_there, is_there) << profile;
    EXPECT_EQ(found->credentials, std::nullopt) << profile;
  }
}

TEST(SharedCredentialsTest, TakesByteOrderMarksAndComments) {
  const auto found = ParseSharedCredentials(
      "\xef\xbb\xbf[default]  # ours\naws_access_key_id = a#b;c # old\n"
      "aws_secret_access_key=s\t; new\n",
      "default");
  ASSERT_THAT(found, IsOk());
  ASSERT_TRUE(found->credentials.has_value());
  EXPECT_EQ(found->credentials->access_key_id, "a#b;c");
  EXPECT_EQ(found->credentials->secret_access_key.Reveal(), "s");
}

TEST(AwsDomainTest, IsThatOfThePartition) {
  const std::pair<const char*, const char*> cases[] = {{"", "amazonaws.com"},
                                                       {"eu-west-1", "amazonaws.com"},
                                                       {"us-gov-west-1", "amazonaws.com"},
                                                       {"cn-north-1", "amazonaws.com.cn"},
                                                       {"eusc-de-east-1", "amazonaws.eu"},
                                                       {"us-iso-east-1", "c2s.ic.gov"},
                                                       {"us-isob-east-1", "sc2s.sgov.gov"},
                                                       {"us-isof-south-1", "csp.hci.ic.gov"},
                                                       {"eu-isoe-west-1", "cloud.adc-e.uk"}};
  for (const auto& [region, domain] : cases) {
    EXPECT_EQ(AwsDomain(region), domain) << region;
  }
}

TEST(SharedCredentialsTest, NamesWaysToKeysThatItDoesNotGo) {
  const std::string keys = "aws_access_key_id=a\naws_secret_access_key=b\n";
  const std::tuple<std::string, const char*> refused[] = {
      {"role_arn=arn:aws:iam::1:role/r\nsource_profile=x\n", "role_arn"},
      {keys + "role_arn=arn:aws:iam::1:role/r\nsource_profile=default\n", "role_arn"},
      {"sso_session=s\nsso_account_id=1\n", "sso_"},
      {"credential_process=/bin/keys\n", "credential_process"}};
  for (const auto& [settings, way] : refused) {
    EXPECT_THAT(ParseSharedCredentials("[default]\n" + settings, "default"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(way)));
    EXPECT_THAT(ParseSharedCredentials("[other]\n" + settings, "default"), IsOk());
  }
  EXPECT_THAT(ParseSharedCredentials("[default]\nsso_session=s\n" + keys, "default"), IsOk());
}

TEST(SharedCredentialsTest, RefusesMalformedFilesWithoutRepeatingThem) {
  for (const char* text : {"[default\naws_access_key_id=SECRET", "[default]\nSECRET",
                           "[default]\naws_access_key_id=SECRET\n"}) {
    EXPECT_THAT(ParseSharedCredentials(text, "default"),
                StatusIs(absl::StatusCode::kInvalidArgument, Not(HasSubstr("SECRET"))))
        << text;
  }
}

}  // namespace
}  // namespace csidelta::storage::credentials_test
