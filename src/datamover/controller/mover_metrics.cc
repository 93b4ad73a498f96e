#include "datamover/controller/mover_metrics.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "incremental/mover/full_reason.h"
#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

using Labels = std::initializer_list<std::pair<absl::string_view, absl::string_view>>;

// Writes one family of samples after the other.
class MetricsPage {
 public:
  void Begin(absl::string_view name, absl::string_view type, absl::string_view help) {
    name_ = absl::StrCat("csi_delta_mover_", name);
    absl::StrAppend(&text_, "# HELP ", name_, " ", help, "\n# TYPE ", name_, " ", type, "\n");
  }
  void Add(Labels labels, double sample) {
    absl::StrAppend(&text_, name_);
    absl::string_view separator = "{";
    for (const auto& [label, value] : labels) {
      absl::StrAppend(&text_, separator, label, "=\"",
                      absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}),
                      "\"");
      separator = ",";
    }
    absl::StrAppend(&text_, labels.size() == 0 ? "" : "}", " ", sample, "\n");
  }
  void AddAll(absl::string_view label, const std::map<std::string, int64_t>& values) {
    for (const auto& [name, value] : values) {
      Add({{label, name}}, static_cast<double>(value));
    }
  }
  // A family of one sample; a sum only grows.
  template <typename Number>
  void Sum(absl::string_view name, absl::string_view help, Number value) {
    Begin(name, "counter", help);
    Add({}, static_cast<double>(value));
  }
  template <typename Number>
  void Gauge(absl::string_view name, absl::string_view help, Number value) {
    Begin(name, "gauge", help);
    Add({}, static_cast<double>(value));
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

// The states of DataDeletions that are told apart.
absl::string_view StateOf(const DeletionState& deletion) {
  switch (deletion.phase) {
    case objects::DeletionPhase::kCompleted:
      return "done";
    case objects::DeletionPhase::kFailed:
      return deletion.trouble == objects::DeletionTrouble::kNone ? "refused" : "given_up";
    case objects::DeletionPhase::kInProgress:
      return "running";
    default:
      return deletion.trouble == objects::DeletionTrouble::kFailed     ? "failing"
             : deletion.trouble == objects::DeletionTrouble::kRetained ? "retained"
                                                                       : "waiting";
  }
}

void AddGroups(const GroupFigures& figures, absl::Time now, MetricsPage& page) {
  page.Sum("groups_total", "Volume groups that this process saw taken.", figures.groups);
  page.Sum("group_freeze_seconds_total",
           "Freeze windows of those groups: from the request to the driver's answer.",
           absl::ToDoubleSeconds(figures.windows));
  page.Gauge(
      "groups_failing",
      "VolumeGroupSnapshots with an error, or without a content after 10 minutes.",
      absl::c_count_if(figures.failing, [&](const auto& group) { return group.second <= now; }));
  page.Begin("last_group_freeze_seconds", "gauge",
             "The freeze window of the newest time that a group was taken.");
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
  page.Gauge("paused", "1 where the settings admit no transfer.", transfers.is_paused);
  page.Gauge("upload_window_open", "1 while the settings admit uploads.",
             transfers.uploads_are_admitted);
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
      "How long the oldest of them has waited; 0 without one.",
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

void AddBases(absl::Time now, const csi::BaseCounts& bases, MetricsPage& page) {
  page.Begin("bases", "gauge", "Base snapshots that are kept, by driver.");
  page.AddAll("driver",
              bases.by_driver.empty() ? std::map<std::string, int64_t>{{"", 0}} : bases.by_driver);
  page.Gauge(
      "oldest_base_age_seconds", "Time since the oldest base snapshot was taken; 0 without one.",
      absl::ToDoubleSeconds(std::max(absl::ZeroDuration(), now - bases.oldest.value_or(now))));
}

// Alerts compare with them.
void AddSettings(const MoverSettings& settings, MetricsPage& page) {
  page.Gauge("stale_after_seconds", "The setting records.staleAfter.",
             absl::ToDoubleSeconds(settings.records.stale_after));
  page.Gauge("base_age_max_seconds", "The setting bases.maxAge.",
             absl::ToDoubleSeconds(settings.base_age_max));
  page.Gauge("check_percent_per_day", "The setting checks.percentPerDay.",
             settings.checks.percent_per_day);
}

void AddState(absl::Time now, const MoverState& state, MetricsPage& page) {
  page.Gauge("leader", "1 where this process moves volumes, 0 where it waits to.", state.leads);
  AddTransfers(state.transfers, page);
  AddQueues(state.queues, page);
  std::map<std::string, int64_t> counts = {{"waiting", 0},  {"running", 0},  {"failing", 0},
                                           {"retained", 0}, {"given_up", 0}, {"refused", 0},
                                           {"done", 0}};
  absl::Duration oldest = absl::ZeroDuration();
  for (const DeletionState& deletion : state.deletions) {
    ++counts[std::string(StateOf(deletion))];
    if (deletion.phase != objects::DeletionPhase::kCompleted &&
        deletion.phase != objects::DeletionPhase::kFailed) {
      oldest = std::max(oldest, now - deletion.since);
    }
  }
  page.Begin(
      "deletions", "gauge",
      "DataDeletions: waiting, running, failing so that they are tried again, retained by "
      "the bucket's object lock, given up after failing for too long, refused for good, done "
      "within the last day.");
  page.AddAll("state", counts);
  page.Gauge("oldest_deletion_age_seconds",
             "Time since the oldest deletion that is not over was asked for; 0 without one.",
             absl::ToDoubleSeconds(oldest));
  page.Gauge("leftover_tasks",
             "VolumeTasks whose object is over or gone; they are removed within minutes.",
             state.leftover_tasks);
  AddGroups(state.groups, now, page);
  page.Begin(
      "kept_snapshots", "gauge",
      "Snapshots that backups keep on the storage, by its newest answer: present, not-ready, "
      "gone, unlisted (the driver lists none), unknown (an error), unchecked.");
  page.AddAll("state", state.kept);
  AddBases(now, state.bases, page);
  AddSettings(state.settings == nullptr ? MoverSettings() : *state.settings, page);
}

std::optional<double> SecondsSince(const std::optional<absl::Time>& time, absl::Time now) {
  return time.has_value() ? std::optional(absl::ToDoubleSeconds(now - *time)) : std::nullopt;
}

std::optional<double> AsDouble(const std::optional<int64_t>& count) {
  return count.has_value() ? std::optional(static_cast<double>(*count)) : std::nullopt;
}

// Of a check that was made.
std::optional<double> OfCheck(const ProtectedVolumeRecord& record,
                              int64_t (*value)(const objects::Verification& verification)) {
  const std::optional<objects::Verification>& verification = record.status.verification;
  return verification.has_value() && verification->at.has_value() ? AsDouble(value(*verification))
                                                                  : std::nullopt;
}

// A gauge of each volume, by its record.
struct VolumeFamily {
  absl::string_view name;
  absl::string_view help;
  // Nothing where the volume has no sample.
  std::optional<double> (*sample)(const ProtectedVolumeRecord& record, absl::Time now);
};

constexpr VolumeFamily kVolumeFamilies[] = {
    {"last_good_backup_age_seconds", "Time since the volume's newest DataUpload was completed.",
     [](const ProtectedVolumeRecord& record, absl::Time now) {
       const std::optional<objects::LastGoodBackup>& good = record.status.last_good;
       return good.has_value() ? SecondsSince(good->completed_at, now) : std::nullopt;
     }},
    {"recovery_point_age_seconds",
     "Time since the VolumeSnapshot of the volume's last good backup was taken; without one, "
     "since the first backup was requested.",
     [](const ProtectedVolumeRecord& record, absl::Time now) {
       const std::optional<objects::LastGoodBackup>& good = record.status.last_good;
       const std::optional<absl::Time> point =
           good.has_value() ? good->recovery_point() : std::nullopt;
       return SecondsSince(point.value_or(record.created_at.value_or(absl::InfinitePast())), now);
     }},
    {"never_backed_up",
     "1 for a volume without a good backup: none was completed, or all were deleted; others have "
     "no sample.",
     [](const ProtectedVolumeRecord& record, absl::Time /*now*/) {
       const std::optional<objects::LastGoodBackup>& good = record.status.last_good;
       return good.has_value() && good->completed_at.has_value() ? std::nullopt
                                                                 : std::optional(1.0);
     }},
    {"consecutive_failures", "DataUploads that failed since the last good backup.",
     [](const ProtectedVolumeRecord& record, absl::Time /*now*/) {
       return AsDouble(record.status.failures);
     }},
    {"last_restore_age_seconds",
     "Time since the volume's newest DataDownload was completed: each of its blocks was read and "
     "compared with its hash.",
     [](const ProtectedVolumeRecord& record, absl::Time now) {
       return SecondsSince(record.status.restored_at, now);
     }},
    {"verified_age_seconds",
     "Time since the volume's repository was checked; without a check there is no sample.",
     [](const ProtectedVolumeRecord& record, absl::Time now) {
       const std::optional<objects::Verification>& verification = record.status.verification;
       return verification.has_value() ? SecondsSince(verification->at, now) : std::nullopt;
     }},
    {"verification_findings",
     "1 where the newest check of the volume's repository found damage, 0 where it found none.",
     [](const ProtectedVolumeRecord& record, absl::Time /*now*/) {
       return OfCheck(record, [](const objects::Verification& verification) -> int64_t {
         return verification.finding.empty() ? 0 : 1;
       });
     }},
    {"lost_data",
     "1 for a volume whose PVC reports that the storage lost data; others have no sample.",
     [](const ProtectedVolumeRecord& record, absl::Time /*now*/) {
       return record.status.lost_data.has_value() ? std::optional(1.0) : std::nullopt;
     }},
    {"orphaned_snapshots",
     "Repository snapshots of the volume whose Backup, DataUpload and DataDeletion are gone, as "
     "the newest check found them.",
     [](const ProtectedVolumeRecord& record, absl::Time /*now*/) {
       return OfCheck(record, [](const objects::Verification& verification) {
         return verification.orphaned_snapshots;
       });
     }},
    {"repository_bytes",
     "Size of the packs in the volume's repository, as its newest upload left it.",
     [](const ProtectedVolumeRecord& record, absl::Time /*now*/) {
       return AsDouble(record.status.repository.bytes);
     }},
    {"repository_snapshots", "Snapshots in the volume's repository, as its newest upload left it.",
     [](const ProtectedVolumeRecord& record, absl::Time /*now*/) {
       return AsDouble(record.status.repository.snapshots);
     }},
};

// Of one volume.
struct VolumeSamples {
  absl::Time created_at = absl::InfinitePast();                               // its record
  std::array<std::optional<double>, std::size(kVolumeFamilies)> values = {};  // one of each
};

// Velero's namespace, location, namespace and name of the PVC.
using VolumeLabels = std::tuple<std::string, std::string, std::string, std::string>;

void AddSample(const VolumeLabels& labels, double value, MetricsPage& page) {
  page.Add({{"velero_namespace", std::get<0>(labels)},
            {"location", std::get<1>(labels)},
            {"namespace", std::get<2>(labels)},
            {"claim", std::get<3>(labels)}},
           value);
}

// Of those whose PVC is there. Where a PVC was made again under its name, the newest record counts.
std::map<VolumeLabels, VolumeSamples> SamplesOf(const VolumeRecords& records, absl::Time now) {
  std::map<VolumeLabels, VolumeSamples> volumes;
  records.ForEach([&](const ProtectedVolumeRecord& record) {
    if (record.status.pvc_gone_at.has_value()) {
      return;
    }
    VolumeSamples& samples = volumes[{record.velero_namespace, record.spec.location,
                                      record.spec.pvc_namespace, record.spec.pvc}];
    const absl::Time created_at = record.created_at.value_or(absl::InfinitePast());
    if (created_at < samples.created_at) {
      return;
    }
    samples.created_at = created_at;
    std::transform(std::begin(kVolumeFamilies), std::end(kVolumeFamilies), samples.values.begin(),
                   [&](const VolumeFamily& family) { return family.sample(record, now); });
  });
  return volumes;
}

void AddVolumes(const std::map<VolumeLabels, VolumeSamples>& volumes, MetricsPage& page) {
  for (std::size_t i = 0; i < std::size(kVolumeFamilies); ++i) {
    page.Begin(kVolumeFamilies[i].name, "gauge", kVolumeFamilies[i].help);
    for (const auto& [labels, samples] : volumes) {
      if (samples.values[i].has_value()) {
        AddSample(labels, *samples.values[i], page);
      }
    }
  }
}

// Of a volume whose location asks for object locks, whether its PVC is there or not.
struct LockSamples {
  double asked_seconds = 0;
  double locked_seconds = 0;
  double findings = 0;
};

LockSamples LockSamplesOf(const objects::ProtectedVolumeStatus& status, int64_t days,
                          absl::Time now) {
  const objects::LockRenewal locks =
      status.verification.value_or(objects::Verification()).locks.value_or(objects::LockRenewal());
  const absl::Duration lasts = locks.locked_until.value_or(absl::InfinitePast()) - now;
  return {.asked_seconds = absl::ToDoubleSeconds(absl::Hours(24) * days),
          .locked_seconds = absl::ToDoubleSeconds(std::max(absl::ZeroDuration(), lasts)),
          .findings = locks.finding.empty() ? 0.0 : 1.0};
}

// The worst of the records with the same labels.
std::map<VolumeLabels, LockSamples> LocksOf(const VolumeRecords& records,
                                            const MoverSettings& settings, absl::Time now) {
  std::map<VolumeLabels, LockSamples> volumes;
  records.ForEach([&](const ProtectedVolumeRecord& record) {
    const StorageLocationSettings location = ForLocation(settings, record.spec.location);
    if (!location.immutability.has_value() || !record.status.last_good.has_value()) {
      return;
    }
    const LockSamples samples = LockSamplesOf(record.status, location.immutability->days, now);
    const auto [at, is_new] = volumes.try_emplace(
        {record.velero_namespace, record.spec.location, record.spec.pvc_namespace, record.spec.pvc},
        samples);
    at->second.locked_seconds = std::min(at->second.locked_seconds, samples.locked_seconds);
    at->second.findings = std::max(at->second.findings, samples.findings);
  });
  return volumes;
}

void AddLocks(const std::map<VolumeLabels, LockSamples>& volumes, MetricsPage& page) {
  const auto add = [&](absl::string_view name, absl::string_view help, double LockSamples::*value) {
    page.Begin(name, "gauge", help);
    for (const auto& [labels, samples] : volumes) {
      AddSample(labels, samples.*value, page);
    }
  };
  add("immutability_seconds",
      "How long object locks are to last, by the setting immutability of the volume's location.",
      &LockSamples::asked_seconds);
  add("locked_seconds",
      "How long all that the volume's backups need stays locked at least, by the newest renewal "
      "that ended without a failure; 0 without one.",
      &LockSamples::locked_seconds);
  add("lock_renewal_findings",
      "1 where the newest renewal of the volume's object locks failed for an object, else 0.",
      &LockSamples::findings);
}

const std::map<std::string, int64_t>& NoEnds() {
  static const auto& ends =
      *new std::map<std::string, int64_t>{{objects::ToString(objects::DataPhase::kCompleted), 0},
                                          {objects::ToString(objects::DataPhase::kFailed), 0},
                                          {objects::ToString(objects::DataPhase::kCanceled), 0}};
  return ends;
}

}  // namespace

DeletionState DeletionStateOf(const objects::DataDeletion& deletion) {
  const objects::DataDeletionStatus status = deletion.status();
  return {.phase = status.phase,
          .trouble = status.trouble,
          .since = deletion.created_at().value_or(absl::InfiniteFuture())};
}

MoverMetrics::MoverMetrics()
    : ends_(NoEnds()),
      downloads_(NoEnds()),
      bytes_({{"changed", 0}, {"read", 0}, {"audited", 0}, {"stored", 0}}) {
  for (const incremental::FullReasonText& reason : incremental::FullReasons()) {
    fallbacks_[std::string(reason.name)] = 0;
  }
}

void MoverMetrics::Record(const objects::DataUpload& object) {
  const std::optional<absl::Time> completed = object.completed_at();
  if (!object.is_managed() || object.known_phase() != objects::DataPhase::kCompleted ||
      !completed.has_value() || !object.Validate().ok()) {
    return;
  }
  const MutexLock lock(mutex_);
  LastKey& key = keys_[{object.namespace_name(), object.storage_location()}];
  if (*completed >= key.at) {
    key = {.at = *completed,
           .is_confirmed = object.Annotation(objects::kKeyConfirmedAnnotation) != "false"};
  }
}

void MoverMetrics::CountUpload(const TransferEnd& end) {
  const MutexLock lock(mutex_);
  ++ends_[objects::ToString(end.phase)];
  pods_lost_ += end.pods_lost;
  if (end.phase != objects::DataPhase::kCompleted) {
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

void MoverMetrics::CountDownload(const TransferEnd& end) {
  const MutexLock lock(mutex_);
  ++downloads_[objects::ToString(end.phase)];
  restored_bytes_ += end.restored_bytes;
}

std::string MoverMetrics::Text(absl::Time now, const MoverState& state) const {
  MetricsPage page;
  AddState(now, state, page);
  AddVolumes(state.records == nullptr ? std::map<VolumeLabels, VolumeSamples>()
                                      : SamplesOf(*state.records, now),
             page);
  AddLocks(state.records == nullptr || state.settings == nullptr
               ? std::map<VolumeLabels, LockSamples>()
               : LocksOf(*state.records, *state.settings, now),
           page);
  const MutexLock lock(mutex_);
  page.Begin("key_unconfirmed", "gauge",
             "1 while no copy of the key is confirmed that a location's newest backup needs.");
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
           audits_);
  page.Sum("audit_mismatches_total",
           "Uploads whose list of changes was found wrong, so that everything was read.",
           audit_mismatches_);
  page.Sum("retries_total", "Requests to buckets that were made again.", retries_);
  page.Sum("worker_pods_lost_total",
           "Worker Pods that ended before their task: evicted, killed, gone.", pods_lost_);
  page.Begin("downloads_total", "counter", "DataDownloads that ended, by their last phase.");
  page.AddAll("phase", downloads_);
  page.Sum("restored_bytes_total", "Bytes that downloads wrote into volumes.", restored_bytes_);
  return page.Take();
}

}  // namespace csidelta::datamover
