#include "longhorn/snapshot_protection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace csidelta::longhorn::snapshot_protection_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

std::vector<std::string> ReasonsOf(const std::vector<Protection>& protections) {
  std::vector<std::string> reasons;
  for (const Protection& one : protections) {
    reasons.emplace_back(ToString(one.reason));
  }
  return reasons;
}

ProtectionInput Plain() { return {.name = "one", .dated = kNow - absl::Hours(1), .now = kNow}; }

TEST(LonghornProtectionTest, WhatNothingNeedsMayGo) {
  EXPECT_THAT(ProtectionsOf(Plain(), {}), IsEmpty());
  SnapshotNeeds of_another;
  of_another.Add("two", ProtectionReason::kClone, "x");
  EXPECT_THAT(ProtectionsOf(Plain(), of_another), IsEmpty());
}

TEST(LonghornProtectionTest, EachReasonHoldsAlone) {
  for (const auto reason :
       {ProtectionReason::kVolumeSnapshot, ProtectionReason::kPendingPvc, ProtectionReason::kClone,
        ProtectionReason::kUploading, ProtectionReason::kLastBackup}) {
    SnapshotNeeds needs;
    needs.Add("one", reason, "it is needed");
    EXPECT_THAT(ReasonsOf(ProtectionsOf(Plain(), needs)), ElementsAre(ToString(reason)));
  }
  ProtectionInput input = Plain();
  input.is_made_by_managed = true;
  EXPECT_THAT(ReasonsOf(ProtectionsOf(input, {})), ElementsAre("Backup"));
  input = Plain();
  input.backup = "nightly";
  EXPECT_THAT(ProtectionsOf(input, {}).at(0).message, "backup nightly made it, and deletes it");
  input.is_backup_gone = true;
  EXPECT_THAT(ProtectionsOf(input, {}).at(0).message, EndsWith("not in this cluster any more"));
  input = Plain();
  input.is_newest = true;
  EXPECT_THAT(ReasonsOf(ProtectionsOf(input, {})), ElementsAre("Newest"));
}

TEST(LonghornProtectionTest, ALongNameAndAYoungOneStay) {
  ProtectionInput input = Plain();
  const std::string longest(63, 'n');
  const std::string too_long(64, 'n');
  input.name = longest;
  EXPECT_THAT(ProtectionsOf(input, {}), IsEmpty());
  input.name = too_long;
  EXPECT_THAT(ProtectionsOf(input, {}).at(0).message, AllOf(HasSubstr("64"), HasSubstr("63")));
  input = Plain();
  input.dated = kNow - absl::Minutes(5);
  EXPECT_THAT(ProtectionsOf(input, {}), IsEmpty());
  input.dated = kNow - absl::Minutes(5) + absl::Seconds(1);
  EXPECT_THAT(ReasonsOf(ProtectionsOf(input, {})), ElementsAre("Young"));
  input.dated = kNow + absl::Hours(1);
  EXPECT_THAT(ReasonsOf(ProtectionsOf(input, {})), ElementsAre("Young"));
}

TEST(LonghornProtectionTest, SeveralStandInTheOrderOfTheTableAndAFewAreNamed) {
  SnapshotNeeds needs;
  needs.Add("one", ProtectionReason::kLastBackup, "b");
  for (int i = 0; i < 20; ++i) {
    needs.Add("one", ProtectionReason::kVolumeSnapshot, "v");
  }
  ProtectionInput input = Plain();
  input.is_newest = true;
  const std::vector<Protection> protections = ProtectionsOf(input, needs);
  EXPECT_THAT(protections, SizeIs(kNeedsNamedMax + 1));
  EXPECT_EQ(protections.front().reason, ProtectionReason::kVolumeSnapshot);
  EXPECT_EQ(protections[kNeedsNamedMax - 1].message, "b, and 13 more need it");
  EXPECT_EQ(protections.back().reason, ProtectionReason::kNewest);
}

}  // namespace
}  // namespace csidelta::longhorn::snapshot_protection_test
