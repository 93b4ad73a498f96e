#include "cli/mover/movement_json.h"

#include <optional>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "incremental/mover/full_reason.h"
#include "objects/keys.h"
#include "objects/outcome.h"

namespace csidelta::cli {

Json ToJson(const datamover::Movement& movement) {
  Json json = {{"kind", movement.kind},
               {"velero_namespace", movement.velero_namespace},
               {"name", movement.name},
               {"volume", movement.volume},
               {"location", movement.location},
               {"phase", movement.phase},
               {"stage", movement.stage},
               {"message", movement.message},
               {"node", movement.node},
               {"done_bytes", movement.done_bytes},
               {"total_bytes", movement.total_bytes}};
  if (movement.created_at.has_value()) {
    json["created_at"] = FormatRfc3339(*movement.created_at);
  }
  if (movement.bytes_per_second.has_value()) {
    json["bytes_per_second"] = *movement.bytes_per_second;
  }
  if (movement.left.has_value()) {
    json["seconds_left"] = absl::ToInt64Seconds(*movement.left);
  }
  if (movement.waits_for.has_value()) {
    json["waits_for"] = ToString(*movement.waits_for);
  }
  return json;
}

Json FiguresJson(const objects::DataUpload& upload) {
  const objects::BackupFigures figures = upload.figures();
  Json json = {{"mode", figures.mode},
               {"reason", objects::ReasonText(figures)},
               {"logical_bytes", figures.logical_bytes},
               {"changed_bytes", figures.changed_bytes},
               {"read_bytes", figures.read_bytes},
               {"audit_bytes", figures.audit_bytes},
               {"stored_bytes", figures.stored_bytes}};
  if (upload.duration().has_value()) {
    json["duration_ms"] = absl::ToInt64Milliseconds(*upload.duration());
  }
  return json;
}

Json ToJson(const objects::DataUpload& upload, const datamover::ProtectedVolumeRecord* record) {
  const objects::BackupFigures figures = upload.figures();
  const std::string backup = upload.Label(objects::kBackupNameLabel);
  const incremental::FullReasonText* const reason = incremental::FindReason(figures.reason);
  const auto status = record == nullptr ? objects::ProtectedVolumeStatus() : record->status;
  const auto check = status.verification.value_or(objects::Verification());
  const bool is_broken = absl::c_linear_search(check.broken_backups, backup);
  const bool is_last = status.last_good.value_or(objects::LastGoodBackup()).upload == upload.uid();
  std::string next_step = reason == nullptr || absl::StartsWith(reason->next_step, "Nothing")
                              ? ""
                              : std::string(reason->next_step);
  if (upload.is_over() && upload.known_phase() != objects::DataPhase::kCompleted) {
    next_step = absl::StrCat(upload.message(), "; csi-delta doctor looks for the cause");
  } else if (!status.next_step.empty() && (is_broken || is_last)) {
    next_step = status.next_step;
  }
  Json json = FiguresJson(upload);
  json.update(
      {{"kind", "backup"},
       {"velero_namespace", upload.namespace_name()},
       {"name", upload.name()},
       {"backup", backup},
       {"volume", absl::StrCat(upload.source_namespace(), "/", upload.source_pvc())},
       {"location", upload.storage_location()},
       {"phase", objects::ToString(upload.known_phase())},
       {"why_full", absl::StrCat(reason == nullptr ? figures.reason : reason->sentence,
                                 figures.reason_detail.empty() ? "" : " ", figures.reason_detail)},
       {"restorable", upload.known_phase() != objects::DataPhase::kCompleted ? Json(false)
                      : record == nullptr                                    ? Json()
                                                                             : Json(!is_broken)},
       {"next_step", next_step}});
  if (upload.completed_at().has_value() && check.at > upload.completed_at()) {
    json["verified_at"] = FormatRfc3339(*check.at);
  }
  return json;
}

Json ToJson(const datamover::ProtectedVolumeRecord& record) {
  const objects::ProtectedVolumeStatus& status = record.status;
  Json json = {{"kind", "volume"},
               {"velero_namespace", record.velero_namespace},
               {"name", record.name},
               {"volume", absl::StrCat(record.spec.pvc_namespace, "/", record.spec.pvc)},
               {"pvc_uid", record.spec.pvc_uid},
               {"location", record.spec.location},
               {"failures", status.failures},
               {"next_step", status.next_step}};
  const auto set_time = [&json](const char* field, const std::optional<absl::Time>& time) {
    if (time.has_value()) {
      json[field] = FormatRfc3339(*time);
    }
  };
  if (status.last_good.has_value()) {
    json["backup"] = status.last_good->backup;
    json["mode"] = status.last_good->mode;
    json["logical_bytes"] = status.last_good->logical_bytes;
    set_time("taken_at", status.last_good->taken_at);
    set_time("completed_at", status.last_good->completed_at);
  }
  if (status.base.has_value()) {
    set_time("base_taken_at", status.base->taken_at);
  }
  if (status.verification.has_value()) {
    set_time("verified_at", status.verification->at);
    set_time("all_verified_since", status.verification->all_since);
    json["orphaned_snapshots"] = status.verification->orphaned_snapshots;
  }
  set_time("created_at", record.created_at);
  set_time("restored_at", status.restored_at);
  set_time("pvc_gone_at", status.pvc_gone_at);
  return json;
}

}  // namespace csidelta::cli
