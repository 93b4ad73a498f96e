#include "report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "tests/report/sample_report.h"
#include "tests/support/status_matchers.h"

namespace csidelta::report::report_test {
namespace {

using support::StatusIs;
using testing::HasSubstr;

std::string Written(const Report& report) {
  std::string text;
  WriteJson(report, [&](absl::string_view part) { text.append(part.data(), part.size()); });
  return text;
}

// In pieces, as of a file.
absl::StatusOr<Report> Read(absl::string_view text, std::size_t piece = 7) {
  const auto more = [&]() -> absl::StatusOr<absl::string_view> {
    const absl::string_view part = text.substr(0, piece);
    text.remove_prefix(part.size());
    return part;
  };
  return ReadJson(more);
}

TEST(ReportTest, IsTheSameAfterItWasWrittenAndRead) {
  Report report = SampleReport(2, 5);
  VolumeEntry& volume = report.volumes[1];
  volume.known_since = report.since;
  volume.verified_at = SampleNow() - absl::Hours(3);
  volume.finding = "pack \"6e\" is damaged\n";
  volume.next_step = "look";
  volume.backups[1].state = BackupState::kBroken;
  volume.backups[2].changed_bytes.reset();
  Fail(volume.backups[3], "no room \xc3\xa9");
  report.notes = {"not read: x"};
  const std::string text = Written(report);
  const Json json = *ParseJsonObject(text);
  EXPECT_EQ(json["summary"]["headline"], "1 backup cannot be restored; newer ones can");
  EXPECT_EQ(json["volumes"][1]["backups"][3]["message"], "no room \xc3\xa9");
  EXPECT_FALSE(json["volumes"][1]["backups"][2].contains("changed_bytes"));
  for (const std::size_t piece : {std::size_t{1}, std::size_t{64} << 10}) {
    const absl::StatusOr<Report> read = Read(text, piece);
    ASSERT_THAT(read.status(), support::IsOk());
    EXPECT_EQ(Written(*read), text);
  }
}

struct HostileCase {
  const char* name;
  std::string text;
  const char* error;
};

TEST(ReportTest, RefusesWhatNoReportCanBe) {
  const std::string head =
      R"({"schema_version":1,"made_at":"2026-11-30T08:00:00Z","since":"2026-11-01T08:00:00Z")";
  const auto of_backup = [&](const std::string& members) {
    return head + R"(,"volumes":[{"name":"a","backups":[{)" + members + "}]}]}";
  };
  const HostileCase kCases[] = {
      {"empty", "", ""},
      {"another document", "[]", ""},
      {"a result of another verb", R"({"message_type":"result"})", "schema_version 1"},
      {"a later version", R"({"schema_version":2})", "schema_version 1"},
      {"no time", R"({"schema_version":1})", "at least an hour"},
      {"backwards",
       R"({"schema_version":1,"made_at":"2026-11-01T00:00:00Z","since":"2026-11-02T00:00:00Z"})",
       "at least an hour"},
      {"ages",
       R"({"schema_version":1,"made_at":"2026-11-01T00:00:00Z","since":"0001-01-01T00:00:00Z"})",
       "at most 1100 days"},
      {"cut off", head, ""},
      {"more behind it", head + "}{}", ""},
      {"a number for a list", head + R"(,"volumes":7})", ""},
      {"a number for a text", head + R"(,"subject":7})", ""},
      {"no time at all", of_backup(R"("at":"yesterday")"), "RFC 3339"},
      {"an unknown state", of_backup(R"("state":"perfect")"), "unknown state"},
      {"less than nothing", of_backup(R"("read_bytes":-1)"), ""},
      {"a fraction", of_backup(R"("read_bytes":1.5)"), ""},
      {"too much", of_backup(R"("stored_bytes":18446744073709551615)"), "too large"},
      {"depth", head + R"(,"x":)" + std::string(100'000, '[') + "}", ""},
  };
  for (const HostileCase& test : kCases) {
    EXPECT_THAT(Read(test.text).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(test.error)))
        << test.name;
  }
}

TEST(ReportTest, HoldsNoMoreThanItsLimits) {
  const std::string head =
      R"({"schema_version":1,"made_at":"2026-11-30T08:00:00Z","since":"2026-11-01T08:00:00Z")";
  std::string many = head + R"(,"notes":[)";
  for (int64_t i = 0; i < kEntriesMax; ++i) {
    many += "\"\",";
  }
  EXPECT_THAT(Read(many + "\"\"]}", 65536).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too many entries")));
  std::string volumes = head + R"(,"volumes":[{})";
  for (std::size_t i = 0; i < kVolumesMax; ++i) {
    volumes += ",{}";
  }
  EXPECT_THAT(Read(volumes + "]}", 65536).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more than 20000 volumes")));
  const auto cut = Read(head + R"(,"subject":")" + std::string(5000, 'x') + "\"}");
  ASSERT_THAT(cut.status(), support::IsOk());
  EXPECT_EQ(cut->subject.size(), kTextBytesMax);
}

TEST(ReportTest, LeavesOutBackupsOfOtherTimes) {
  Report report = SampleReport(1, 3);
  report.volumes[0].backups.push_back(GoodBackup(report.since - absl::Seconds(1)));
  report.volumes[0].backups.push_back(GoodBackup(SampleNow() + absl::Seconds(1)));
  ASSERT_THAT(Normalize(report), support::IsOk());
  EXPECT_EQ(report.volumes[0].backups.size(), 3U);
}

}  // namespace
}  // namespace csidelta::report::report_test
