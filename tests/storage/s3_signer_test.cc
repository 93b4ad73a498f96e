#include "storage/s3_signer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "absl/strings/escaping.h"
#include "base/crypto.h"

namespace csidelta::storage::s3_signer_test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr char kSecretKey[] = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
constexpr char kS3SecretKey[] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
constexpr char kUnreserved[] = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

struct Vector {
  const char* name;
  std::string method;
  std::string target;
  HeaderList headers;  // beside Host and the date
  std::string body;
  const char* signature;
};

std::string Header(const HeaderList& headers, const std::string& name) {
  for (const auto& [key, value] : headers) {
    if (key == name) {
      return value;
    }
  }
  return "";
}

absl::Time At(const char* text) {
  absl::Time time;
  std::string error;
  EXPECT_TRUE(absl::ParseTime(absl::RFC3339_full, text, &time, &error)) << error;
  return time;
}

HeaderList SignVector(const Vector& vector, const std::string& token = "") {
  RequestToSign request{.method = vector.method,
                        .target = vector.target,
                        .headers = vector.headers,
                        .sha256_hex = Sha256Hex(vector.body)};
  request.headers.insert(request.headers.begin(), {"Host", "example.amazonaws.com"});
  return SignRequest(request, {"AKIDEXAMPLE", Secret(kSecretKey), Secret(token)},
                     {At("2015-08-30T12:36:00Z"), "us-east-1", "service"});
}

// The test suite that AWS publishes with its description of the signature.
const Vector kPublishedSuite[] = {
    {"get-vanilla",
     "GET",
     "/",
     {},
     "",
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {"get-vanilla-query-order-key-case",
     "GET",
     "/?Param2=value2&Param1=value1",
     {},
     "",
     "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
    {"get-vanilla-utf8-query",
     "GET",
     "/?%E1%88%B4=bar",
     {},
     "",
     "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
    {"get-unreserved",
     "GET",
     std::string("/") + kUnreserved,
     {},
     "",
     "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
    {"get-utf8",
     "GET",
     "/%E1%88%B4",
     {},
     "",
     "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
    {"get-vanilla-query-unreserved",
     "GET",
     std::string("/?") + kUnreserved + "=" + kUnreserved,
     {},
     "",
     "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
    {"get-vanilla-empty-query-key",
     "GET",
     "/?Param1=value1",
     {},
     "",
     "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
    {"post-vanilla",
     "POST",
     "/",
     {},
     "",
     "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
    {"post-vanilla-query",
     "POST",
     "/?Param1=value1",
     {},
     "",
     "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"},
    {"get-header-value-trim",
     "GET",
     "/",
     {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}},
     "",
     "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
    {"get-header-value-order",
     "GET",
     "/",
     {{"My-Header1", "value4"},
      {"My-Header1", "value1"},
      {"My-Header1", "value3"},
      {"My-Header1", "value2"}},
     "",
     "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01"},
    {"post-header-key-sort",
     "POST",
     "/",
     {{"My-Header1", "value1"}},
     "",
     "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
    {"post-x-www-form-urlencoded",
     "POST",
     "/",
     {{"Content-Type", "application/x-www-form-urlencoded"}},
     "Param1=value1",
     "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
};

TEST(S3SignerTest, AgreesWithThePublishedSuite) {
  for (const Vector& vector : kPublishedSuite) {
    const HeaderList added = SignVector(vector);
    EXPECT_THAT(Header(added, "authorization"),
                EndsWith(std::string(", Signature=") + vector.signature))
        << vector.name;
    EXPECT_EQ(Header(added, "x-amz-date"), "20150830T123600Z");
  }
}

TEST(S3SignerTest, WritesTheWholeHeader) {
  const Vector vector{"get-vanilla", "GET", "/", {}, "", ""};
  EXPECT_EQ(Header(SignVector(vector), "authorization"),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
            "SignedHeaders=host;x-amz-date, "
            "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
}

// post-sts-header-before of the same suite.
TEST(S3SignerTest, SignsTheSessionToken) {
  const std::string token =
      "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSP"
      "fIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT"
      "7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlz"
      "m8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
  const Vector vector{"post-sts-header-before", "POST", "/", {}, "", ""};
  const HeaderList added = SignVector(vector, token);
  EXPECT_EQ(Header(added, "x-amz-security-token"), token);
  EXPECT_THAT(Header(added, "authorization"),
              EndsWith("85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"));
}

// The examples of S3's own documentation.
TEST(S3SignerTest, AgreesWithTheExamplesOfS3) {
  const Vector vectors[] = {
      {"get object",
       "GET",
       "/test.txt",
       {{"Range", "bytes=0-9"}},
       "",
       "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
      {"put object",
       "PUT",
       "/test%24file.text",
       {{"Date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
       "Welcome to Amazon S3.",
       "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
      {"get bucket lifecycle",
       "GET",
       "/?lifecycle",
       {},
       "",
       "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
      {"list objects",
       "GET",
       "/?max-keys=2&prefix=J",
       {},
       "",
       "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
  };
  for (const Vector& vector : vectors) {
    RequestToSign request{.method = vector.method,
                          .target = vector.target,
                          .headers = vector.headers,
                          .sha256_hex = Sha256Hex(vector.body)};
    request.headers.emplace_back("Host", "examplebucket.s3.amazonaws.com");
    request.headers.emplace_back("x-amz-content-sha256", request.sha256_hex);
    const HeaderList added =
        SignRequest(request, {"AKIAIOSFODNN7EXAMPLE", Secret(kS3SecretKey), Secret()},
                    {At("2013-05-24T00:00:00Z"), "us-east-1", "s3"});
    EXPECT_THAT(Header(added, "authorization"), EndsWith(vector.signature)) << vector.name;
  }
}

// RFC 4231, case 2.
TEST(S3SignerTest, HmacAgreesWithItsStandard) {
  EXPECT_EQ(absl::BytesToHexString(AsBytes(HmacSha256("Jefe", "what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(S3SignerTest, SortsHeadersAndQueriesByName) {
  const std::string text =
      CanonicalRequest({.method = "GET",
                        .target = "/k?a-b=1&a=2&a=1&B=",
                        .headers = {{"x-amz-meta-a-b", "1"}, {"X-Amz-Meta-A", "2"}, {"Host", "h"}},
                        .sha256_hex = "hash"});
  EXPECT_EQ(text,
            "GET\n/k\nB=&a=1&a=2&a-b=1\nhost:h\nx-amz-meta-a:2\nx-amz-meta-a-b:1\n\n"
            "host;x-amz-meta-a;x-amz-meta-a-b\nhash");
}

TEST(S3SignerTest, OnlyTheFirstMarkDividesATarget) {
  const auto text = [](const std::string& target) {
    return CanonicalRequest({.method = "GET", .target = target, .headers = {}, .sha256_hex = "h"});
  };
  EXPECT_EQ(text("/k?a=1?b"), "GET\n/k\na=1?b\n\n\nh");
  EXPECT_EQ(text("/k?a=1=b"), "GET\n/k\na=1=b\n\n\nh");
  EXPECT_EQ(text("/k"), "GET\n/k\n\n\n\nh");
}

TEST(S3SignerTest, EveryPartOfTheRequestCounts) {
  const Vector base{"base", "GET", "/k?a=1", {{"Range", "bytes=0-9"}}, "", ""};
  const std::string signature = Header(SignVector(base), "authorization");
  const Vector others[] = {
      {"method", "PUT", "/k?a=1", {{"Range", "bytes=0-9"}}, "", ""},
      {"path", "GET", "/K?a=1", {{"Range", "bytes=0-9"}}, "", ""},
      {"query", "GET", "/k?a=2", {{"Range", "bytes=0-9"}}, "", ""},
      {"header", "GET", "/k?a=1", {{"Range", "bytes=0-8"}}, "", ""},
      {"body", "GET", "/k?a=1", {{"Range", "bytes=0-9"}}, "x", ""},
  };
  for (const Vector& other : others) {
    EXPECT_NE(Header(SignVector(other), "authorization"), signature) << other.name;
  }
}

TEST(S3SignerTest, SecretsDoNotPrint) {
  std::ostringstream out;
  out << Secret(kSecretKey);
  EXPECT_EQ(out.str(), "***");
  const Vector vector{"get-vanilla", "GET", "/", {}, "", ""};
  for (const auto& [name, value] : SignVector(vector)) {
    EXPECT_THAT(value, Not(HasSubstr(kSecretKey)));
  }
}

}  // namespace
}  // namespace csidelta::storage::s3_signer_test
