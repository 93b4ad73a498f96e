#include "objects/backup.h"

#include <gtest/gtest.h>

#include <string>

#include "objects/backup.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"
#include "tests/support/velero_119_objects.h"

namespace csidelta::objects::backup_test {
namespace {

using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kFullBackup[] = R"({
  "kind": "Backup", "apiVersion": "velero.io/v1", "future": 9007199254740993,
  "metadata": {"name": "nightly", "namespace": "velero", "uid": "u-1",
    "labels": {"velero.io/schedule-name": "s"},
    "annotations": {"velero.io/resource-timeout": "5m0s",
                    "velero.io/global-backup-volume-policy-configmap": "global"}},
  "spec": {"snapshotVolumes": false, "snapshotMoveData": true, "datamover": "csi-delta",
    "storageLocation": "default", "volumeGroupSnapshotLabelKey": "group",
    "csiSnapshotTimeout": "20m0s", "itemOperationTimeout": "8h0m0s",
    "defaultVolumesToFsBackup": true, "includedNamespaces": ["a", "b"],
    "excludedResources": ["secrets"], "includeClusterResources": true,
    "resourcePolicy": {"apiGroup": null, "kind": "ConfigMap", "name": "policies"}},
  "status": {"phase": "InProgress"}})";

TEST(ParseBackupTest, ReadsEveryField) {
  const auto backup = Backup::Parse(Object(*ParseJson(kFullBackup)));
  ASSERT_TRUE(backup.ok()) << backup.status();
  EXPECT_EQ(backup->name(), "nightly");
  EXPECT_EQ(backup->namespace_name(), "velero");
  EXPECT_EQ(backup->uid(), "u-1");
  EXPECT_EQ(backup->phase(), "InProgress");
  EXPECT_EQ(backup->Label("velero.io/schedule-name"), "s");
  EXPECT_EQ(backup->snapshot_volumes(), false);
  EXPECT_TRUE(backup->snapshot_move_data());
  EXPECT_EQ(backup->data_mover(), "csi-delta");
  EXPECT_EQ(backup->storage_location(), "default");
  EXPECT_EQ(backup->volume_group_label_key(), "group");
  EXPECT_EQ(backup->csi_snapshot_timeout(), absl::Minutes(20));
  EXPECT_TRUE(backup->defaults_to_fs_backup());
  EXPECT_EQ(backup->resource_policy_config_map(), "policies");
  EXPECT_EQ(backup->global_policy_config_map(), "global");
  EXPECT_THAT(backup->excluded_resources(), ElementsAre("secrets"));
  EXPECT_FALSE(backup->is_finalizing());
}

TEST(ParseBackupTest, FillsInVelerosDefaults) {
  const auto backup = Backup::Parse(Object(*ParseJson(
      R"({"metadata":{"name":"b","namespace":"v"},
          "spec":{"csiSnapshotTimeout":"0s","itemOperationTimeout":null,"labelSelector":null}})")));
  ASSERT_TRUE(backup.ok()) << backup.status();
  EXPECT_EQ(backup->snapshot_volumes(), std::nullopt);
  EXPECT_FALSE(backup->snapshot_move_data());
  EXPECT_EQ(backup->csi_snapshot_timeout(), absl::Minutes(10));
  EXPECT_FALSE(backup->defaults_to_fs_backup());
  EXPECT_EQ(backup->resource_policy_config_map(), "");
}

TEST(ParseBackupTest, ReadsTheOldNameOfTheFsBackupFlag) {
  const auto backup = Backup::Parse(Object(*ParseJson(
      R"({"metadata":{"name":"b","namespace":"v"},"spec":{"defaultVolumesToRestic":true}})")));
  ASSERT_TRUE(backup.ok()) << backup.status();
  EXPECT_TRUE(backup->defaults_to_fs_backup());
}

TEST(ParseBackupTest, OnlyConfigMapsHoldPolicies) {
  const auto backup = Backup::Parse(Object(*ParseJson(
      R"({"metadata":{"name":"b","namespace":"v"},
          "spec":{"resourcePolicy":{"kind":"secret","name":"p"}}})")));
  ASSERT_TRUE(backup.ok()) << backup.status();
  EXPECT_EQ(backup->resource_policy_config_map(), "");
}

Backup InPhase(const char* phase) { return support::As<Backup>({{"status", {{"phase", phase}}}}); }

struct PhaseCase {
  const char* phase;
  bool finalizing, finished, over;
};
class BackupPhaseTest : public testing::TestWithParam<PhaseCase> {};

TEST_P(BackupPhaseTest, IsUnderstood) {
  const Backup backup = InPhase(GetParam().phase);
  EXPECT_EQ(backup.is_finalizing(), GetParam().finalizing);
  EXPECT_EQ(backup.is_finished(), GetParam().finished);
  EXPECT_EQ(backup.is_over(), GetParam().over);
}

INSTANTIATE_TEST_SUITE_P(Table, BackupPhaseTest,
                         testing::ValuesIn(std::vector<PhaseCase>{
                             {"", false, false, false},
                             {"New", false, false, false},
                             {"InProgress", false, false, false},
                             {"WaitingForPluginOperations", false, false, false},
                             {"WaitingForPluginOperationsPartiallyFailed", false, false, false},
                             {"Finalizing", true, false, false},
                             {"FinalizingPartiallyFailed", true, false, false},
                             {"Completed", false, true, true},
                             {"PartiallyFailed", false, true, true},
                             {"Failed", false, true, true},
                             {"FailedValidation", false, true, true},
                             {"Deleting", false, false, true},
                         }));

struct BadObjectCase {
  const char* name;
  std::string text;
  const char* want_message;
};
class BadBackupTest : public testing::TestWithParam<BadObjectCase> {};

TEST_P(BadBackupTest, IsInvalidArgument) {
  EXPECT_THAT(Backup::Parse(Object(*ParseJson(GetParam().text))),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(GetParam().want_message)));
}

std::string WithSpec(const std::string& spec) {
  return R"({"metadata":{"name":"b","namespace":"v"},"spec":{)" + spec + "}}";
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadBackupTest,
    testing::ValuesIn(std::vector<BadObjectCase>{
        {"Null", "null", "not an object"},
        {"List", "[]", "not an object"},
        {"Empty", "{}", "metadata.name: missing"},
        {"NoNamespace", R"({"metadata":{"name":"b"}})", "metadata.namespace: missing"},
        {"NameNumber", R"({"metadata":{"name":1,"namespace":"v"}})", "metadata.name: is not"},
        {"LabelsList", R"({"metadata":{"name":"b","namespace":"v","labels":[]}})",
         "metadata.labels: is not a map"},
        {"LabelNumber", R"({"metadata":{"name":"b","namespace":"v","labels":{"a":1}}})",
         "metadata.labels: is not a map"},
        {"FlagText", WithSpec(R"("snapshotVolumes":"false")"), "spec.snapshotVolumes: is not"},
        {"FlagNumber", WithSpec(R"("snapshotMoveData":1)"), "spec.snapshotMoveData: is not"},
        {"MoverList", WithSpec(R"("datamover":[])"), "spec.datamover: is not a string"},
        {"TimeoutNumber", WithSpec(R"("csiSnapshotTimeout":600)"), "spec.csiSnapshotTimeout: is"},
        {"TimeoutText", WithSpec(R"("csiSnapshotTimeout":"soon")"), "spec.csiSnapshotTimeout"},
        {"TimeoutNegative", WithSpec(R"("itemOperationTimeout":"-1s")"), "negative"},
        {"TimeoutHuge", WithSpec(R"("itemOperationTimeout":"99999999h")"), "itemOperationTimeout"},
        {"ResourceTimeout",
         R"({"metadata":{"name":"b","namespace":"v",
             "annotations":{"velero.io/resource-timeout":"x"}}})",
         "annotation velero.io/resource-timeout"},
        {"NamespacesText", WithSpec(R"("includedNamespaces":"a")"), "is not a list"},
        {"NamespacesNumbers", WithSpec(R"("includedNamespaces":[1])"), "not a string"},
        {"PolicyNameNumber", WithSpec(R"("resourcePolicy":{"kind":"configmap","name":3})"),
         "spec.resourcePolicy.name"},
    }),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ParseBackupTest, ABackupOfVelero119MayBeFull) {
  Json json = *ParseJson(support::kBackupOf119);
  EXPECT_TRUE(Backup::Parse(Object(json))->is_full());
  EXPECT_TRUE(Backup::Parse(Object(json))->is_moved_by_us());
  json["spec"]["backupType"] = "Incremental";
  EXPECT_FALSE(Backup::Parse(Object(json))->is_full());
}

TEST(ParseRestoreTest, ReadsEveryField) {
  const auto restore = Restore::Parse(Object(*ParseJson(R"({
    "metadata": {"name": "r", "namespace": "velero", "uid": "u-2",
                 "annotations": {"velero.io/resource-timeout": "1m"}},
    "spec": {"backupName": "nightly", "restorePVs": false, "itemOperationTimeout": "2h0m0s",
             "resourceModifier": {"kind": "configmap", "name": "m"},
             "namespaceMapping": {"a": "b"}},
    "status": {"phase": "InProgress"}})")));
  ASSERT_TRUE(restore.ok()) << restore.status();
  EXPECT_EQ(restore->name(), "r");
  EXPECT_EQ(restore->uid(), "u-2");
  EXPECT_EQ(restore->phase(), "InProgress");
  EXPECT_EQ(restore->backup_name(), "nightly");
  EXPECT_TRUE(restore->is_without_data());
  EXPECT_TRUE(restore->has_resource_modifier());
  EXPECT_EQ(restore->MapNamespace("a"), "b");
  EXPECT_EQ(restore->MapNamespace("c"), "c");
}

TEST(ParseRestoreTest, PodsComeIfItRestoresThemOrWhatMakesThem) {
  struct Case {
    std::string spec;
    bool want;
  };
  const std::vector<Case> cases = {
      {"", true},
      {R"("includedResources":["*"])", true},
      {R"("includedResources":["persistentvolumeclaims","persistentvolumes"])", false},
      {R"("includedResources":["pvc","po"])", true},
      {R"("includedResources":["persistentvolumeclaims","Pods"])", true},
      {R"("includedResources":["pvc","statefulsets.apps"])", true},
      {R"("includedResources":["pvc","volumesnapshots.snapshot.storage.k8s.io"])", false},
      {R"("includedResources":["pvc","clusters.postgresql.cnpg.io"])", true},  // An operator's.
      {R"("includedResources":["pvc","jobsets.jobset.x-k8s.io"])", true},
      {R"("includedResources":["pvc","Pods"],"excludedResources":["pods"])", false},
      {R"("includedResources":["pvc","pods","jobs"],"excludedResources":["pods"])", true},
      {R"("excludedResources":["pods"])", true},  // A Deployment may make them.
      {R"("includedResources":7)", true},
  };
  for (const Case& one : cases) {
    const absl::StatusOr<Json> json = ParseJson(WithSpec(one.spec));
    ASSERT_TRUE(json.ok()) << one.spec;
    EXPECT_EQ(Restore::Of(*json)->RestoresPods(), one.want) << one.spec;
  }
}

TEST(ParseRestoreTest, PvcsWithoutDataAreReadAsTheyWereWritten) {
  Restore restore = Restore::Make("velero", "r");
  EXPECT_TRUE(restore.pvcs_without_data().empty());
  // The longest names, which an annotation must hold.
  const std::vector<PvcWithoutData> many(kPvcsWithoutDataMax + 1,
                                         {.namespace_name = std::string(63, 'n'),
                                          .name = std::string(253, 'n'),
                                          .uid = std::string(36, 'u'),
                                          .command = std::string(1200, 'c')});
  const Json patch = restore.PatchOfPvcsWithoutData(many).json();
  const std::string text =
      GetString(patch, {"metadata", "annotations", "velero.io/csi-delta-without-data"});
  EXPECT_LT(text.size(), 256U << 10);
  restore.SetAnnotation("velero.io/csi-delta-without-data", text);
  EXPECT_EQ(restore.pvcs_without_data().size(), kPvcsWithoutDataMax);
  restore.SetAnnotation(
      "velero.io/csi-delta-without-data",
      R"([{"namespace": "shop", "name": "data", "uid": "u1", "command": "do"}, 7])");
  ASSERT_EQ(restore.pvcs_without_data().size(), 1U);
  EXPECT_EQ(restore.pvcs_without_data()[0].namespace_name, "shop");
  EXPECT_EQ(restore.pvcs_without_data()[0].name, "data");
  EXPECT_EQ(restore.pvcs_without_data()[0].uid, "u1");
  EXPECT_EQ(restore.pvcs_without_data()[0].command, "do");
  for (const char* bad : {"{", "7", "{}", R"(["x"])"}) {
    restore.SetAnnotation("velero.io/csi-delta-without-data", bad);
    EXPECT_TRUE(restore.pvcs_without_data().empty()) << bad;
  }
}

class BadRestoreTest : public testing::TestWithParam<BadObjectCase> {};

TEST_P(BadRestoreTest, IsInvalidArgument) {
  EXPECT_THAT(Restore::Parse(Object(*ParseJson(GetParam().text))),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(GetParam().want_message)));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadRestoreTest,
    testing::ValuesIn(std::vector<BadObjectCase>{
        {"Text", "\"restore\"", "not an object"},
        {"Empty", "{}", "metadata.name: missing"},
        {"FlagText", WithSpec(R"("restorePVs":"no")"), "spec.restorePVs"},
        {"MappingList", WithSpec(R"("namespaceMapping":["a"])"), "spec.namespaceMapping"},
        {"MappingNumber", WithSpec(R"("namespaceMapping":{"a":1})"), "spec.namespaceMapping"},
        {"BackupNameMap", WithSpec(R"("backupName":{})"), "spec.backupName"},
    }),
    [](const auto& test) { return std::string(test.param.name); });

TEST(BackupTest, IncludesNamespacesByNameAndPattern) {
  struct Case {
    std::vector<std::string> included, excluded;
    bool want;
  };
  const std::vector<Case> cases = {
      {{}, {}, true},
      {{"*"}, {}, true},
      {{"shop"}, {}, true},
      {{"team", "sh?p"}, {}, true},
      {{"s*p"}, {}, true},
      {{"*s*h*"}, {}, true},
      {{"[st]*"}, {}, true},  // In doubt, yes.
      {{"team"}, {}, false},
      {{"shop-*"}, {}, false},
      {{"sho"}, {}, false},
      {{"*x"}, {}, false},
      {{}, {"shop"}, false},
      {{"*"}, {"s*"}, false},
      {{}, {"team", "shops"}, true},
      {{}, {"[s]hop"}, true},  // In doubt, yes.
  };
  for (const Case& one : cases) {
    const auto backup = support::As<Backup>(
        {{"spec", {{"includedNamespaces", one.included}, {"excludedNamespaces", one.excluded}}}});
    EXPECT_EQ(backup.IncludesNamespace("shop"), one.want)
        << testing::PrintToString(one.included) << testing::PrintToString(one.excluded);
  }
}

}  // namespace
}  // namespace csidelta::objects::backup_test
