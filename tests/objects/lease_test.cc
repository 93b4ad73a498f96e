#include "objects/core.h"

#include <gtest/gtest.h>

namespace csidelta::objects::lease_test {
namespace {

TEST(LeaseTest, IsHeldAndRenewedInMicroseconds) {
  const absl::Time begin = absl::FromUnixSeconds(1'700'000'000);
  Lease lease = *Lease::Of({{"spec", {{"leaseTransitions", 3}}}});
  EXPECT_EQ(lease.renewed_at(), std::nullopt);
  lease.Acquire("a", absl::Seconds(20), begin);
  EXPECT_EQ(lease.holder(), "a");
  EXPECT_EQ(lease.renewed_at(), begin);
  lease.Renew(begin + absl::Seconds(8));
  EXPECT_EQ(lease.json(), (Json{{"spec",
                                 {{"holderIdentity", "a"},
                                  {"leaseDurationSeconds", 20},
                                  {"acquireTime", "2023-11-14T22:13:20.000000Z"},
                                  {"renewTime", "2023-11-14T22:13:28.000000Z"}}}}));
}

}  // namespace
}  // namespace csidelta::objects::lease_test
