#include "incremental/sources/differential_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace csidelta::incremental::differential_wire_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::Eq;
using testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

std::string PageOf(absl::string_view blocks, absl::string_view more = "") {
  return absl::StrCat("{\"changeBlockList\":[", blocks, "],\"volumeSize\":1048576", more, "}");
}

DifferentialPage PageWith(std::vector<Extent> extents, int64_t volume_size_bytes = 1000) {
  DifferentialPage page;
  page.volume_size_bytes = volume_size_bytes;
  for (const Extent& extent : extents) {
    page.blocks.push_back({.extent = extent});
  }
  return page;
}

std::vector<Extent> ExtentsOf(const DifferentialPage& page) {
  std::vector<Extent> extents;
  for (const ChangedBlock& block : page.blocks) {
    extents.push_back(block.extent);
  }
  return extents;
}

void ExpectRefused(const std::string& json, const std::string& reason) {
  EXPECT_THAT(ParsePage(json), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(reason)))
      << json.substr(0, 200);
}

TEST(DifferentialPageTest, IsWrittenAsPromised) {
  DifferentialPage page;
  page.blocks = {{.extent = {0, 65536}},
                 {.extent = {1048576, 4096}, .zero_out = true},
                 {.extent = {2097152, 512}, .context = std::string("\0\xff!", 3)}};
  page.next_offset = "o:2097664";
  page.volume_size_bytes = 1073741824;
  page.expires_at = absl::FromUnixSeconds(1'800'000'000);
  EXPECT_EQ(EncodePage(page),
            R"({"changeBlockList":[{"offset":0,"size":65536},)"
            R"({"offset":1048576,"size":4096,"zeroOut":true},)"
            R"({"offset":2097152,"size":512,"context":"AP8h"}],)"
            R"("nextOffset":"o:2097664","volumeSize":1073741824,"timeout":1800000000})");
  EXPECT_THAT(ParsePage(EncodePage(page)), IsOkAndHolds(Eq(page)));
}

TEST(DifferentialPageTest, AnEmptyOneIsAnAnswer) {
  DifferentialPage page;
  page.volume_size_bytes = 4096;
  EXPECT_EQ(EncodePage(page), R"({"changeBlockList":[],"volumeSize":4096,"timeout":0})");
  EXPECT_THAT(ParsePage(EncodePage(page)), IsOkAndHolds(Eq(page)));
}

TEST(DifferentialPageTest, NumbersArePlainOrText) {
  const std::string block = absl::StrCat(R"({"offset":")", kMax - 1, R"(","size" : 1 })");
  const auto page = ParsePage(PageOf(block));
  ASSERT_THAT(page, IsOk());
  EXPECT_EQ(page->blocks.front().extent, (Extent{kMax - 1, 1}));
}

TEST(DifferentialPageTest, NumbersThatAreNoneOrTooLargeAreRefused) {
  for (const char* number : {"9223372036854775808",
                             "18446744073709551616",
                             "-1",
                             "-0",
                             "1.0",
                             "1e3",
                             "1E3",
                             "01",
                             "+1",
                             "0x10",
                             "true",
                             "null",
                             "\"\"",
                             "\"-1\"",
                             "\"01\"",
                             "\" 1\"",
                             "\"1.0\"",
                             "\"9223372036854775808\"",
                             "[]",
                             "{}",
                             ""}) {
    ExpectRefused(PageOf(absl::StrCat(R"({"offset":)", number, R"(,"size":1})")), "JSON at byte");
    ExpectRefused(absl::StrCat(R"({"changeBlockList":[],"volumeSize":)", number, "}"),
                  "JSON at byte");
  }
}

TEST(DifferentialPageTest, AMemberThatStandsThereTwiceIsRefused) {
  ExpectRefused(PageOf(R"({"offset":0,"size":1,"offset":2})"), "\"offset\" stands here twice");
  ExpectRefused(PageOf(R"({"offset":0,"size":1,"x":1,"x":2})"), "\"x\" stands here twice");
  ExpectRefused(PageOf("", R"(,"volumeSize":1)"), "\"volumeSize\" stands here twice");
  ExpectRefused(PageOf("", R"(,"next\u004fffset":"a","nextOffset":"b")"), "stands here twice");
}

TEST(DifferentialPageTest, UnknownMembersAreIgnored) {
  const auto page =
      ParsePage(PageOf(R"({"size":5,"note":[{"a":1},null,"x"],"offset":1,"zeroOut":false})",
                       R"(,"blockSize":512,"more":{"nextOffset":"no"})"));
  ASSERT_THAT(page, IsOk());
  EXPECT_EQ(*page, PageWith({{1, 5}}, 1048576));
}

TEST(DifferentialPageTest, AbsentNullAndEmptyEndTheList) {
  for (const char* more : {"", R"(,"nextOffset":null)", R"(,"nextOffset":"")"}) {
    const auto page = ParsePage(PageOf("", more));
    ASSERT_THAT(page, IsOk()) << more;
    EXPECT_EQ(page->next_offset, "");
  }
  EXPECT_EQ(ParsePage(PageOf("", R"(,"nextOffset":"0")"))->next_offset, "0");
}

TEST(DifferentialPageTest, AnAnswerThatIsNoPageIsAnError) {
  ExpectRefused("{}", "page without");
  ExpectRefused(R"({"code":"Internal","message":"x"})", "page without");
  ExpectRefused(R"({"changeBlockList":[]})", "page without");
  ExpectRefused(R"({"volumeSize":1})", "page without");
  ExpectRefused(R"({"changeBlockList":null,"volumeSize":1})", "JSON at byte");
  ExpectRefused("", "JSON at byte 0");
  ExpectRefused("[]", "JSON at byte 0");
  ExpectRefused(PageOf("") + "{}", "something follows");
  ExpectRefused(PageOf("").substr(0, 30), "JSON at byte");
}

TEST(DifferentialPageTest, BlocksThatAreNoneAreRefused) {
  ExpectRefused(PageOf(R"({"offset":1})"), "without offset or size");
  ExpectRefused(PageOf(R"({"size":1})"), "without offset or size");
  ExpectRefused(PageOf(R"({"offset":1,"size":0})"), "is empty or overflows");
  ExpectRefused(PageOf(absl::StrCat(R"({"offset":1,"size":)", kMax, "}")), "is empty or overflows");
  ExpectRefused(PageOf("null"), "expected {");
  ExpectRefused(PageOf(R"({"offset":1,"size":1,"zeroOut":"true"})"), "expected true or false");
  ExpectRefused(PageOf(R"({"offset":1,"size":1,"context":"%%%"})"), "no base64");
  ExpectRefused(PageOf(R"({"offset":1,"size":1,"context":7})"), "JSON at byte");
}

TEST(DifferentialPageTest, ATimeoutIsAnInstant) {
  EXPECT_EQ(ParsePage(PageOf("", R"(,"timeout":1800000000)"))->expires_at,
            absl::FromUnixSeconds(1'800'000'000));
  for (const char* none : {"0", "3600", "999999999", "9223372036854775807", "null"}) {
    EXPECT_EQ(ParsePage(PageOf("", absl::StrCat(R"(,"timeout":)", none)))->expires_at,
              absl::InfiniteFuture())
        << none;
  }
}

TEST(DifferentialPageTest, EverythingHasALimit) {
  std::string blocks;
  for (int64_t i = 0; i < kPageEntriesMax; ++i) {
    absl::StrAppend(&blocks, i == 0 ? "" : ",", R"({"offset":)", 2 * i, R"(,"size":1})");
  }
  const auto full = ParsePage(PageOf(blocks));
  ASSERT_THAT(full, IsOk());
  EXPECT_EQ(std::ssize(full->blocks), kPageEntriesMax);
  ExpectRefused(PageOf(blocks + R"(,{"offset":1000000,"size":1})"), "more than 65536 blocks");

  const std::string cursor(kPageCursorBytesMax, 'c');
  EXPECT_EQ(ParsePage(PageOf("", absl::StrCat(R"(,"nextOffset":")", cursor, "\"")))->next_offset,
            cursor);
  ExpectRefused(PageOf("", absl::StrCat(R"(,"nextOffset":"c)", cursor, "\"")), "longer than 4096");
  ExpectRefused(PageOf("", ",\"nextOffset\":\"\xff\""), "not UTF-8");

  const std::string long_context = absl::Base64Escape(std::string(kBlockContextBytesMax + 1, 'x'));
  ExpectRefused(PageOf(absl::StrCat(R"({"offset":1,"size":1,"context":")", long_context, "\"}")),
                "longer than 4096");
  std::string members;
  for (int i = 0; i < 65; ++i) {
    absl::StrAppend(&members, ",\"m", i, "\":0");
  }
  ExpectRefused(PageOf("", members), "too many members");
  ExpectRefused(PageOf("", absl::StrCat(",\"deep\":", std::string(100, '['))), "nested too deep");
  ExpectRefused(std::string(kPageTextBytesMax + 1, ' '), "a page of more than");
}

TEST(CheckBlocksTest, TakesWhatAscends) {
  DifferentialPage page = PageWith({{0, 10}, {10, 5}, {900, 100}});
  const DifferentialPage same = page;
  EXPECT_THAT(CheckBlocks(0, page.volume_size_bytes, page.blocks), IsOk());
  EXPECT_EQ(page, same);
  DifferentialPage none = PageWith({});
  EXPECT_THAT(CheckBlocks(500, none.volume_size_bytes, none.blocks), IsOk());
}

TEST(CheckBlocksTest, CutsOffWhatWasRoundedOutwards) {
  DifferentialPage page = PageWith({{0, 512}, {896, 512}});
  EXPECT_THAT(CheckBlocks(100, page.volume_size_bytes, page.blocks), IsOk());
  EXPECT_EQ(ExtentsOf(page), (std::vector<Extent>{{100, 412}, {896, 104}}));
}

TEST(CheckBlocksTest, RefusesDisorder) {
  struct Case {
    std::vector<Extent> extents;
    int64_t from_bytes;
    const char* names;
  };
  const Case cases[] = {
      {{{10, 10}, {19, 5}}, 0, "[19, 24)"},
      {{{10, 10}, {0, 5}}, 0, "[0, 5)"},
      {{{10, 10}, {10, 10}}, 0, "[10, 20)"},
      {{{10, 10}}, 20, "[10, 20)"},
      {{{1000, 1}}, 0, "[1000, 1001)"},
      {{{990, 20}, {995, 5}}, 0, "[990, 1010)"},
      {{{0, 5}, {2000, 1}}, 0, "[2000, 2001)"},
      {{{40, 5000}}, 4096, "[40, 5040)"}};  // It begins past the end of the volume.
  for (const Case& item : cases) {
    DifferentialPage page = PageWith(item.extents);
    EXPECT_THAT(CheckBlocks(item.from_bytes, page.volume_size_bytes, page.blocks),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(item.names)));
  }
  DifferentialPage overflow = PageWith({{kMax, kMax}});
  EXPECT_THAT(CheckBlocks(0, overflow.volume_size_bytes, overflow.blocks),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(DifferentialErrorTest, EveryCodeComesBack) {
  for (int i = 0; i <= static_cast<int>(DifferentialErrorCode::kDeadlineExceeded); ++i) {
    const DifferentialError error{.code = static_cast<DifferentialErrorCode>(i),
                                  .message = "a \"reason\""};
    EXPECT_EQ(ParseError(HttpStatusOf(error.code), EncodeError(error)), error)
        << ErrorName(error.code);
  }
}

TEST(DifferentialErrorTest, IsWrittenAsPromised) {
  EXPECT_EQ(EncodeError({.code = DifferentialErrorCode::kInvalidOffset, .message = "no"}),
            R"({"code":"InvalidOffset","message":"no"})");
  EXPECT_EQ(HttpStatusOf(DifferentialErrorCode::kInvalidOffset), 400);
  EXPECT_EQ(HttpStatusOf(DifferentialErrorCode::kDriverContractViolation), 502);
}

TEST(DifferentialErrorTest, TheStatusSpeaksWhereTheBodyDoesNot) {
  EXPECT_EQ(ParseError(410, "<html>").code, DifferentialErrorCode::kResultExpired);
  EXPECT_EQ(ParseError(410, "<html>").message, "HTTP status 410");
  EXPECT_EQ(ParseError(503, R"({"code":"NotSynced"})").code, DifferentialErrorCode::kNotSynced);
  EXPECT_EQ(ParseError(503, R"({"code":"PermissionDenied"})").code,
            DifferentialErrorCode::kUnavailable);
  EXPECT_EQ(ParseError(418, "").code, DifferentialErrorCode::kInvalidArgument);
  EXPECT_EQ(ParseError(599, "").code, DifferentialErrorCode::kInternal);
  EXPECT_EQ(ParseError(302, "").code, DifferentialErrorCode::kInternal);
  EXPECT_EQ(ParseError(500, EncodeError({.code = DifferentialErrorCode::kInternal,
                                         .message = std::string(5000, 'x')}))
                .message.size(),
            1024U);
}

}  // namespace
}  // namespace csidelta::incremental::differential_wire_test
