#pragma once

#include <string>

#include "csi/expose/exposed_snapshot.h"
#include "datamover/transfer_object.h"
#include "objects/volume_task.h"

namespace csidelta::datamover {

// One sentence: "incremental backup: 12.0 MiB changed of 10.0 GiB, 14.0 MiB read, ..." or "full
// backup (first backup): 10.0 GiB, ...", with the terms of csi-delta snapshots.
std::string Summarize(const objects::BackupFigures& figures);

// Writes figures and times into the annotations of `upload`.
void AnnotateFigures(const objects::BackupFigures& figures, const objects::VolumeTaskStatus& task,
                     TransferObject& upload);
// Writes what is known as soon as the volume snapshot is adopted: its times, and its volume group.
void AnnotateExposure(const csi::Exposure& exposure, TransferObject& upload);
// "; of volume group shop/db, taken at 2026-11-23T05:00:00Z"; "" if it was taken alone.
std::string GroupSummary(const TransferObject& upload);

}  // namespace csidelta::datamover
