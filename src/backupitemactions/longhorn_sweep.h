#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "longhorn/types.h"
#include "velero/backup.h"

namespace csidelta::backupitemactions {

// Whether a native snapshot (longhorn/native_snapshot.h) is in vain, as its Backup tells: the one
// that its labels name, by name and uid. Pure.
//
//   Backup                             snapshot      in vain
//   ---------------------------------  ------------  -------
//   Failed                             any           yes
//   Completed or PartiallyFailed       not taken     yes: no archive can need it
//   Completed or PartiallyFailed       taken         no
//   in any other phase                 any           no
//   another uid, or none of the name   any           no
//
// A Backup that is not there may come back from the object store, with another uid, and nothing
// can be noted on an object of Longhorn meanwhile: what is left then is for a person to delete.
bool IsInVain(const longhorn::Snapshot& snapshot, const velero::Backup& backup);

// Has Longhorn delete the native snapshots of this Velero that are in vain, each with its uid.
// Returns how many. Failures are logged one by one; only a failed listing is returned. One request
// when there are none, and one more when there are.
absl::StatusOr<int> SweepNativeSnapshots(const CallContext& ctx, const csi::Environment& env,
                                         const std::string& longhorn_namespace);

}  // namespace csidelta::backupitemactions
