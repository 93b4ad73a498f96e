#include "storage/location.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/fake_clock.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

namespace csidelta::storage::location_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::HasSubstr;
using testing::Not;

TEST(LocationTest, TakesPaths) {
  const std::pair<const char*, const char*> cases[] = {{"/srv/repo", "/srv/repo"},
                                                       {"repo", "repo"},
                                                       {"./a:b", "./a:b"},
                                                       {"local:/srv/repo", "/srv/repo"}};
  for (const auto& [text, path] : cases) {
    const auto location = ParseLocation(text);
    ASSERT_THAT(location, IsOk()) << text;
    EXPECT_EQ(location->kind, Location::Kind::kDirectory);
    EXPECT_EQ(location->directory, path);
  }
}

TEST(LocationTest, TakesResticsFormsOfS3) {
  struct Case {
    const char* text;
    const char* scheme;
    const char* authority;
    const char* bucket;
    const char* prefix;
  };
  const Case cases[] = {
      {"s3:https://host:9000/bucket/pre/fix", "https", "host:9000", "bucket", "pre/fix/"},
      {"s3:http://127.0.0.1:9000/bucket", "http", "127.0.0.1:9000", "bucket", ""},
      {"s3:host/bucket", "https", "host:443", "bucket", ""},
      {"s3:host:9000/bucket/", "https", "host:9000", "bucket", ""},
      {"s3://host/bucket//a//b/", "https", "host:443", "bucket", "a/b/"},
      {"s3:s3.amazonaws.com/my.bucket/x", "https", "s3.amazonaws.com:443", "my.bucket", "x/"},
      {"s3:https://[fd00::1]:9000/bucket", "https", "[fd00::1]:9000", "bucket", ""},
  };
  for (const Case& each : cases) {
    const auto location = ParseLocation(each.text);
    ASSERT_THAT(location, IsOk()) << each.text;
    EXPECT_EQ(location->kind, Location::Kind::kS3);
    EXPECT_EQ(location->endpoint.scheme, each.scheme) << each.text;
    EXPECT_EQ(location->endpoint.Authority(), each.authority) << each.text;
    EXPECT_EQ(location->bucket, each.bucket) << each.text;
    EXPECT_EQ(location->prefix, each.prefix) << each.text;
  }
}

TEST(LocationTest, TakesResticsFormsOfAzureAndGoogle) {
  struct Case {
    const char* text;
    Location::Kind kind;
    const char* bucket;
    const char* prefix;
  };
  const Case cases[] = {
      {"azure:container:/", Location::Kind::kAzure, "container", ""},
      {"azure:container:/pre/fix", Location::Kind::kAzure, "container", "pre/fix/"},
      {"azure:container:pre/fix/", Location::Kind::kAzure, "container", "pre/fix/"},
      {"gs:my.bucket_1:/", Location::Kind::kGoogle, "my.bucket_1", ""},
      {"gs:bucket:/a//b", Location::Kind::kGoogle, "bucket", "a/b/"},
  };
  for (const Case& each : cases) {
    const auto location = ParseLocation(each.text);
    ASSERT_THAT(location, IsOk()) << each.text;
    EXPECT_EQ(location->kind, each.kind) << each.text;
    EXPECT_EQ(location->bucket, each.bucket) << each.text;
    EXPECT_EQ(location->prefix, each.prefix) << each.text;
  }
}

TEST(LocationTest, ABucketsNameHasItsLimits) {
  const std::string longest(255, 'b');
  const auto location = ParseLocation("s3:host/" + longest + "/prefix");
  ASSERT_THAT(location, IsOk());
  EXPECT_EQ(location->bucket, longest);
  for (const std::string& name : {longest + "b", std::string("."), std::string("..")}) {
    EXPECT_THAT(ParseLocation("s3:host/" + name + "/prefix"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a bucket's name")));
  }
}

TEST(LocationTest, RefusesTheRestClearly) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "empty"},
      {"local:", "empty"},
      {"sftp:user@host:/path", "not supported"},
      {"rest:https://host/", "not supported"},
      {"b2:bucket:path", "not supported"},
      {"https://host/bucket", "begins with \"s3:\""},
      {"s3:", "URL"},
      {"s3:host", "bucket is missing"},
      {"s3:https://host/", "bucket is missing"},
      {"s3:ftp://host/bucket", "neither http nor https"},
      {"s3:https:///bucket", "host"},
      {"s3:host/buck$et", "bucket"},
      {"s3:host/..", "bucket"},
      {"s3:s3.amazonaws.com/arn:aws:s3::1:accesspoint/x.mrap/p", "alias of the access point"},
      {"s3:host/bucket/../x", "prefix"},
      {"s3:host/bucket?x=y", "query"},
      {"s3:host/bucket/pre/#fix/deeper", "no fragment"},
      {"s3:host:99999/bucket", "port"},
      {"s3:https://id:hunter2@host/bucket", "AWS_ACCESS_KEY_ID"},
      {std::string("/a\0b", 4), "zero byte"},
      {"azure:container", "colon behind the name"},
      {"azure:https://account.blob.core.windows.net/container", "colon behind the name"},
      {"azure::/prefix", "not the name of a container"},
      {"gs:buck$et:/", "not the name of a bucket"},
      {"gs:bucket:/a/../b", "prefix"},
      {"gs:bucket:/a\nb", "control characters"},
  };
  for (const auto& [text, why] : cases) {
    EXPECT_THAT(ParseLocation(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::AllOf(HasSubstr(why), Not(HasSubstr("hunter2")))))
        << text;
  }
}

TEST(LocationTest, FindsTheRegionInTheHost) {
  const std::pair<const char*, const char*> cases[] = {
      {"s3.eu-west-1.amazonaws.com", "eu-west-1"},
      {"s3-us-west-2.amazonaws.com", "us-west-2"},
      {"s3.dualstack.eu-central-1.amazonaws.com", "eu-central-1"},
      {"s3.cn-north-1.amazonaws.com.cn", "cn-north-1"},
      {"s3.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"},
      {"s3.us-iso-east-1.c2s.ic.gov", "us-iso-east-1"},
      {"s3.us-isob-east-1.sc2s.sgov.gov", "us-isob-east-1"},
      {"s3.amazonaws.com", ""},
      {"s3.example.com", ""},
      {"minio", ""},
  };
  for (const auto& [host, region] : cases) {
    EXPECT_EQ(RegionOfHost(host), region) << host;
  }
}

TEST(LocationTest, OpensADirectoryWithItsDecorators) {
  const support::ScratchFolder folder;
  const auto location = ParseLocation(folder.path() + "/repo");
  ASSERT_THAT(location, IsOk());
  auto opened = OpenStore(*location, {}, Random::Real());
  ASSERT_THAT(opened, IsOk());
  EXPECT_THAT((*opened)->store().Put({}, "config", "bytes", {}), IsOk());
  EXPECT_THAT((*opened)->store().Get({}, "config", 10), IsOkAndHolds("bytes"));
  EXPECT_EQ((*opened)->meter().Snapshot().requests(), 2);
  StoreSettings settings;
  settings.read_only = true;
  auto reader = OpenStore(*location, settings, Random::Real());
  ASSERT_THAT(reader, IsOk());
  EXPECT_THAT((*reader)->store().Delete({}, "config"),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT((*reader)->store().Get({}, "config", 10), IsOkAndHolds("bytes"));
}

TEST(LocationTest, WaitingForTheLimitUsesUpNoGracePeriod) {
  support::FakeClock clock;
  clock.SetAutoAdvance(true);
  CallContext ctx;
  ctx.clock = &clock;
  const support::ScratchFolder folder;
  StoreSettings settings;
  settings.limits.upload_bytes_per_second = 1 << 10;
  auto opened = OpenStore(*ParseLocation(folder.path()), settings, Random::Real());
  ASSERT_THAT(opened, IsOk());
  const absl::Time start = clock.Now();
  for (const char* key : {"one", "two", "three"}) {
    EXPECT_THAT((*opened)->store().Put(ctx, key, std::string(4 << 20, 'x'), {}), IsOk());
  }
  EXPECT_GT(clock.Now() - start, settings.retry.total_max);
}

TEST(LocationTest, RefusesSettingsThatAreNoHeaders) {
  const auto open = [](const StoreSettings& settings) {
    return OpenStore(*ParseLocation("s3:https://host/bucket"), settings, Random::Real()).status();
  };
  EXPECT_THAT(open({}), IsOk());
  StoreSettings settings;
  settings.s3.storage_class = "STANDARD\r\nx-amz-acl: public-read";
  EXPECT_THAT(open(settings),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("storage class")));
  settings = {};
  settings.region = "eu west";
  EXPECT_THAT(open(settings), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("region")));
  for (const char* archive : {"GLACIER", "DEEP_ARCHIVE"}) {  // Nothing of it could be read.
    settings = {};
    settings.s3.storage_class = archive;
    EXPECT_THAT(open(settings),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::AllOf(HasSubstr(archive), HasSubstr("use GLACIER_IR"))));
  }
  settings.s3.storage_class = "GLACIER_IR";
  EXPECT_THAT(open(settings), IsOk());
  settings = {};
  settings.s3.object_lock_mode = "GOVERNANCE";
  EXPECT_THAT(open(settings), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("duration")));
  settings.s3.object_lock_duration = absl::Hours(24);
  EXPECT_THAT(open(settings), IsOk());
  settings.s3.object_lock_mode = "FOREVER";
  EXPECT_THAT(open(settings),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("COMPLIANCE")));
}

TEST(LocationTest, RefusesVirtualHostsOfAnAddress) {
  StoreSettings settings;
  settings.style = BucketStyle::kVirtualHost;
  for (const char* text : {"s3:http://10.0.0.1:9000/bucket", "s3:http://[fd00::1]:9000/bucket"}) {
    EXPECT_THAT(OpenStore(*ParseLocation(text), settings, Random::Real()),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  const auto opened =
      OpenStore(*ParseLocation("s3:https://host/bucket/x"), settings, Random::Real());
  ASSERT_THAT(opened, IsOk());
  EXPECT_EQ((*opened)->store().Describe(), "s3:https://host/bucket/x");
}

}  // namespace
}  // namespace csidelta::storage::location_test
