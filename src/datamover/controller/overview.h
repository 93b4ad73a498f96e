#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "datamover/settings.h"
#include "datamover/transfer_queue.h"
#include "objects/data_transfer.h"
#include "objects/volume_task.h"

namespace csidelta::datamover {

// One managed DataUpload or DataDownload, for display.
struct Movement {
  std::string uid;
  std::string kind;  // "upload", "download"
  std::string velero_namespace;
  std::string name;
  std::string volume;  // "namespace/claim"
  std::string location;
  std::string phase;
  std::string stage;                    // of the worker; "" before there is one
  std::string message;                  // of the object: what it waits for, what went wrong
  std::string node;                     // of the worker
  std::optional<WaitReason> waits_for;  // if it is not admitted
  std::optional<absl::Time> created_at;
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;                  // 0: not known
  std::optional<int64_t> bytes_per_second;  // in the last seconds before the worker's report
  std::optional<absl::Duration> left;       // where they suffice to know it
  bool is_over = false;
};

// All managed transfers in the order of creation. `uploads`, `downloads` and `tasks` are all
// objects of their kinds. Objects of other movers, and those that cannot be read, are omitted.
// Pure.
std::vector<Movement> ListMovements(const std::vector<objects::DataUpload>& uploads,
                                    const std::vector<objects::DataDownload>& downloads,
                                    const std::vector<objects::VolumeTask>& tasks);

// The queue of transfers, as a controller with these settings has it.
struct QueueOverview {
  int admitted = 0;
  int admitted_max = 0;
  std::map<WaitReason, int> waiting;          // by what they wait for; none is 0
  std::map<std::string, WaitReason> reasons;  // the same by uid
  bool is_paused = false;
  std::optional<absl::Time> uploads_open_at;  // if no window is open
  int waits() const { return static_cast<int>(reasons.size()); }
};

// The queue of all DataUploads and DataDownloads. Transfers that could be admitted now wait for
// kNext: a running controller admits them at once. Pure.
QueueOverview DescribeQueue(const MoverSettings& settings,
                            const std::vector<objects::DataUpload>& uploads,
                            const std::vector<objects::DataDownload>& downloads, absl::Time now);

// "2 transfers are admitted, 7 wait:", a line for each reason, and what prevents all admissions or
// all uploads; "" if nothing waits or is prevented.
std::string ToText(const QueueOverview& queue);

// The mean duration, from their beginning on, of the transfers that were completed since; nothing
// if there are none. Pure.
std::optional<absl::Duration> MeanDuration(const std::vector<objects::DataUpload>& uploads,
                                           const std::vector<objects::DataDownload>& downloads,
                                           absl::Time since);

}  // namespace csidelta::datamover
