#include "storage/bucket_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace csidelta::storage::bucket_rules_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::IsEmpty;
using testing::SizeIs;

const auto kIsInvalid = StatusIs(absl::StatusCode::kInvalidArgument);

TEST(BucketRulesTest, VersioningIsOnOnlyWhenItSaysSo) {
  EXPECT_EQ(ParseVersioning("<VersioningConfiguration xmlns=\"x\"><Status>Enabled</Status>"
                            "</VersioningConfiguration>")
                .value_or(false),
            true);
  for (const char* off : {"<VersioningConfiguration/>",
                          "<VersioningConfiguration><Status>Suspended</Status>"
                          "</VersioningConfiguration>"}) {
    EXPECT_EQ(ParseVersioning(off).value_or(true), false) << off;
  }
  for (const char* hostile : {"", "<html/>", "<Status>Enabled</Status>", "<Versioning"}) {
    EXPECT_THAT(ParseVersioning(hostile), kIsInvalid) << hostile;
  }
}

std::string ObjectLock(const std::string& retention) {
  return absl::StrCat("<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>",
                      "<Rule><DefaultRetention>", retention,
                      "</DefaultRetention></Rule></ObjectLockConfiguration>");
}

TEST(BucketRulesTest, ReadsTheDefaultRetention) {
  const auto days = ParseObjectLock(ObjectLock("<Mode>GOVERNANCE</Mode><Days>30</Days>"));
  ASSERT_THAT(days, IsOk());
  EXPECT_TRUE(days->is_enabled);
  EXPECT_EQ(days->mode, "GOVERNANCE");
  EXPECT_EQ(days->days, 30);
  EXPECT_EQ(ParseObjectLock(ObjectLock("<Mode>COMPLIANCE</Mode><Years>2</Years>"))->days, 730);
  EXPECT_FALSE(ParseObjectLock("")->is_enabled);
  for (const char* hostile : {"<Mode>NONE</Mode>", "<Mode>COMPLIANCE</Mode><Days>-1</Days>",
                              "<Mode>COMPLIANCE</Mode><Days>99999999999999999999</Days>",
                              "<Mode>COMPLIANCE</Mode><Years>x</Years>"}) {
    EXPECT_THAT(ParseObjectLock(ObjectLock(hostile)), kIsInvalid) << hostile;
  }
  EXPECT_THAT(ParseObjectLock("<LifecycleConfiguration/>"), kIsInvalid);
}

TEST(BucketRulesTest, ReadsLifecycleRulesThatAreEnabled) {
  const auto rules = ParseLifecycle(R"(<LifecycleConfiguration>
      <Rule><ID>old</ID><Filter><Prefix>p/</Prefix></Filter><Status>Enabled</Status>
        <NoncurrentVersionExpiration><NoncurrentDays>35</NoncurrentDays></NoncurrentVersionExpiration>
      </Rule>
      <Rule><ID>off</ID><Prefix/><Status>Disabled</Status><Expiration><Days>1</Days></Expiration></Rule>
      <Rule><ID>all</ID><Filter><And><Prefix>q</Prefix><Tag><Key>k</Key></Tag></And></Filter>
        <Transition><Days>9</Days><StorageClass>STANDARD_IA</StorageClass></Transition>
        <Expiration><Date>2030-01-01T00:00:00Z</Date></Expiration><Status>Enabled</Status></Rule>
      <Rule><ID>markers</ID><Prefix/><Status>Enabled</Status>
        <Transition><StorageClass>DEEP_ARCHIVE</StorageClass></Transition>
        <Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration></Rule>
    </LifecycleConfiguration>)");
  ASSERT_THAT(rules, IsOk());
  ASSERT_THAT(*rules, SizeIs(3));
  EXPECT_EQ((*rules)[0].prefix, "p/");
  EXPECT_EQ((*rules)[0].noncurrent_days, 35);
  EXPECT_FALSE((*rules)[0].expires_current || (*rules)[0].is_narrower);
  EXPECT_EQ((*rules)[1].prefix, "q");
  EXPECT_TRUE((*rules)[1].expires_current && (*rules)[1].is_narrower);
  EXPECT_FALSE((*rules)[1].archives_current);
  EXPECT_FALSE((*rules)[2].expires_current) << "what is current stays";
  EXPECT_TRUE((*rules)[2].archives_current);
  EXPECT_THAT(*ParseLifecycle(""), IsEmpty());
}

TEST(BucketRulesTest, HostileLifecyclesAreRefusedWithinBounds) {
  std::string many = "<LifecycleConfiguration>";
  for (std::size_t i = 0; i <= kLifecycleRulesMax; ++i) {
    absl::StrAppend(&many, "<Rule><Status>Enabled</Status></Rule>");
  }
  EXPECT_THAT(ParseLifecycle(many + "</LifecycleConfiguration>"), kIsInvalid);
  EXPECT_THAT(ParseLifecycle("<LifecycleConfiguration><Rule><Status>Enabled</Status>"
                             "<NoncurrentVersionExpiration><NoncurrentDays>many</NoncurrentDays>"
                             "</NoncurrentVersionExpiration></Rule></LifecycleConfiguration>"),
              kIsInvalid);
  EXPECT_THAT(ParseLifecycle("<!DOCTYPE x [<!ENTITY a \"b\">]><LifecycleConfiguration/>"),
              kIsInvalid);
  const auto long_id =
      ParseLifecycle(absl::StrCat("<LifecycleConfiguration><Rule><ID>", std::string(1000, 'x'),
                                  "</ID><Status>Enabled</Status></Rule></LifecycleConfiguration>"));
  ASSERT_THAT(long_id, IsOk());
  EXPECT_EQ(long_id->front().id.size(), 255U);
}

}  // namespace
}  // namespace csidelta::storage::bucket_rules_test
