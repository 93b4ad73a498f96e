#include "objects/outcome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace csidelta::objects::outcome_test {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

const std::string kLock(64, 'a');

Outcome WithEverything() {
  return {
      .code = OutcomeCode::kFailed,
      .cause = OutcomeCause::kLocked,
      .message = "locked",
      .locks = {kLock},
      .backup = BackupFigures{.snapshot_id = "abc",
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
                              .audit_ms = 8,
                              .peak_memory_bytes = 9,
                              .repository_bytes = 10,
                              .repository_snapshots = 11},
      .restore = RestoreFigures{.file_system = "ext4",
                                .logical_bytes = 1,
                                .compared_bytes = 2,
                                .written_bytes = 3,
                                .zero_bytes = 4,
                                .kept_bytes = 5,
                                .host = "cluster",
                                .path = "/shop/data"},
      .check = CheckFigures{.packs = 1,
                            .packs_read = 2,
                            .read_bytes = 3,
                            .snapshots = 4,
                            .errors = 5,
                            .findings = {"pack 1: is damaged"},
                            .broken_snapshots = 6,
                            .broken_tags = {"du-1"},
                            .orphans_found = 7,
                            .orphans = {{.id = "a",
                                         .upload_tag = "du-2",
                                         .backup = "velero/b",
                                         .made_at = "2026-01-02T03:04:05Z"}},
                            .damage = {.packs = {std::string(64, 'e')},
                                       .packs_found = 65,
                                       .written_until = absl::FromUnixMillis(1'700'000'000'007)}}};
}

TEST(OutcomeTest, SurvivesTheWire) {
  for (const Outcome& outcome :
       {Outcome{}, Outcome{.code = OutcomeCode::kStopped, .message = "interrupted"},
        Outcome{.code = OutcomeCode::kDone, .cause = OutcomeCause::kListRefused},
        WithEverything()}) {
    EXPECT_EQ(ReadOutcome(ToJson(outcome)), outcome);
  }
}

TEST(OutcomeTest, EachCauseHasANameThatIsRead) {
  for (const auto& [cause, name] : std::vector<std::pair<OutcomeCause, std::string>>{
           {OutcomeCause::kNone, ""},
           {OutcomeCause::kNoRepository, "NoRepository"},
           {OutcomeCause::kLocked, "Locked"},
           {OutcomeCause::kNoKey, "NoKey"},
           {OutcomeCause::kRetained, "Retained"},
           {OutcomeCause::kAuditMismatch, "AuditMismatch"},
           {OutcomeCause::kListRefused, "ListRefused"}}) {
    EXPECT_EQ(ToString(cause), name);
    EXPECT_EQ(ReadOutcome({{"code", "Done"}, {"cause", name}})->cause, cause);
  }
}

// A merge patch keeps what it does not name, so what is not set must be null. `check` alone is
// left out: a task of another kind never had one, and ends when it has been written.
TEST(OutcomeTest, NothingOfTheRunBeforeStays) {
  Outcome before = WithEverything();
  before.check.reset();
  Json stored = ToJson(before);
  stored.merge_patch(ToJson(Outcome{.code = OutcomeCode::kDone, .backup = BackupFigures()}));
  EXPECT_EQ(ReadOutcome(stored), (Outcome{.code = OutcomeCode::kDone, .backup = BackupFigures()}));
}

// It comes out of a Pod, which may write anything.
TEST(OutcomeTest, AbsurdFieldsAreAsIfTheyWereMissing) {
  for (const Json& absurd :
       {Json(), Json(7), Json::array({1}), Json{{"code", "Perfect"}}, Json{{"cause", "Locked"}}}) {
    EXPECT_EQ(ReadOutcome(absurd), std::nullopt) << absurd.dump();
  }
  EXPECT_EQ(ReadOutcome({{"code", "Failed"},
                         {"cause", "Boredom"},
                         {"message", 7},
                         {"locks", "all"},
                         {"backup", "much"},
                         {"restore", Json::array()}}),
            Outcome{});
  const auto outcome = ReadOutcome({{"code", "Done"},
                                    {"backup",
                                     {{"snapshotID", 7},
                                      {"mode", Json::array()},
                                      {"logicalBytes", "many"},
                                      {"changedBytes", -1},
                                      {"repositoryBytes", -1},
                                      {"repositorySnapshots", "two"}}},
                                    {"restore", {{"writtenBytes", -1}, {"fileSystem", nullptr}}}});
  EXPECT_EQ(outcome, (Outcome{.code = OutcomeCode::kDone,
                              .backup = BackupFigures(),
                              .restore = RestoreFigures()}));
}

TEST(OutcomeTest, TextsAndListsAreCutBothWays) {
  const std::string text(100'000, 'x');
  Json json = ToJson({.message = text,
                      .locks = std::vector<std::string>(1000, kLock),
                      .backup = BackupFigures{.snapshot_id = text, .reason_detail = text}});
  EXPECT_THAT(json["message"].get<std::string>(), SizeIs(kOutcomeMessageBytesMax));
  EXPECT_THAT(json["locks"], SizeIs(kOutcomeLocksMax));
  EXPECT_THAT(json["backup"]["reasonDetail"].get<std::string>(), SizeIs(kOutcomeTextBytesMax));
  json["message"] = text;
  json["locks"] = std::vector<std::string>(1000, kLock);
  json["backup"]["snapshotID"] = text;
  const Outcome read = ReadOutcome(json).value_or(Outcome());
  EXPECT_THAT(read.message, SizeIs(kOutcomeMessageBytesMax));
  EXPECT_THAT(read.locks, SizeIs(kOutcomeLocksMax));
  EXPECT_THAT(read.backup->snapshot_id, SizeIs(kOutcomeTextBytesMax));
}

TEST(OutcomeTest, NoCharacterIsCutInTwo) {
  std::string text(kOutcomeTextBytesMax - 1, 'x');
  text += "\u00e9";
  EXPECT_THAT(ToJson({.backup = BackupFigures{.base = text}})["backup"]["base"].get<std::string>(),
              SizeIs(kOutcomeTextBytesMax - 1));
}

TEST(OutcomeTest, OfDamageOnlyWhatMakesSenseIsRead) {
  const auto read = [](const Json& damage) {
    return ReadOutcome({{"code", "Done"}, {"check", {{"damage", damage}}}})->check->damage;
  };
  const std::string pack = std::string(62, '0') + "af";
  EXPECT_THAT(read({{"packs",
                     {"", "0a", "../x", 7, nullptr, std::string(64, 'A'), std::string(64, 'x'),
                      std::string(65, 'a'), pack}}})
                  .packs,
              ElementsAre(pack));
  EXPECT_THAT(read({{"packs", std::vector<std::string>(1000, pack)}}).packs,
              SizeIs(kDamagedPacksMax));
  for (const Json& absurd :
       {Json(), Json(7), Json("all"), Json::array({pack}), Json{{"packs", pack}},
        Json{{"packsFound", -1}}, Json{{"packsFound", "many"}}, Json{{"writtenUntil", "soon"}},
        Json{{"writtenUntil", 5}}}) {
    EXPECT_EQ(read(absurd), RepositoryDamage()) << absurd.dump();
  }
  const Json cut = WriteFields(kRepositoryDamageFields,
                               RepositoryDamage{.packs = std::vector<std::string>(1000, pack)});
  EXPECT_THAT(cut["packs"], SizeIs(kDamagedPacksMax));
}

TEST(OutcomeTest, RestoredBytesAreReadAsTheyWereWritten) {
  const RestoreFigures figures = {.logical_bytes = 1,
                                  .compared_bytes = 2,
                                  .written_bytes = 3,
                                  .zero_bytes = 4,
                                  .kept_bytes = 5};
  const std::string text = FormatRestoredBytes(figures);
  EXPECT_EQ(
      text,
      R"({"compared_bytes":2,"kept_bytes":5,"logical_bytes":1,"written_bytes":3,"zero_bytes":4})");
  EXPECT_EQ(ParseRestoredBytes(text), figures);
  EXPECT_EQ(ParseRestoredBytes("{\"zero_bytes\":"), RestoreFigures());
}

TEST(OutcomeTest, OnlyIdsOfLocksAreLocks) {
  const auto outcome = ReadOutcome(
      {{"code", "Failed"}, {"locks", {"--repo", 7, nullptr, std::string(64, '-'), kLock, "abc"}}});
  EXPECT_THAT(outcome->locks, ElementsAre(kLock));
}

}  // namespace
}  // namespace csidelta::objects::outcome_test
