#include "objects/protected_volume.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "objects/patch.h"
#include "tests/support/typed.h"

namespace csidelta::objects::protected_volume_test {
namespace {

const absl::Time kAt = absl::FromUnixSeconds(1'700'000'000);

// As an API server would merge it into an object without a status.
ProtectedVolume Merged(const Patch& patch) {
  Json json = ProtectedVolume::Make("velero", "v").json();
  json["status"] = patch.json().at("status");
  return support::As<ProtectedVolume>(json);
}

TEST(ProtectedVolumeTest, NamesDifferByPvcAndLocation) {
  EXPECT_EQ(ProtectedVolume::NameOf("u-1", "default"), ProtectedVolume::NameOf("u-1", "default"));
  EXPECT_NE(ProtectedVolume::NameOf("u-1", "default"), ProtectedVolume::NameOf("u-1", "other"));
  EXPECT_NE(ProtectedVolume::NameOf("u-1", "default"), ProtectedVolume::NameOf("u-2", "default"));
}

TEST(ProtectedVolumeTest, ReadsWhatPatchesWrite) {
  const LastGoodBackup good{.backup = "b",
                            .upload = "u",
                            .snapshot_id = "csi-delta/1/...",
                            .taken_at = kAt,
                            .completed_at = kAt + absl::Minutes(1),
                            .mode = "full",
                            .reason = "no-parent",
                            .logical_bytes = 3,
                            .changed_bytes = 2,
                            .stored_bytes = 1};
  const Verification verification{
      .at = kAt,
      .all_since = kAt - absl::Hours(24),
      .round_since = kAt - absl::Hours(5),
      .read_until = kAt - absl::Hours(1),
      .finding = "pack 1 is gone",
      .broken_backups = {"b"},
      .position = 4,
      .parts = 34,
      .read_bytes = 5,
      .orphaned_snapshots = 2,
      .orphans = {"1 of backup a"},
      .unattributed_snapshots = 3,
      .damage = RepositoryDamage{
          .packs = {std::string(64, 'a')}, .packs_found = 66, .written_until = kAt}};
  const ProtectedVolumeStatus status =
      Merged(Patch()
                 .SetLastGood(good)
                 .SetLastAttempt({.backup = "c",
                                  .upload = "w",
                                  .phase = "Failed",
                                  .at = kAt,
                                  .message = "no quota"},
                                 3)
                 .SetBase(VolumeBase{.content = "snapcontent-1", .taken_at = kAt})
                 .SetVerification(verification)
                 .SetRepository({.bytes = 7, .restore_memory_bytes = 8, .restore_scratch_bytes = 9})
                 .SetRestoredAt(kAt)
                 .SetPvcGoneAt(kAt)
                 .SetNextStep("look at the DataUpload"))
          .status();
  ASSERT_TRUE(status.last_good.has_value());
  EXPECT_EQ(status.last_good->snapshot_id, good.snapshot_id);
  EXPECT_EQ(status.last_good->taken_at, good.taken_at);
  EXPECT_EQ(status.last_good->logical_bytes, 3);
  EXPECT_EQ(status.last_attempt->message, "no quota");
  EXPECT_EQ(status.failures, 3);
  EXPECT_EQ(status.base->content, "snapcontent-1");
  EXPECT_EQ(status.verification->broken_backups, verification.broken_backups);
  EXPECT_EQ(status.verification->orphaned_snapshots, 2);
  EXPECT_EQ(status.verification->orphans, verification.orphans);
  EXPECT_EQ(status.verification->unattributed_snapshots, 3);
  EXPECT_EQ(status.verification->damage, verification.damage);
  EXPECT_EQ(status.verification->all_since, verification.all_since);
  EXPECT_EQ(status.verification->round_since, verification.round_since);
  EXPECT_EQ(status.verification->read_until, verification.read_until);
  EXPECT_EQ(status.verification->parts, 34);
  EXPECT_EQ(status.repository.bytes, 7);
  EXPECT_EQ(status.repository.restore_memory_bytes, 8);
  EXPECT_EQ(status.repository.restore_scratch_bytes, 9);
  EXPECT_EQ(status.repository.snapshots, std::nullopt);
  EXPECT_EQ(status.restored_at, kAt);
  EXPECT_EQ(status.pvc_gone_at, kAt);
  EXPECT_EQ(status.next_step, "look at the DataUpload");
}

TEST(ProtectedVolumeTest, KeepsForChecksWhatTheyAskFor) {
  ProtectedVolume volume = Merged(
      Patch()
          .SetLastGood(LastGoodBackup{.backup = "b", .upload = "u", .snapshot_id = "csi-delta/1"})
          .SetVerification({.at = kAt, .finding = "pack 1 is gone"})
          .SetLastAttempt({.backup = "c", .message = "no quota"}, 1)
          .SetNextStep("correct that"));
  volume.SetSpec({.pvc_uid = "p", .location = "default"});
  volume.ReduceToChecks();
  EXPECT_EQ(volume.spec().pvc_uid, "p");
  const ProtectedVolumeStatus status = volume.status();
  EXPECT_EQ(status.last_good.value_or(LastGoodBackup()).snapshot_id, "csi-delta/1");
  EXPECT_EQ(status.verification.value_or(Verification()).finding, "pack 1 is gone");
  EXPECT_FALSE(status.last_attempt.has_value());
  EXPECT_EQ(status.next_step, "");
}

TEST(ProtectedVolumeTest, ANewOneWasNeverBackedUp) {
  const ProtectedVolumeStatus status = ProtectedVolume::Make("velero", "v").status();
  EXPECT_FALSE(status.last_good.has_value());
  EXPECT_FALSE(status.verification.has_value());
  EXPECT_EQ(status.failures, 0);
}

}  // namespace
}  // namespace csidelta::objects::protected_volume_test
