#include "repository/blob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace csidelta::repository::blob_test {
namespace {

using support::IsOkAndHolds;
using support::StatusIs;

constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(IdTest, IsTheHashAndItsDigits) {
  EXPECT_EQ(Id::Of("abc").Hex(), kAbc);
  EXPECT_EQ(Id::Of("abc").ShortHex(), "ba7816bf");
  EXPECT_THAT(Id::Parse(kAbc), IsOkAndHolds(Id::Of("abc")));
  EXPECT_TRUE(Id().IsNull());
  EXPECT_FALSE(Id::Of("").IsNull());
  EXPECT_LT(Id(), Id::Of("abc"));
  EXPECT_EQ(Id::OfTwo("abc", "def"), std::make_pair(Id::Of("abc"), Id::Of("def")));
}

TEST(IdTest, OnlyLowerCaseDigitsParse) {
  for (std::size_t at = 0; at < Id::kHexDigits; ++at) {
    for (const char c : {'g', 'A', 'F', ' ', '/', ':', '`', '\0', '\xFF'}) {
      std::string text = kAbc;
      text[at] = c;
      EXPECT_THAT(Id::Parse(text), StatusIs(absl::StatusCode::kInvalidArgument)) << at;
    }
  }
  for (const std::string& text : {std::string(), std::string(kAbc) + "0", std::string(kAbc, 63)}) {
    EXPECT_THAT(Id::Parse(text), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST(BlobTest, PlaintextLengths) {
  EXPECT_EQ((BlobSpan{.offset_bytes = 0, .sealed_bytes = 132}).plaintext_bytes(), 100U);
  EXPECT_EQ((BlobSpan{.offset_bytes = 0, .sealed_bytes = 32}).plaintext_bytes(), 0U);
  EXPECT_EQ((BlobSpan{.offset_bytes = 0, .sealed_bytes = 31}).plaintext_bytes(), 0U);
  EXPECT_EQ((BlobSpan{.sealed_bytes = 132, .uncompressed_bytes = 7}).plaintext_bytes(), 7U);
  EXPECT_EQ(Describe({.type = BlobType::kTree, .id = Id::Of("abc")}), "tree blob ba7816bf");
}

}  // namespace
}  // namespace csidelta::repository::blob_test
