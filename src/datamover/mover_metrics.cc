#include "datamover/mover_metrics.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/mutex.h"
#include "datamover/transfer_object.h"
#include "objects/keys.h"
#include "velero/data_reference.h"
#include "velero/data_upload.h"

namespace csidelta::datamover {
namespace {

// Volumes that are told of; more are no longer added.
constexpr std::size_t kVolumesMax = 20'000;

using Labels = std::initializer_list<std::pair<absl::string_view, absl::string_view>>;

}  // namespace

// Writes one family of samples after the other.
class MetricsPage {
 public:
  void Begin(absl::string_view name, absl::string_view type, absl::string_view help) {
    name_ = absl::StrCat("csi_delta_mover_", name);
    absl::StrAppend(&text_, "# HELP ", name_, " ", help, "\n# TYPE ", name_, " ", type, "\n");
  }
  void Add(Labels labels, double value) {
    absl::StrAppend(&text_, name_);
    absl::string_view separator = "{";
    for (const auto& [label, words] : labels) {
      absl::StrAppend(&text_, separator, label, "=\"",
                      absl::StrReplaceAll(words, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}),
                      "\"");
      separator = ",";
    }
    absl::StrAppend(&text_, labels.size() == 0 ? "" : "}", " ", value, "\n");
  }
  void AddAll(absl::string_view label, const std::map<std::string, int64_t>& values) {
    for (const auto& [words, value] : values) {
      Add({{label, words}}, static_cast<double>(value));
    }
  }
  // A family of one sample that only grows.
  void Sum(absl::string_view name, absl::string_view help, double value) {
    Begin(name, "counter", help);
    Add({}, value);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

namespace {

// The states of DataDeletions that are told apart.
absl::string_view StateOf(const DeletionState& deletion) {
  switch (deletion.phase) {
    case objects::DeletionPhase::kCompleted:
      return "done";
    case objects::DeletionPhase::kFailed:
      return "refused";
    case objects::DeletionPhase::kInProgress:
      return "running";
    default:
      return deletion.trouble == objects::DeletionTrouble::kFailed     ? "failing"
             : deletion.trouble == objects::DeletionTrouble::kRetained ? "retained"
                                                                       : "waiting";
  }
}

void AddGroups(const GroupFigures& figures, MetricsPage& page) {
  page.Sum("groups_total", "Volume groups whose cut this process saw.",
           static_cast<double>(figures.groups));
  page.Sum("group_freeze_seconds_total",
           "Freeze windows of those groups: from the request to the driver's answer.",
           absl::ToDoubleSeconds(figures.windows));
  page.Begin("last_group_freeze_seconds", "gauge", "The freeze window of a group's newest cut.");
  for (const auto& [group, window] : figures.last) {
    page.Add({{"velero_namespace", group.velero_namespace},
              {"namespace", group.namespace_name},
              {"group", group.group}},
             absl::ToDoubleSeconds(window));
  }
}

void AddTransfers(const TransferScheduler::Counts& transfers, MetricsPage& page) {
  page.Begin("transfers", "gauge", "Transfers that are admitted, and that wait.");
  page.Add({{"state", "moving"}}, transfers.admitted);
  page.Add({{"state", "waiting"}}, transfers.waiting);
  page.Begin("transfers_admitted", "gauge", "Transfers that are admitted, by kind.");
  page.Add({{"kind", "restore"}}, transfers.restores);
  page.Add({{"kind", "upload"}}, transfers.admitted - transfers.restores);
  page.Begin("transfers_waiting", "gauge", "Transfers that wait, by what they wait for.");
  for (int reason = 0; reason < kWaitReasons; ++reason) {
    const auto found = transfers.waiting_for.find(static_cast<WaitReason>(reason));
    page.Add({{"reason", ToString(static_cast<WaitReason>(reason))}},
             found == transfers.waiting_for.end() ? 0 : found->second);
  }
  page.Begin("paused", "gauge", "1 where the settings admit no transfer.");
  page.Add({}, transfers.is_paused ? 1 : 0);
  page.Begin("upload_window_open", "gauge", "1 while the settings admit uploads.");
  page.Add({}, transfers.uploads_are_admitted ? 1 : 0);
}

void AddQueues(const std::map<std::string, k8s::QueueFigures>& queues, MetricsPage& page) {
  const auto add = [&](absl::string_view name, absl::string_view type, absl::string_view help,
                       double (*value)(const k8s::QueueFigures& figures)) {
    page.Begin(name, type, help);
    for (const auto& [queue, figures] : queues) {
      page.Add({{"queue", queue}}, value(figures));
    }
  };
  add("queue_depth", "gauge", "Objects that wait for their reconcile.",
      [](const k8s::QueueFigures& figures) { return static_cast<double>(figures.due); });
  add("queue_oldest_wait_seconds", "gauge",
      "How long the one of them waits that has waited the longest; 0 without one.",
      [](const k8s::QueueFigures& figures) { return absl::ToDoubleSeconds(figures.oldest_wait); });
  add("reconciles_total", "counter", "Reconciles that ended.",
      [](const k8s::QueueFigures& figures) { return static_cast<double>(figures.reconciles); });
  add("reconcile_seconds_total", "counter", "Time that they took; by reconciles_total the mean.",
      [](const k8s::QueueFigures& figures) {
        return absl::ToDoubleSeconds(figures.reconcile_time);
      });
  add("reconcile_retries_total", "counter",
      "Those that ended with an error, and are made again; not those that met a change.",
      [](const k8s::QueueFigures& figures) { return static_cast<double>(figures.retries); });
}

void AddState(absl::Time now, const MoverState& state, MetricsPage& page) {
  page.Begin("leader", "gauge", "1 where this process moves volumes, 0 where it waits to.");
  page.Add({}, state.leads ? 1 : 0);
  AddTransfers(state.transfers, page);
  AddQueues(state.queues, page);
  std::map<std::string, int64_t> counts = {{"waiting", 0},  {"running", 0}, {"failing", 0},
                                           {"retained", 0}, {"refused", 0}, {"done", 0}};
  absl::Duration oldest = absl::ZeroDuration();
  for (const DeletionState& deletion : state.deletions) {
    ++counts[std::string(StateOf(deletion))];
    if (deletion.phase != objects::DeletionPhase::kCompleted) {
      oldest = std::max(oldest, now - deletion.since);
    }
  }
  page.Begin("deletions", "gauge",
             "DataDeletions: waiting, running, failing so that they are tried again, retained by "
             "the bucket's object lock, refused for good, done within the last day.");
  page.AddAll("state", counts);
  page.Begin("oldest_deletion_age_seconds", "gauge",
             "Time since the oldest deletion that is not done was asked for; 0 without one.");
  page.Add({}, absl::ToDoubleSeconds(oldest));
  page.Begin("leftover_tasks", "gauge",
             "VolumeTasks whose object is over or gone; they are removed within minutes.");
  page.Add({}, static_cast<double>(state.leftover_tasks));
  AddGroups(state.groups, page);
}

// A number in an annotation, which anybody may have written.
std::optional<int64_t> CountIn(const objects::Object& object, const char* annotation) {
  int64_t count = 0;
  return absl::SimpleAtoi(object.Annotation(annotation), &count) && count >= 0
             ? std::optional(count)
             : std::nullopt;
}

}  // namespace

DeletionState DeletionStateOf(const objects::DataDeletion& deletion) {
  const objects::DataDeletionStatus status = deletion.status();
  return {.phase = status.phase,
          .trouble = status.trouble,
          .since = deletion.created_at().value_or(absl::InfiniteFuture())};
}

void MoverMetrics::Note(const objects::DataUpload& object) {
  const absl::StatusOr<velero::DataUpload> upload = velero::ParseDataUpload(object);
  const std::optional<absl::Time> completed = object.completed_at();
  if (!upload.ok() || upload->data_mover != velero::kDataMoverName ||
      upload->phase != velero::DataPhase::kCompleted || !completed.has_value()) {
    return;
  }
  const MutexLock lock(mutex_);
  const Volume volume{upload->namespace_name, upload->storage_location, upload->source_namespace,
                      upload->source_claim};
  if (uploads_.size() < kVolumesMax || uploads_.contains(volume)) {
    LastUpload& last = uploads_[volume];
    if (*completed >= last.at) {
      last = {.at = *completed,
              .repository_bytes = CountIn(object, objects::kRepositoryBytesAnnotation),
              .repository_snapshots = CountIn(object, objects::kRepositorySnapshotsAnnotation)};
    }
  }
  LastKey& key = keys_[{upload->namespace_name, upload->storage_location}];
  if (*completed >= key.at) {
    key = {.at = *completed,
           .is_confirmed = object.Annotation(objects::kKeyConfirmedAnnotation) != "false"};
  }
}

void MoverMetrics::Note(const objects::DataDownload& object) {
  const absl::StatusOr<velero::DataDownload> download = velero::ParseDataDownload(object);
  const std::optional<absl::Time> completed = object.completed_at();
  if (!download.ok() || download->data_mover != velero::kDataMoverName ||
      download->phase != velero::DataPhase::kCompleted || !completed.has_value()) {
    return;
  }
  const absl::StatusOr<velero::DataReference> source =
      velero::ParseDataReference(download->snapshot_id);
  if (!source.ok()) {
    return;
  }
  // A restore may rename the namespace, never the claim.
  const Volume volume{download->namespace_name, download->storage_location, source->namespace_name,
                      download->target_claim};
  const MutexLock lock(mutex_);
  if (restored_.size() < kVolumesMax || restored_.contains(volume)) {
    absl::Time& last = restored_.emplace(volume, *completed).first->second;
    last = std::max(last, *completed);
  }
}

void MoverMetrics::Count(const UploadEnd& end) {
  const MutexLock lock(mutex_);
  ++ends_[velero::ToString(end.phase)];
  pods_lost_ += end.pods_lost;
  if (end.phase != velero::DataPhase::kCompleted) {
    return;
  }
  bytes_["changed"] += end.figures.changed_bytes;
  bytes_["read"] += end.figures.read_bytes;
  bytes_["audited"] += end.figures.audit_bytes;
  bytes_["stored"] += end.figures.stored_bytes;
  retries_ += end.figures.retries;
  seconds_ += static_cast<double>(end.figures.duration_ms) / 1000;
  audits_ += end.figures.audit_bytes > 0 || end.audit_mismatch ? 1 : 0;
  audit_mismatches_ += end.audit_mismatch ? 1 : 0;
  if (end.figures.mode == "full") {
    ++fallbacks_[end.figures.reason];
  }
}

void MoverMetrics::Count(const DownloadEnd& end) {
  const MutexLock lock(mutex_);
  ++downloads_[velero::ToString(end.phase)];
  restored_bytes_ += end.restored_bytes;
}

void MoverMetrics::AddVolumes(absl::Time now, MetricsPage& page) const {
  const auto add = [&page](const Volume& volume, double value) {
    page.Add({{"velero_namespace", volume.velero_namespace},
              {"location", volume.location},
              {"namespace", volume.namespace_name},
              {"claim", volume.claim}},
             value);
  };
  page.Begin("last_good_backup_age_seconds", "gauge",
             "Time since the volume's newest DataUpload was completed.");
  for (const auto& [volume, last] : uploads_) {
    add(volume, absl::ToDoubleSeconds(now - last.at));
  }
  page.Begin("last_restore_age_seconds", "gauge",
             "Time since the volume's newest DataDownload was completed: each of its blocks was "
             "read and compared with its hash.");
  for (const auto& [volume, at] : restored_) {
    add(volume, absl::ToDoubleSeconds(now - at));
  }
  page.Begin("repository_bytes", "gauge",
             "Size of the packs in the volume's repository, as its newest upload left it.");
  for (const auto& [volume, last] : uploads_) {
    if (last.repository_bytes.has_value()) {
      add(volume, static_cast<double>(*last.repository_bytes));
    }
  }
  page.Begin("repository_snapshots", "gauge",
             "Snapshots in the volume's repository, as its newest upload left it.");
  for (const auto& [volume, last] : uploads_) {
    if (last.repository_snapshots.has_value()) {
      add(volume, static_cast<double>(*last.repository_snapshots));
    }
  }
}

std::string MoverMetrics::Text(absl::Time now, const MoverState& state) const {
  const MutexLock lock(mutex_);
  MetricsPage page;
  AddState(now, state, page);
  AddVolumes(now, page);
  page.Begin(
      "key_unconfirmed", "gauge",
      "1 while nobody has confirmed a copy of the key that a location's newest backup needs.");
  for (const auto& [location, key] : keys_) {
    page.Add({{"velero_namespace", location.first}, {"location", location.second}},
             key.is_confirmed ? 0 : 1);
  }
  page.Begin("uploads_total", "counter", "DataUploads that ended, by their last phase.");
  page.AddAll("phase", ends_);
  page.Begin("bytes_total", "counter",
             "Bytes of completed uploads: changed since the base, read of volumes, read again by "
             "the audit, stored in the bucket.");
  page.AddAll("kind", bytes_);
  page.Sum("upload_seconds_total",
           "Time that completed uploads took; bytes_total by it is the throughput.", seconds_);
  page.Begin("full_uploads_total", "counter", "Completed uploads that read everything, by reason.");
  page.AddAll("reason", fallbacks_);
  page.Sum("audits_total", "Completed uploads whose list of changes was compared with the volume.",
           static_cast<double>(audits_));
  page.Sum("audit_mismatches_total",
           "Uploads whose list of changes was found wrong, so that everything was read.",
           static_cast<double>(audit_mismatches_));
  page.Sum("retries_total", "Requests to buckets that were made again.",
           static_cast<double>(retries_));
  page.Sum("worker_pods_lost_total",
           "Worker Pods that ended before their task: evicted, killed, gone.",
           static_cast<double>(pods_lost_));
  page.Begin("downloads_total", "counter", "DataDownloads that ended, by their last phase.");
  page.AddAll("phase", downloads_);
  page.Sum("restored_bytes_total", "Bytes that downloads wrote into volumes.",
           static_cast<double>(restored_bytes_));
  return page.Take();
}

}  // namespace csidelta::datamover
