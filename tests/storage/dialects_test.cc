// What must hold of every cloud alike when a token ends, a bucket vanishes or a server throttles in
// the middle of an upload.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "storage/bucket_object_store.h"
#include "storage/object_store.h"
#include "tests/support/bucket_bed.h"
#include "tests/support/bucket_words.h"
#include "tests/support/fake_azure_identity.h"
#include "tests/support/fake_azure_server.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_s3_server.h"
#include "tests/support/fake_token_service.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::storage::dialects_test {
namespace {

using namespace support::bucket_words;
using support::Dialect;

// What a cloud calls things.
struct DialectCase {
  Dialect dialect;
  int uploads_before;  // requests of an upload that come before the one that meets the end
  int refused_status;
  const char* refused;
  const char* way;  // of the sign-in, as a refusal names it
  const char* gone;
  const char* throttled[2];  // with 429 and with 503
};
const DialectCase kDialectCases[] = {{Dialect::kS3,
                                      0,
                                      400,
                                      "ExpiredToken",
                                      "came from the container's endpoint",
                                      "make the bucket",
                                      {"SlowDown", "SlowDown"}},
                                     {Dialect::kAzure,
                                      1,
                                      401,
                                      "InvalidAuthenticationInfo",
                                      "signed in by the client secret",
                                      "make the container",
                                      {"TooManyRequests", "ServerBusy"}},
                                     {Dialect::kGoogle,
                                      0,
                                      401,
                                      "authError",
                                      "/key.json",
                                      "make the bucket",
                                      {"rateLimitExceeded", "backendError"}}};

// A bucket that lets in by tokens of an hour, and the service of the cloud that gives them out.
// Waiting takes no time.
class DialectTest : public testing::TestWithParam<DialectCase> {
 protected:
  DialectTest() {
    clock_.SetAutoAdvance(true);
    ctx_.clock = &clock_;
    StoreSettings& settings = bed_.settings;
    if (kind_.dialect == Dialect::kS3) {
      settings.environment = {};
      settings.environment.container_url = s3_.url();
      EndTokens();
    } else if (kind_.dialect == Dialect::kAzure) {
      settings.azure_environment.variables = {{"AZURE_ACCOUNT_NAME", "teststore"},
                                              {"AZURE_TENANT_ID", "tenant-1"},
                                              {"AZURE_CLIENT_ID", "client-1"},
                                              {"AZURE_CLIENT_SECRET", "se/cret+1"},
                                              {"AZURE_AUTHORITY_HOST", azure_.url()}};
    } else {
      std::ofstream(folder_.path() + "/key.json") << google_.KeyFile();
      settings.google_environment = {.credentials_file = folder_.path() + "/key.json"};
      settings.google.endpoint_url = bed_.server->url();
    }
    opened_ = *bed_.Open();
  }

  ObjectStore& store() { return opened_->store(); }
  absl::Status Upload() { return store().Put(ctx_, "data/large", bytes_, {}); }

  int64_t SignIns() const {
    return kind_.dialect == Dialect::kS3      ? s3_.request_count()
           : kind_.dialect == Dialect::kAzure ? azure_.request_count()
                                              : google_.given();
  }

  // All that were given are refused from now on, the next is not.
  void EndTokens() {
    if (kind_.dialect == Dialect::kS3) {
      static_cast<support::FakeS3Server&>(*bed_.server)
          .SetSessionToken(absl::StrCat("t", SignIns() + 1));
    } else if (kind_.dialect == Dialect::kAzure) {
      static_cast<support::FakeAzureServer&>(*bed_.server)
          .AllowToken(absl::StrCat("token-", SignIns()), clock_.Now());
    }
    google_.EndTokens();
  }

  // Happens when an upload is half done.
  void InMidUpload(std::function<void()> what) {
    bed_.server->Interfere([=, left = kind_.uploads_before](const ServedRequest&, auto&) mutable {
      if (left-- == 0) {
        what();
      }
      return false;
    });
  }

  void Answer(int times, int status, const char* error, const support::Headers& headers = {}) {
    bed_.server->Interfere([=, this, left = times](const ServedRequest&, auto& connection) mutable {
      const bool is_due = left-- > 0;
      if (is_due) {
        connection.Send(status, support::ErrorOf(kind_.dialect, error), headers);
      }
      return is_due;
    });
  }

  const DialectCase& kind_ = GetParam();
  const std::string bytes_ = std::string(std::size_t{5} << 19, 'x');  // Three blocks of Azure.
  support::FakeClock clock_;  // Outlives the servers' threads.
  CallContext ctx_;
  const support::ScratchFolder folder_;
  support::FakeTokenService google_{clock_};
  support::BucketBed bed_{
      kind_.dialect, clock_, {.tls = true, .accepts = [this](const std::string& token) {
                                return google_.IsGood(token);
                              }}};
  support::FakeAzureIdentity azure_{
      {.clock = &clock_}, [this](const std::string& token, absl::Time expires_at) {
        static_cast<support::FakeAzureServer&>(*bed_.server).AllowToken(token, expires_at);
      }};
  support::HttpTestServer s3_{[this](const ServedRequest&, ServedConnection& connection) {
    connection.Send(
        200, absl::StrCat(R"({"AccessKeyId":"AKIDTEST","SecretAccessKey":"secret/key+of=test",)",
                          R"("Token":"t)", s3_.request_count(), R"(","Expiration":")",
                          absl::FormatTime(absl::RFC3339_sec, clock_.Now() + absl::Hours(1),
                                           absl::UTCTimeZone()),
                          R"("})"));
  }};
  std::unique_ptr<OpenedStore> opened_;
};
INSTANTIATE_TEST_SUITE_P(Dialects, DialectTest, testing::ValuesIn(kDialectCases),
                         [](const auto& test) { return support::DialectName(test.param.dialect); });

TEST_P(DialectTest, ATokenThatExpiresInMidUploadIsRenewed) {
  ASSERT_THAT(store().Put(ctx_, "config", "x", {}), IsOk());
  EXPECT_EQ(SignIns(), 1);
  InMidUpload([this] { EndTokens(); });
  EXPECT_THAT(Upload(), IsOk());
  EXPECT_EQ(SignIns(), 2);
  EXPECT_EQ(bed_.server->objects().at("data/large"), bytes_);
  EXPECT_EQ(opened_->meter().Snapshot().retries, 0) << "only the refused request is made again";
  clock_.Advance(absl::Hours(2));  // One that ended by itself costs no refused request.
  EndTokens();
  const std::size_t before = bed_.server->requests().size();
  EXPECT_THAT(store().Get(ctx_, "config", 10), IsOkAndHolds("x"));
  EXPECT_EQ(bed_.server->requests().size(), before + 1);
}

TEST_P(DialectTest, ATokenThatIsRefusedEndsInBoundedTimeAndSaysHowItWasGot) {
  const auto refused = StatusIs(absl::StatusCode::kUnauthenticated,
                                AllOf(HasSubstr(kind_.refused), HasSubstr(kind_.way)));
  Answer(1'000'000, kind_.refused_status, kind_.refused);
  const absl::Time begun = clock_.Now();
  EXPECT_THAT(Upload(), refused);
  EXPECT_LE(SignIns(), 3);
  EXPECT_LE(clock_.Now() - begun, absl::Seconds(10)) << "it was never let in";
  bed_.server->Interfere(nullptr);
  EndTokens();
  ASSERT_THAT(Upload(), IsOk());
  Answer(1'000'000, kind_.refused_status, kind_.refused);
  const absl::Time refused_at = clock_.Now();
  EXPECT_THAT(Upload(), refused);
  EXPECT_LE(clock_.Now() - refused_at, kNewCredentialsTimeMax + absl::Seconds(30));
  EXPECT_LE(SignIns(), 60);
}

TEST_P(DialectTest, ABucketThatVanishesInMidUploadIsToldAndNotWaitedFor) {
  ASSERT_THAT(store().Put(ctx_, "config", "x", {}), IsOk());
  InMidUpload([this] { bed_.server->Vanish(); });
  const auto is_gone = StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(kind_.gone));
  const absl::Time begun = clock_.Now();
  EXPECT_THAT(Upload(), is_gone);
  EXPECT_THAT(store().Get(ctx_, "config", 10), is_gone);
  EXPECT_THAT(store().Delete(ctx_, "config"), is_gone) << "not: it was gone already";
  EXPECT_THAT(store().List(ctx_, "", Ignore), is_gone);
  if (kind_.dialect != Dialect::kS3) {  // Its answer to HEAD has no word for it.
    EXPECT_THAT(store().Stat(ctx_, "config"), is_gone);
  }
  EXPECT_EQ(clock_.Now(), begun);
  EXPECT_EQ(opened_->meter().Snapshot().retries, 0);
}

TEST_P(DialectTest, AThrottleIsWaitedForAsLongAsItSays) {
  const int statuses[] = {429, 503};
  for (int i = 0; i < 2; ++i) {
    Answer(2, statuses[i], kind_.throttled[i], {{"Retry-After", "17"}});
    const absl::Time begun = clock_.Now();
    EXPECT_THAT(Upload(), IsOk());
    EXPECT_EQ(clock_.Now() - begun, absl::Seconds(34)) << statuses[i];
    EXPECT_EQ(bed_.server->objects().at("data/large"), bytes_);
  }
  EXPECT_EQ(opened_->meter().Snapshot().retries, 4);
}

}  // namespace
}  // namespace csidelta::storage::dialects_test
