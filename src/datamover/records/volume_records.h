#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "datamover/settings.h"
#include "k8s/api_client.h"
#include "k8s/informer.h"
#include "objects/protected_volume.h"
#include "velero/data_reference.h"

namespace csidelta::datamover {

// Records that are held and made; further ones are ignored.
inline constexpr std::size_t kVolumeRecordsMax = 20'000;

// A ProtectedVolume.
struct ProtectedVolumeRecord {
  std::string velero_namespace;
  std::string name;
  std::string uid;
  std::optional<absl::Time> created_at;
  objects::ProtectedVolumeSpec spec;
  objects::ProtectedVolumeStatus status;
};
ProtectedVolumeRecord ReadProtectedVolume(const objects::ProtectedVolume& object);

// Whether the record stays long after its PVC is gone: its check renews the object locks of
// existing backups. Pure.
bool IsKeptForLocks(const objects::ProtectedVolumeStatus& status);

// Velero's namespace, and the name of the record.
using VolumeRecordKey = std::pair<std::string, std::string>;

// The next step for a volume, in one sentence; "" if there is none. Changes with `now` only when a
// deadline passes. Pure.
std::string NextStepOf(const ProtectedVolumeRecord& record, const RecordSettings& rules,
                       absl::Time now);

// The records of all Velero namespaces, as the informers of ProtectedVolumes deliver them; each
// namespace has an informer. Thread-safe. ForEach() calls with the lock held: `call` must not call
// back.
class VolumeRecords {
 public:
  using OnChange = std::function<void(const VolumeRecordKey& key)>;

  // `on_change`: called for each record that is added, changed or deleted, without the lock held.
  explicit VolumeRecords(OnChange on_change);
  ~VolumeRecords();

  // Watches the records of one namespace. Borrows the informer; before it runs.
  void Add(k8s::Informer& informer);

  // Whether all records that existed at the start are known.
  bool is_synced() const;
  std::size_t size() const;
  // Possibly stale; nothing if there is no such record.
  std::optional<ProtectedVolumeRecord> Find(absl::string_view velero_namespace,
                                            absl::string_view pvc_uid,
                                            absl::string_view location) const;
  std::optional<ProtectedVolumeRecord> Find(const VolumeRecordKey& key) const;
  void ForEach(absl::FunctionRef<void(const ProtectedVolumeRecord& record)> call) const;

  // Adds a record that was just stored, before its event arrives.
  void Put(const objects::ProtectedVolume& object);

 private:
  // The event handler of one namespace.
  class Handler;

  void Keep(const objects::ProtectedVolume& object);
  void Drop(const VolumeRecordKey& key, absl::string_view uid);

  const OnChange on_change_;
  std::vector<std::unique_ptr<Handler>> handlers_;
  mutable Mutex mutex_;
  std::map<VolumeRecordKey, ProtectedVolumeRecord> records_ ABSL_GUARDED_BY(mutex_);
};

// A repository, for what is known of it.
struct RecordedRepository {
  std::string velero_namespace;
  std::string location;
  velero::DataReference reference;  // to any of its snapshots
  std::string pvc_uid = {};         // of a PVC that uses it; "": that of the reference
};

// The damage that the newest check found in a repository; nothing if there is none. Several PVCs
// have records of one that was restored from. Read from the API server if `records` is null, or
// does not know all records yet.
absl::StatusOr<std::optional<objects::RepositoryDamage>> FindDamage(
    const CallContext& ctx, k8s::ApiClient& api, const VolumeRecords* records,
    const RecordedRepository& repository);

}  // namespace csidelta::datamover
