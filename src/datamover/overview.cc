#include "datamover/overview.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "datamover/volume_task.h"
#include "k8s/object.h"
#include "velero/data_upload.h"

namespace csidelta::datamover {
namespace {

// A rate over less is chance.
constexpr absl::Duration kRateTimeMin = absl::Seconds(2);

using TasksByUid = std::map<std::string, VolumeTaskStatus>;

TasksByUid BySubject(const std::vector<Json>& tasks) {
  TasksByUid by_uid;
  for (const Json& task : tasks) {
    if (const absl::StatusOr<VolumeTaskSpec> spec = TaskSpecOf(task); spec.ok()) {
      by_uid[spec->subject.uid] = TaskStatusOf(task);
    }
  }
  return by_uid;
}

void AddTask(const VolumeTaskStatus& task, Movement& movement) {
  movement.stage = task.stage;
  movement.node = task.node;
  movement.done_bytes = task.done_bytes;
  movement.total_bytes = task.total_bytes;
  if (task.phase != TaskPhase::kRunning || !task.started_at.has_value() ||
      !task.heartbeat_at.has_value() || *task.heartbeat_at - *task.started_at < kRateTimeMin) {
    return;
  }
  const double seconds = absl::ToDoubleSeconds(*task.heartbeat_at - *task.started_at);
  movement.bytes_per_second = static_cast<int64_t>(static_cast<double>(task.done_bytes) / seconds);
  if (*movement.bytes_per_second > 0 && task.total_bytes >= task.done_bytes) {
    movement.left = absl::Seconds(static_cast<double>(task.total_bytes - task.done_bytes) /
                                  static_cast<double>(*movement.bytes_per_second));
  }
}

Movement Begin(const char* kind, const Json& object, const velero::DataTransfer& transfer,
               const TasksByUid& tasks) {
  Movement movement;
  movement.kind = kind;
  movement.velero_namespace = transfer.namespace_name;
  movement.name = transfer.name;
  movement.location = transfer.storage_location;
  movement.phase = velero::ToString(transfer.phase);
  movement.message = transfer.message;
  movement.is_over = velero::IsTerminal(transfer.phase);
  movement.created_at = k8s::CreatedAt(object);
  movement.done_bytes = GetInt(object, {"status", "progress", "bytesDone"});
  movement.total_bytes = GetInt(object, {"status", "progress", "totalBytes"});
  if (const auto task = tasks.find(transfer.uid); task != tasks.end()) {
    AddTask(task->second, movement);
  }
  return movement;
}

}  // namespace

std::vector<Movement> ListMovements(const std::vector<Json>& uploads,
                                    const std::vector<Json>& downloads,
                                    const std::vector<Json>& tasks) {
  const TasksByUid by_uid = BySubject(tasks);
  std::vector<Movement> movements;
  for (const Json& object : uploads) {
    const absl::StatusOr<velero::DataUpload> upload = velero::ParseDataUpload(object);
    if (upload.ok() && upload->data_mover == velero::kDataMoverName) {
      movements.push_back(Begin("upload", object, *upload, by_uid));
      movements.back().volume = absl::StrCat(upload->source_namespace, "/", upload->source_claim);
    }
  }
  for (const Json& object : downloads) {
    const absl::StatusOr<velero::DataDownload> download = velero::ParseDataDownload(object);
    if (download.ok() && download->data_mover == velero::kDataMoverName) {
      movements.push_back(Begin("download", object, *download, by_uid));
      movements.back().volume =
          absl::StrCat(download->target_namespace, "/", download->target_claim);
    }
  }
  std::stable_sort(movements.begin(), movements.end(), [](const Movement& a, const Movement& b) {
    return a.created_at < b.created_at;
  });
  return movements;
}

Json ToJson(const Movement& movement) {
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
  return json;
}

}  // namespace csidelta::datamover
