#include "datamover/controller/overview.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "datamover/controller/download_reconciler.h"
#include "datamover/controller/upload_reconciler.h"
#include "datamover/daily_window.h"
#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

using TasksByUid = std::map<std::string, objects::VolumeTaskStatus>;

TasksByUid BySubject(const std::vector<objects::VolumeTask>& tasks) {
  TasksByUid by_uid;
  for (const objects::VolumeTask& task : tasks) {
    if (const absl::StatusOr<objects::VolumeTaskSpec> spec = task.spec(); spec.ok()) {
      by_uid[spec->subject.uid] = task.status();
    }
  }
  return by_uid;
}

void AddTask(const objects::VolumeTaskStatus& task, Movement& movement) {
  movement.stage = task.stage;
  movement.node = task.node;
  movement.done_bytes = task.done_bytes;
  movement.total_bytes = task.total_bytes;
  if (task.phase != objects::TaskPhase::kRunning) {
    return;
  }
  movement.bytes_per_second = task.bytes_per_second;
  if (task.seconds_left.has_value()) {
    movement.left = absl::Seconds(*task.seconds_left);
  }
}

Movement Begin(const char* kind, const objects::DataTransfer& transfer, const TasksByUid& tasks) {
  Movement movement;
  movement.uid = transfer.uid();
  movement.kind = kind;
  movement.velero_namespace = transfer.namespace_name();
  movement.name = transfer.name();
  movement.location = transfer.storage_location();
  movement.phase = objects::ToString(transfer.known_phase());
  movement.message = transfer.message();
  movement.is_over = transfer.is_over();
  movement.created_at = transfer.created_at();
  movement.done_bytes = transfer.done_bytes();
  movement.total_bytes = transfer.total_bytes();
  if (const auto task = tasks.find(transfer.uid()); task != tasks.end()) {
    AddTask(task->second, movement);
  }
  return movement;
}

// What they wait for, after their number.
std::string WaitText(WaitReason reason, const QueueOverview& queue) {
  switch (reason) {
    case WaitReason::kNext:
      return "for the controller, which has free slots: is it running?";
    case WaitReason::kTotal:
      return absl::StrCat("for one of ", queue.admitted_max, " slots (limits.total)");
    case WaitReason::kRestores:
      return "for a slot of restores, because uploads are queued, too";
    case WaitReason::kNamespace:
      return "for the limit of their namespace (limits.perNamespace)";
    case WaitReason::kStorageClass:
      return "for the limit of their storage class";
    case WaitReason::kLocation:
      return "for the limit of their BackupStorageLocation";
    case WaitReason::kVolume:
      return "for another transfer of their volume";
    case WaitReason::kUploadWindow:
      return "for an upload window";
    case WaitReason::kPaused:
      return "for the setting \"paused\" to be removed";
    case WaitReason::kPrerequisite:
      return "for what their Pods need, for a node, or for their PVC to be bound";
    case WaitReason::kRefused:
      return "for the API server, which refuses what their workers need";
    case WaitReason::kOther:
      break;
  }
  return "to be accepted, or to end";
}

}  // namespace

std::vector<Movement> ListMovements(const std::vector<objects::DataUpload>& uploads,
                                    const std::vector<objects::DataDownload>& downloads,
                                    const std::vector<objects::VolumeTask>& tasks) {
  const TasksByUid by_uid = BySubject(tasks);
  std::vector<Movement> movements;
  for (const objects::DataUpload& upload : uploads) {
    if (upload.Validate().ok() && upload.is_managed()) {
      movements.push_back(Begin("upload", upload, by_uid));
      movements.back().volume = absl::StrCat(upload.source_namespace(), "/", upload.source_pvc());
    }
  }
  for (const objects::DataDownload& download : downloads) {
    if (download.Validate().ok() && download.is_managed()) {
      movements.push_back(Begin("download", download, by_uid));
      movements.back().volume =
          absl::StrCat(download.target_namespace(), "/", download.target_pvc());
    }
  }
  std::stable_sort(movements.begin(), movements.end(), [](const Movement& a, const Movement& b) {
    return a.created_at < b.created_at;
  });
  return movements;
}

QueueOverview DescribeQueue(const MoverSettings& settings,
                            const std::vector<objects::DataUpload>& uploads,
                            const std::vector<objects::DataDownload>& downloads, absl::Time now) {
  TransferQueue queue(LimitsOf(settings));
  std::vector<std::string> waiting;
  const auto put = [&](std::optional<QueuedTransfer> transfer) {
    if (!transfer.has_value()) {
      return;
    }
    if (!transfer->admitted_at.has_value()) {
      waiting.push_back(transfer->uid);
    }
    queue.Put(*std::move(transfer));
  };
  for (const objects::DataUpload& upload : uploads) {
    put(QueuedUpload(upload));
  }
  for (const objects::DataDownload& download : downloads) {
    put(QueuedDownload(download));
  }
  QueueOverview overview{.admitted = queue.admitted(),
                         .admitted_max = settings.transfers_max,
                         .waiting = {},
                         .reasons = {},
                         .is_paused = settings.is_paused,
                         .uploads_open_at = {}};
  while (const QueuedTransfer* const next = queue.AdmitNext(now)) {
    overview.reasons[next->uid] = WaitReason::kNext;
  }
  for (const std::string& uid : waiting) {
    if (!overview.reasons.contains(uid)) {
      overview.reasons[uid] = queue.WhyWaits(uid, now);
    }
  }
  for (const auto& [uid, reason] : overview.reasons) {
    ++overview.waiting[reason];
  }
  if (!IsOpen(settings.upload_windows, now)) {
    overview.uploads_open_at = NextOpening(settings.upload_windows, now);
  }
  return overview;
}

std::string ToText(const QueueOverview& queue) {
  std::string text;
  if (queue.is_paused) {
    absl::StrAppend(&text, "paused: the settings admit no transfer\n");
  }
  if (queue.uploads_open_at.has_value()) {
    absl::StrAppend(&text, "uploads are admitted from ", FormatTimeOfDay(*queue.uploads_open_at),
                    " UTC on\n");
  }
  if (queue.waits() == 0) {
    return text;
  }
  absl::StrAppend(&text, queue.admitted, queue.admitted == 1 ? " transfer is" : " transfers are",
                  " admitted, ", queue.waits(), queue.waits() == 1 ? " waits:\n" : " wait:\n");
  for (const auto& [reason, count] : queue.waiting) {
    absl::StrAppend(&text, "  ", count, " ", WaitText(reason, queue), "\n");
  }
  return text;
}

std::optional<absl::Duration> MeanDuration(const std::vector<objects::DataUpload>& uploads,
                                           const std::vector<objects::DataDownload>& downloads,
                                           absl::Time since) {
  absl::Duration sum = absl::ZeroDuration();
  int count = 0;
  const auto add = [&](const objects::DataTransfer& transfer) {
    const std::optional<absl::Time> completed = transfer.completed_at();
    std::optional<absl::Time> begun =
        ParseRfc3339(transfer.Annotation(objects::kAdmittedAtAnnotation));
    if (!begun.has_value()) {
      begun = transfer.started_at();
    }
    if (transfer.is_managed() && transfer.known_phase() == objects::DataPhase::kCompleted &&
        begun.has_value() && completed.has_value() && *completed >= since) {
      sum += std::max(absl::ZeroDuration(), *completed - *begun);
      ++count;
    }
  };
  std::for_each(uploads.begin(), uploads.end(), add);
  std::for_each(downloads.begin(), downloads.end(), add);
  return count == 0 ? std::nullopt : std::optional(sum / count);
}

}  // namespace csidelta::datamover
