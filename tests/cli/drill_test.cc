// csi-delta drill: the newest backup of a namespace is restored beside it, compared and removed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "k8s/object.h"
#include "objects/backup.h"
#include "objects/cluster.h"
#include "objects/data_download.h"
#include "objects/data_upload.h"
#include "objects/persistent_volume_claim.h"
#include "objects/restore.h"
#include "tests/cli/program_runner.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_api_client.h"

namespace csidelta::cli::drill_test {
namespace {

using objects::Backup;
using objects::DataDownload;
using objects::DataUpload;
using objects::Namespace;
using objects::PersistentVolumeClaim;
using objects::Restore;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class DrillTest : public testing::Test {
 protected:
  DrillTest()
      : api_server_(api_,
                    {Backup::Type(), Restore::Type(), DataUpload::Type(), DataDownload::Type(),
                     PersistentVolumeClaim::Type(), Namespace::Type()}) {
    program_.Write("kubeconfig", api_server_.Kubeconfig());
    api_.OnCreate("restores",
                  [this](support::FakeApiClient&, const Json& restore) { RunRestore(restore); });
    AddBackup("old", "2026-11-01T00:00:00Z", "shop");
    AddBackup("newest", "2026-11-20T00:00:00Z", "shop");
    AddBackup("of-others", "2026-11-21T00:00:00Z", "bank");
    AddBackup("failed", "2026-11-22T00:00:00Z", "shop", "PartiallyFailed");
    for (const char* pvc : {"data", "logs"}) {
      AddUpload("newest", pvc);
    }
    AddUpload("old", "removed-since");
  }

  void AddBackup(const std::string& name, const std::string& created, const std::string& space,
                 const std::string& phase = "Completed") {
    api_.Seed(
        Backup::Type(),
        {{"metadata", {{"name", name}, {"namespace", "velero"}, {"creationTimestamp", created}}},
         {"spec", {{"includedNamespaces", Json::array({space})}}},
         {"status", {{"phase", phase}}}});
  }
  void AddUpload(const std::string& backup, const std::string& pvc) {
    api_.Seed(DataUpload::Type(), {{"metadata",
                                    {{"name", absl::StrCat(backup, "-", pvc)},
                                     {"namespace", "velero"},
                                     {"labels", {{"velero.io/backup-name", backup}}}}},
                                   {"spec",
                                    {{"snapshotType", "CSI"},
                                     {"datamover", "csi-delta"},
                                     {"backupStorageLocation", "default"},
                                     {"sourceNamespace", "shop"},
                                     {"sourcePVC", pvc}}},
                                   {"status", {{"phase", "Completed"}}}});
  }
  // What Velero and the mover do.
  void RunRestore(const Json& restore) {
    const std::string into = GetString(restore, {"spec", "namespaceMapping", "shop"});
    api_.Seed(Namespace::Type(), {{"metadata", {{"name", into}}}, {"status", Json::object()}});
    for (const std::string& pvc : restored_pvcs_) {
      api_.Seed(PersistentVolumeClaim::Type(),
                {{"metadata", {{"name", pvc}, {"namespace", into}}},
                 {"spec", {{"volumeName", absl::StrCat("pv-", pvc)}}},
                 {"status", {{"phase", "Bound"}}}});
      api_.Seed(DataDownload::Type(),
                {{"metadata",
                  {{"name", absl::StrCat("dd-", pvc)},
                   {"namespace", "velero"},
                   {"labels", {{"velero.io/restore-name", k8s::Name(restore)}}}}},
                 {"spec",
                  {{"datamover", "csi-delta"},
                   {"backupStorageLocation", "default"},
                   {"sourceNamespace", "shop"},
                   {"snapshotID", "s"},
                   {"targetVolume", {{"namespace", into}, {"pvc", pvc}, {"pv", ""}}}}},
                 {"status", {{"phase", download_phase_}, {"message", "pack 1 is damaged"}}}});
    }
    api_.Mutate({Restore::Type(), "velero", k8s::Name(restore)}, [this](Json& object) {
      object["status"] = {{"phase", restore_phase_}};
    });
  }

  Outcome Run(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"drill", "shop", "--kubeconfig", program_.Path("kubeconfig"),
                                      "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return program_.Run(words);
  }
  bool HasScratch(const std::string& name = "shop-drill") const {
    return api_.Find({Namespace::Type(), "", name}).has_value();
  }

  std::vector<std::string> restored_pvcs_ = {"data", "logs"};
  std::string download_phase_ = "Completed";
  std::string restore_phase_ = "Completed";
  ProgramRunner program_;
  support::FakeApiClient api_;
  support::ApiTestServer api_server_;
};

TEST_F(DrillTest, TheNewestBackupIsRestoredComparedAndRemoved) {
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  const std::vector<Json> restores = api_.All(Restore::Type());
  ASSERT_THAT(restores, SizeIs(1)) << "it stays as the record";
  EXPECT_EQ(GetString(restores[0], {"spec", "backupName"}), "newest");
  EXPECT_EQ(restores[0].at("spec").at("includedNamespaces"), Json::array({"shop"}));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("\"ok\":true"), HasSubstr("\"backup\":\"newest\""),
                                 HasSubstr("\"scratch_namespace_removed\":true"),
                                 HasSubstr("\"pvc\":\"data\""), HasSubstr("\"pvc\":\"logs\"")));
  EXPECT_FALSE(HasScratch());
}

TEST_F(DrillTest, APvcThatIsMissingFails) {
  restored_pvcs_ = {"data"};
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("\"ok\":false"), HasSubstr("not in the scratch")));
  EXPECT_FALSE(HasScratch());
}

TEST_F(DrillTest, DataThatIsDamagedFails) {
  download_phase_ = "Failed";
  restore_phase_ = "PartiallyFailed";
  const Outcome outcome = Run({"--keep"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("pack 1 is damaged"), HasSubstr("PartiallyFailed")));
  EXPECT_THAT(outcome.error, HasSubstr("kubectl delete namespace shop-drill"));
  EXPECT_TRUE(HasScratch());
}

TEST_F(DrillTest, ABackupWithoutPvcsProvesNothing) {
  restored_pvcs_.clear();
  AddBackup("empty", "2026-11-25T00:00:00Z", "shop");
  EXPECT_EQ(Run().code, ExitCode::kFailed);
}

TEST_F(DrillTest, ANamespaceThatIsThereIsNotTouched) {
  api_.Seed(Namespace::Type(), {{"metadata", {{"name", "shop-drill"}}}, {"spec", Json::object()}});
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("shop-drill exists"), HasSubstr("--into")));
  EXPECT_TRUE(HasScratch());
  EXPECT_THAT(api_.All(Restore::Type()), IsEmpty());
  EXPECT_EQ(Run({"--into", "elsewhere", "--backup", "newest"}).code, ExitCode::kOk);
}

TEST_F(DrillTest, ANamespaceWithoutBackupSaysWhatToName) {
  const Outcome outcome =
      program_.Run({"drill", "garden", "--kubeconfig", program_.Path("kubeconfig"),
                    "--velero-namespace", "velero"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("garden"), HasSubstr("--backup")));
}

}  // namespace
}  // namespace csidelta::cli::drill_test
