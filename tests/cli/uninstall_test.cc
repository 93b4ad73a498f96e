// csi-delta uninstall: the whole program in this process, and an API server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rfc3339.h"
#include "datamover/mover_environment.h"
#include "datamover/settings.h"
#include "objects/backup_storage_location.h"
#include "objects/differential_snapshot.h"
#include "objects/protected_volume.h"
#include "objects/volume_task.h"
#include "tests/cli/program_runner.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/api_test_server.h"
#include "tests/support/kind_names.h"

namespace csidelta::cli::uninstall_test {
namespace {

using datamover::MoverBed;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

const k8s::ResourceType kNamespaces = {"", "v1", "namespaces", "Namespace", false};

// A cluster that has a base snapshot of the data mover.
class CliUninstallTest : public testing::Test {
 protected:
  CliUninstallTest()
      : server_(bed_.api,
                {kNamespaces, VolumeSnapshotType(), VolumeSnapshotContentType(), DataUploadType(),
                 DataDownloadType(), DataDeletionType(), LeaseType(), SecretType(), PodType(),
                 ConfigMapType(), PersistentVolumeType(), PersistentVolumeClaimType(),
                 objects::VolumeTask::Type(), objects::BackupStorageLocation::Type(),
                 objects::DifferentialSnapshot::Type(), objects::ProtectedVolume::Type()}) {
    bed_.api.Seed(kNamespaces,
                  {{"metadata", {{"name", "kube-system"}, {"uid", bed_.env.cluster}}}});
    bed_.AddBase("data", bed_.env.cluster);
    program_.Write("kubeconfig", server_.Kubeconfig());
    bed_.api.ClearCalls();
  }

  Outcome Uninstall(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"uninstall", "--kubeconfig", program_.Path("kubeconfig"),
                                      "--namespace", MoverBed::kMover};
    words.insert(words.end(), more.begin(), more.end());
    return program_.Run(words);
  }

  std::vector<Json> Contents() const { return bed_.api.All(VolumeSnapshotContentType()); }

  MoverBed bed_;
  support::ApiTestServer server_;
  ProgramRunner program_;
};

TEST_F(CliUninstallTest, WithoutYesItSaysWhatWouldGoAndChangesNothing) {
  const Outcome outcome = Uninstall();
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("goes  VolumeSnapshotContent du-1"),
                                 HasSubstr("would remove 1 object; run it again with --yes")));
  EXPECT_THAT(Contents(), SizeIs(1));
  const Json expected = {
      {"message_type", "result"}, {"dry_run", true}, {"things", 1}, {"failed", 0}};
  EXPECT_EQ(Uninstall({"--json"}).Result(), expected);
}

TEST_F(CliUninstallTest, WithYesItGoesAndTheNextRunFindsNothing) {
  const Outcome outcome = Uninstall({"--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("gone  VolumeSnapshotContent du-1"),
                                 HasSubstr("removed 1 object, 0 failed\n")));
  EXPECT_THAT(Contents(), SizeIs(0));
  EXPECT_THAT(Uninstall({"--yes"}).out, HasSubstr("nothing to remove"));
  const Json expected = {
      {"message_type", "result"}, {"dry_run", false}, {"things", 0}, {"failed", 0}};
  EXPECT_EQ(Uninstall({"--yes", "--json"}).Result(), expected);
}

TEST_F(CliUninstallTest, ObjectsThatCannotBeRemovedAreNamedAndTheRunIsIncomplete) {
  bed_.api.Forbid("delete", "volumesnapshotcontents");
  const Outcome outcome = Uninstall({"--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete) << outcome.error;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("failed  VolumeSnapshotContent du-1"),
                                 HasSubstr("removed 0 objects, 1 failed: run it again")));
  EXPECT_EQ(GetInt(Uninstall({"--yes", "--json"}).Result(), {"failed"}), 1);
}

TEST_F(CliUninstallTest, DataIsDeletedOnlyOfTheClusterThatIsNamed) {
  const Outcome other = Uninstall({"--yes", "--delete-data", "c2"});
  EXPECT_EQ(other.code, ExitCode::kFailed);
  EXPECT_THAT(other.error, HasSubstr("--delete-data names cluster c2, and this is " +
                                     bed_.env.cluster + ": nothing was done"));
  const Outcome both = Uninstall({"--yes", "--keep-data", "--delete-data", bed_.env.cluster});
  EXPECT_EQ(both.code, ExitCode::kFailed);
  EXPECT_THAT(both.error, HasSubstr("exclude each other"));
  EXPECT_THAT(Contents(), SizeIs(1));
}

// They may name the credentials that delete.
TEST_F(CliUninstallTest, DataIsNotDeletedWhenTheSettingsDoNotRead) {
  bed_.api.Seed(
      ConfigMapType(),
      {{"metadata", {{"name", datamover::kSettingsConfigMap}, {"namespace", MoverBed::kMover}}},
       {"data", {{datamover::kSettingsKey, "{"}}}});
  const Outcome outcome = Uninstall({"--yes", "--delete-data", bed_.env.cluster});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, HasSubstr(datamover::kSettingsConfigMap));
  EXPECT_THAT(Contents(), SizeIs(1));
  EXPECT_EQ(Uninstall({"--yes"}).code, ExitCode::kOk);
  EXPECT_THAT(Contents(), SizeIs(0));
}

TEST_F(CliUninstallTest, WhileTheDataMoverWorksItIsRefused) {
  bed_.api.Seed(LeaseType(),
                {{"metadata", {{"name", datamover::kMoverLease}, {"namespace", MoverBed::kMover}}},
                 {"spec", {{"holderIdentity", "one"}, {"renewTime", FormatRfc3339(absl::Now())}}}});
  bed_.AddUpload("u1");
  bed_.AddUpload("u2");
  const Outcome outcome = Uninstall({"--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error,
              HasSubstr("DataUpload velero/u1 (New), and more; wait until csi-delta status"));
  EXPECT_TRUE(bed_.api.Find(VolumeSnapshotContentKey("du-1")).has_value());
}

}  // namespace
}  // namespace csidelta::cli::uninstall_test
