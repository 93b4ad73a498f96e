#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "objects/copy_record.h"
#include "objects/persistent_volume_claim.h"

// What the record of a restore in place (objects/copy_record.h) means for other restores, and for
// people. Pure.
namespace csidelta::csi {

using objects::CopyRecord;
using objects::CopyRecordPatch;
using objects::FormatCopyRecord;
using objects::ParseCopyRecord;

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
