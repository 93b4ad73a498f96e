#pragma once

#include <string>

#include "base/json.h"
#include "objects/outcome.h"

// How workers of the version before this one reported: VolumeTask.status.exitCode, .message and
// .result, which is what csi-delta printed with --json. Read for one release, so that volumes that
// are being moved during an upgrade go on.
namespace csidelta::objects {

// From the status of a VolumeTask without an outcome whose phase is one that a worker ends with.
Outcome FormerOutcome(const Json& status);

// What the result documents of csi-delta backup and csi-delta restore say. Fields may be missing or
// absurd.
BackupFigures FormerBackupFigures(const Json& result);
RestoreFigures FormerRestoreFigures(const Json& result);

}  // namespace csidelta::objects
