#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "objects/patch.h"
#include "objects/persistent_volume_claim.h"

// What stands on a PVC while a restore writes into its volume in place, and until
// such a restore is complete: JSON in the annotation snapshot.csi-delta.io/copy-record. Pure.
//
//   field     value
//   --------  ----------------------------------------------------------------------------------
//   method    snapshot: a Pod beside the PVC copies from a VolumeSnapshot; repository: such a Pod
//             restores; mover: the data mover does
//   from      the VolumeSnapshot; the Secret of the repository; NAMESPACE/NAME of the DataDownload
//   id        the repository snapshot, as it was named; the uid of the DataDownload
//   upload    mover: the DataUpload; "" where it is not known
//   at        RFC 3339: since when
//   begun     true: something may have been written, by this restore or by one before it
//   writes    true: mover: a worker of this very DataDownload may have written
//   ended     true: nothing writes any more, and the restore is not complete
//
// Who may patch the PVC may write anything here: it keeps other restores away and tells people what
// to do; nothing is written into a volume because of it.
namespace csidelta::objects {

struct CopyRecord {
  enum class Method { kUnknown, kSnapshot, kRepository, kMover };
  Method method = Method::kUnknown;
  std::string from = {};
  std::string id = {};
  std::string upload = {};
  std::optional<absl::Time> at = {};
  bool has_begun = false;
  bool has_ended = false;
  bool has_written = false;
};

std::string FormatCopyRecord(const CopyRecord& record);
// Nothing where the PVC has none; kUnknown where it cannot be read.
std::optional<CopyRecord> ParseCopyRecord(const PersistentVolumeClaim& pvc);

// The patch that writes the record, or takes it away for null, on the PVC as it was read: ABORTED
// where it has changed, or is another one by now.
Patch CopyRecordPatch(const PersistentVolumeClaim& pvc, const CopyRecord* record);

}  // namespace csidelta::objects
