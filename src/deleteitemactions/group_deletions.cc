#include "deleteitemactions/group_deletions.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/group/group_deletion.h"
#include "deleteitemactions/undeleted.h"

namespace csidelta::deleteitemactions {
namespace {

constexpr absl::Duration kWaitForSlowDriver = absl::Seconds(1);

}  // namespace

absl::Duration DriverGracePeriod::WaitFor(const CallContext& ctx, const std::string& driver) {
  {
    const MutexLock lock(mutex_);
    if (slow_drivers_.contains(driver)) {
      return kWaitForSlowDriver;
    }
  }
  return csi::ReadPluginConfigOrDefaults(ctx, env_).deletion_wait;
}

void DriverGracePeriod::WasSlow(const std::string& driver) {
  const MutexLock lock(mutex_);
  slow_drivers_.insert(driver);
}

absl::Status GroupDeletions::Delete(const CallContext& ctx,
                                    const objects::VolumeGroupSnapshotContent& archived_content,
                                    const objects::Backup& backup) {
  const std::string driver = archived_content.driver();
  const std::string handle = archived_content.archived_handle();
  const std::string name = csi::GroupDeletionContentName(driver, handle);
  {
    const MutexLock lock(mutex_);
    if (done_.contains(name)) {
      return absl::OkStatus();
    }
  }
  const absl::StatusOr<csi::DeletionResult> result = csi::DeleteGroupOfBackup(
      ctx, env_, archived_content, backup, grace_period_.WaitFor(ctx, driver));
  if (!result.ok()) {
    RETURN_IF_ERROR(ConcludeDeletion(
        ctx, env_,
        {.backup = backup, .text = absl::StrCat("group ", handle, " of driver ", driver)},
        result.status(), [&] { return objects::FindGroupKinds(ctx, env_.api).status(); }));
  } else if (*result == csi::DeletionResult::kNothing) {
    return absl::OkStatus();
  } else if (*result == csi::DeletionResult::kNoDriver) {
    RETURN_IF_ERROR(
        RecordUndeleted(ctx, env_, {backup, "snapshots of driver " + driver}, kNoDriver));
  } else if (*result == csi::DeletionResult::kGone) {
    CSIDELTA_LOG(kInfo, "the driver holds the group no more", {"driver", driver},
                 {"group_snapshot_handle", handle}, {"backup", backup.name()});
  } else if (*result == csi::DeletionResult::kInProgress) {
    grace_period_.WasSlow(driver);
  }
  const MutexLock lock(mutex_);
  done_.insert(name);
  return absl::OkStatus();
}

}  // namespace csidelta::deleteitemactions
