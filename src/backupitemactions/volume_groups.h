#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backupitemactions/backup_cache.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "csi/once_map.h"
#include "objects/backup.h"
#include "objects/persistent_volume.h"
#include "objects/volume_group_snapshot.h"
#include "velero/volume_decision.h"

namespace csidelta::backupitemactions {

// The outcome of a volume group in a backup.
struct GroupOutcome {
  absl::Status failed;        // not OK: the group was to be had and could not
  std::string alone_because;  // not "": there is no group, and each claim is alone
  csi::TakenGroup taken;
};

// A PVC in a backup, and what is to be done with its volume. Borrows both.
struct ClaimBackup {
  const objects::Backup& backup;
  const objects::PersistentVolumeClaim& item;
  velero::VolumeDecision decision = {};
};

// The volume groups of backups: who is a member, and one VolumeGroupSnapshot for all of them. The
// first claim of a group that asks makes it. The other claims of the same backup get its outcome,
// also its failure. Thread-safe.
class VolumeGroups {
 public:
  // Decides about a claim's volume; called for every claim of a group.
  using Decide = absl::FunctionRef<absl::StatusOr<velero::VolumeDecision>(
      const objects::PersistentVolumeClaim& claim)>;

  VolumeGroups(const csi::Environment& env, BackupCache& cache) : env_(env), cache_(cache) {}

  // "<namespace>/<group>" of a claim; "" for one without the backup's group label. Pure.
  static std::string GroupOf(const objects::Backup& backup,
                             const objects::PersistentVolumeClaim& claim);

  // `claim` has a group, and is to be snapshotted or moved: only claims of which the same is to be
  // done are members. A group that is to be moved is adopted
  // (csi/group/moved_group.h) and consists of single snapshots then. Any other is looked for again,
  // since the host passes over what it does not find. Errors are FAILED_PRECONDITION where it is
  // gone, and those that may pass: when the call was stopped, or the API server did not answer.
  absl::StatusOr<std::shared_ptr<const GroupOutcome>> Take(const CallContext& ctx,
                                                           const ClaimBackup& claim, Decide decide);

 private:
  // The claims that are taken together.
  struct Members {
    std::vector<objects::PlannedGroupMember> claims;
    std::string class_annotation;  // what the first claim that says so wants
  };

  absl::StatusOr<GroupOutcome> Form(const CallContext& ctx, const ClaimBackup& claim,
                                    Decide decide);
  absl::StatusOr<Members> FindMembers(const CallContext& ctx, const ClaimBackup& claim,
                                      Decide decide);
  absl::StatusOr<std::string> ChooseClass(const objects::Backup& backup, const std::string& driver,
                                          const Members& members, const objects::GroupKinds& kinds);
  absl::StatusOr<GroupOutcome> TakeFound(const CallContext& ctx, const ClaimBackup& claim,
                                         const Members& members, const objects::GroupKinds& kinds,
                                         const std::string& class_name);

  // Notes that Velero is told to save the group. FAILED_PRECONDITION where it was told before, by a
  // process that ended, and the group did not enter the archive: it is not asked for again.
  absl::Status MarkAdopted(const CallContext& ctx, const objects::VolumeGroupSnapshot& group);
  absl::Status StillThere(const CallContext& ctx, const objects::VolumeGroupSnapshot& group);

  csi::Environment env_;
  BackupCache& cache_;
  csi::OnceMap<GroupOutcome> outcomes_{64};
};

}  // namespace csidelta::backupitemactions
