#include "cli/movement_json.h"

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

}  // namespace csidelta::cli
