#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "csi/exposed_snapshot.h"
#include "datamover/transfer_object.h"
#include "datamover/volume_task.h"

namespace csidelta::datamover {

// What a worker's result document says of one upload. It comes from a Pod, so that every field may
// be missing or absurd.
struct UploadFigures {
  std::string snapshot_id;
  std::string mode;         // "full", "incremental"
  std::string reason;       // why it was full, with details; "" for an increment
  std::string reason_code;  // of the few that there are
  std::string base;         // the parent's snapshot
  int64_t logical_bytes = 0;
  int64_t changed_bytes = 0;
  int64_t read_bytes = 0;
  int64_t audit_bytes = 0;
  int64_t stored_bytes = 0;
  int64_t retries = 0;
  int64_t duration_ms = 0;
  bool audit_mismatch = false;
  std::optional<int64_t> repository_bytes;
  std::optional<int64_t> repository_snapshots;
};
UploadFigures FiguresOf(const Json& result);

// One sentence: "incremental: 12.0 MiB of 10.0 GiB changed, 3.1 MiB stored".
std::string Summarize(const UploadFigures& figures);

// Writes figures and times into the annotations of `upload`.
void AnnotateFigures(const UploadFigures& figures, const VolumeTaskStatus& task,
                     TransferObject& upload);
// What is known as soon as the volume snapshot is ours: its times, and its volume group.
void AnnotateExposure(const csi::Exposure& exposure, TransferObject& upload);
// "; of volume group shop/db, cut at 2026-11-23T05:00:00Z"; "" for one that was cut alone.
std::string GroupWords(const TransferObject& upload);

}  // namespace csidelta::datamover
