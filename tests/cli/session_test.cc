#include "cli/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tests/support/status_matchers.h"

namespace csidelta::cli {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

TEST(SessionTest, SettingsOfTheBucketReachTheStore) {
  storage::StoreSettings settings;
  for (const char* option :
       {"s3.region=eu-west-1", "s3.bucket-lookup=dns", "s3.storage-class=STANDARD_IA",
        "s3.sse=aws:kms", "s3.sse-kms-key-id=key", "s3.object-lock-mode=GOVERNANCE",
        "s3.object-lock-days=30"}) {
    EXPECT_THAT(ApplyStoreOption(option, settings), IsOk()) << option;
  }
  EXPECT_EQ(settings.region, "eu-west-1");
  EXPECT_EQ(settings.style, storage::BucketStyle::kVirtualHost);
  EXPECT_EQ(settings.s3.storage_class, "STANDARD_IA");
  EXPECT_EQ(settings.s3.server_side_encryption, "aws:kms");
  EXPECT_EQ(settings.s3.kms_key_id, "key");
  EXPECT_EQ(settings.s3.object_lock_mode, "GOVERNANCE");
  EXPECT_EQ(settings.s3.object_lock_duration, absl::Hours(24 * 30));
  EXPECT_THAT(settings.s3.object_lock_exempt_prefixes, testing::ElementsAre("locks/"));
}

TEST(SessionTest, WrongSettingsSayWhatThereIs) {
  storage::StoreSettings settings;
  const std::pair<const char*, const char*> cases[] = {
      {"s3.regoin=x", "s3.region"},
      {"s3.bucket-lookup=host", "auto, dns or path"},
      {"s3.object-lock-days=0", "from 1 to"},
      {"s3.object-lock-days=a week", "from 1 to"}};
  for (const auto& [option, why] : cases) {
    EXPECT_THAT(ApplyStoreOption(option, settings),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)))
        << option;
  }
}

class TrustTest : public testing::Test {
 protected:
  TrustTest() {
    folder_ = testing::TempDir() + "session-XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~TrustTest() override { std::filesystem::remove_all(folder_); }

  std::string File(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  absl::Status Apply() {
    settings_ = {};
    return ApplyTrust(
        options_,
        [this](const char* name) -> const char* {
          const auto found = variables_.find(name);
          return found == variables_.end() ? nullptr : found->second.c_str();
        },
        settings_);
  }

  std::string folder_;
  GlobalOptions options_;
  std::map<std::string, std::string> variables_;
  storage::StoreSettings settings_;
};

TEST_F(TrustTest, TheFlagComesBeforeResticsVariableAndThatBeforeTheSdks) {
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

TEST_F(TrustTest, AWholeSystemsBundleFits) {
  options_.ca_file = File("bundle", std::string(std::size_t{300} << 10, 'x'));
  EXPECT_THAT(Apply(), IsOk());
}

TEST_F(TrustTest, AMissingBundleIsNamed) {
  variables_["AWS_CA_BUNDLE"] = folder_ + "/none";
  EXPECT_THAT(Apply(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none")));
}

}  // namespace
}  // namespace csidelta::cli
