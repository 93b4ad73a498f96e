#include "repository/tree_locator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository {
namespace {

using support::IsOk;
using support::StatusIs;

BlobLocation Place(int number) {
  return {.pack = Id::Of(absl::StrCat("pack ", number % 3)),
          .span = {.offset_bytes = static_cast<uint32_t>(number),
                   .sealed_bytes = 100,
                   .uncompressed_bytes = static_cast<uint32_t>(number % 2)}};
}

TreeLocator TestLocator(int count) {
  TreeLocator locator;
  for (int i = 0; i < count; ++i) {
    locator.Add(Id::Of(absl::StrCat("tree ", i)), Place(i));
  }
  return locator;
}

TEST(TreeLocatorTest, ComesBack) {
  for (const int count : {0, 1, 1000}) {
    const std::string text = TestLocator(count).Encode();
    const absl::StatusOr<TreeLocator> read = TreeLocator::Decode(text);
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(read->size(), static_cast<std::size_t>(count));
    EXPECT_EQ(read->Encode(), text);
    BlobLocation location;
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(read->Find(Id::Of(absl::StrCat("tree ", i)), location));
      EXPECT_EQ(location, Place(i));
    }
    EXPECT_FALSE(read->Find(Id::Of("other"), location));
  }
}

TEST(TreeLocatorTest, KeepsOnlyWhatIsNamed) {
  TreeLocator locator = TestLocator(10);
  const Id kept = Id::Of("tree 3");
  locator.KeepOnly([&](const BlobId& tree) { return tree == kept; });
  EXPECT_EQ(locator.size(), 1U);
  BlobLocation location;
  EXPECT_TRUE(locator.Find(kept, location));
}

TEST(TreeLocatorTest, RefusesWhatIsMalformed) {
  const std::string good = TestLocator(4).Encode();
  const auto malformed = StatusIs(absl::StatusCode::kInvalidArgument);
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_THAT(TreeLocator::Decode(good.substr(0, length)), malformed) << length;
  }
  EXPECT_THAT(TreeLocator::Decode(good + "x"), malformed);
  // Magic, version, counts; then the ordinal of the first place's pack and its length.
  const std::size_t first_place = 16 + 3 * 32;
  for (const std::size_t at : {std::size_t{0}, std::size_t{4}, std::size_t{8}, std::size_t{11},
                               std::size_t{12}, std::size_t{15}, first_place + 32}) {
    std::string text = good;
    text[at] = static_cast<char>(0x7F);
    EXPECT_THAT(TreeLocator::Decode(text), malformed) << at;
  }
  std::string no_length = good;
  no_length[first_place + 32 + 8] = 31;
  EXPECT_THAT(TreeLocator::Decode(no_length), malformed);
}

}  // namespace
}  // namespace csidelta::repository
