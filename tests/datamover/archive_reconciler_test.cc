#include "datamover/controller/archive_reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "k8s/object.h"
#include "objects/data_deletion.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/event_texts.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"
#include "velero/data_reference.h"

namespace csidelta::datamover::archive_reconciler_test {
namespace {

using support::IsOkAndHolds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class ArchiveReconcilerTest : public testing::Test {
 protected:
  ArchiveReconcilerTest() {
    SetPhase("InProgress");
    bed_.AddUpload("nightly");
    const std::string uid = k8s::Uid(*bed_.api.Find(Key()));
    bed_.api.Mutate({DataUploadType(), "velero", "nightly"}, [&](Json& upload) {
      upload["metadata"]["ownerReferences"] = Json::array(
          {{{"apiVersion", "velero.io/v1"}, {"kind", "Backup"}, {"name", "b"}, {"uid", uid}}});
      upload["status"] = {{"phase", "Completed"},
                          {"snapshotID", velero::FormatDataReference(
                                             {.cluster = bed_.env.cluster,
                                              .namespace_name = "shop",
                                              .claim_uid = MoverBed::ClaimUid("shop", "data"),
                                              .snapshot_id = std::string(64, 'a'),
                                              .key = "0123456789abcdef"})}};
    });
  }

  static k8s::ObjectKey Key() { return {BackupType(), "velero", "b"}; }
  void SetPhase(const std::string& phase) {
    if (!bed_.api.Find(Key()).has_value()) {
      bed_.api.Seed(BackupType(), {{"metadata", {{"name", "b"}, {"namespace", "velero"}}}});
    }
    bed_.api.SetField(Key(), {"status", "phase"}, phase);
  }
  absl::StatusOr<absl::Time> Look() { return reconciler_.Reconcile(bed_.ctx, bed_.Upload()); }
  std::vector<Json> Deletions() const { return bed_.api.All(DataDeletionType()); }

  MoverBed bed_;
  ArchiveReconciler reconciler_{bed_.env};
};

TEST_F(ArchiveReconcilerTest, WhatABackupThatFailedMovedIsAskedToGoOnce) {
  EXPECT_THAT(Look(), IsOkAndHolds(bed_.clock.Now() + kArchiveReadEvery));
  EXPECT_THAT(Deletions(), IsEmpty());
  SetPhase("Failed");
  bed_.clock.Advance(kArchiveReadEvery);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Look(), IsOkAndHolds(absl::InfiniteFuture()));
  }
  ASSERT_THAT(Deletions(), SizeIs(1));
  const objects::DataDeletionSpec deletion =
      support::As<objects::DataDeletion>(Deletions()[0]).spec();
  EXPECT_EQ(deletion.upload, k8s::Uid(bed_.Upload())) << "found by its tag, and nothing else";
  EXPECT_TRUE(deletion.worker_ended);
  EXPECT_EQ(deletion.location, "default");
  EXPECT_THAT(support::EventTexts(bed_.api), ElementsAre(HasSubstr("Backup b failed")));
}

TEST_F(ArchiveReconcilerTest, OneBackupIsReadOnceForAllOfItsUploads) {
  bed_.api.ClearCalls();
  const absl::Time next = bed_.clock.Now() + kArchiveReadEvery;
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(Look(), IsOkAndHolds(next));
    bed_.clock.Advance(absl::Seconds(5));
  }
  EXPECT_EQ(bed_.api.CallCount("get", "backups"), 1);
  bed_.clock.Advance(absl::Seconds(5));
  EXPECT_THAT(Look(), IsOkAndHolds(bed_.clock.Now() + kArchiveReadEvery));
  EXPECT_EQ(bed_.api.CallCount("get", "backups"), 2);
}

TEST_F(ArchiveReconcilerTest, WhatAnArchiveMayNameStays) {
  for (const char* phase : {"WaitingForPluginOperations", "Finalizing", "FinalizingPartiallyFailed",
                            "Deleting", "FailedValidation", "Completed", "Failed"}) {
    if (absl::string_view(phase) != "Failed") {
      SetPhase(phase);
    }
    bed_.clock.Advance(kArchiveReadEvery);
    EXPECT_TRUE(Look().ok()) << phase;
    EXPECT_THAT(Deletions(), IsEmpty()) << phase;
  }
}

// The plugin died over the claim after it had made the DataUpload, and Velero knows nothing of
// that.
TEST_F(ArchiveReconcilerTest, WhatNeverEnteredTheArchiveOfABackupThatIsOverIsAskedToGo) {
  bed_.api.SetField({DataUploadType(), "velero", "nightly"},
                    {"metadata", "annotations", "velero.io/csi-delta-archived"}, "awaited");
  EXPECT_THAT(Look(), IsOkAndHolds(bed_.clock.Now() + kArchiveReadEvery));
  SetPhase("Finalizing");
  bed_.clock.Advance(kArchiveReadEvery);
  EXPECT_THAT(Look(), IsOkAndHolds(bed_.clock.Now() + kArchiveReadEvery));
  EXPECT_THAT(Deletions(), IsEmpty());
  SetPhase("PartiallyFailed");
  bed_.clock.Advance(kArchiveReadEvery);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Look(), IsOkAndHolds(absl::InfiniteFuture()));
  }
  ASSERT_THAT(Deletions(), SizeIs(1));
  EXPECT_EQ(support::As<objects::DataDeletion>(Deletions()[0]).spec().upload,
            k8s::Uid(bed_.Upload()));
  EXPECT_THAT(support::EventTexts(bed_.api), ElementsAre(HasSubstr("not in its archive")));
}

TEST_F(ArchiveReconcilerTest, TheMarkThatCameSinceTheUploadWasReadCounts) {
  SetPhase("Completed");
  bed_.api.SetField({DataUploadType(), "velero", "nightly"},
                    {"metadata", "annotations", "velero.io/csi-delta-archived"}, "awaited");
  const Json as_read = bed_.Upload();
  bed_.api.SetField({DataUploadType(), "velero", "nightly"},
                    {"metadata", "annotations", "velero.io/csi-delta-archived"}, "true");
  EXPECT_THAT(reconciler_.Reconcile(bed_.ctx, as_read), IsOkAndHolds(absl::InfiniteFuture()));
  EXPECT_THAT(Look(), IsOkAndHolds(absl::InfiniteFuture()));
  EXPECT_THAT(Deletions(), IsEmpty());
}

TEST_F(ArchiveReconcilerTest, WithoutItsVeryOwnBackupItStays) {
  SetPhase("Failed");
  bed_.api.Remove(Key());
  EXPECT_THAT(Look(), IsOkAndHolds(absl::InfiniteFuture()));
  SetPhase("Failed");  // Another one of that name.
  EXPECT_THAT(Look(), IsOkAndHolds(absl::InfiniteFuture()));
  bed_.api.Mutate({DataUploadType(), "velero", "nightly"},
                  [](Json& upload) { upload["metadata"].erase("ownerReferences"); });
  EXPECT_THAT(Look(), IsOkAndHolds(absl::InfiniteFuture()));
  EXPECT_THAT(Deletions(), IsEmpty());
}

// There may be 15,000, which a loop would hold until each of their Backups was read.
TEST_F(ArchiveReconcilerTest, WhatBackupsThatAreOverMovedIsNotHeld) {
  bed_.env.velero_namespaces = {"velero"};
  ASSERT_TRUE(reconciler_.RecordBackups(bed_.ctx).ok());
  EXPECT_TRUE(reconciler_.Concerns(bed_.Upload())) << "its Backup goes on";
  SetPhase("Failed");
  ASSERT_TRUE(reconciler_.RecordBackups(bed_.ctx).ok());
  EXPECT_TRUE(reconciler_.Concerns(bed_.Upload())) << "it is in no archive";
  SetPhase("PartiallyFailed");
  bed_.api.ClearCalls();
  ASSERT_TRUE(reconciler_.RecordBackups(bed_.ctx).ok());
  EXPECT_FALSE(reconciler_.Concerns(bed_.Upload()));
  EXPECT_EQ(bed_.api.CallCount("list", "backups"), 1);
  EXPECT_EQ(bed_.api.CallCount("get", "backups"), 0);
  bed_.api.SetField({DataUploadType(), "velero", "nightly"},
                    {"metadata", "annotations", "velero.io/csi-delta-archived"}, "awaited");
  EXPECT_TRUE(reconciler_.Concerns(bed_.Upload())) << "its mark is awaited";
}

TEST_F(ArchiveReconcilerTest, WhatIsHeldOfAnUploadIsAllThatIsAskedFor) {
  SetPhase("Failed");
  bed_.api.Mutate({DataUploadType(), "velero", "nightly"}, [](Json& upload) {
    SetJson(upload, {"metadata", "labels", "velero.io/backup-name"}, "b");
    SetJson(upload, {"metadata", "labels", "example.com/long"}, std::string(60, 'a'));
    SetJson(upload, {"metadata", "annotations", "example.com/long"}, std::string(1000, 'a'));
    SetJson(upload, {"metadata", "annotations", "velero.io/csi-delta-archived"}, "awaited");
    SetJson(upload, {"spec", "dataMoverConfig", "long"}, std::string(1000, 'a'));
    SetJson(upload, {"status", "message"}, std::string(1000, 'a'));
  });
  Json held = bed_.Upload();
  reconciler_.Reduce(held);
  EXPECT_LT(DumpJson(held).size(), 900);
  EXPECT_EQ(GetString(held, {"metadata", "annotations", "velero.io/csi-delta-archived"}),
            "awaited");
  EXPECT_TRUE(reconciler_.Concerns(held));
  EXPECT_THAT(reconciler_.Reconcile(bed_.ctx, held), IsOkAndHolds(absl::InfiniteFuture()));
  ASSERT_THAT(Deletions(), SizeIs(1));
  const objects::DataDeletionSpec deletion =
      support::As<objects::DataDeletion>(Deletions()[0]).spec();
  EXPECT_EQ(deletion.backup, "b");
  EXPECT_EQ(deletion.location, "default");
  EXPECT_EQ(deletion.upload, k8s::Uid(bed_.Upload()));
}

TEST_F(ArchiveReconcilerTest, OthersAndUnfinishedOnesAreLeftAlone) {
  SetPhase("Failed");
  bed_.api.SetField({DataUploadType(), "velero", "nightly"}, {"status", "phase"}, "InProgress");
  EXPECT_THAT(Look(), IsOkAndHolds(absl::InfiniteFuture()));
  bed_.api.Mutate({DataUploadType(), "velero", "nightly"}, [](Json& upload) {
    upload["status"]["phase"] = "Completed";
    upload["spec"]["datamover"] = "velero";
  });
  EXPECT_THAT(Look(), IsOkAndHolds(absl::InfiniteFuture()));
  EXPECT_THAT(Deletions(), IsEmpty());
}

}  // namespace
}  // namespace csidelta::datamover::archive_reconciler_test
