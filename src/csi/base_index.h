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
  // By driver, including drivers whose bases are all gone. Empty until there was one.
  std::map<std::string, int64_t> by_driver = {};
  std::optional<absl::Time> oldest = {};  // when the oldest of all was taken
};

// The bases of all volumes, as the informer of BaseContents() delivers them. So the end of an
// upload reads those of its own volume alone. Bases that are being deleted are omitted.
// Thread-safe.
class BaseIndex : public objects::Index<objects::VolumeSnapshotContent, BaseSnapshot> {
 public:
  BaseIndex();

  // Possibly stale by a moment. Nothing until the informer has listed all.
  std::optional<std::vector<BaseSnapshot>> OfClaim(absl::string_view claim_uid) const;
  // True if any base of the driver is_needed. Nothing until the informer has listed all.
  std::optional<bool> Needs(absl::string_view driver) const;
  BaseCounts counts() const;

 private:
  std::optional<BaseSnapshot> ReadOne(const objects::VolumeSnapshotContent& content);

  mutable Mutex drivers_mutex_;
  std::set<std::string> drivers_ ABSL_GUARDED_BY(drivers_mutex_);  // that had a base
};

}  // namespace csidelta::csi
