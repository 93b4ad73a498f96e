#include "net/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace csidelta::net::url_test {
namespace {

struct UrlCase {
  const char* text;
  Url want;
};

TEST(ParseUrlTest, TakesUrlsApart) {
  const UrlCase cases[] = {
      {"https://host", {"https", "", "host", 443, "/"}},
      {"HTTP://host/", {"http", "", "host", 80, "/"}},
      {"https://host:6443/base/path?a=b#c", {"https", "", "host", 6443, "/base/path?a=b"}},
      {"https://host?a=b", {"https", "", "host", 443, "/?a=b"}},
      {"https://[fd00::1]:6443/x", {"https", "", "fd00::1", 6443, "/x"}},
      {"https://[::1]", {"https", "", "::1", 443, "/"}},
      {"http://us%40er:p%3Aw@proxy:3128", {"http", "us@er:p:w", "proxy", 3128, "/"}},
      {"https://host:", {"https", "", "host", 443, "/"}},
  };
  for (const UrlCase& test : cases) {
    const absl::StatusOr<Url> url = ParseUrl(test.text);
    ASSERT_THAT(url, support::IsOk()) << test.text;
    EXPECT_EQ(*url, test.want) << test.text;
  }
}

TEST(ParseUrlTest, RefusesWhatIsNoUrl) {
  for (const char* text :
       {"", "host", "host:443", "://host", "https://", "https:///path", "https://:443",
        "ftp://host", "socks5://host", "https://host:0", "https://host:65536", "https://host:x",
        "https://[::1", "https://[::1]x", "https://ho st", "https://host/\r\nX: y", "https://u@"}) {
    EXPECT_THAT(ParseUrl(text), support::StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(ParseUrlTest, DoesNotRepeatPasswords) {
  EXPECT_THAT(ParseUrl("ftp://user:secret@host"),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                testing::Not(testing::HasSubstr("secret"))));
}

TEST(PercentTest, EncodesAndDecodes) {
  EXPECT_EQ(PercentEncode("a b/c=d,e~_-."), "a%20b%2Fc%3Dd%2Ce~_-.");
  EXPECT_EQ(PercentDecode("a%20b%2fc"), "a b/c");
  EXPECT_EQ(PercentDecode("100%"), "100%");
  EXPECT_EQ(PercentDecode("%zz%4"), "%zz%4");
}

TEST(UrlTest, AuthorityPutsBracketsAroundIpv6) {
  EXPECT_EQ((Url{"https", "", "::1", 443, "/"}).Authority(), "[::1]:443");
  EXPECT_EQ((Url{"https", "", "h", 1, "/"}).Authority(), "h:1");
}

TEST(UrlTest, TheHostHeaderLeavesImpliedPortsOut) {
  EXPECT_EQ((Url{"https", "", "::1", 443, "/"}).HostHeader(), "[::1]");
  EXPECT_EQ((Url{"http", "", "h", 80, "/"}).HostHeader(), "h");
  EXPECT_EQ((Url{"http", "", "h", 443, "/"}).HostHeader(), "h:443");
  EXPECT_EQ((Url{"https", "", "h", 9000, "/"}).HostHeader(), "h:9000");
}

}  // namespace
}  // namespace csidelta::net::url_test
