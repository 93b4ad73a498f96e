#include "objects/data_deletion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "objects/patch.h"
#include "tests/support/typed.h"

namespace csidelta::objects::data_deletion_test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

TEST(DataDeletionTest, WhatIsWrittenIsRead) {
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  DataDeletionStatus status;
  status.phase = DeletionPhase::kWaiting;
  status.message = "m";
  status.trouble = DeletionTrouble::kLocked;
  status.trouble_since = now;
  for (int i = 0; i < static_cast<int>(kLocksMax) + 1; ++i) {
    status.locks.push_back({.id = absl::StrCat(i), .since = now, .until = now});
  }
  status.attempts = 2;
  const Json patch = Patch().SetStatus(status).json();
  EXPECT_TRUE(patch["status"].at("completionTimestamp").is_null()) << "what was there before goes";
  const DataDeletionStatus read = support::As<DataDeletion>(patch).status();
  EXPECT_EQ(read.phase, DeletionPhase::kWaiting);
  EXPECT_EQ(read.message, "m");
  EXPECT_EQ(read.trouble, DeletionTrouble::kLocked);
  EXPECT_EQ(read.trouble_since, now);
  EXPECT_THAT(read.locks, SizeIs(kLocksMax));
  EXPECT_EQ(read.attempts, 2);
  EXPECT_EQ(read.completed_at, std::nullopt);
}

TEST(DataDeletionTest, AWrongFieldIsAMissingOne) {
  const DataDeletionStatus read =
      support::As<DataDeletion>({{"status",
                                  {{"phase", 7},
                                   {"trouble", "Bored"},
                                   {"attempts", -1},
                                   {"locks", {{{"id", "l"}, {"since", "then"}}, 3}}}}})
          .status();
  EXPECT_EQ(read.phase, DeletionPhase::kNone);
  EXPECT_EQ(read.trouble, DeletionTrouble::kNone);
  EXPECT_EQ(read.attempts, 0);
  EXPECT_THAT(read.locks, IsEmpty());
}

TEST(DataDeletionTest, TheSpecIsWrittenAsAWhole) {
  DataDeletion deletion = DataDeletion::Make("velero", "d");
  deletion.SetSpec({.location = "default", .snapshot_id = "s", .backup = "b"});
  EXPECT_EQ(deletion.json()["apiVersion"], "mover.csi-delta.io/v1alpha1");
  EXPECT_EQ(deletion.json()["spec"], Json({{"backupStorageLocation", "default"},
                                           {"snapshotID", "s"},
                                           {"backup", "b"},
                                           {"upload", ""},
                                           {"workerEnded", false}}));
  EXPECT_EQ(deletion.spec().snapshot_id, "s");
}

}  // namespace
}  // namespace csidelta::objects::data_deletion_test
