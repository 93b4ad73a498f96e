#include "cli/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::text_test {
namespace {

using support::IsOkAndHolds;
using support::StatusIs;
using testing::ElementsAre;

TEST(TextTest, FormatsBytes) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.0 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(int64_t{5} << 40), "5.0 TiB");
}

TEST(TextTest, OneIsSingular) {
  EXPECT_EQ(Counted(0, "pack"), "0 packs");
  EXPECT_EQ(Counted(1, "pack"), "1 pack");
  EXPECT_EQ(Counted(2, "index file"), "2 index files");
}

TEST(TextTest, CutsBetweenCharacters) {
  EXPECT_EQ(CutText("d\xC3\xBCnn", 5), "d\xC3\xBCnn");
  EXPECT_EQ(CutText("d\xC3\xBCnn", 3), "d\xC3\xBC");
  EXPECT_EQ(CutText("d\xC3\xBCnn", 2), "d");
  EXPECT_EQ(CutText("\xC3\xBC", 1), "");
}

TEST(TextTest, FormatsElapsedTime) {
  EXPECT_EQ(FormatElapsed(absl::Milliseconds(420)), "0.42 s");
  EXPECT_EQ(FormatElapsed(absl::Seconds(187)), "3:07");
  EXPECT_EQ(FormatElapsed(absl::Seconds(3753)), "1:02:33");
  EXPECT_EQ(FormatElapsed(absl::InfiniteDuration()), "?");
}

TEST(TextTest, ParsesBytes) {
  EXPECT_THAT(ParseBytes("0"), IsOkAndHolds(0));
  EXPECT_THAT(ParseBytes("4096"), IsOkAndHolds(4096));
  EXPECT_THAT(ParseBytes("4096B"), IsOkAndHolds(4096));
  EXPECT_THAT(ParseBytes("512K"), IsOkAndHolds(512 << 10));
  EXPECT_THAT(ParseBytes("512KiB"), IsOkAndHolds(512 << 10));
  EXPECT_THAT(ParseBytes("1.5g"), IsOkAndHolds(int64_t{3} << 29));
  EXPECT_THAT(ParseBytes("2TiB"), IsOkAndHolds(int64_t{2} << 40));
}

TEST(TextTest, RefusesWhatIsNoNumberOfBytes) {
  for (const char* text : {"", "K", "-1", "1e9", "1 K", "12iB", "12i", "0x10", "1..5K", "nan",
                           "99999P", "10X", "K10"}) {
    EXPECT_THAT(ParseBytes(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(TextTest, ParsesWaits) {
  EXPECT_THAT(ParseWait("0"), IsOkAndHolds(absl::ZeroDuration()));
  EXPECT_THAT(ParseWait("31m"), IsOkAndHolds(absl::Minutes(31)));
  EXPECT_THAT(ParseWait("1h30m"), IsOkAndHolds(absl::Minutes(90)));
  for (const char* text : {"", "31", "-1m", "inf", "soon"}) {
    EXPECT_THAT(ParseWait(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(TextTest, ParsesMoments) {
  const absl::Time expected = absl::FromUnixSeconds(1'795'266'300);
  EXPECT_THAT(ParseMoment("2026-11-21 13:05:00", absl::UTCTimeZone()), IsOkAndHolds(expected));
  EXPECT_THAT(ParseMoment("2026-11-21T14:05:00+01:00", absl::UTCTimeZone()),
              IsOkAndHolds(expected));
  EXPECT_THAT(ParseMoment("yesterday", absl::UTCTimeZone()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TextTest, SplitsACommandLikeAShellWould) {
  EXPECT_THAT(SplitCommand("pass show backup"),
              IsOkAndHolds(ElementsAre("pass", "show", "backup")));
  EXPECT_THAT(SplitCommand("  a   b "), IsOkAndHolds(ElementsAre("a", "b")));
  EXPECT_THAT(SplitCommand("a 'b c' \"d e\""), IsOkAndHolds(ElementsAre("a", "b c", "d e")));
  EXPECT_THAT(SplitCommand("a'b'c"), IsOkAndHolds(ElementsAre("abc")));
  EXPECT_THAT(SplitCommand("a\\ b \"\\\"\" '\\'"), IsOkAndHolds(ElementsAre("a b", "\"", "\\")));
  EXPECT_THAT(SplitCommand("''"), IsOkAndHolds(ElementsAre("")));
}

TEST(TextTest, RefusesCommandsWithoutAnEnd) {
  for (const char* text : {"", "  ", "a 'b", "a \"b"}) {
    EXPECT_THAT(SplitCommand(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(TextTest, WrapsText) {
  EXPECT_EQ(WrapText("", 2, 10), "");
  EXPECT_EQ(WrapText("one two three", 2, 10), "  one two\n  three\n");
  EXPECT_EQ(WrapText("unbreakable", 2, 5), "  unbreakable\n");
  EXPECT_EQ(WrapText("one\ntwo", 0, 80), "one\ntwo\n");
}

TEST(TextTest, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(Printable("plain \xC3\xA9 \xF0\x9F\x92\xBE"), "plain \xC3\xA9 \xF0\x9F\x92\xBE");
  EXPECT_EQ(Printable("\x1B[2J"), "\\u001b[2J");
  EXPECT_EQ(Printable(absl::string_view("a\0b\n\t\x7F", 6)), "a\\u0000b\\u000a\\u0009\\u007f");
  EXPECT_EQ(Printable("\xC2\x9B"
                      "31m"),
            "\\u009b31m");  // One byte of Latin-1: CSI.
  EXPECT_EQ(Printable("\xE2\x80\xAEgpj\xE2\x80\xA8"), "\\u202egpj\\u2028");  // Right to left.
  EXPECT_EQ(Printable("\x9B\xE2\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(PrintableLines("a\tb\nc\r\x1B"), "a\tb\nc\\u000d\\u001b");
  EXPECT_EQ(FormatTable({{"a\nb", "c"}}), "a\\u000ab  c\n");
}

TEST(TextTest, WithoutSecretsMasksWhatMayBeOne) {
  const std::pair<const char*, const char*> cases[] = {
      {"password=hunter2", "password=***"},
      {"the password: hunter2 is wrong", "the password: *** is wrong"},
      {R"({"token":"abc","n":1})", R"({"token":***,"n":1})"},
      {R"({"token": "abc"})", R"({"token": ***})"},
      {"AWS_SECRET_ACCESS_KEY=abc x", "AWS_SECRET_ACCESS_KEY=*** x"},
      {"Authorization: Bearer abc.def, then", "Authorization: Bearer ***, then"},
      {"GET /b/k?X-Amz-Signature=ab&c=d: 403", "GET /b/k?*** 403"},
      {"s3:https://user:pw@host/b", "s3:https://***@host/b"},
      {"id AKIAIOSFODNN7EXAMPLE", "id ***"},
      {"key wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY.", "key ***"},
      {"eyJhbGciOiJSUzI1NiIsImtpZCI6IjF9.eyJpc3MiOiJrdWJl", "***"}};
  for (const auto& [text, want] : cases) {
    EXPECT_EQ(WithoutSecrets(text), want);
  }
  for (const char* kept :
       {"", "Pod/csi-delta-mover-7d9f8b6c5d-x2x4z was deleted", "PersistentVolumeClaim/data-0",
        "DataUpload/nightly-20261130-x7k2p: 2026-11-30T15:29:23Z",
        "secrets \"cloud-credentials\" is forbidden: cannot get", "get secrets velero/c: not found",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "https://minio.velero.svc:9000/bucket/prefix", "token:\n  name: x\n"}) {
    EXPECT_EQ(WithoutSecrets(kept), kept);
  }
}

TEST(TextTest, FormatsTables) {
  EXPECT_EQ(FormatTable({{"ID", "Name"}, {"1", "one"}, {"20", ""}}), "ID  Name\n1   one\n20\n");
}

TEST(TextTest, TheWidestColumnsOfATableThatIsTooWideFollowBelowTheirRow) {
  const std::vector<std::vector<std::string>> rows = {
      {"ID", "Why", "Size"}, {"1", "it was the first", "5 MiB"}, {"2", "", "1 KiB"}};
  EXPECT_EQ(
      FormatTable(rows, 27),
      "ID  Why               Size\n1   it was the first  5 MiB\n2                     1 KiB\n");
  EXPECT_EQ(FormatTable(rows, 20),
            "ID  Size\n1   5 MiB\n    Why: it was the\n    first\n2   1 KiB\n");
  EXPECT_EQ(FormatTable({{"ID", "B"}, {"longer", "b"}}, 5), "ID\nlonger\n    B:\n    b\n");
}

TEST(TextTest, ALongCellWidensNoOtherLine) {
  const std::string longest(kColumnBytesMax, 'x');
  const std::string longer = longest + "y";
  const std::string padding(kColumnBytesMax - 1, ' ');
  EXPECT_EQ(FormatTable({{"a", "b"}, {longer, "c"}}),
            absl::StrCat("a", padding, "  b\n", longer, "  c\n"));
  EXPECT_EQ(FormatTable({{"a", "b"}, {longest, "c"}}),
            absl::StrCat("a", padding, "  b\n", longest, "  c\n"));
}

}  // namespace
}  // namespace csidelta::cli::text_test
