#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "objects/backup.h"
#include "velero/plugin_config.h"

namespace csidelta::csi {

// What the Backups of this Velero say, by the value that their name has as a label. One that cannot
// be read is there all the same, in no phase that allows anything.
using Backups = std::map<std::string, objects::Backup>;

// FAILED_PRECONDITION where `running` is not among them: then these are not the Backups of this
// Velero, and what is missing among them means nothing.
absl::StatusOr<Backups> ListBackups(const CallContext& ctx, const Environment& env,
                                    const objects::Backup& running);

struct SweepResult {
  int swept = 0;  // VolumeSnapshots and VolumeGroupSnapshots deleted, with their contents
  int deleted_late =
      0;  // restored VolumeSnapshots deleted late, as objects::kDeleteWhenFilledAnnotation asks
  int finished = 0;  // VolumeSnapshots of done backups whose objects are gone now, and nothing else
  int kept = 0;      // looked at and left alone
  int unmarked = 0;  // claims that lost a label of a group that is not made any more
};

// Deletes what a backup left behind before it was done. Looked at are only VolumeSnapshots that
// carry kCsiDeltaLabel with the value `env.velero_namespace`, that we made (IsMadeByUs(), so a copy
// of a managed one under another name is not), and that were not restored. Of these are deleted,
// together with the content bound to them and the driver's snapshot:
//
//   Backup, found by name           VolumeSnapshot                                   action
//   ------------------------------  ----------------------------------------------- ---------------
//   Completed or PartiallyFailed    entered the archive, the very same uid           finished
//   Completed or PartiallyFailed    entered the archive, another uid                 kept, marked
//   Completed or PartiallyFailed    never entered it: its item failed or died        deleted
//   Failed, the very same uid       any                                              deleted
//   Failed, another uid             never entered an archive                         deleted
//   in any other phase, or running  any                                              kept
//   not seen                        marked before as owned                           kept
//   not seen for the grace period   content says Delete, or it has no content        deleted
//   not seen for a shorter time     any                                              kept, stamped
//
// Finished means what the end of its backup would have done: the objects go, the driver keeps the
// snapshot, and it survives its namespace. A VolumeSnapshot entered the archive when it carries the
// annotation with its handle, which the action that archives it writes. A content without its
// VolumeSnapshot is never touched. Another uid under the same name is the same backup, read again
// from the object store. `running` is the backup that calls: it and what belongs to it are left
// alone, and where it is not among the Backups nothing is decided by them (FAILED_PRECONDITION).
//
// A VolumeSnapshot with objects::kDeleteWhenFilledAnnotation is deleted once no claim is being
// filled from the driver's snapshot behind it, provided that its content says Delete.
//
// Managed VolumeGroupSnapshots have the same actions by the same table; theirs is the annotation
// with the group's handle. A member is not looked at while its group is there.
//
// A claim loses kGroupMarkLabel when the Backup whose uid it says has ended; where that Backup is
// not seen, once the label is as old as the grace period, because it may be another Velero's.
//
// Three requests when there is nothing to do, and up to two more where the group kinds are not
// served in their newest version. Failures are logged as warnings one by one and do not
// stop the sweep; only a failed listing is returned.
absl::StatusOr<SweepResult> SweepOrphans(const CallContext& ctx, const Environment& env,
                                         const objects::Backup& running,
                                         const velero::PluginConfig& config);

}  // namespace csidelta::csi
