#include "datamover/upload_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "csi/snapshot_types.h"

namespace csidelta::datamover {
namespace {

constexpr char kPrefix[] = "mover.csi-delta.io/";
constexpr std::size_t kWordsBytesMax = 300;
constexpr char kGroup[] = "volume-group";
constexpr char kGroupSnapshot[] = "volume-group-snapshot";
constexpr char kGroupCutAt[] = "volume-group-cut-at";

std::string FormatBytes(int64_t bytes) {
  if (bytes < int64_t{1} << 20) {
    return absl::StrFormat("%.1f KiB", static_cast<double>(bytes) / 1024);
  }
  return bytes < int64_t{1} << 30
             ? absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20))
             : absl::StrFormat("%.1f GiB", static_cast<double>(bytes) / (1 << 30));
}

int64_t Count(const Json& result, JsonPath path) {
  return std::max<int64_t>(0, GetInt(result, path));
}

std::optional<int64_t> CountIfTold(const Json& result, JsonPath path) {
  const int64_t count = GetInt(result, path, -1);
  return count >= 0 ? std::optional(count) : std::nullopt;
}

std::string Words(const Json& result, JsonPath path) {
  return GetString(result, path).substr(0, kWordsBytesMax);
}

void Note(TransferObject& upload, absl::string_view name, absl::string_view value) {
  if (!value.empty()) {
    upload.SetAnnotation(absl::StrCat(kPrefix, name), value);
  }
}

void NoteCount(TransferObject& upload, absl::string_view name, std::optional<int64_t> count) {
  if (count.has_value()) {
    upload.SetAnnotation(absl::StrCat(kPrefix, name), absl::StrCat(*count));
  }
}

void NoteTime(TransferObject& upload, absl::string_view name,
              const std::optional<absl::Time>& time) {
  if (time.has_value()) {
    upload.SetTime(absl::StrCat(kPrefix, name), *time);
  }
}

}  // namespace

UploadFigures FiguresOf(const Json& result) {
  UploadFigures figures;
  figures.snapshot_id = GetString(result, {"snapshot_id"});
  figures.mode = Words(result, {"mode_done"});
  figures.reason_code = Words(result, {"reason"});
  figures.reason = figures.reason_code;
  if (const std::string detail = Words(result, {"reason_detail"}); !detail.empty()) {
    absl::StrAppend(&figures.reason, ": ", detail);
  }
  figures.base = Words(result, {"base"});
  figures.logical_bytes = Count(result, {"logical_bytes"});
  figures.changed_bytes = Count(result, {"changed_bytes"});
  figures.read_bytes = Count(result, {"read_bytes"});
  figures.audit_bytes = Count(result, {"audit_bytes"});
  figures.stored_bytes = Count(result, {"stored_bytes"});
  figures.retries = Count(result, {"retries"});
  figures.duration_ms = Count(result, {"duration_ms", "total"});
  figures.audit_mismatch = GetBool(result, {"audit", "mismatch"});
  figures.repository_bytes = CountIfTold(result, {"repository_bytes"});
  figures.repository_snapshots = CountIfTold(result, {"repository_snapshots"});
  return figures;
}

std::string Summarize(const UploadFigures& figures) {
  std::string text = absl::StrCat(figures.mode, figures.reason.empty() ? "" : " (", figures.reason,
                                  figures.reason.empty() ? "" : ")", ": ");
  return absl::StrCat(text, FormatBytes(figures.changed_bytes), " of ",
                      FormatBytes(figures.logical_bytes), " changed, ",
                      FormatBytes(figures.read_bytes), " read, ", FormatBytes(figures.audit_bytes),
                      " audited, ", FormatBytes(figures.stored_bytes), " stored");
}

void AnnotateFigures(const UploadFigures& figures, const VolumeTaskStatus& task,
                     TransferObject& upload) {
  Note(upload, "mode", figures.mode);
  Note(upload, "reason", figures.reason);
  Note(upload, "base", figures.base);
  Note(upload, "changed-bytes", absl::StrCat(figures.changed_bytes));
  Note(upload, "read-bytes", absl::StrCat(figures.read_bytes));
  Note(upload, "audit-bytes", absl::StrCat(figures.audit_bytes));
  Note(upload, "stored-bytes", absl::StrCat(figures.stored_bytes));
  NoteCount(upload, "repository-bytes", figures.repository_bytes);
  NoteCount(upload, "repository-snapshots", figures.repository_snapshots);
  Note(upload, "node", task.node);
  NoteTime(upload, "uploaded-at", task.completed_at);
}

void AnnotateExposure(const csi::Exposure& exposure, TransferObject& upload) {
  NoteTime(upload, "asked-at",
           csi::FromRfc3339(GetString(upload.json(), {"metadata", "creationTimestamp"})));
  NoteTime(upload, "cut-at", exposure.cut_at);
  NoteTime(upload, "ready-at", exposure.ready_at);
  if (exposure.group.has_value()) {
    Note(upload, kGroup, exposure.group->name);
    Note(upload, kGroupSnapshot, exposure.group->snapshot);
    NoteTime(upload, kGroupCutAt, exposure.group->cut_at);
  }
}

std::string GroupWords(const TransferObject& upload) {
  const std::string group = upload.Annotation(absl::StrCat(kPrefix, kGroup));
  const std::string cut_at = upload.Annotation(absl::StrCat(kPrefix, kGroupCutAt));
  return group.empty()
             ? ""
             : absl::StrCat("; of volume group ", group, cut_at.empty() ? "" : ", cut at ", cut_at);
}

}  // namespace csidelta::datamover
