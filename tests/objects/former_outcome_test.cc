#include "objects/former_outcome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace csidelta::objects::former_outcome_test {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

TEST(FormerOutcomeTest, ReadsEachFigureOfABackup) {
  EXPECT_EQ(FormerBackupFigures({{"snapshot_id", "abc"},
                                 {"mode_done", "full"},
                                 {"reason", "parent-damaged"},
                                 {"reason_detail", "pack 1 is gone"},
                                 {"base", "b"},
                                 {"logical_bytes", 1},
                                 {"changed_bytes", 2},
                                 {"read_bytes", 3},
                                 {"audit_bytes", 4},
                                 {"stored_bytes", 5},
                                 {"retries", 6},
                                 {"duration_ms", {{"audit", 70}, {"total", 7}}},
                                 {"peak_memory_bytes", 10},
                                 {"repository_bytes", 8},
                                 {"repository_snapshots", 9}}),
            (BackupFigures{.snapshot_id = "abc",
                           .mode = "full",
                           .reason = "parent-damaged",
                           .reason_detail = "pack 1 is gone",
                           .base = "b",
                           .logical_bytes = 1,
                           .changed_bytes = 2,
                           .read_bytes = 3,
                           .audit_bytes = 4,
                           .stored_bytes = 5,
                           .retries = 6,
                           .duration_ms = 7,
                           .audit_ms = 70,
                           .peak_memory_bytes = 10,
                           .repository_bytes = 8,
                           .repository_snapshots = 9}));
}

TEST(FormerOutcomeTest, ReadsEachFigureOfARestore) {
  const Outcome outcome = FormerOutcome({{"exitCode", 0},
                                         {"result",
                                          {{"snapshot_id", "abc"},
                                           {"file_system", "xfs"},
                                           {"logical_bytes", 1},
                                           {"compared_bytes", 2},
                                           {"written_bytes", 3},
                                           {"zero_bytes", 4},
                                           {"kept_bytes", 5}}}});
  EXPECT_EQ(outcome, (Outcome{.code = OutcomeCode::kDone,
                              .restore = RestoreFigures{.file_system = "xfs",
                                                        .logical_bytes = 1,
                                                        .compared_bytes = 2,
                                                        .written_bytes = 3,
                                                        .zero_bytes = 4,
                                                        .kept_bytes = 5}}));
}

TEST(FormerOutcomeTest, ExitCodesBecomeCodesAndCauses) {
  struct Row {
    int exit_code;
    OutcomeCode code;
    OutcomeCause cause;
  };
  for (const Row& row : {Row{0, OutcomeCode::kDone, OutcomeCause::kNone},
                         Row{1, OutcomeCode::kFailed, OutcomeCause::kNone},
                         Row{10, OutcomeCode::kFailed, OutcomeCause::kNoRepository},
                         Row{11, OutcomeCode::kFailed, OutcomeCause::kLocked},
                         Row{12, OutcomeCode::kFailed, OutcomeCause::kNoKey},
                         Row{20, OutcomeCode::kDone, OutcomeCause::kListRefused},
                         Row{130, OutcomeCode::kStopped, OutcomeCause::kNone}}) {
    const Outcome outcome = FormerOutcome({{"exitCode", row.exit_code}});
    EXPECT_EQ(outcome.code, row.code) << row.exit_code;
    EXPECT_EQ(outcome.cause, row.cause) << row.exit_code;
  }
  EXPECT_EQ(FormerOutcome({{"exitCode", 20}, {"result", {{"audit", {{"mismatch", true}}}}}}).cause,
            OutcomeCause::kAuditMismatch);
  EXPECT_EQ(FormerOutcome(Json()).code, OutcomeCode::kFailed);
}

TEST(FormerOutcomeTest, LocksAreThoseOfTheDocument) {
  const std::string lock(64, 'a');
  EXPECT_THAT(FormerOutcome({{"exitCode", 11},
                             {"message", "locked"},
                             {"result", {{"message_type", "locked"}, {"locks", {lock, 7}}}}})
                  .locks,
              ElementsAre(lock));
}

TEST(FormerOutcomeTest, AbsurdFieldsAreAsIfTheyWereMissing) {
  EXPECT_EQ(FormerBackupFigures({{"snapshot_id", 7},
                                 {"mode_done", Json::array()},
                                 {"reason", nullptr},
                                 {"logical_bytes", "many"},
                                 {"changed_bytes", -1},
                                 {"duration_ms", 7},
                                 {"repository_bytes", -1},
                                 {"repository_snapshots", "two"}}),
            BackupFigures{});
  EXPECT_THAT(FormerBackupFigures({{"base", std::string(100'000, 'x')}}).base,
              SizeIs(kOutcomeTextBytesMax));
}

}  // namespace
}  // namespace csidelta::objects::former_outcome_test
