#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backupitemactions/actions.h"
#include "k8s/object.h"
#include "tests/backupitemactions/action_fixture.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"

namespace csidelta::backupitemactions::secret_actions_test {
namespace {

using support::IsOk;
using testing::ElementsAre;
using testing::IsEmpty;

class SecretActionsTest : public ActionTest {
 protected:
  // The content of the VolumeSnapshot that the claim's action took.
  Json TakeContent() {
    EXPECT_THAT(RunAction(*MakePvcAction(env_), claim_), IsOk());
    api_.ClearCalls();
    return api_.All(VolumeSnapshotContentType()).front();
  }

  velero::BackupItemResult Execute(const Json& content) {
    const auto result = MakeVolumeSnapshotContentAction(env_)->Execute(
        ctx_, objects::Object(content), objects::Object(backup_));
    EXPECT_THAT(result, IsOk());
    return *result;
  }
};

const velero::ResourceIdentifier kSecret{"", "secrets", "vault", "key"};

void NameSecret(Json& content) {
  SetJson(content,
          {"metadata", "annotations", "snapshot.storage.kubernetes.io/deletion-secret-name"},
          "key");
  SetJson(content,
          {"metadata", "annotations", "snapshot.storage.kubernetes.io/deletion-secret-namespace"},
          "vault");
}

TEST_F(SecretActionsTest, AContentsSecretGoesAlong) {
  Json content = TakeContent();
  SetJson(content, {"metadata", "labels", "velero.io/backup-name"}, "nightly");
  NameSecret(content);
  const velero::BackupItemResult result = Execute(content);
  EXPECT_THAT(result.additional_items, ElementsAre(kSecret));
  EXPECT_EQ(result.item->Annotation("backup.velero.io/must-include-additional-items"), "true");
  EXPECT_THAT(api_.calls(), IsEmpty());
}

TEST_F(SecretActionsTest, AClassesSecretGoesAlong) {
  const Json snapshot_class = {
      {"metadata", {{"name", "fast"}}},
      {"parameters",
       {{"csi.storage.k8s.io/snapshotter-list-secret-name", "key"},
        {"csi.storage.k8s.io/snapshotter-list-secret-namespace", "vault"}}}};
  const auto result = MakeVolumeSnapshotClassAction(env_)->Execute(
      ctx_, objects::Object(snapshot_class), objects::Object(backup_));
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->additional_items, ElementsAre(kSecret));
}

TEST_F(SecretActionsTest, NothingToBringChangesNothing) {
  Json content = TakeContent();
  SetJson(content, {"metadata", "labels", "velero.io/backup-name"}, "nightly");
  EXPECT_FALSE(Execute(content).item.has_value());
  NameSecret(content);
  Finalizing();
  EXPECT_FALSE(Execute(content).item.has_value());
  env_.enable_csi = false;
  EXPECT_FALSE(Execute(content).item.has_value());
}

TEST_F(SecretActionsTest, AForgottenLabelIsWritten) {
  const Json content = TakeContent();
  const velero::BackupItemResult result = Execute(content);
  EXPECT_EQ(result.item->Label("velero.io/backup-name"), "nightly");
  EXPECT_EQ(k8s::Label(api_.All(VolumeSnapshotContentType()).front(), "velero.io/backup-name"),
            "nightly");
}

// Velero's delete action has each content that carries the backup's label deleted alone, whenever
// the driver cannot tell that it is a member of a group.
TEST_F(SecretActionsTest, AMemberOfAGroupIsArchivedWithoutTheLabelThatHasItDeletedAlone) {
  Json content = TakeContent();
  SetJson(content, {"metadata", "labels"},
          {{"velero.io/backup-name", "nightly"}, {"velero.io/csi-delta-volume-group", "g"}});
  const Json labels = {{"velero.io/csi-delta-backup-name", "nightly"},
                       {"velero.io/csi-delta-volume-group", "g"}};
  EXPECT_EQ(Execute(content).item.value_or(objects::Object(content)).json()["metadata"]["labels"],
            labels);
  Finalizing();
  EXPECT_EQ(Execute(content).item.value_or(objects::Object(content)).json()["metadata"]["labels"],
            labels)
      << "it is read again then";
  EXPECT_EQ(Writes(), 0);
}

TEST_F(SecretActionsTest, OtherContentsGetNoLabel) {
  Json content = TakeContent();
  SetJson(content, {"spec", "volumeSnapshotRef", "uid"}, "another");
  EXPECT_FALSE(Execute(content).item.has_value());
  content["spec"]["source"] = {{"snapshotHandle", "h"}};
  EXPECT_FALSE(Execute(content).item.has_value());
  EXPECT_EQ(Writes(), 0);
}

TEST_F(SecretActionsTest, OwnersInNamespacesAreTakenOffBothCopies) {
  const Json owner = {{"apiVersion", "v1"}, {"kind", "Pod"}, {"name", "p"}, {"uid", "u"}};
  const Json content = TakeContent();
  const auto key = VolumeSnapshotContentKey(k8s::Name(content));
  api_.SetField(key, {"metadata", "ownerReferences"}, Json::array({owner}));
  const velero::BackupItemResult result = Execute(*api_.Find(key));
  EXPECT_FALSE(result.item->json()["metadata"].contains("ownerReferences"));
  EXPECT_FALSE((*api_.Find(key))["metadata"].contains("ownerReferences"));
}

}  // namespace
}  // namespace csidelta::backupitemactions::secret_actions_test
