#include "storage/s3_xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace csidelta::storage::s3_xml_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr char kPage[] = R"(<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <Name>bucket</Name><Prefix>data/</Prefix><KeyCount>2</KeyCount><MaxKeys>2</MaxKeys>
  <EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>
  <Contents><Key>data/00/a%2Bb</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>
    <ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag><Size>0</Size>
    <Owner><ID>x</ID></Owner><StorageClass>STANDARD</StorageClass></Contents>
  <Contents><Key>data/01/c+d</Key><Size>9223372036854775807</Size></Contents>
  <NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=</NextContinuationToken>
</ListBucketResult>)";

TEST(S3XmlTest, ReadsAPage) {
  const auto page = ParseListPage(kPage);
  ASSERT_THAT(page, IsOk());
  ASSERT_THAT(page->objects, SizeIs(2));
  EXPECT_EQ(page->objects[0].key, "data/00/a+b");
  EXPECT_EQ(page->objects[0].size_bytes, 0);
  EXPECT_EQ(page->objects[0].modified_at, absl::FromUnixSeconds(1'704'067'200));
  EXPECT_EQ(page->objects[1].modified_at, absl::InfinitePast()) << "not told";
  EXPECT_EQ(page->objects[1].key, "data/01/c d");
  EXPECT_EQ(page->objects[1].size_bytes, INT64_MAX);
  EXPECT_EQ(page->next_token, "1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=");
}

TEST(S3XmlTest, ReadsPagesOfOtherServers) {
  // No encoding, no declaration, the flag behind the objects, a token although it is the last page.
  const auto page = ParseListPage(
      "<ListBucketResult>"
      "<Contents><Size>3</Size><Key>a%20b</Key></Contents>"
      "<NextContinuationToken>x</NextContinuationToken><IsTruncated>false</IsTruncated>"
      "</ListBucketResult>");
  ASSERT_THAT(page, IsOk());
  ASSERT_THAT(page->objects, SizeIs(1));
  EXPECT_EQ(page->objects[0].key, "a%20b");
  EXPECT_THAT(page->next_token, IsEmpty());
  EXPECT_THAT(ParseListPage("<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
                  ->objects,
              IsEmpty());
}

// ListObjects, the first form: the document of a server that passes over list-type=2.
TEST(S3XmlTest, ReadsPagesOfTheFirstForm) {
  const auto read = [](absl::string_view rest) {
    return ParseListPage(absl::StrCat(
        "<ListBucketResult><EncodingType>url</EncodingType>"
        "<Contents><Key>a%2Bb</Key><StorageClass>DEEP_ARCHIVE</StorageClass></Contents>"
        "<CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes>",
        rest, "</ListBucketResult>"));
  };
  const auto last_key = read("<Marker/><IsTruncated>true</IsTruncated>");
  ASSERT_THAT(last_key, IsOk());
  EXPECT_TRUE(last_key->is_by_marker);
  EXPECT_EQ(last_key->next_token, "c/");
  EXPECT_TRUE(last_key->objects[0].is_archived);
  const auto named = read("<NextMarker>b%2F</NextMarker><IsTruncated>true</IsTruncated>");
  ASSERT_THAT(named, IsOk());
  EXPECT_EQ(named->next_token, "b/");
  const auto last = read("<Marker>x</Marker><IsTruncated>false</IsTruncated>");
  ASSERT_THAT(last, IsOk());
  EXPECT_EQ(last->next_token, "");
  const auto both = read(
      "<Marker/><NextContinuationToken>t</NextContinuationToken><IsTruncated>true</IsTruncated>");
  ASSERT_THAT(both, IsOk());
  EXPECT_FALSE(both->is_by_marker);
  EXPECT_EQ(both->next_token, "t");
}

TEST(S3XmlTest, ReadsFolders) {
  const std::string folders =
      "<CommonPrefixes><Prefix>a%2Bb/</Prefix></CommonPrefixes>"
      "<CommonPrefixes><Prefix>c+d/</Prefix></CommonPrefixes>";
  const auto encoded =
      ParseListPage(absl::StrCat("<ListBucketResult><IsTruncated>false</"
                                 "IsTruncated><EncodingType>url</EncodingType><Prefix>x/</Prefix>",
                                 folders, "</ListBucketResult>"));
  ASSERT_THAT(encoded, IsOk());
  EXPECT_THAT(encoded->folders, ElementsAre("a+b/", "c d/"));
  EXPECT_THAT(encoded->objects, IsEmpty());
  const auto plain = ParseListPage(absl::StrCat(
      "<ListBucketResult><IsTruncated>false</IsTruncated>", folders, "</ListBucketResult>"));
  ASSERT_THAT(plain, IsOk());
  EXPECT_THAT(plain->folders, ElementsAre("a%2Bb/", "c+d/"));
}

TEST(S3XmlTest, RefusesWhatIsNoPage) {
  const std::string bomb =
      "<!DOCTYPE l [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;\">]>"
      "<ListBucketResult><Contents><Key>&b;</Key></Contents></ListBucketResult>";
  std::string deep;
  for (int i = 0; i < 1000; ++i) {
    deep += "<a>";
  }
  const std::string cases[] = {
      "",
      "text",
      "<html><body>Bad gateway</body></html>",
      "<Error><Code>NoSuchBucket</Code></Error>",
      "<ListBucketResult>",
      "<ListBucketResult></Other>",
      "<ListBucketResult/><ListBucketResult/>",
      "<ListBucketResult/>",
      "<ListBucketResult><Contents><Key>a</Key><Size>3</Size></Contents></ListBucketResult>",
      "<ListBucketResult><IsTruncated>TRUE</IsTruncated></ListBucketResult>",
      "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
      "<ListBucketResult><Marker/><IsTruncated>true</IsTruncated></ListBucketResult>",
      "<ListBucketResult><Contents><Size>-1</Size></Contents></ListBucketResult>",
      "<ListBucketResult><Contents><Size>9223372036854775808</Size></Contents></ListBucketResult>",
      "<ListBucketResult><Contents><Size>many</Size></Contents></ListBucketResult>",
      "<ListBucketResult><Contents><Key>&unknown;</Key></Contents></ListBucketResult>",
      "<!DOCTYPE l SYSTEM \"file:///etc/passwd\"><ListBucketResult/>",
      "<ListBucketResult>\xff\xfe</ListBucketResult>",
      std::string("<ListBucketResult>\0</ListBucketResult>", 38),
      bomb,
      deep,
      absl::StrCat("<ListBucketResult><Prefix>", std::string(kXmlTextBytesMax + 1, 'x'),
                   "</Prefix></ListBucketResult>"),
      absl::StrCat("<ListBucketResult/>", std::string(kXmlBytesMax, ' ')),
  };
  for (const std::string& xml : cases) {
    EXPECT_THAT(ParseListPage(xml), StatusIs(absl::StatusCode::kInvalidArgument))
        << xml.substr(0, 100);
  }
}

TEST(S3XmlTest, ReadsWhatIsJustSmallEnough) {
  std::string nested;
  for (int i = 2; i <= kXmlDepthMax; ++i) {
    nested = absl::StrCat("<a>", nested, "</a>");
  }
  const auto page = [](const std::string& inner) {
    return absl::StrCat("<ListBucketResult><IsTruncated>false</IsTruncated>", inner,
                        "</ListBucketResult>");
  };
  EXPECT_THAT(ParseListPage(page(nested)), IsOk());
  EXPECT_THAT(ParseListPage(page(absl::StrCat("<a>", nested, "</a>"))), Not(IsOk()));
  const std::string key(kXmlTextBytesMax, 'k');
  const auto longest =
      ParseListPage(page(absl::StrCat("<Contents><Key>", key, "</Key><Size>1</Size></Contents>")));
  ASSERT_THAT(longest, IsOk());
  ASSERT_THAT(longest->objects, SizeIs(1));
  EXPECT_EQ(longest->objects[0].key, key);
  std::string largest = page("");
  largest.append(static_cast<std::size_t>(kXmlBytesMax) - largest.size(), ' ');
  EXPECT_THAT(ParseListPage(largest), IsOk());
}

TEST(S3XmlTest, EveryCutPageIsRefused) {
  const std::string whole = kPage;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THAT(ParseListPage(whole.substr(0, length)), Not(IsOk())) << length;
  }
}

TEST(S3XmlTest, ReadsErrors) {
  const auto error = ParseS3Error(
      "<?xml version=\"1.0\"?><Error><Code>AuthorizationHeaderMalformed</Code>"
      "<Message>the region 'us-east-1' is wrong &amp; more</Message><Region>eu-west-1</Region>"
      "<RequestId>1</RequestId></Error>");
  ASSERT_THAT(error, IsOk());
  EXPECT_EQ(error->code, "AuthorizationHeaderMalformed");
  EXPECT_EQ(error->message, "the region 'us-east-1' is wrong & more");
  EXPECT_EQ(error->region, "eu-west-1");
  const auto wrapped = ParseS3Error(
      "<ErrorResponse><Error><Type>Sender</Type><Code>ExpiredTokenException</Code></Error>"
      "</ErrorResponse>");
  ASSERT_THAT(wrapped, IsOk());
  EXPECT_EQ(wrapped->code, "ExpiredTokenException");
  for (const char* xml : {"", "<Error/>", "<html/>", "<Error><Message>m</Message></Error>"}) {
    EXPECT_THAT(ParseS3Error(xml), StatusIs(absl::StatusCode::kInvalidArgument)) << xml;
  }
}

std::string AssumeRole(const std::string& credentials) {
  return absl::StrCat(
      "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
      "<AssumeRoleWithWebIdentityResult><Credentials>",
      credentials,
      "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>");
}

TEST(S3XmlTest, ReadsAssumedRoles) {
  const auto credentials = ParseAssumeRoleResponse(AssumeRole(
      "<AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>"
      "<SessionToken>token</SessionToken><Expiration>2024-01-02T03:04:05Z</Expiration>"));
  ASSERT_THAT(credentials, IsOk());
  EXPECT_EQ(credentials->access_key_id, "ASIA");
  EXPECT_EQ(credentials->secret_access_key.Reveal(), "secret");
  EXPECT_EQ(credentials->session_token.Reveal(), "token");
  EXPECT_EQ(credentials->expires_at, absl::FromUnixSeconds(1704164645));
}

TEST(S3XmlTest, RefusesIncompleteRoles) {
  const std::string cases[] = {
      "<Error><Code>x</Code></Error>",
      AssumeRole(""),
      AssumeRole("<AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>"
                 "<SessionToken>token</SessionToken><Expiration>tomorrow</Expiration>"),
      AssumeRole("<AccessKeyId>ASIA</AccessKeyId><SessionToken>token</SessionToken>"
                 "<Expiration>2024-01-02T03:04:05Z</Expiration>"),
  };
  for (const std::string& xml : cases) {
    EXPECT_THAT(ParseAssumeRoleResponse(xml),
                StatusIs(absl::StatusCode::kInvalidArgument, Not(HasSubstr("secret"))));
  }
}

}  // namespace
}  // namespace csidelta::storage::s3_xml_test
