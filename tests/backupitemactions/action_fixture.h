#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/cluster_fixture.h"
#include "tests/support/kind_names.h"
#include "velero/item_action.h"

namespace csidelta::backupitemactions {

// A cluster with one namespace, "app", one bound CSI claim in it, "data", one class for its driver,
// and a backup, "nightly", whose policy gives every CSI volume to us.
class ActionTest : public support::ClusterFixture {
 protected:
  ActionTest() {
    api_.Seed(PersistentVolumeType(),
              {{"metadata", {{"name", "pv-data"}}},
               {"spec",
                {{"capacity", {{"storage", "1Gi"}}},
                 {"csi", {{"driver", "d.example.com"}, {"volumeHandle", "volume-1"}}}}}});
    api_.Seed(VolumeSnapshotClassType(),
              {{"metadata", {{"name", "fast"}}}, {"driver", "d.example.com"}});
    SetPolicy("{csi-delta: snapshot}");
    claim_ = api_.Seed(PersistentVolumeClaimType(),
                       {{"metadata", {{"name", "data"}, {"namespace", "app"}}},
                        {"spec",
                         {{"volumeName", "pv-data"},
                          {"storageClassName", "std"},
                          {"resources", {{"requests", {{"storage", "16Mi"}}}}}}},
                        {"status", {{"phase", "Bound"}}}});
    backup_ = {{"metadata", {{"name", "nightly"}, {"namespace", "velero"}, {"uid", "backup-uid"}}},
               {"spec",
                {{"csiSnapshotTimeout", "10m0s"},
                 {"resourcePolicy", {{"kind", "configmap"}, {"name", "policies"}}}}},
               {"status", {{"phase", "InProgress"}}}};
  }

  // The one rule of the backup's policy is for CSI volumes and has these parameters.
  void SetPolicy(const std::string& parameters, const std::string& type = "custom") {
    SetPolicyRules("- conditions: {csi: {}}\n  action: {type: " + type +
                   ", parameters: " + parameters + "}\n");
  }
  void SetPolicyRules(const std::string& yaml) {
    api_.Seed(ConfigMapType(),
              {{"metadata", {{"name", "policies"}, {"namespace", "velero"}}},
               {"data", {{"policy.yaml", "version: v1\nvolumePolicies:\n" + yaml}}}});
  }

  // `action` on an item of the backup, as the host calls it.
  absl::StatusOr<velero::BackupItemResult> RunAction(velero::BackupItemAction& action,
                                                     const Json& item) {
    return action.Execute(ctx_, objects::Object(item), objects::Object(backup_));
  }
  // The same, which succeeds.
  velero::BackupItemResult Succeed(velero::BackupItemAction& action, const Json& item) {
    const auto result = RunAction(action, item);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.value_or(velero::BackupItemResult());
  }
  absl::StatusOr<velero::OperationProgress> AskProgress(velero::BackupItemAction& action,
                                                        absl::string_view operation_id) {
    return action.Progress(ctx_, operation_id, objects::Object(backup_));
  }
  absl::Status RunCancel(velero::BackupItemAction& action, absl::string_view operation_id) {
    return action.Cancel(ctx_, operation_id, objects::Object(backup_));
  }

  // "Kind name: message" of the Events that report a snapshot that failed.
  std::vector<std::string> SnapshotFailures() const {
    std::vector<std::string> all;
    for (const Json& event : api_.All(EventType())) {
      if (GetString(event, {"reason"}) == "SnapshotFailed") {
        all.push_back(absl::StrCat(GetString(event, {"involvedObject", "name"}), ": ",
                                   GetString(event, {"message"})));
      }
    }
    return all;
  }

  void Finalizing() { SetJson(backup_, {"status", "phase"}, "Finalizing"); }

  // Requests that change something.
  int Writes() const {
    int count = 0;
    for (const char* verb : {"create", "update", "patch", "delete"}) {
      count += api_.CallCount(verb, "*");
    }
    return count;
  }

  Json claim_;
  Json backup_;
};

}  // namespace csidelta::backupitemactions
