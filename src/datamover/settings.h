#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "datamover/daily_window.h"
#include "engine/backup.h"
#include "k8s/api_client.h"
#include "net/proxy.h"
#include "objects/backup_storage_location.h"
#include "objects/node.h"
#include "objects/volume_job.h"

namespace csidelta::datamover {

inline constexpr char kSettingsConfigMap[] = "csi-delta-mover";
inline constexpr char kSettingsKey[] = "config.json";

// Settings of one storage class.
struct StorageClassSettings {
  std::string intermediate_class;  // of claims made from their snapshots; "" for the volume's own
  bool read_only_many = false;     // those claims ask for many readers
  int transfers_max = 0;           // at once; 0 for no limit of its own
  std::map<std::string, std::string> node_selector;  // of the worker, beside the one for all
};

// Settings of one BackupStorageLocation.
struct StorageLocationSettings {
  int transfers_max = 0;  // at once; 0 for no limit of its own
  // Objects are locked when they are put. The objects that snapshots need are locked again before
  // their locks end.
  std::optional<objects::JobObjectLock> immutability = {};
  // Credentials for deletions; everything else uses the location's own. Without a name deletions
  // do, too.
  objects::SecretKeyName deletion_credential = {};
};

// Quantities as Kubernetes writes them; "" for none.
struct WorkerResources {
  std::string cpu_request = "100m";
  std::string cpu_limit;
  std::string memory_request = "128Mi";
  std::string memory_limit = "256Mi";
};

// Settings of worker Pods.
struct WorkerSettings {
  WorkerResources resources;
  std::string scratch_size = "1Gi";
  objects::JobRates rates_max;  // of one worker
  bool has_fixed_user = true;   // the image's; else the one that the mover's namespace prescribes
  // Beside its own group; 6 is the group of block devices on a node.
  std::vector<int64_t> supplemental_groups = {6};
  std::string priority_class;
  std::string image_pull_policy = "IfNotPresent";
  std::vector<std::string> image_pull_secrets;
  std::map<std::string, std::string> pod_labels;
  std::map<std::string, std::string> pod_annotations;
  std::map<std::string, std::string> node_selector;
  objects::Tolerations tolerations;
  objects::Affinity affinity;
};

// How the data of deleted backups is removed from repositories.
struct DeletionSettings {
  int workers_max = 4;                              // at once, each in a repository of its own
  absl::Duration give_up_after = absl::Hours(168);  // of failures without a break
};

// How repositories are verified daily.
struct CheckSettings {
  int percent_per_day = 3;  // of each repository's data; 0: no checks
  int workers = 1;          // at once

  // The number of daily checks that read all data. REQUIRES percent_per_day > 0.
  int64_t parts() const { return (100 + percent_per_day - 1) / percent_per_day; }
};

// When a ProtectedVolume needs a next step, and when it goes.
struct RecordSettings {
  absl::Duration keep_after_pvc = absl::Hours(720);  // how long a record outlives its PVC
  absl::Duration stale_after = absl::Hours(48);      // how old the last good backup may be
};

// The settings of the data mover: `config.json` in the ConfigMap csi-delta-mover of its namespace.
// Its schema is deploy/chart/files/settings.schema.json; docs/data-mover-settings.md documents each
// key. A value.
struct MoverSettings {
  absl::Duration prepare_timeout = absl::Minutes(30);
  objects::OnFallback on_fallback = objects::OnFallback::kWarn;
  int transfers_max = 10;  // uploads and downloads at once
  int transfers_per_node_max = 2;
  int transfers_per_namespace_max = 0;      // 0 for no limit of its own
  objects::JobRates rates_max;              // of all workers together, which share them
  bool ignore_delay_binding = false;        // a restored claim is filled before a Pod uses it
  bool writes_into_existing = false;        // the volume of a PVC that exists may be written into
  bool is_paused = false;                   // no transfer is admitted
  std::vector<DailyWindow> upload_windows;  // in which uploads are admitted; empty: always
  std::map<std::string, StorageClassSettings> storage_classes;  // by name
  std::map<std::string, StorageLocationSettings> locations;     // by name
  std::map<std::string, bool> keep_base;                        // by driver
  // By driver: parameters of the DifferentialSnapshots of its volumes, NAME=VALUE.
  std::map<std::string, std::vector<std::string>> driver_parameters;
  absl::Duration base_age_max = absl::Hours(14 * 24);  // older bases are dropped
  DeletionSettings deletions;
  CheckSettings checks;
  WorkerSettings worker;
  RecordSettings records;
  net::ProxySettings proxy;  // of controller and workers, to buckets; `always` is not set
};

// Parses the text of config.json; "" and "{}" are the defaults. INVALID_ARGUMENT, naming key, value
// and valid form, for an invalid value or an unknown key. Pure.
absl::StatusOr<MoverSettings> ParseMoverSettings(absl::string_view text);

// The current settings; the defaults if there is no ConfigMap.
absl::StatusOr<MoverSettings> ReadMoverSettings(const CallContext& ctx, k8s::ApiClient& api,
                                                absl::string_view mover_namespace);
// The same, but nothing if there is no ConfigMap, for example because the mover has another
// namespace.
absl::StatusOr<std::optional<MoverSettings>> FindMoverSettings(const CallContext& ctx,
                                                               k8s::ApiClient& api,
                                                               absl::string_view mover_namespace);

// FAILED_PRECONDITION, naming the setting, unless the volume of a PVC that exists may be written
// into. Pure.
absl::Status CheckWritesIntoExisting(const MoverSettings& settings);

// The settings of a storage class; the defaults if nothing is set.
StorageClassSettings ForStorageClass(const MoverSettings& settings,
                                     absl::string_view storage_class);

// The settings of a BackupStorageLocation; the defaults if nothing is set.
StorageLocationSettings ForLocation(const MoverSettings& settings, absl::string_view location);

// The parameters of the driver; empty if nothing is set.
std::vector<std::string> ParametersFor(const MoverSettings& settings, absl::string_view driver);

// A driver for which each volume snapshot is costly, so that its base is not kept by default.
struct CostlyBase {
  absl::string_view driver;
  absl::string_view reason;
};
const std::vector<CostlyBase>& CostlyBases();

// Whether the newest volume snapshot is kept as the base of the next upload: by the setting for its
// driver, else unless it is in CostlyBases().
bool KeepsBase(const MoverSettings& settings, absl::string_view driver);

// How many workers may run at once: for transfers, deletions and checks.
int WorkersMax(const MoverSettings& settings);

// The rates of a worker that begins: of what all share, too little to count, until its share is
// known.
inline constexpr int64_t kFirstKib = 1;
objects::JobRates FirstRates(const MoverSettings& settings);

// The --memory-budget of a worker: its memory limit less what the control connection takes.
int64_t MemoryBudgetBytes(const WorkerResources& resources);

}  // namespace csidelta::datamover
