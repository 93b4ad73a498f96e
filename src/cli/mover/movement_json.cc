#include "cli/mover/movement_json.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"

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
    json["orphaned_snapshots"] = status.verification->orphaned_snapshots;
  }
  set_time("created_at", record.created_at);
  set_time("restored_at", status.restored_at);
  set_time("pvc_gone_at", status.pvc_gone_at);
  return json;
}

}  // namespace csidelta::cli
