#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "objects/patch.h"
#include "objects/persistent_volume.h"

// What stands on a PVC while the data mover writes into its volume in place, and until such a
// restore is complete: JSON in the annotation snapshot.csi-delta.io/copy-record. Pure.
//
//   field     value
//   --------  ----------------------------------------------------------------------------------
//   from      NAMESPACE/NAME of the DataDownload
//   id        the uid of the DataDownload
//   upload    the DataUpload; "" where it is not known
//   at        RFC 3339: since when
//   begun     true: something may have been written, by this restore or by one before it
//   writes    true: a worker of this very DataDownload may have written
//   ended     true: nothing writes any more, and the restore is not complete
//
// Every client that may patch the PVC may write anything here. So the record only keeps other
// restores away and tells people what to do; nothing is written into a volume because of it.
namespace csidelta::objects {

struct CopyRecord {
  std::string from = {};
  std::string id = {};
  std::string upload = {};
  std::optional<absl::Time> at = {};
  bool has_begun = false;
  bool has_ended = false;
  bool has_written = false;
};

std::string FormatCopyRecord(const CopyRecord& record);
// Nothing where the PVC has none; an empty record where it cannot be read.
std::optional<CopyRecord> ParseCopyRecord(const PersistentVolumeClaim& pvc);

// The patch that writes the record, or removes it for null. ABORTED if the PVC has changed since it
// was read, or is another one.
Patch CopyRecordPatch(const PersistentVolumeClaim& pvc, const CopyRecord* record);

// Namespace and name of the DataDownload; both "" where the record does not say them.
struct RecordedDownload {
  std::string namespace_name;
  std::string name;
};
RecordedDownload DownloadOf(const CopyRecord& record);

// Whether the data mover may be writing into the volume now for a DataDownload of another uid. A
// record without an id keeps no restore away.
bool IsWrittenByMover(const CopyRecord& record, absl::string_view own_uid);
// "the data mover writes into PVC shop/data for DataDownload velero/x; ...", and what to do where
// that is not so.
std::string WrittenByMoverText(const CopyRecord& record, const PersistentVolumeClaim& pvc);

// The command that finishes the restore. A name in the record that is no plain name is replaced by
// a placeholder: people paste the command.
std::string CopyCommand(const CopyRecord& record, const PersistentVolumeClaim& pvc);

// For people: a command that brings data, such as that of a PvcWithoutData, after what it needs.
std::string NextStepOf(absl::string_view command);

}  // namespace csidelta::objects
