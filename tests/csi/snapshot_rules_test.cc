// The pure rules about volume snapshots: which class, which Secrets, which owners,
// which marks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "csi/expose/snapshot_secrets.h"
#include "csi/once_map.h"
#include "csi/owner_references.h"
#include "csi/snapshot_class.h"
#include "csi/static_content.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::csi::snapshot_rules_test {
namespace {

using support::StatusIs;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Json Class(const char* name, const char* driver, const char* mark = "") {
  Json made = {{"metadata", {{"name", name}}}, {"driver", driver}};
  if (std::string(mark) == "label") {
    SetJson(made, {"metadata", "labels", "velero.io/csi-volumesnapshot-class"}, "");
  } else if (std::string(mark) == "default" || std::string(mark) == "no default") {
    SetJson(made, {"metadata", "annotations", "snapshot.storage.kubernetes.io/is-default-class"},
            std::string(mark) == "default" ? "true" : "false");
  }
  return made;
}

struct ClassCase {
  const char* name;
  SnapshotClassRequest wish;
  std::vector<Json> classes;
  const char* want;  // "" for an error
  int ungranted = 0;
  absl::StatusCode error = absl::StatusCode::kFailedPrecondition;
};

// `label` is what an error names.
void ExpectChosen(const absl::StatusOr<SnapshotClassChoice>& choice, const ClassCase& want,
                  const char* label) {
  if (std::string(want.want).empty()) {
    EXPECT_THAT(choice, StatusIs(want.error, HasSubstr(label)));
    return;
  }
  ASSERT_THAT(choice, support::IsOk());
  EXPECT_EQ(choice->name, want.want);
  EXPECT_THAT(choice->ungranted, SizeIs(want.ungranted));
}

class ChooseSnapshotClassTest : public testing::TestWithParam<ClassCase> {};

TEST_P(ChooseSnapshotClassTest, Picks) {
  ExpectChosen(ChooseSnapshotClass(GetParam().wish, support::AllAs<objects::VolumeSnapshotClass>(
                                                        GetParam().classes)),
               GetParam(), "velero.io/csi-volumesnapshot-class");
}

const ClassCase kClassCases[] = {
    {"None", {"d", "", "", ""}, {}, ""},
    {"OtherDriverOnly", {"d", "", "", ""}, {Class("a", "other", "label")}, ""},
    {"Single", {"d", "", "", ""}, {Class("a", "d"), Class("b", "other")}, "a"},
    {"TwoUnmarked", {"d", "", "", ""}, {Class("a", "d"), Class("b", "d")}, ""},
    {"Default", {"d", "", "", ""}, {Class("a", "d"), Class("b", "d", "default")}, "b"},
    {"NotReallyDefault", {"d", "", "", ""}, {Class("a", "d"), Class("b", "d", "no default")}, ""},
    {"LabelBeforeDefault",
     {"d", "", "", ""},
     {Class("a", "d", "default"), Class("b", "d", "label")},
     "b"},
    {"FirstLabelled", {"d", "", "", ""}, {Class("b", "d", "label"), Class("a", "d", "label")}, "b"},
    {"BackupBeforeLabel", {"d", "", "", "c"}, {Class("b", "d", "label"), Class("c", "d")}, "c"},
    {"PolicyBeforeBackup", {"d", "", "p", "c"}, {Class("c", "d"), Class("p", "d")}, "p"},
    {"ClaimBeforePolicy", {"d", "x", "p", "c"}, {Class("x", "d"), Class("p", "d")}, "x"},
    {"NamesWithoutCase", {"D.example", "CLASS", "", ""}, {Class("class", "d.EXAMPLE")}, "class"},
    {"NamedOneIsGone", {"d", "gone", "", ""}, {Class("a", "d")}, "a", 1},
    {"NamedOneIsOfAnotherDriver",
     {"d", "x", "y", ""},
     {Class("a", "d"), Class("x", "other")},
     "a",
     2},
    {"NothingButOddities", {"d", "x", "", ""}, {Json(), Json::array(), Json("d")}, ""},
};
INSTANTIATE_TEST_SUITE_P(Table, ChooseSnapshotClassTest, testing::ValuesIn(kClassCases),
                         [](const auto& test) { return std::string(test.param.name); });

Json GroupClass(const char* name, const char* driver, const char* label = "",
                const char* is_default = "") {
  Json made = {{"metadata", {{"name", name}}}, {"driver", driver}};
  if (std::string(label) != "") {
    SetJson(made, {"metadata", "labels", "velero.io/csi-volumegroupsnapshot-class"}, label);
  }
  if (std::string(is_default) != "") {
    SetJson(made,
            {"metadata", "annotations", "groupsnapshot.storage.kubernetes.io/is-default-class"},
            is_default);
  }
  return made;
}

class ChooseGroupSnapshotClassTest : public testing::TestWithParam<ClassCase> {};

TEST_P(ChooseGroupSnapshotClassTest, Picks) {
  ExpectChosen(
      ChooseGroupSnapshotClass(
          GetParam().wish, support::AllAs<objects::VolumeGroupSnapshotClass>(GetParam().classes)),
      GetParam(), "velero.io/csi-volumegroupsnapshot-class=true");
}

const ClassCase kGroupClassCases[] = {
    {"None", {"d", "", "", ""}, {}, "", 0, absl::StatusCode::kNotFound},
    {"OtherDriverOnly",
     {"d", "", "", ""},
     {GroupClass("a", "other", "true", "true")},
     "",
     0,
     absl::StatusCode::kNotFound},
    {"Single", {"d", "", "", ""}, {GroupClass("a", "d"), GroupClass("b", "other")}, "a"},
    {"TwoUnmarked", {"d", "", "", ""}, {GroupClass("a", "d"), GroupClass("b", "d")}, ""},
    {"Default", {"d", "", "", ""}, {GroupClass("a", "d"), GroupClass("b", "d", "", "true")}, "b"},
    {"NotReallyDefault",
     {"d", "", "", ""},
     {GroupClass("a", "d"), GroupClass("b", "d", "", "false")},
     ""},
    {"DefaultOfAnotherDriver",
     {"d", "", "", ""},
     {GroupClass("a", "d"), GroupClass("b", "other", "", "true")},
     "a"},
    {"LabelBeforeDefault",
     {"d", "", "", ""},
     {GroupClass("a", "d", "", "true"), GroupClass("b", "d", "true")},
     "b"},
    {"LabelSaysNo", {"d", "", "", ""}, {GroupClass("a", "d"), GroupClass("b", "d", "false")}, ""},
    {"LabelOfSingleSnapshots",
     {"d", "", "", ""},
     {GroupClass("a", "d"), Class("b", "d", "label")},
     ""},
    {"BackupBeforeLabel",
     {"d", "", "", "c"},
     {GroupClass("b", "d", "true"), GroupClass("c", "d")},
     "c"},
    {"ClaimBeforeBackup", {"d", "x", "", "c"}, {GroupClass("c", "d"), GroupClass("x", "d")}, "x"},
    {"NamedOneIsGone", {"d", "gone", "", ""}, {GroupClass("a", "d")}, "a", 1},
    {"NamedOneIsOfAnotherDriver",
     {"d", "x", "", "y"},
     {GroupClass("a", "d"), GroupClass("x", "other")},
     "a",
     2},
    {"NothingButOddities",
     {"d", "x", "", ""},
     {Json(), Json::array(), Json("d")},
     "",
     0,
     absl::StatusCode::kNotFound},
};
INSTANTIATE_TEST_SUITE_P(Table, ChooseGroupSnapshotClassTest, testing::ValuesIn(kGroupClassCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(SnapshotSecretsTest, ContentNamesTheSecretsForDeletion) {
  const Json content = {{"metadata",
                         {{"annotations",
                           {{"snapshot.storage.kubernetes.io/deletion-secret-name", "key"},
                            {"snapshot.storage.kubernetes.io/deletion-secret-namespace", "vault"},
                            {"csi.storage.k8s.io/snapshotter-secret-name", "key"},
                            {"csi.storage.k8s.io/snapshotter-secret-namespace", "vault"}}}}}};
  const auto secrets = SecretsOf(support::As<objects::VolumeSnapshotContent>(content));
  ASSERT_THAT(secrets, SizeIs(1));
  EXPECT_EQ(secrets[0], (velero::ResourceIdentifier{"", "secrets", "vault", "key"}));
}

TEST(SnapshotSecretsTest, ANameWithoutANamespaceIsIgnored) {
  EXPECT_THAT(SecretsOf(support::As<objects::VolumeSnapshotContent>(
                  {{"metadata",
                    {{"annotations", {{"csi.storage.k8s.io/snapshotter-secret-name", "key"}}}}}})),
              IsEmpty());
  EXPECT_THAT(SecretsOf(objects::VolumeSnapshotContent()), IsEmpty());
}

TEST(SnapshotSecretsTest, ClassNamesSecretsByAnnotationAndParameter) {
  const Json snapshot_class = {
      {"metadata",
       {{"annotations",
         {{"csi.storage.k8s.io/snapshotter-list-secret-name", "list"},
          {"csi.storage.k8s.io/snapshotter-list-secret-namespace", "vault"}}}}},
      {"parameters",
       {{"csi.storage.k8s.io/snapshotter-secret-name", "cut"},
        {"csi.storage.k8s.io/snapshotter-secret-namespace", "vault"}}}};
  EXPECT_THAT(SecretsOf(support::As<objects::VolumeSnapshotClass>(snapshot_class)), SizeIs(2));
}

TEST(SnapshotSecretsTest, TemplatesNameNoSecret) {
  EXPECT_THAT(SecretsOf(support::As<objects::VolumeSnapshotClass>(
                  {{"parameters",
                    {{"csi.storage.k8s.io/snapshotter-secret-name", "key"},
                     {"csi.storage.k8s.io/snapshotter-secret-namespace",
                      "${volumesnapshot.namespace}"}}}})),
              IsEmpty());
}

Json Owner(const char* api_version, const char* kind) {
  return {{"apiVersion", api_version}, {"kind", kind}, {"name", "o"}, {"uid", "u"}};
}

struct OwnerCase {
  const char* name;
  const char* namespace_name;
  Json owner;
  bool stripped;
  const char* label = "";
};
class StripForeignOwnersTest : public testing::TestWithParam<OwnerCase> {};

TEST_P(StripForeignOwnersTest, Strips) {
  const OwnerCase& test = GetParam();
  Json object = {{"metadata", {{"name", "x"}, {"ownerReferences", Json::array({test.owner})}}}};
  if (std::string(test.namespace_name) != "") {
    SetJson(object, {"metadata", "namespace"}, test.namespace_name);
  }
  objects::Object stripped(object);
  EXPECT_EQ(StripForeignOwners("velero", stripped), test.stripped);
  EXPECT_EQ(FindJson(stripped.json(), {"metadata", "ownerReferences"}) == nullptr, test.stripped);
  if (std::string(test.label) != "") {
    EXPECT_EQ(stripped.Label(test.label), "o");
  }
}

const OwnerCase kOwnerCases[] = {
    {"ClusterScopedByNamespaced", "", Owner("snapshot.storage.k8s.io/v1", "VolumeSnapshot"), true},
    {"ClusterScopedByBackup", "", Owner("velero.io/v1", "Backup"), true, "velero.io/backup-name"},
    {"ClusterScopedByUnknown", "", Owner("example.com/v1", "Thing"), true},
    {"ClusterScopedByClusterScoped", "",
     Owner("groupsnapshot.storage.k8s.io/v1", "VolumeGroupSnapshotContent"), false},
    {"OtherNamespacesBackup", "app", Owner("velero.io/v1", "Backup"), true,
     "velero.io/backup-name"},
    {"OtherNamespacesRestore", "app", Owner("velero.io/v1", "Restore"), true,
     "velero.io/restore-name"},
    {"SameNamespacesBackup", "velero", Owner("velero.io/v1", "Backup"), false},
    {"SameNamespace", "app", Owner("groupsnapshot.storage.k8s.io/v1", "VolumeGroupSnapshot"),
     false},
    {"NotAnOwner", "", Json("odd"), true},
};
INSTANTIATE_TEST_SUITE_P(Table, StripForeignOwnersTest, testing::ValuesIn(kOwnerCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(StripForeignOwnersTest, KeepsTheOthers) {
  const Json kept = Json::array({Owner("v1", "PersistentVolume")});
  const Json json = {
      {"metadata", {{"ownerReferences", Json::array({Owner("velero.io/v1", "Backup"), kept[0]})}}}};
  objects::Object object(json);
  EXPECT_TRUE(StripForeignOwners("velero", object));
  EXPECT_EQ(object.json()["metadata"]["ownerReferences"], kept);
  EXPECT_FALSE(StripForeignOwners("velero", object));
}

TEST(StripMarksTest, RemovesTheMarksOfControllersAndOfTheBackupAndNothingElse) {
  const Json json = {{"metadata",
                      {{"name", "x"},
                       {"annotations", {{objects::kVolumeSnapshotHandleAnnotation, "h"}}},
                       {"labels", {{objects::kBackupNameLabel, "nightly"}}},
                       {"finalizers", {"example.com/other"}}}}};
  const objects::Object clean(json);
  objects::Object object = clean;
  EXPECT_FALSE(StripMarks(object));
  EXPECT_EQ(object, clean);
  for (const char* key :
       {objects::kBeingCreatedAnnotation, objects::kContentBeingDeletedAnnotation,
        objects::kMustIncludeAnnotation, objects::kGroupSnapshotHandleAnnotation,
        objects::kHandleUnprovenAnnotation, objects::kRestoreMustIncludeAnnotation}) {
    object.SetAnnotation(key, "yes");
    EXPECT_TRUE(StripMarks(object)) << key;
    EXPECT_EQ(object, clean) << key;
  }
  for (const char* key : {objects::kCsiDeltaLabel, objects::kBackupUidLabel,
                          objects::kGroupNameLabel, objects::kMemberOfBackupLabel}) {
    object.SetLabel(key, "yes");
    EXPECT_TRUE(StripMarks(object)) << key;
    EXPECT_EQ(object, clean) << key;
  }
  object.SetFinalizers({"example.com/other", objects::kSnapshotInGroupFinalizer});
  EXPECT_TRUE(StripMarks(object));
  EXPECT_EQ(object, clean);
}

TEST(NamespacePodsTest, ListsOnceAndKeepsPodsWithPvcs) {
  support::FakeApiClient api;
  const Json claim = {{"claimName", "data"}};
  Json pod = {{"metadata", {{"name", "p"}, {"namespace", "app"}}},
              {"spec",
               {{"containers", Json::array({"big"})},
                {"volumes", Json::array({{{"name", "v"}, {"persistentVolumeClaim", claim}}})}}},
              {"status", {{"phase", "Running"}}}};
  api.Seed(PodType(), pod);
  pod["metadata"]["name"] = "without";
  pod["spec"].erase("volumes");
  api.Seed(PodType(), pod);
  NamespacePods pods(api);
  for (int i = 0; i < 3; ++i) {
    const auto found = pods.Get({}, "b", "app");
    ASSERT_THAT(found, support::IsOk());
    ASSERT_THAT(**found, SizeIs(1));
    EXPECT_TRUE((*found)->front().NamesPvc("data"));
    EXPECT_FALSE((*found)->front().NamesPvc("other"));
    EXPECT_FALSE((*found)->front().json()["spec"].contains("containers"));
  }
  EXPECT_EQ(api.CallCount("list", "pods"), 1);
}

}  // namespace
}  // namespace csidelta::csi::snapshot_rules_test
