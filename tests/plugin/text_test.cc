#include "plugin/convert.h"

#include <gtest/gtest.h>

#include <string>

namespace csidelta::plugin::text_test {
namespace {

struct Utf8Case {
  const char* name;
  std::string in, want;
};

class ToUtf8Test : public testing::TestWithParam<Utf8Case> {};

TEST_P(ToUtf8Test, LeavesOnlyWellFormedText) {
  EXPECT_EQ(ToUtf8(GetParam().in), GetParam().want);
  EXPECT_EQ(ToUtf8(GetParam().want), GetParam().want);
}

const Utf8Case kUtf8Cases[] = {
    {"Empty", "", ""},
    {"Ascii", "a b\n", "a b\n"},
    {"Zero", std::string("\0", 1), std::string("\0", 1)},
    {"TwoThreeFour", "ä€😀", "ä€😀"},
    {"LoneLead", "a\xC3", "a�"},
    {"LoneTrail", "\x80z", "�z"},
    {"Overlong", "\xC0\xAF", "��"},
    {"OverlongThree", "\xE0\x80\x80", "���"},
    {"OverlongFour", "\xF0\x80\x80\x80", "����"},
    {"Surrogate", "\xED\xA0\x80", "���"},
    {"AboveUnicode", "\xF4\x90\x80\x80", "����"},
    {"NeverLegal", "\xFE\xFF", "��"},
    {"CutInTheMiddle", "\xE2\x82", "��"},
    {"GoodAfterBad", "\xFFä", "�ä"},
};
INSTANTIATE_TEST_SUITE_P(Table, ToUtf8Test, testing::ValuesIn(kUtf8Cases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ToErrorTextTest, ShortTextStays) { EXPECT_EQ(ToErrorText("boom"), "boom"); }

TEST(ToErrorTextTest, LongTextIsCutBetweenCharacters) {
  for (std::size_t shift = 0; shift < 4; ++shift) {
    std::string text(shift, 'a');
    while (text.size() < 2 * kErrorTextBytesMax) {
      text += "😀";
    }
    const std::string cut = ToErrorText(text);
    EXPECT_LE(cut.size(), kErrorTextBytesMax + 3);
    EXPECT_EQ(cut.find("�"), std::string::npos) << shift;
    EXPECT_EQ(cut.substr(cut.size() - 3), "…");
  }
}

}  // namespace
}  // namespace csidelta::plugin::text_test
