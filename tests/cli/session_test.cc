#include "cli/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "tests/support/fake_clock.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::session_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

TEST(SessionTest, SettingsOfTheBucketReachTheStore) {
  storage::StoreSettings settings;
  for (const char* option :
       {"s3.region=eu-west-1", "s3.bucket-lookup=dns", "s3.storage-class=STANDARD_IA",
        "s3.sse=aws:kms", "s3.sse-kms-key-id=key", "s3.tagging=a=1&b=2", "s3.checksum=none",
        "s3.object-lock-mode=GOVERNANCE", "s3.object-lock-days=30", "gs.storage-class=COLDLINE",
        "gs.kms-key-name=projects/p", "gs.service-account=robot@p", "gs.endpoint=https://a"}) {
    EXPECT_THAT(ApplyStoreOption(option, settings), IsOk()) << option;
  }
  EXPECT_EQ(settings.region, "eu-west-1");
  EXPECT_EQ(settings.style, storage::BucketStyle::kVirtualHost);
  EXPECT_EQ(settings.s3.storage_class, "STANDARD_IA");
  EXPECT_EQ(settings.s3.server_side_encryption, "aws:kms");
  EXPECT_EQ(settings.s3.kms_key_id, "key");
  EXPECT_EQ(settings.s3.tagging, "a=1&b=2");
  EXPECT_FALSE(settings.s3.sends_checksum);
  EXPECT_EQ(settings.s3.object_lock_mode, "GOVERNANCE");
  EXPECT_EQ(settings.s3.object_lock_duration, absl::Hours(24 * 30));
  EXPECT_THAT(settings.s3.object_lock_exempt_prefixes, testing::ElementsAre("locks/"));
  EXPECT_EQ(settings.google.storage_class, "COLDLINE");
  EXPECT_EQ(settings.google.kms_key_name, "projects/p");
  EXPECT_EQ(settings.google.service_account, "robot@p");
  EXPECT_EQ(settings.google.endpoint_url, "https://a");
}

TEST(SessionTest, SettingsOfAStorageAccountReachTheStore) {
  storage::StoreSettings settings;
  for (const char* option :
       {"azure.access-tier=Cool", "azure.account-key-variable=KEY", "azure.account-name=acc",
        "azure.block-size=1048576", "azure.cloud-name=AzureChinaCloud", "azure.use-aad=false",
        "azure.resource-group=group", "azure.subscription-id=sub",
        "azure.storage-account-uri=https://acc.z1.blob.storage.azure.net"}) {
    EXPECT_THAT(ApplyStoreOption(option, settings), IsOk()) << option;
  }
  const storage::AzureAccount& account = settings.azure.account;
  EXPECT_EQ(settings.azure.access_tier, "Cool");
  EXPECT_EQ(settings.azure.block_bytes, 1 << 20);
  EXPECT_EQ(account.key_variable, "KEY");
  EXPECT_EQ(account.uri, "https://acc.z1.blob.storage.azure.net");
  EXPECT_FALSE(account.use_aad);
  EXPECT_THAT(account.variables,
              testing::UnorderedElementsAre(testing::Pair("AZURE_ACCOUNT_NAME", "acc"),
                                            testing::Pair("AZURE_CLOUD_NAME", "AzureChinaCloud"),
                                            testing::Pair("AZURE_RESOURCE_GROUP", "group"),
                                            testing::Pair("AZURE_SUBSCRIPTION_ID", "sub")));
}

TEST(SessionTest, WrongSettingsSayWhatThereIs) {
  storage::StoreSettings settings;
  const std::pair<const char*, const char*> cases[] = {
      {"s3.regoin=x", "s3.region"},
      {"gs.class=x", "gs.storage-class, gs.kms-key-name"},
      {"s3.bucket-lookup=host", "auto, dns or path"},
      {"azure.acess-tier=Hot", "--help lists them"},
      {"azure.block-size=1MiB", "a number of bytes"},
      {"azure.use-aad=maybe", "true or false"},
      {"s3.checksum=crc32", "sha256 or none"},
      {"s3.object-lock-days=0", "from 1 to"},
      {"s3.object-lock-days=a week", "from 1 to"}};
  for (const auto& [option, why] : cases) {
    EXPECT_THAT(ApplyStoreOption(option, settings),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)))
        << option;
  }
}

class StoreSettingsTest : public testing::Test {
 protected:
  std::string File(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  absl::Status Apply() {
    auto made = MakeStoreSettings(
        options_,
        [this](const char* name) -> const char* {
          const auto found = variables_.find(name);
          return found == variables_.end() ? nullptr : found->second.c_str();
        },
        kind_);
    settings_ = made.value_or(storage::StoreSettings());
    return made.status();
  }

  const support::ScratchFolder folder_;
  GlobalOptions options_;
  std::map<std::string, std::string> variables_;
  storage::Location::Kind kind_ = storage::Location::Kind::kS3;
  storage::StoreSettings settings_;
};

TEST_F(StoreSettingsTest, TheFlagComesBeforeResticsVariableAndThatBeforeTheSdks) {
  ASSERT_THAT(Apply(), IsOk());
  EXPECT_EQ(settings_.tls.ca_pem, "");
  variables_["AWS_CA_BUNDLE"] = File("sdk", "of the SDKs\n");
  ASSERT_THAT(Apply(), IsOk());
  EXPECT_EQ(settings_.tls.ca_pem, "of the SDKs");
  EXPECT_EQ(settings_.sts_tls.ca_pem, "of the SDKs");
  variables_["RESTIC_CACERT"] = File("restic", "of restic");
  ASSERT_THAT(Apply(), IsOk());
  EXPECT_EQ(settings_.tls.ca_pem, "of restic");
  EXPECT_EQ(settings_.sts_tls.ca_pem, "of the SDKs");
  options_.ca_file = File("flag", "of the flag");
  ASSERT_THAT(Apply(), IsOk());
  EXPECT_EQ(settings_.tls.ca_pem, "of the flag");
}

TEST_F(StoreSettingsTest, AddedCertificatesAreTrustedForBucketAndKeys) {
  const std::string bundle = File("bundle", "of the system");
  setenv("SSL_CERT_FILE", bundle.c_str(), 1);
  const std::string added = "-----BEGIN CERTIFICATE-----of the location";
  options_.added_ca_file = File("added", added);
  ASSERT_THAT(Apply(), IsOk());
  EXPECT_EQ(settings_.tls.ca_pem, added + "\nof the system");
  EXPECT_EQ(settings_.sts_tls.ca_pem, added + "\nof the system");
  options_.ca_file = File("flag", "of the flag");
  ASSERT_THAT(Apply(), IsOk());
  EXPECT_EQ(settings_.tls.ca_pem, added + "\nof the flag");
  setenv("SSL_CERT_FILE", "/nowhere", 1);  // A machine without a bundle needs none.
  options_.ca_file = "";
  ASSERT_THAT(Apply(), IsOk());
  EXPECT_EQ(settings_.tls.ca_pem, added + "\n");
  unsetenv("SSL_CERT_FILE");
  options_.added_ca_file = File("added", "no certificate");
  EXPECT_THAT(Apply(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no certificate")));
}

TEST_F(StoreSettingsTest, UploadsAndDownloadsKeepToTheLimitsOfTheFlags) {
  options_.limit_upload_kib = 64;
  options_.limit_download_kib = 32;
  ASSERT_THAT(Apply(), IsOk());
  auto opened =
      storage::OpenStore(*storage::ParseLocation(folder_.path()), settings_, Random::Real());
  ASSERT_THAT(opened, IsOk());
  storage::ObjectStore& store = (*opened)->store();
  support::FakeClock clock;
  clock.SetAutoAdvance(true);
  CallContext ctx;
  ctx.clock = &clock;
  const absl::Time start = clock.Now();
  for (const char* key : {"one", "two", "three"}) {
    ASSERT_THAT(store.Put(ctx, key, std::string(640 << 10, 'x'), {}), IsOk());
  }
  EXPECT_NEAR(absl::ToDoubleSeconds(clock.Now() - start), 20, 0.01);
  const absl::Time stored = clock.Now();
  for (const char* key : {"one", "two", "three"}) {
    ASSERT_THAT(store.Get(ctx, key, 1 << 20), IsOk());
  }
  EXPECT_NEAR(absl::ToDoubleSeconds(clock.Now() - stored), 40, 0.01);
  options_.byte_limiters = std::make_shared<storage::ByteLimiters>(1, 1);  // as of a worker
  ASSERT_THAT(Apply(), IsOk());
  EXPECT_EQ(settings_.limits.bytes, options_.byte_limiters);
}

TEST_F(StoreSettingsTest, AWholeSystemsBundleFits) {
  std::string bundle;  // As large as that of a distribution: about 140 certificates.
  for (int i = 0; bundle.size() < std::size_t{300} << 10; ++i) {
    absl::StrAppend(&bundle, "-----BEGIN CERTIFICATE-----\n", std::string(1500, 'A'), i,
                    "\n-----END CERTIFICATE-----\n");
  }
  bundle.pop_back();
  options_.ca_file = File("bundle", bundle);
  ASSERT_THAT(Apply(), IsOk());
  EXPECT_TRUE(settings_.tls.ca_pem == bundle) << settings_.tls.ca_pem.size() << " bytes";
}

TEST_F(StoreSettingsTest, AMissingBundleIsNamed) {
  variables_["AWS_CA_BUNDLE"] = folder_.path() + "/none";
  EXPECT_THAT(Apply(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none")));
  for (const auto kind : {storage::Location::Kind::kDirectory, storage::Location::Kind::kAzure,
                          storage::Location::Kind::kGoogle}) {
    kind_ = kind;  // Other programs have it, and this one needs none.
    EXPECT_THAT(Apply(), IsOk());
  }
}

}  // namespace
}  // namespace csidelta::cli::session_test
