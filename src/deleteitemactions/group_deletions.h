#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "csi/environment.h"
#include "objects/backup.h"
#include "objects/volume_group_snapshot.h"

namespace csidelta::deleteitemactions {

// How long the driver is waited for. Velero deletes one item after the other: a driver that has not
// agreed once in time is not waited for as long again. What it was asked stands in the cluster and
// is finished there. Thread-safe.
class DriverGracePeriod {
 public:
  explicit DriverGracePeriod(const csi::Environment& env) : env_(env) {}

  // The setting deletionWait, its default when the settings cannot be read; a second for a driver
  // that was slow. At most one request.
  absl::Duration WaitFor(const CallContext& ctx, const std::string& driver);

  void WasSlow(const std::string& driver);

 private:
  const csi::Environment env_;
  Mutex mutex_;
  std::set<std::string> slow_drivers_ ABSL_GUARDED_BY(mutex_);
};

// The groups that a process has seen to. In an archive the content of a group and those of its
// members all say how to delete it, because Velero only logs that a plugin died over one of them,
// and forgets the backup: whichever comes first does it, the others need not, and those that come
// after a process died do it again. Thread-safe.
class GroupDeletions {
 public:
  explicit GroupDeletions(const csi::Environment& env) : env_(env), grace_period_(env) {}

  // As csi::DeleteGroupOfBackup(), unless that went well in this process before. `archived_content`
  // is a VolumeGroupSnapshotContent.
  absl::Status Delete(const CallContext& ctx,
                      const objects::VolumeGroupSnapshotContent& archived_content,
                      const objects::Backup& backup);

 private:
  const csi::Environment env_;
  DriverGracePeriod grace_period_;
  Mutex mutex_;
  std::set<std::string> done_ ABSL_GUARDED_BY(mutex_);  // csi::GroupDeletionContentName()
};

}  // namespace csidelta::deleteitemactions
