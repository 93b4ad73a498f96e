#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "objects/backup.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"

// What the actions on PVCs change in one that is filled again, and what they ask first.
namespace csidelta::restoreitemactions {

// Each returns whether it changed anything. Pure.
// What the backup's actions told each other through the archived claim. Coming back it would make a
// later backup's action pass filters, or, longer than a label may be, the claim would be refused.
bool StripBackupMarks(objects::PersistentVolumeClaim& item);
// What ties it to the volume and the source that it had.
bool StripBinding(objects::PersistentVolumeClaim& item);
// The user wants the claim without its data. A selector stays, unless a data mover wrote it.
bool ClearVolume(objects::PersistentVolumeClaim& item);
// Velero restores the additional items that the item's action names, whatever the restore leaves
// out: Velero >= 1.18.3, which removes the annotation. Older ones do not know it.
template <typename Kind>
void MustIncludeAdditionalItems(Kind& item) {
  item.SetAnnotation(objects::kRestoreMustIncludeAnnotation, "true");
}

// existingResourcePolicy: update then changes labels alone. Velero's patch could else name the
// volume of the backup in a claim that has none, or remove annotations that others rely on.
void KeepVolume(const objects::PersistentVolumeClaim& existing,
                objects::PersistentVolumeClaim& item);

// Velero keeps a claim that exists, so it gets no data: an Event on it and on the Restore, a record
// on the Restore (kWithoutDataAnnotation), a warning. `command` brings the data; "": one is named
// that brings it elsewhere, and deletes nothing. Logs what fails.
void ReportWithoutData(const CallContext& ctx, const csi::Environment& env,
                       const objects::Restore& restore,
                       const objects::PersistentVolumeClaim& item_from_backup,
                       const objects::PersistentVolumeClaim& existing, std::string command);

// FAILED_PRECONDITION when the PersistentVolume that the archived claim had is reserved for it.
// Velero restores one that is retained as it was, unless it knows of the claim's snapshot: they
// would be bound to each other, whatever the claim is to be filled from.
absl::Status RequireVolumeIsNotReserved(const CallContext& ctx, const csi::Environment& env,
                                        absl::string_view target_namespace,
                                        const objects::PersistentVolumeClaim& item_from_backup);

// FAILED_PRECONDITION when no provisioner can ever fill the claim from a snapshot of `driver`: it
// would wait, and be bound to whatever volume comes free. OK for a Restore with resource modifiers:
// Velero applies them after all actions, so the claim's operation judges the class that it gets.
absl::Status RequireClass(const CallContext& ctx, const csi::Environment& env,
                          const objects::Restore& restore,
                          const objects::PersistentVolumeClaim& item, const std::string& driver);

}  // namespace csidelta::restoreitemactions
