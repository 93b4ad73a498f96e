#include "plugin/placeholder_actions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace csidelta::plugin::placeholder_actions_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using testing::ElementsAre;
using testing::HasSubstr;

void ExpectNoItem(const velero::ResourceSelector& selector) {
  EXPECT_THAT(selector.included_resources, ElementsAre("persistentvolumeclaims"));
  EXPECT_EQ(selector.label_selector, "velero.io/csi-delta,!velero.io/csi-delta");
}

const objects::Object kNoUser;
const Json kPodJson = {{"kind", "Pod"}};
const objects::Object kPod(kPodJson);

TEST(PlaceholderActionsTest, ABackupHasNoItemAndNoOperation) {
  const auto action = MakePlaceholderBackupAction();
  const CallContext ctx;
  ExpectNoItem(action->AppliesTo());
  const auto result = action->Execute(ctx, kPod, kNoUser);
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->item.has_value());
  EXPECT_EQ(result->operation_id, "");
  EXPECT_THAT(action->Progress(ctx, "op", kNoUser)->error, HasSubstr("is not an operation id"));
  EXPECT_THAT(action->Cancel(ctx, "op", kNoUser), IsOk());
}

TEST(PlaceholderActionsTest, ARestoreHasNoItemAndNoOperation) {
  const auto action = MakePlaceholderRestoreAction();
  const CallContext ctx;
  ExpectNoItem(action->AppliesTo());
  const auto result = action->Execute(ctx, kPod, kPod, kNoUser);
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->item.has_value());
  EXPECT_FALSE(result->skip_restore);
  EXPECT_EQ(result->operation_id, "");
  EXPECT_THAT(action->Progress(ctx, "op", kNoUser)->error, HasSubstr("is not an operation id"));
  EXPECT_THAT(action->Cancel(ctx, "op", kNoUser), IsOk());
  EXPECT_THAT(action->AreAdditionalItemsReady(ctx, {}, kNoUser), IsOkAndHolds(true));
}

}  // namespace
}  // namespace csidelta::plugin::placeholder_actions_test
