// csi-delta bases: the whole program in this process, and an API server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rfc3339.h"
#include "objects/backup.h"
#include "objects/backup_storage_location.h"
#include "objects/keys.h"
#include "objects/protected_volume.h"
#include "objects/volume_task.h"
#include "objects/workload.h"
#include "tests/cli/program_runner.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/api_test_server.h"
#include "tests/support/kind_names.h"

namespace csidelta::cli::bases_test {
namespace {

using datamover::MoverBed;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// A cluster that has the base snapshot du-1 of the PVC shop/data, an hour old.
class BasesTest : public testing::Test {
 protected:
  BasesTest()
      : server_(bed_.api,
                {VolumeSnapshotType(), VolumeSnapshotContentType(), DataDeletionType(),
                 ConfigMapType(), PersistentVolumeClaimType(), objects::VolumeTask::Type(),
                 objects::Backup::Type(), objects::BackupStorageLocation::Type(),
                 objects::ProtectedVolume::Type(), objects::Deployment::Type()}) {
    bed_.AddBase("data", bed_.env.cluster);
    bed_.api.Mutate(kContent, [](Json& content) {
      content["metadata"]["annotations"][objects::kMoverTakenAtAnnotation] =
          FormatRfc3339(absl::Now() - absl::Minutes(61));
      content["metadata"]["annotations"][objects::kSourceSizeAnnotation] = "4194304";
    });
    program_.Write("kubeconfig", server_.Kubeconfig());
  }

  Outcome Bases(const std::string& verb, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {
        "bases",         verb, "--kubeconfig", program_.Path("kubeconfig"), "--mover-namespace",
        MoverBed::kMover};
    words.insert(words.end(), more.begin(), more.end());
    return program_.Run(words);
  }

  void DeletePvc() { bed_.api.Remove(ClaimKey("shop", "data")); }
  std::vector<Json> Contents() const { return bed_.api.All(VolumeSnapshotContentType()); }

  const k8s::ObjectKey kContent = {VolumeSnapshotContentType(), "", "du-1"};
  MoverBed bed_;
  support::ApiTestServer server_;
  ProgramRunner program_;
};

TEST_F(BasesTest, ListShowsWhatEachIsOf) {
  const Outcome outcome = Bases("list");
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("du-1"), HasSubstr("shop/data"),
                                 HasSubstr("d.example.com"), HasSubstr("1h"), HasSubstr("4.0 MiB"),
                                 HasSubstr("velero/default"), Not(HasSubstr("deleted"))));
  EXPECT_THAT(Bases("list", {"--namespace", "other"}).out, HasSubstr("no base snapshots"));
  EXPECT_THAT(Bases("list", {"--namespace", "shop", "--pvc", "log"}).out,
              HasSubstr("no base snapshots"));
}

// What is true of every verb of the data mover.
TEST_F(BasesTest, FormsOfTheOutputAndOldNamesOfFlags) {
  EXPECT_EQ(Bases("list", {"-n", "shop", "-o", "json"}).out, Bases("list", {"--json"}).out);
  EXPECT_THAT(Bases("list", {"-o", "yaml"}).out,
              AllOf(testing::StartsWith("---\n- "), HasSubstr("content: du-1\n")));
  const Outcome old = Bases("list", {"--velero-namespaces", "velero"});
  EXPECT_EQ(old.code, ExitCode::kOk);
  EXPECT_THAT(old.out, HasSubstr("du-1"));
  EXPECT_EQ(
      old.error,
      "csi-delta: --velero-namespaces is called --velero-namespace now; the next release does "
      "not know the old name\n");
  EXPECT_THAT(program_.Run({"deletions", "list", "--velero-namespace", "a,b"}).error,
              HasSubstr("takes one --velero-namespace"));
  EXPECT_THAT(program_.Run({"try", "shop", "-n", "shop"}).error, HasSubstr("name one namespace"));
}

TEST_F(BasesTest, VersionNamesWhatRunsInTheCluster) {
  bed_.api.Seed(
      objects::Deployment::Type(),
      {{"metadata", {{"name", "velero"}, {"namespace", "velero"}}},
       {"spec",
        {{"template",
          {{"spec",
            {{"containers", {{{"image", "velero/velero:v1.18.3"}}}},
             {"initContainers", {{{"image", "x/velero-plugin-for-csi-delta:0.1.0"}}}}}}}}}}});
  const std::string kubeconfig = program_.Path("kubeconfig");
  EXPECT_THAT(program_.Run({"version", "--cluster", "--kubeconfig", kubeconfig}).out,
              AllOf(HasSubstr("\nnamespace velero: velero/velero:v1.18.3, "
                              "x/velero-plugin-for-csi-delta:0.1.0\n"),
                    HasSubstr("\nnamespace csi-delta: no Deployment\n"), HasSubstr("\nCRDs: ")));
  const Outcome alone = program_.Run({"version", "--kubeconfig", kubeconfig});
  EXPECT_THAT(alone.out, Not(HasSubstr("namespace")));
  const Outcome gone = program_.Run({"version", "--cluster", "--kubeconfig", "/nowhere", "--json"});
  EXPECT_EQ(gone.code, ExitCode::kOk);
  EXPECT_THAT(GetString(gone.Result(), {"crds"}), HasSubstr("/nowhere"));
}

TEST_F(BasesTest, ListSaysWhyOneIsOfNoUse) {
  DeletePvc();
  EXPECT_THAT(Bases("list").out, HasSubstr("its PVC was deleted"));
  const Json list = ParseJson(Bases("list", {"--json"}).out).value();
  ASSERT_THAT(list, SizeIs(1));
  EXPECT_EQ(GetString(list[0], {"content"}), "du-1");
  EXPECT_EQ(GetString(list[0], {"pvc"}), "data");
  EXPECT_EQ(GetString(list[0], {"reason"}), "PvcGone");
  EXPECT_EQ(GetInt(list[0], {"size_bytes"}), 4194304);
  EXPECT_GE(GetInt(list[0], {"age_seconds"}), 3660);
}

TEST_F(BasesTest, DropWithoutYesChangesNothing) {
  const Outcome outcome = Bases("drop", {"du-1"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("would be dropped  du-1 of PVC shop/data"));
  EXPECT_THAT(outcome.out, HasSubstr("run it again with --yes"));
  EXPECT_THAT(Contents(), SizeIs(1));
}

TEST_F(BasesTest, DropTakesTheDriversSnapshotWithIt) {
  const Outcome outcome =
      Bases("drop", {"--namespace", "shop", "--pvc", "data", "--yes", "--json"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  const Json expected = {{"message_type", "result"}, {"dry_run", false}, {"bases", 1}, {"stay", 0}};
  EXPECT_EQ(outcome.Result(), expected);
  EXPECT_THAT(Contents(), IsEmpty());
}

TEST_F(BasesTest, DropOfUnusedOnesLeavesThoseThatAreOfUse) {
  EXPECT_THAT(Bases("drop", {"--unused", "--yes"}).out, HasSubstr("no base snapshots to drop"));
  EXPECT_THAT(Contents(), SizeIs(1));
  DeletePvc();
  EXPECT_EQ(Bases("drop", {"--unused", "--yes"}).code, ExitCode::kOk);
  EXPECT_THAT(Contents(), IsEmpty());
}

TEST_F(BasesTest, ABaseThatAnUploadIsComparedWithStays) {
  const Json task =
      objects::VolumeTask::Make(MoverBed::kMover, "du-2",
                                {.kind = objects::TaskKind::kUpload,
                                 .subject = {},
                                 .volume = {.namespace_name = "shop",
                                            .claim = "data",
                                            .claim_uid = MoverBed::ClaimUid("shop", "data")},
                                 .cancel = false},
                                {})
          .json();
  for (const char* type : {"Upload", "Newer"}) {  // One that cannot be read may be an upload.
    Json seeded = task;
    SetJson(seeded, {"spec", "type"}, type);
    bed_.api.Seed(objects::VolumeTask::Type(), seeded);
    const Outcome outcome = Bases("drop", {"du-1", "--yes"});
    EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
    EXPECT_THAT(outcome.out, HasSubstr("an upload of its PVC is under way"));
    EXPECT_THAT(Contents(), SizeIs(1));
  }
}

TEST_F(BasesTest, DropRefusesWhatIsNotClear) {
  EXPECT_THAT(Bases("drop").error, HasSubstr("nothing is named"));
  EXPECT_THAT(Bases("drop", {"du-1", "--unused"}).error, HasSubstr("leave one of them out"));
  EXPECT_THAT(Bases("drop", {"--pvc", "data"}).error, HasSubstr("give --namespace, too"));
  EXPECT_THAT(Bases("drop", {"du-1", "du-9", "--yes"}).error,
              HasSubstr("base snapshot du-9 was not found, and nothing was dropped"));
  EXPECT_THAT(Contents(), SizeIs(1));
}

}  // namespace
}  // namespace csidelta::cli::bases_test
