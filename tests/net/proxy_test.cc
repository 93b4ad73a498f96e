#include "net/proxy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "tests/support/status_matchers.h"

namespace csidelta::net::proxy_test {
namespace {

struct NoProxyCase {
  const char* url;
  const char* no_proxy;
  bool goes_direct;
};

TEST(ProxyForTest, HonoursNoProxy) {
  const NoProxyCase cases[] = {
      {"https://api.example.com", "", false},
      {"https://api.example.com", "*", true},
      {"https://api.example.com", "example.com", true},
      {"https://api.example.com", " EXAMPLE.com ,other", true},
      {"https://api.example.com", ".example.com", true},
      {"https://api.example.com", "*.example.com", true},
      {"https://example.com", ".example.com", false},
      {"https://example.com", "example.com", true},
      {"https://badexample.com", "example.com", false},
      {"https://api.example.com:6443", "example.com:6443", true},
      {"https://api.example.com:6443", "example.com:443", false},
      {"https://api.example.com.", "example.com", true},
      {"https://10.1.2.3", "10.0.0.0/8", true},
      {"https://11.1.2.3", "10.0.0.0/8", false},
      {"https://10.1.2.3", "10.1.2.3", true},
      {"https://10.1.2.3:6443", "10.1.2.3:6443", true},
      {"https://10.1.2.3", "10.1.2.4", false},
      {"https://[fd00::1]", "fd00::/8", true},
      {"https://[fd00::1]", "fd00::1", true},
      {"https://[fd00::1]:6443", "[fd00::1]:6443", true},
      {"https://[fd00::1]", "10.0.0.0/8", false},
      {"https://10.1.2.3", "10.0.0.0/33,10.0.0.0/x,/,10.0.0.0/-1", false},
      {"https://localhost", "", true},
      {"https://127.1.2.3", "", true},
      {"https://[::1]", "", true},
      {"http://api.example.com", "", false},
      {"http://api.example.com", "example.com", true},
      {"http://127.0.0.1:9000", "", true},
  };
  for (const NoProxyCase& test : cases) {
    const ProxySettings settings = {.always = "",
                                    .https_proxy = "http://proxy:3128",
                                    .http_proxy = "http://proxy:3129",
                                    .no_proxy = test.no_proxy};
    const absl::StatusOr<std::optional<Url>> proxy = ProxyFor(*ParseUrl(test.url), settings);
    ASSERT_THAT(proxy, support::IsOk());
    EXPECT_EQ(!proxy->has_value(), test.goes_direct) << test.url << " " << test.no_proxy;
    if (proxy->has_value()) {
      EXPECT_EQ((*proxy)->port, absl::StartsWith(test.url, "http://") ? 3129 : 3128) << test.url;
    }
  }
}

TEST(ProxyForTest, TakesTheProxyWithoutAScheme) {
  const auto proxy =
      ProxyFor(*ParseUrl("https://x"), {.always = "", .https_proxy = "proxy:3128", .no_proxy = ""});
  ASSERT_THAT(proxy, support::IsOk());
  EXPECT_EQ((*proxy)->host, "proxy");
  EXPECT_EQ((*proxy)->port, 3128);
}

TEST(ProxyForTest, TheProxyOfTheKubeconfigAlwaysCounts) {
  const auto proxy = ProxyFor(*ParseUrl("http://127.0.0.1"),
                              {.always = "http://p:1", .https_proxy = "", .no_proxy = "*"});
  ASSERT_THAT(proxy, support::IsOk());
  EXPECT_TRUE(proxy->has_value());
}

TEST(ProxyForTest, RefusesProxiesThatItCannotUse) {
  for (const char* text : {"https://proxy", "socks5://proxy:1080", "http://", "http://p:x"}) {
    EXPECT_THAT(
        ProxyFor(*ParseUrl("https://x"), {.always = text, .https_proxy = "", .no_proxy = ""}),
        support::StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("proxy")))
        << text;
  }
}

}  // namespace
}  // namespace csidelta::net::proxy_test
