#include "report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/report/sample_report.h"
#include "tests/support/await.h"
#include "tests/support/memory_growth.h"
#include "tests/support/sanitized.h"

namespace csidelta::report::page_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// A bad night, for one volume in three, each twelve nights.
Report LargeReport(int volumes, int days) {
  Report report = SampleReport(volumes, days);
  for (int i = 0; i < volumes; ++i) {
    for (int day = i % 3; day < days; day += 12) {
      Fail(report.volumes[static_cast<std::size_t>(i)].backups[static_cast<std::size_t>(day)],
           absl::StrCat("volume shop/volume-", 10'000 + i, ": no room"));
    }
  }
  return report;
}

TEST(PageTest, AQuarterOfFiftyVolumesIsSmall) {
  EXPECT_LE(RenderPage(LargeReport(50, 90)).size(), std::size_t{300} << 10);
}

TEST(PageTest, AYearOfManyVolumesIsReadAndDrawnInLittleTimeAndMemory) {
  std::string text;
  WriteJson(LargeReport(500, 400),
            [&](absl::string_view part) { text.append(part.data(), part.size()); });
  const support::MemoryGrowth growth;
  const auto begin = std::chrono::steady_clock::now();
  absl::string_view left = text;
  const absl::StatusOr<Report> report = ReadJson([&]() -> absl::StatusOr<absl::string_view> {
    const absl::string_view part = left.substr(0, std::size_t{64} << 10);
    left.remove_prefix(part.size());
    return part;
  });
  ASSERT_TRUE(report.ok()) << report.status();
  const std::string page = RenderPage(*report);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(page.size(), std::size_t{3} << 20);
  if (support::kSanitizer == nullptr) {
    EXPECT_LE(growth.bytes(), int64_t{256} << 20);
  }
  if (support::AssertsSeconds("500 volumes of 400 days are drawn within 5 s")) {
    EXPECT_LE(took.count(), 5.0);
  }
}

TEST(PageTest, LoadsAndRunsNothing) {
  const std::string page = RenderPage(LargeReport(2, 10));
  for (const char* other : {"<script", "<link", "<img", "<iframe", "http:", "https:", "url(",
                            "@import", "src=", "javascript"}) {
    EXPECT_THAT(page, Not(HasSubstr(other)));
  }
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy\" content=\"default-src 'none'"));
}

TEST(PageTest, EveryTextFromOutsideIsEscaped) {
  const std::string evil = "</style><script>alert(1)</script>\"'&\x01\xff\u202e";
  Report report = SampleReport(1, 5);
  report.subject = report.notes.emplace_back(evil);
  VolumeEntry& volume = report.volumes[0];
  volume.name = volume.location = volume.finding = volume.next_step = evil;
  for (BackupEntry& backup : volume.backups) {
    backup.backup = backup.snapshot = backup.base = backup.mode = backup.reason = evil;
  }
  Fail(volume.backups[2], evil + "; " + evil);
  volume.backups[2].backup = evil;
  volume.backups[3].state = BackupState::kBroken;
  volume.backups[3].message = evil;
  const std::string page = RenderPage(report);
  for (const char* raw : {"<script", "alert(1)</", "\x01", "\xff", "\u202e", "'&\x01"}) {
    EXPECT_THAT(page, Not(HasSubstr(raw)));
  }
  EXPECT_THAT(page, HasSubstr("&#60;script&#62;alert(1)"));
}

TEST(PageTest, EscapesForContentAndAttributes) {
  EXPECT_EQ(EscapeHtml("a<b>&\"'"), "a&#60;b&#62;&#38;&#34;&#39;");
  EXPECT_EQ(EscapeHtml("\u00e9 \u65e5 \U0001f600"), "\u00e9 \u65e5 \U0001f600");
  EXPECT_EQ(EscapeHtml("\n\x7f\u0085\u200f\u2028\u2066"), "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd");
  EXPECT_EQ(EscapeHtml("\xc3"), "\ufffd");
}

TEST(PageTest, SaysWhatIsWrongBeforeTheCalendar) {
  Report report = SampleReport(3, 10);
  Fail(report.volumes[1].backups[9], "no room; free some");
  const std::string page = RenderPage(report);
  EXPECT_THAT(page, HasSubstr("<h1 class=bad>1 of 3 volumes has no good backup since 29 Nov 2026"));
  EXPECT_LT(page.find("no room"), page.find("<h2>Calendar"));
  EXPECT_THAT(page, HasSubstr("<b>Next:</b> free some"));
  EXPECT_THAT(page, HasSubstr("<span class=n>9 of 10</span><p class=c>"));
  EXPECT_THAT(page, HasSubstr("<dt>Audit<dd>256.0 MiB read again; odds 99.4 %"));
}

TEST(PageTest, NoPictureIsEmpty) {
  Report report = SampleReport(2, 10);
  for (BackupEntry& backup : report.volumes[1].backups) {
    backup.read_bytes.reset();
    backup.stored_bytes = 0;
  }
  const std::string page = RenderPage(report);
  EXPECT_THAT(page, HasSubstr("<b>Read</b> not recorded</figcaption></figure>"));
  EXPECT_THAT(page, Not(HasSubstr("d=\"M0 20V20h11V20z\"")));
  EXPECT_THAT(RenderPage({.made_at = SampleNow(), .since = SampleNow() - absl::Hours(24)}),
              HasSubstr("There is no volume to report on"));
}

}  // namespace
}  // namespace csidelta::report::page_test
