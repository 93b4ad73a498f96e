#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "csi/base_index.h"
#include "datamover/controller/transfer_step.h"
#include "datamover/records/group_windows.h"
#include "datamover/records/volume_records.h"
#include "datamover/settings.h"
#include "datamover/transfer_scheduler.h"
#include "k8s/reconcile_loop.h"
#include "objects/data_deletion.h"
#include "objects/data_transfer.h"

namespace csidelta::datamover {

// What is known of one DataDeletion.
struct DeletionState {
  objects::DeletionPhase phase = objects::DeletionPhase::kNone;
  objects::DeletionTrouble trouble = objects::DeletionTrouble::kNone;
  absl::Time since = absl::InfiniteFuture();  // it is asked for
};
DeletionState DeletionStateOf(const objects::DataDeletion& deletion);

// The state of the mover at this moment.
struct MoverState {
  bool leads = false;
  TransferScheduler::Counts transfers = {};
  std::vector<DeletionState> deletions = {};
  int64_t leftover_tasks = 0;  // of transfers that are gone or over
  GroupFigures groups = {};
  std::map<std::string, int64_t> kept = {};              // snapshots on the storage, by state
  std::map<std::string, k8s::QueueFigures> queues = {};  // by name
  const VolumeRecords* records = nullptr;                // of all volumes; null: none
  const MoverSettings* settings = nullptr;               // null: the defaults
  csi::BaseCounts bases = {};
};

// The metrics of the mover, in the text format of Prometheus. Sums begin at 0 with the process, for
// each value of their labels, so that the first increase is seen. The gauges of a volume come from
// its record. Thread-safe.
class MoverMetrics {
 public:
  MoverMetrics();

  // As an informer delivered it.
  void Record(const objects::DataUpload& upload);
  void CountUpload(const TransferEnd& end);
  void CountDownload(const TransferEnd& end);

  std::string Text(absl::Time now, const MoverState& state) const;

 private:
  using Location = std::pair<std::string, std::string>;  // Velero's namespace, name
  struct LastKey {
    absl::Time at;
    bool is_confirmed = true;
  };

  mutable Mutex mutex_;
  std::map<Location, LastKey> keys_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> ends_ ABSL_GUARDED_BY(mutex_);       // By phase.
  std::map<std::string, int64_t> downloads_ ABSL_GUARDED_BY(mutex_);  // By phase.
  int64_t restored_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int64_t> fallbacks_ ABSL_GUARDED_BY(mutex_);  // By reason.
  std::map<std::string, int64_t> bytes_ ABSL_GUARDED_BY(mutex_);      // By what was done with them.
  int64_t retries_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t pods_lost_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t audits_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t audit_mismatches_ ABSL_GUARDED_BY(mutex_) = 0;
  double seconds_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace csidelta::datamover
