#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "csi/base_snapshots.h"
#include "objects/event_handler.h"
#include "objects/volume_snapshot.h"

namespace csidelta::csi {

struct BaseCounts {
  // Also drivers that have none any more. Empty until there was one.
  std::map<std::string, int64_t> by_driver = {};
  std::optional<absl::Time> oldest = {};  // when the oldest of all was taken
};

// The bases of all volumes as the informer of BaseContents() delivers them, so that the end of one
// upload looks at those of its own volume alone. Thread-safe.
class BaseIndex : public objects::EventHandler<objects::VolumeSnapshotContent> {
 public:
  // A moment old. Nothing until all are known. Those being deleted are none.
  std::optional<std::vector<BaseSnapshot>> OfClaim(absl::string_view claim_uid) const;
  // Whether any base of the driver is_needed.
  std::optional<bool> Needs(absl::string_view driver) const;
  BaseCounts counts() const;

 private:
  void OnObjects(std::vector<objects::VolumeSnapshotContent> page, bool is_first) override;
  void OnListComplete() override;
  void OnChanged(const objects::VolumeSnapshotContent& content) override;
  void OnDeleted(const objects::VolumeSnapshotContent& content) override;
  void Note(const objects::VolumeSnapshotContent& content) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(const std::string& content_name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  bool is_synced_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, BaseSnapshot> bases_ ABSL_GUARDED_BY(mutex_);  // by the content's name
  // Names by the claim's uid, and of those that are needed by driver.
  std::map<std::string, std::set<std::string>, std::less<>> by_claim_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::set<std::string>, std::less<>> needed_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> by_driver_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> listed_ ABSL_GUARDED_BY(mutex_);  // of a list that is not whole yet
};

}  // namespace csidelta::csi
