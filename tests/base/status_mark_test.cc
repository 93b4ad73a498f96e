
#include <gtest/gtest.h>

#include "base/status_macros.h"

namespace csidelta {
namespace {

constexpr StatusMark kOne("csi-delta/one");
constexpr StatusMark kOther("csi-delta/other");

TEST(StatusMarkTest, StaysOnAnAnnotatedStatusAndIsNoOtherMark) {
  const absl::Status plain = absl::NotFoundError("no such key");
  const absl::Status marked = Annotate(kOne.On(plain), "get a");
  EXPECT_EQ(marked.message(), "get a: no such key");
  EXPECT_TRUE(absl::IsNotFound(marked));
  EXPECT_TRUE(kOne.IsOn(marked));
  EXPECT_FALSE(kOther.IsOn(marked));
  EXPECT_FALSE(kOne.IsOn(plain));
}

TEST(StatusMarkTest, SeveralMarksAreOnOneStatus) {
  const absl::Status marked = kOther.On(kOne.On(absl::InternalError("broken")));
  EXPECT_TRUE(kOne.IsOn(marked));
  EXPECT_TRUE(kOther.IsOn(marked));
}

TEST(StatusMarkTest, AnOkStatusHasNone) { EXPECT_FALSE(kOne.IsOn(kOne.On(absl::OkStatus()))); }

}  // namespace
}  // namespace csidelta
