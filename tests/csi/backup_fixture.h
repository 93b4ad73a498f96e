#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "csi/group/group_lifecycle.h"
#include "objects/backup.h"
#include "objects/volume_group_snapshot.h"
#include "tests/support/cluster_fixture.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/typed.h"

namespace csidelta::csi {

// A backup "nightly" of the cluster's Velero.
class BackupFixture : public support::ClusterFixture {
 protected:
  // The backup, as another one's uid and timeout would make it.
  static objects::Backup BackupWith(absl::string_view uid, absl::string_view timeout = "10m") {
    Json backup = support::MakeBackupObject("nightly", "InProgress", std::string(uid));
    backup["spec"]["csiSnapshotTimeout"] = timeout;
    return support::As<objects::Backup>(backup);
  }

  // PVC app/data-<i>, labelled app=db, and its volume.
  static objects::PlannedGroupMember Claim(int i) {
    return {.pvc = absl::StrCat("data-", i),
            .pvc_uid = absl::StrCat("uid-", i),
            .volume_handle = absl::StrCat("volume-", i)};
  }
  void SeedClaim(int i) {
    const objects::PlannedGroupMember claim = Claim(i);
    const std::string volume = absl::StrCat("pv-", i);
    api_.Seed(PersistentVolumeType(),
              {{"metadata", {{"name", volume}}},
               {"spec",
                {{"csi", {{"driver", "d.example.com"}, {"volumeHandle", claim.volume_handle}}}}}});
    api_.Seed(PersistentVolumeClaimType(), {{"metadata",
                                             {{"name", claim.pvc},
                                              {"namespace", "app"},
                                              {"uid", claim.pvc_uid},
                                              {"labels", {{"app", "db"}}}}},
                                            {"spec", {{"volumeName", volume}}}});
  }

  // Of the group "db" of the first `claims` of them.
  GroupRequest RequestOfGroup(int claims, const std::string& version = "v1") const {
    GroupRequest request{.backup = backup_,
                         .namespace_name = "app",
                         .label_key = "velero.io/volume-group",
                         .label_value = "db",
                         .class_name = "groups",
                         .version = version,
                         .members = {}};
    for (int i = 0; i < claims; ++i) {
      request.members.push_back(Claim(i));
    }
    return request;
  }

  objects::Backup backup_ = BackupWith("backup-uid");
};

}  // namespace csidelta::csi
