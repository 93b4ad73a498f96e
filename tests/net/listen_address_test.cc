#include "net/listen_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace csidelta::net::listen_address_test {
namespace {

using support::StatusIs;

TEST(ListenAddressTest, AddressesAreReadWithTheirPorts) {
  EXPECT_EQ(ParseListenAddress("0.0.0.0:8443")->address, "0.0.0.0");
  EXPECT_EQ(ParseListenAddress("0.0.0.0:8443")->port, 8443);
  EXPECT_EQ(ParseListenAddress("[::]:0")->address, "::");
  for (const char* wrong : {"", "8443", ":8443", "host:", "host:65536", "host:-1", "host:x"}) {
    EXPECT_THAT(ParseListenAddress(wrong), StatusIs(absl::StatusCode::kInvalidArgument)) << wrong;
  }
}

}  // namespace
}  // namespace csidelta::net::listen_address_test
