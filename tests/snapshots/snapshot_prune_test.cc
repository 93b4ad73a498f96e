// Which VolumeSnapshots a prune removes: the table of snapshots/snapshot_prune.h.
#include "snapshots/snapshot_prune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "csi/snapshot_state.h"
#include "snapshots/snapshot_inventory.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::snapshots::snapshot_prune_test {
namespace {

using support::ActionBed;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

// A Ready VolumeSnapshot of shop/data that the verbs made `age` ago.
SnapshotEntry Entry(const std::string& name, absl::Duration age,
                    csi::SnapshotState state = csi::SnapshotState::kReady) {
  SnapshotEntry entry;
  entry.namespace_name = "shop";
  entry.name = name;
  entry.uid = name + "-uid";
  entry.pvc = "data";
  entry.status.state = state;
  entry.status.conditions.push_back({.type = std::string(ToString(state)),
                                     .holds = true,
                                     .reason = "Because",
                                     .message = "",
                                     .last_transition_time = {}});
  entry.asked_at = kNow - age;
  entry.is_made_by_verbs = true;
  return entry;
}

PruneRequest KeepLast(int last) {
  PruneRequest request{.rules = {}, .any_maker = false, .backups = {}, .now = kNow};
  request.rules.last = last;
  return request;
}

Finding Keep() { return {.code = "Keep", .message = "labelled keep"}; }

// "name verdict Reason" of each.
std::vector<std::string> Decisions(const std::vector<SnapshotEntry>& entries,
                                   const PruneRequest& request) {
  std::vector<std::string> texts;
  for (const PruneDecision& one : DecidePrune(entries, request)) {
    const char* const verdict = one.verdict == PruneVerdict::kIgnored ? "ignored"
                                : one.verdict == PruneVerdict::kKept  ? "kept"
                                                                      : "removed";
    EXPECT_EQ(one.messages.empty(), one.verdict == PruneVerdict::kIgnored);
    texts.push_back(absl::StrCat(entries[one.entry].name, " ", verdict, " ", one.code));
  }
  return texts;
}

struct Row {
  csi::SnapshotState state;
  std::function<void(SnapshotEntry&)> change;
  const char* decision;
};

// Each row of the table: the entry `it` is the oldest of its PVC, and --keep-last 1 keeps the
// newest.
TEST(SnapshotPruneTest, FollowsItsTable) {
  using enum csi::SnapshotState;
  const auto nothing = [](SnapshotEntry&) {};
  const auto other_maker = [](SnapshotEntry& it) { it.is_made_by_verbs = false; };
  const auto protected_one = [](SnapshotEntry& it) { it.kept_for = {Keep()}; };
  const auto newest = [](SnapshotEntry& it) { it.asked_at = kNow - absl::Minutes(1); };
  const auto no_pvc = [](SnapshotEntry& it) { it.pvc = ""; };
  const auto no_date = [](SnapshotEntry& it) { it.asked_at = {}; };
  const std::vector<Row> rows = {
      {kReady, other_maker, "it ignored OtherMaker"},
      {kError, other_maker, "it ignored OtherMaker"},
      {kReady, [](SnapshotEntry& it) { it.is_selected = false; }, "it ignored OtherMaker"},
      {kCreating, nothing, "it kept NotFinished"},
      {kUploading, nothing, "it kept NotFinished"},
      {kDeleting, nothing, "it kept NotFinished"},
      {kUnverified, nothing, "it kept NotFinished"},
      {kReady, no_pvc, "it kept NotCounted"},
      {kReady, no_date, "it kept NotCounted"},
      {kLost, no_date, "it kept NotCounted"},
      {kReady, newest, "it kept Rule"},
      {kError, newest, "it kept NoNewerReady"},
      {kLost, newest, "it kept NoNewerReady"},
      {kReady, protected_one, "it kept Protected"},
      {kError, protected_one, "it kept Protected"},
      {kReady, nothing, "it removed NoRule"},
      {kError, nothing, "it removed Failed"},
      {kLost, nothing, "it removed Failed"},
  };
  for (const Row& row : rows) {
    std::vector<SnapshotEntry> entries = {Entry("it", absl::Hours(9), row.state),
                                          Entry("newer", absl::Hours(1))};
    row.change(entries[0]);
    EXPECT_EQ(Decisions(entries, KeepLast(1)).front(), row.decision) << ToString(row.state);
  }
}

TEST(SnapshotPruneTest, OtherMakersCountOnlyWhenTheyAreAskedFor) {
  std::vector<SnapshotEntry> entries = {Entry("theirs", absl::Hours(1)),
                                        Entry("mine", absl::Hours(2))};
  entries[0].is_made_by_verbs = false;
  EXPECT_THAT(Decisions(entries, KeepLast(1)),
              ElementsAre("theirs ignored OtherMaker", "mine kept Rule"));
  PruneRequest any = KeepLast(1);
  any.any_maker = true;
  EXPECT_THAT(Decisions(entries, any), ElementsAre("theirs kept Rule", "mine removed NoRule"));
}

TEST(SnapshotPruneTest, EachPvcOfEachNamespaceCountsByItself) {
  std::vector<SnapshotEntry> entries = {Entry("a1", absl::Hours(1)), Entry("a2", absl::Hours(2)),
                                        Entry("b1", absl::Hours(3)), Entry("b2", absl::Hours(4)),
                                        Entry("c1", absl::Hours(5))};
  entries[2].pvc = "logs";
  entries[3].pvc = "logs";
  entries[4].namespace_name = "team";
  EXPECT_THAT(Decisions(entries, KeepLast(1)),
              ElementsAre("a1 kept Rule", "a2 removed NoRule", "b1 kept Rule", "b2 removed NoRule",
                          "c1 kept Rule"));
}

TEST(SnapshotPruneTest, WhatFailedIsNoGeneration) {
  const std::vector<SnapshotEntry> entries = {
      Entry("failed", absl::Hours(1), csi::SnapshotState::kError), Entry("good", absl::Hours(2)),
      Entry("lost", absl::Hours(3), csi::SnapshotState::kLost), Entry("old", absl::Hours(4)),
      Entry("older", absl::Hours(5))};
  EXPECT_THAT(Decisions(entries, KeepLast(2)),
              ElementsAre("failed kept NoNewerReady", "good kept Rule", "lost removed Failed",
                          "old kept Rule", "older removed NoRule"));
}

TEST(SnapshotPruneTest, AFailedOneStaysWhereOnlyAnotherMakersIsNewer) {
  std::vector<SnapshotEntry> entries = {
      Entry("nightly", absl::Hours(1)),
      Entry("failed", absl::Hours(2), csi::SnapshotState::kError)};
  entries[0].is_made_by_verbs = false;
  EXPECT_THAT(Decisions(entries, KeepLast(1)),
              ElementsAre("nightly ignored OtherMaker", "failed kept NoNewerReady"));
}

TEST(SnapshotPruneTest, CountsByWhenItWasTakenAndNotByWhenItWasRequested) {
  std::vector<SnapshotEntry> entries = {Entry("late", absl::Hours(1)),
                                        Entry("early", absl::Hours(2))};
  entries[0].status.taken_at = kNow - absl::Hours(4);
  entries[1].status.taken_at = kNow - absl::Hours(3);
  EXPECT_THAT(Decisions(entries, KeepLast(1)),
              ElementsAre("late removed NoRule", "early kept Rule"));
}

TEST(SnapshotPruneTest, APvcKeepsItsLastReadyOneWhateverTheRulesSay) {
  std::vector<SnapshotEntry> entries = {Entry("a", absl::Hours(1)), Entry("b", absl::Hours(2))};
  PruneRequest request = KeepLast(0);
  request.rules.tags = {{"no snapshot has tags"}};
  EXPECT_THAT(Decisions(entries, request), ElementsAre("a kept Protected", "b removed NoRule"));
  const std::vector<PruneDecision> decisions = DecidePrune(entries, request);
  ASSERT_EQ(decisions[0].protections.size(), 1u);
  EXPECT_EQ(decisions[0].protections[0].code, "LastReady");
  // One that is not selected stays, and is enough.
  entries.push_back(Entry("unselected", absl::Hours(3)));
  entries.back().is_selected = false;
  EXPECT_THAT(Decisions(entries, request),
              ElementsAre("a removed NoRule", "b removed NoRule", "unselected ignored OtherMaker"));
}

// Two generations of a group of PVCs data and logs.
std::vector<SnapshotEntry> TwoGroups() {
  std::vector<SnapshotEntry> entries;
  for (const char* const group : {"new", "old"}) {
    for (const char* const pvc : {"data", "logs"}) {
      entries.push_back(Entry(absl::StrCat(group, "-", pvc), absl::Hours(group[0] == 'n' ? 1 : 2)));
      entries.back().pvc = pvc;
      entries.back().group = {.name = group, .uid = absl::StrCat(group, "-uid")};
    }
  }
  return entries;
}

TEST(SnapshotPruneTest, MembersOfAGroupGoTogether) {
  EXPECT_THAT(Decisions(TwoGroups(), KeepLast(1)),
              ElementsAre("new-data kept Rule", "new-logs kept Rule", "old-data removed NoRule",
                          "old-logs removed NoRule"));
  std::vector<SnapshotEntry> entries = TwoGroups();
  entries[2].status.state = csi::SnapshotState::kDeleting;  // It waits for its group.
  EXPECT_THAT(Decisions(entries, KeepLast(1)),
              testing::Contains("old-logs removed NoRule").Times(1));
}

TEST(SnapshotPruneTest, OneMemberThatStaysKeepsItsGroup) {
  using Change = std::function<void(SnapshotEntry&)>;
  for (const Change& change : std::vector<Change>{
           [](SnapshotEntry& it) { it.kept_for.push_back(Keep()); },
           [](SnapshotEntry& it) { it.is_selected = false; },
           [](SnapshotEntry& it) { it.is_made_by_verbs = false; },
           [](SnapshotEntry& it) { it.status.state = csi::SnapshotState::kUploading; },
           [](SnapshotEntry& it) { it.pvc = "the only one"; }}) {  // LastReady
    std::vector<SnapshotEntry> entries = TwoGroups();
    change(entries[3]);
    PruneRequest request = KeepLast(1);
    const std::vector<PruneDecision> decisions = DecidePrune(entries, request);
    EXPECT_EQ(decisions[2].verdict, PruneVerdict::kKept);
    ASSERT_EQ(decisions[2].protections.size(), 1u);
    EXPECT_EQ(decisions[2].protections[0].code, csi::kGroupMemberCode);
    EXPECT_THAT(decisions[2].messages[0], HasSubstr("VolumeGroupSnapshot old"));
  }
}

TEST(SnapshotPruneTest, AMemberOfAGroupThatWasNotReadStays) {
  std::vector<SnapshotEntry> entries = TwoGroups();
  for (SnapshotEntry& one : entries) {
    one.group.uid = "";
    one.kept_for = {{.code = csi::kGroupMemberCode, .message = "a member"}};
  }
  EXPECT_THAT(Decisions(entries, KeepLast(1)),
              ElementsAre("new-data kept Rule", "new-logs kept Rule", "old-data kept Protected",
                          "old-logs kept Protected"));
}

TEST(SnapshotPruneTest, MessagesSayWhy) {
  std::vector<SnapshotEntry> entries = {Entry("new", absl::Hours(1)), Entry("kept", absl::Hours(2)),
                                        Entry("failed", absl::Hours(3), csi::SnapshotState::kError),
                                        Entry("nightly", absl::Hours(4))};
  entries[1].kept_for = {Keep(), {.code = "Young", .message = "young"}};
  entries[3].kept_for = {{.code = "Backup", .message = "backup nightly"}};
  entries[3].backup = "nightly";
  PruneRequest request = KeepLast(1);
  std::vector<PruneDecision> decisions = DecidePrune(entries, request);
  EXPECT_THAT(decisions[0].messages, ElementsAre("last snapshot"));
  EXPECT_THAT(decisions[1].messages, ElementsAre("labelled keep", "young"));
  EXPECT_THAT(decisions[2].messages,
              ElementsAre("is Error (Because), and a newer one of its PVC is Ready"));
  EXPECT_THAT(decisions[3].messages, ElementsAre("backup nightly"));
  request.backups = std::set<std::string>{"weekly"};
  decisions = DecidePrune(entries, request);
  EXPECT_THAT(decisions[3].messages, ElementsAre(HasSubstr("not in this cluster any more")));
  EXPECT_EQ(decisions[3].verdict, PruneVerdict::kKept);
}

TEST(SnapshotPruneTest, BackupsMatterForOtherMakersAndForLabelsOfVelero) {
  std::vector<SnapshotEntry> entries = {Entry("a", absl::Hours(1)), Entry("b", absl::Hours(2))};
  EXPECT_FALSE(ConcernsBackups(entries, false));
  EXPECT_TRUE(ConcernsBackups(entries, true));
  entries[1].has_velero_labels = true;
  EXPECT_TRUE(ConcernsBackups(entries, false));
  entries[1].is_made_by_verbs = false;
  EXPECT_FALSE(ConcernsBackups(entries, false));
}

TEST(SnapshotPruneTest, ReadsTheNamesOfBackupsAsLabelsHaveThem) {
  ActionBed bed;
  const std::string long_name(80, 'b');
  bed.api.Seed(BackupType(), support::MakeBackupObject("nightly", "Completed"));
  bed.api.Seed(BackupType(), support::MakeBackupObject(long_name, "Completed"));
  EXPECT_THAT(ReadBackupNames(bed.ctx, bed.api),
              IsOkAndHolds(ElementsAre(testing::StartsWith(std::string(57, 'b')), "nightly")));
  bed.api.FailNext("list", "backups", absl::PermissionDeniedError("no"));
  EXPECT_THAT(ReadBackupNames(bed.ctx, bed.api), StatusIs(absl::StatusCode::kPermissionDenied));
  bed.api.RemoveType("backups");
  EXPECT_THAT(ReadBackupNames(bed.ctx, bed.api), IsOkAndHolds(IsEmpty()));
}

}  // namespace
}  // namespace csidelta::snapshots::snapshot_prune_test
