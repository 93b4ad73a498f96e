#include "velero/labels.h"

#include <gtest/gtest.h>

#include <string>

namespace csidelta::velero::labels_test {
namespace {

TEST(ValidLabelValueTest, KeepsWhatFits) {
  EXPECT_EQ(ValidLabelValue(""), "");
  EXPECT_EQ(ValidLabelValue("nightly"), "nightly");
  EXPECT_EQ(ValidLabelValue(std::string(63, 'a')), std::string(63, 'a'));
}

TEST(ValidLabelValueTest, CutsAndHashesWhatDoesNot) {
  // sha256 of 64 times "a" begins with ffe054.
  EXPECT_EQ(ValidLabelValue(std::string(64, 'a')), std::string(57, 'a') + "ffe054");
  // The operation id of a data upload: two uids are always too long.
  const std::string id = ValidLabelValue(
      "du-11111111-1111-1111-1111-111111111111.22222222-2222-2222-2222-222222222222");
  EXPECT_EQ(id.size(), kLabelValueBytesMax);
  EXPECT_EQ(id.substr(0, 57), "du-11111111-1111-1111-1111-111111111111.22222222-2222-222");
}

TEST(ValidLabelValueTest, TellsLongNamesApart) {
  const std::string prefix(70, 'b');
  EXPECT_NE(ValidLabelValue(prefix + "1"), ValidLabelValue(prefix + "2"));
  EXPECT_EQ(ValidLabelValue(std::string(1 << 20, 'x')).size(), kLabelValueBytesMax);
}

TEST(RestoredSnapshotNameTest, IsTheHashOfUidAndName) {
  // printf 'uid/velero-data-x' | sha256sum
  EXPECT_EQ(RestoredSnapshotName("uid", "velero-data-x"),
            "57885141405f7bd0b9f312b325ad150774c057047df8575447a0c267591ed64e");
  EXPECT_NE(RestoredSnapshotName("a", "b/c"), RestoredSnapshotName("a/b/c", ""));
}

}  // namespace
}  // namespace csidelta::velero::labels_test
