#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "objects/backup.h"
#include "velero/plugin_config.h"

namespace csidelta::csi {

// The Backups of this Velero, by the label value of their name. A Backup that cannot be read is
// included, without a phase, so that nothing is deleted because of it.
using Backups = std::map<std::string, objects::Backup>;

// FAILED_PRECONDITION if `running` is not among them: then these are not the Backups of this
// Velero, and a missing one proves nothing.
absl::StatusOr<Backups> ListBackups(const CallContext& ctx, const Environment& env,
                                    const objects::Backup& running);

struct SweepResult {
  int swept = 0;         // VolumeSnapshots and VolumeGroupSnapshots deleted, with their contents
  int deleted_late = 0;  // restored VolumeSnapshots that had objects::kDeleteWhenFilledAnnotation
  int finished = 0;      // VolumeSnapshots of done backups: objects deleted, data retained
  int kept = 0;          // checked and left alone
  int unmarked = 0;      // PVCs whose label of an abandoned group was removed
};

// Deletes what a backup left behind before it was done. Checks only VolumeSnapshots that have
// kCsiDeltaLabel with the value `env.velero_namespace`, that IsMadeByUs() accepts, and that were
// not restored. A copy of a managed one under another name is therefore skipped. "Deleted" includes
// the content and the driver's snapshot:
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
// "Finished" is what the end of its backup would have done: the objects are deleted, and the data
// is retained and survives its namespace. A VolumeSnapshot entered the archive if it has the
// annotation with its handle, and its content has the label of its backup: the archiving action
// writes both. The annotation alone proves nothing: Velero <= 1.16 writes it for any backup, and so
// can every writer of the VolumeSnapshot. If the label is another backup's, the row "finished" is
// "kept". A content without its VolumeSnapshot is never touched. Another uid under the same name is
// the same backup, read again from the object store. `running` is the backup that calls. Everything
// of it is left alone. If it is not among the Backups, nothing is decided (FAILED_PRECONDITION).
//
// A VolumeSnapshot with objects::kDeleteWhenFilledAnnotation is deleted once no PVC is being filled
// from its driver's snapshot, if its content says Delete.
//
// Managed VolumeGroupSnapshots follow the same table, by the annotation with the group's handle,
// and are kept if their content lacks the label. A member is skipped while its group exists.
//
// A PVC loses kGroupMarkLabel once the Backup whose uid it names has ended. If that Backup is not
// seen, it may be another Velero's: then once the label is as old as the grace period.
//
// Three requests if there is nothing to do; up to two more if the newest version of the group kinds
// is not served. A failure of one object is logged as a warning and does not stop the sweep; only a
// failed listing is returned.
absl::StatusOr<SweepResult> SweepOrphans(const CallContext& ctx, const Environment& env,
                                         const objects::Backup& running,
                                         const velero::PluginConfig& config);

}  // namespace csidelta::csi
