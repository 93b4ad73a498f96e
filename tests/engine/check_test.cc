#include "engine/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/repository/maintenance_fixture.h"

namespace csidelta::engine::check_test {
namespace {

using repository::CheckRepository;
using repository::Finding;
using support::IsOk;
using support::StatusIs;

using ConfirmLostTest = repository::MaintenanceFixture;

// Found by the storm: one tree was read wrong by the first check, and another by the second.
TEST_F(ConfirmLostTest, OnlyTheSameDamageIsConfirmed) {
  BackUp(Image({1, 2, 3}));
  for (const std::string& pack : KeysBelow("data/")) {
    store_.RemoveObject(pack);
  }
  auto first = CheckRepository(ctx_, *Open(), {});
  ASSERT_THAT(first, IsOk());
  ASSERT_EQ(first->lost_volumes.size(), 1U);
  EXPECT_THAT(ConfirmLost(ctx_, *Open(), {}, *first), IsOk());

  std::find_if(first->findings.begin(), first->findings.end(), [](const Finding& finding) {
    return finding.is_error;
  })->detail = "is another one";
  EXPECT_THAT(ConfirmLost(ctx_, *Open(), {}, *first),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::HasSubstr("two readings found different damage, once: ")));
}

}  // namespace
}  // namespace csidelta::engine::check_test
