#include "diffsnap/cursor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "incremental/sources/differential_wire.h"
#include "tests/support/status_matchers.h"

namespace csidelta::diffsnap::cursor_test {
namespace {

using support::IsOkAndHolds;
using support::StatusIs;
using testing::Eq;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

class CursorTest : public testing::Test {
 protected:
  void ExpectRefused(const CursorScope& scope, const std::string& text) {
    EXPECT_THAT(codec_.Decode(scope, text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("begin without it")))
        << text;
  }

  const CursorCodec codec_{Secret(std::string(32, 'k'))};
  const CursorScope scope_{
      .namespace_name = "ns", .uid = "11-22", .base_handle = "snap-a", .target_handle = "snap-b"};
  const Cursor cursor_{.from_bytes = 1052672, .volume_size_bytes = 1073741824};
  const Cursor token_{.from_bytes = 4096,
                      .volume_size_bytes = 8192,
                      .expires_at_seconds = 1'800'000'000,
                      .driver_token = std::string("\0page/2?\xff", 9)};
};

TEST_F(CursorTest, ComesBackAsItWentHoweverOften) {
  for (const Cursor& cursor : {cursor_, token_, Cursor{}, Cursor{kMax, kMax, kMax, "t"},
                               Cursor{kMax, kMax, kMax, std::string(kDriverTokenBytesMax, 'x')}}) {
    const std::string text = codec_.Encode(scope_, cursor);
    EXPECT_LE(std::ssize(text), incremental::kPageCursorBytesMax);
    EXPECT_EQ(text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789-_.:"),
              text.npos);
    EXPECT_THAT(codec_.Decode(scope_, text), IsOkAndHolds(Eq(cursor)));
    EXPECT_THAT(codec_.Decode(scope_, text), IsOkAndHolds(Eq(cursor)));
  }
  EXPECT_THAT(codec_.Encode(scope_, cursor_), StartsWith("o:1052672.1073741824.0."));
  EXPECT_THAT(codec_.Encode(scope_, token_), StartsWith("t:"));
}

TEST_F(CursorTest, AnotherServerWithTheKeyUnderstandsIt) {
  const CursorCodec replica{Secret(std::string(32, 'k'))};
  EXPECT_THAT(replica.Decode(scope_, codec_.Encode(scope_, token_)), IsOkAndHolds(Eq(token_)));
}

TEST_F(CursorTest, ANumberOfBytesIsTakenFromAnybody) {
  EXPECT_THAT(codec_.Decode(scope_, "0"), IsOkAndHolds(Eq(Cursor{})));
  EXPECT_THAT(codec_.Decode(scope_, "9223372036854775807"), IsOkAndHolds(Eq(Cursor{kMax})));
  for (const char* text : {"", "-1", "+1", "01", "1 ", "1.5", "1e3", "0x10", "9223372036854775808",
                           "o:0", "o:1052672", "o:1052672.1073741824", "t:", "x:1"}) {
    ExpectRefused(scope_, text);
  }
}

TEST_F(CursorTest, AnObjectMayBeginAtANumberACursorOrATokenOfTheDriver) {
  const std::string own = std::string("\0page/2?\xff", 9);
  const std::pair<std::string, Cursor> cases[] = {
      {"", {}},
      {"0", {}},
      {"007", {.from_bytes = 7}},
      {"9223372036854775807", {.from_bytes = kMax}},
      {codec_.Encode(scope_, cursor_), {.from_bytes = 1052672}},
      {codec_.Encode(scope_, token_),
       {.from_bytes = 4096, .expires_at_seconds = 1'800'000'000, .driver_token = own}},
      {"-1", {.driver_token = "-1"}},
      {"t:", {.driver_token = "t:"}},
      {own, {.driver_token = own}},
      {std::string(kDriverTokenBytesMax, 'x'),
       {.driver_token = std::string(kDriverTokenBytesMax, 'x')}}};
  for (const auto& [text, cursor] : cases) {
    EXPECT_THAT(ParseStartOffset(text), IsOkAndHolds(Eq(cursor))) << text;
  }
  for (const std::string& text :
       {std::string("9223372036854775808"), std::string(kDriverTokenBytesMax + 1, 'x')}) {
    EXPECT_THAT(ParseStartOffset(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST_F(CursorTest, AnotherKeyIsAForgery) {
  const CursorCodec forger{Secret(std::string(32, 'f'))};
  ExpectRefused(scope_, forger.Encode(scope_, cursor_));
}

TEST_F(CursorTest, OfAnotherObjectOrPairIsRefused) {
  const std::string text = codec_.Encode(scope_, cursor_);
  const std::string with_token = codec_.Encode(scope_, token_);
  for (std::string CursorScope::*const field :
       {&CursorScope::namespace_name, &CursorScope::uid, &CursorScope::base_handle,
        &CursorScope::target_handle}) {
    CursorScope other = scope_;
    (other.*field).append("x");
    ExpectRefused(other, text);
    ExpectRefused(other, with_token);
  }
  // The same letters, divided otherwise.
  CursorScope moved = scope_;
  moved.namespace_name = "ns1";
  moved.uid = "1-22";
  ExpectRefused(moved, text);
  CursorScope allocated = scope_;
  allocated.base_handle = "";
  ExpectRefused(allocated, text);
}

TEST_F(CursorTest, NoByteOfItMayChange) {
  for (const Cursor& cursor : {cursor_, token_}) {
    const std::string text = codec_.Encode(scope_, cursor);
    for (std::size_t at = 0; at < text.size(); ++at) {
      for (const char other : {'0', '1', 'A', '.', '=', '\n'}) {
        std::string changed = text;
        changed[at] = other;
        if (changed != text) {
          ExpectRefused(scope_, changed);
        }
      }
      std::string shorter = text;
      shorter.erase(at, 1);
      ExpectRefused(scope_, shorter);
    }
    ExpectRefused(scope_, text + "=");
    ExpectRefused(scope_, text + ".");
    ExpectRefused(scope_, text + std::string(5000, 'A'));
  }
}

}  // namespace
}  // namespace csidelta::diffsnap::cursor_test
