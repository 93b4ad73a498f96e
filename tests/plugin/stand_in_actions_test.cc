#include "plugin/stand_in_actions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace csidelta::plugin::stand_in_actions_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::ElementsAre;

void ExpectNoItem(const velero::ResourceSelector& selector) {
  EXPECT_THAT(selector.included_resources, ElementsAre("persistentvolumeclaims"));
  EXPECT_EQ(selector.label_selector, "velero.io/csi-delta,!velero.io/csi-delta");
}

const objects::Object kNobody;
const Json kPodJson = {{"kind", "Pod"}};
const objects::Object kPod(kPodJson);

TEST(StandInActionsTest, ABackupHasNoItemAndNoOperation) {
  const auto action = MakeStandInBackupAction();
  const CallContext ctx;
  ExpectNoItem(action->AppliesTo());
  const auto result = action->Execute(ctx, kPod, kNobody);
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->item.has_value());
  EXPECT_EQ(result->operation_id, "");
  EXPECT_THAT(action->Progress(ctx, "op", kNobody), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(action->Cancel(ctx, "op", kNobody), StatusIs(absl::StatusCode::kNotFound));
}

TEST(StandInActionsTest, ARestoreHasNoItemAndNoOperation) {
  const auto action = MakeStandInRestoreAction();
  const CallContext ctx;
  ExpectNoItem(action->AppliesTo());
  const auto result = action->Execute(ctx, kPod, kPod, kNobody);
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->item.has_value());
  EXPECT_FALSE(result->skip_restore);
  EXPECT_EQ(result->operation_id, "");
  EXPECT_THAT(action->Progress(ctx, "op", kNobody), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(action->Cancel(ctx, "op", kNobody), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(action->AreAdditionalItemsReady(ctx, {}, kNobody), IsOkAndHolds(true));
}

}  // namespace
}  // namespace csidelta::plugin::stand_in_actions_test
