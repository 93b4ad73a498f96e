// docs/full-backups.md has a row for each reason, word for word.

#include "incremental/mover/full_reason.h"

#include <cstddef>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/paths.h"

namespace csidelta::incremental::full_reason_test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

TEST(FullReasonTest, EachIsDocumented) {
  const std::string document = support::ReadSource("docs/full-backups.md");
  ASSERT_GE(FullReasons().size(), 13u);
  for (const FullReasonText& text : FullReasons()) {
    EXPECT_THAT(document, HasSubstr(absl::StrCat("| `", text.name, "` | ", text.label, " | ",
                                                 text.is_fallback ? "yes" : "no", " | ",
                                                 text.sentence, " | ", text.next_step, " |\n")));
  }
}

TEST(FullReasonTest, EachHasItsPlaceAndItsOwnName) {
  std::set<absl::string_view> names;
  for (std::size_t i = 0; i < FullReasons().size(); ++i) {
    const FullReasonText& text = FullReasons()[i];
    EXPECT_EQ(static_cast<std::size_t>(text.reason), i);
    EXPECT_EQ(TextOf(text.reason).name, text.name);
    EXPECT_TRUE(names.insert(text.name).second) << text.name;
  }
}

TEST(FullReasonTest, EachHasALabelThatFitsATable) {
  std::set<std::string> labels;
  for (const FullReasonText& text : FullReasons()) {
    const std::string label = LabelOf(text.name);
    EXPECT_NE(label, text.name);
    EXPECT_LE(label.size(), 13u) << label;
    EXPECT_TRUE(labels.insert(label).second) << label;
  }
  EXPECT_EQ(LabelOf("of-a-later-version"), "of-a-later-version");
  EXPECT_EQ(LabelOf(""), "");
}

TEST(FullReasonTest, SaysWhatAndWhatNext) {
  EXPECT_EQ(ToString({FullReason::kNoParent, ""}), "no-parent");
  const WhyFull why = {FullReason::kParentDamaged, "pack 6e0ca2f1 is gone"};
  EXPECT_EQ(ToString(why), "parent-damaged: pack 6e0ca2f1 is gone");
  EXPECT_THAT(Explain(why),
              ContainsRegex("parent-damaged.*\\(pack 6e0ca2f1 is gone\\).*csi-delta check"));
}

}  // namespace
}  // namespace csidelta::incremental::full_reason_test
