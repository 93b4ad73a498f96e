#include "base/enum_names.h"

#include <gtest/gtest.h>

namespace csidelta::enum_names_test {
namespace {

enum class Fruit { kNone, kApple, kPear };

constexpr EnumNames<Fruit, 2> kFruits = {{{Fruit::kApple, "apple"}, {Fruit::kPear, "pear"}}};

TEST(EnumNamesTest, AValueHasItsNameAndANameItsValue) {
  EXPECT_EQ(EnumName(kFruits, Fruit::kPear), "pear");
  EXPECT_EQ(EnumValue(kFruits, "apple"), Fruit::kApple);
}

TEST(EnumNamesTest, AValueOutsideTheTableHasNoName) {
  EXPECT_EQ(EnumName(kFruits, Fruit::kNone), "");
  for (const char* other : {"", "Apple", "apples"}) {
    EXPECT_EQ(EnumValue(kFruits, other), std::nullopt) << other;
  }
}

}  // namespace
}  // namespace csidelta::enum_names_test
