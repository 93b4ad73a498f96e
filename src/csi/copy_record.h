#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "objects/persistent_volume_claim.h"

// What stands on a PVC of mode Block while a restore writes into its volume in place, and until
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
namespace csidelta::csi {

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
std::optional<CopyRecord> ParseCopyRecord(const objects::PersistentVolumeClaim& pvc);

// The merge patch that writes the record, or takes it away for null, on the PVC as it was read:
// ABORTED where it has changed, or is another one by now.
Json CopyRecordPatch(const objects::PersistentVolumeClaim& pvc, const CopyRecord* record);

// Whether a Pod beside the PVC may be writing into the volume now, or a restore cannot be
// understood that may.
bool IsWrittenByPod(const CopyRecord& record);
// "a restore into PVC shop/data has not ended: ..." and what ends it.
std::string WrittenByPodText(const CopyRecord& record, const objects::PersistentVolumeClaim& pvc);

// Namespace and name of the DataDownload; both "" where the record does not say them.
struct RecordedDownload {
  std::string namespace_name;
  std::string name;
};
RecordedDownload DownloadOf(const CopyRecord& record);

// Whether the data mover may be writing into the volume now, for another DataDownload than the one
// of this uid.
bool IsWrittenByMover(const CopyRecord& record, absl::string_view own_uid);
// "the data mover writes into PVC shop/data for DataDownload velero/x; ...", and what to do where
// that is not so.
std::string WrittenByMoverText(const CopyRecord& record, const objects::PersistentVolumeClaim& pvc);

// The command that finishes the restore. Words of the record that are no plain names are left open:
// people paste it.
std::string CopyCommand(const CopyRecord& record, const objects::PersistentVolumeClaim& pvc);

}  // namespace csidelta::csi
