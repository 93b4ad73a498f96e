#include "storage/object_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/status_macros.h"
#include "tests/support/status_matchers.h"

namespace csidelta::storage::object_rules_test {
namespace {

using support::IsOk;
using support::StatusIs;

TEST(ObjectRulesTest, TakesKeys) {
  const std::string good[] = {"config",
                              "data/00/0123456789abcdef",
                              "aux/v1/run-7/1",
                              "a.b_c-D9",
                              ".hidden",
                              "...",
                              "a/b/c/d",
                              "x-tmp",
                              std::string(200, 'k')};
  for (const std::string& key : good) {
    EXPECT_THAT(CheckKey(key), IsOk()) << key;
    EXPECT_THAT(CheckPrefix(key + "/"), IsOk()) << key;
  }
  EXPECT_THAT(CheckPrefix(""), IsOk());
}

TEST(ObjectRulesTest, BoundsKeys) {
  std::string deep = "a";
  for (int i = 1; i < kKeySegmentsMax; ++i) {
    deep += "/a";
  }
  EXPECT_THAT(CheckKey(deep), IsOk());
  EXPECT_FALSE(CheckKey(deep + "/a").ok());
  std::string wide = std::string(200, 'k');
  for (int i = 0; i < 4; ++i) {
    wide += "/" + std::string(200, 'k');
  }
  EXPECT_THAT(CheckKey(wide), IsOk());
  EXPECT_FALSE(CheckKey(wide + "/" + std::string(100, 'k')).ok());
}

TEST(ObjectRulesTest, KnowsWhatMayHeal) {
  EXPECT_TRUE(MayHeal(absl::UnavailableError("")));
  EXPECT_TRUE(MayHeal(absl::ResourceExhaustedError("throttled")));
  EXPECT_FALSE(MayHeal(absl::OkStatus()));
  EXPECT_FALSE(MayHeal(absl::DataLossError("")));
  EXPECT_FALSE(MayHeal(ObjectTooLarge("key", 5)));
  EXPECT_FALSE(MayHeal(Annotate(ObjectTooLarge("key", 5), "get key")));
}

TEST(ObjectRulesTest, MessagesShowNoControlCharacters) {
  const absl::Status status = CheckKey("a\x1b[31m\nb");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               testing::Not(testing::HasSubstr("\x1b"))));
}

}  // namespace
}  // namespace csidelta::storage::object_rules_test
