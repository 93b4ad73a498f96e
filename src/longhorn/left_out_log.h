#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "base/mutex.h"

namespace csidelta::longhorn {

// Says in the log of a backup or restore which objects were left out of it: of each resource and
// reason the first one, with the reason, then how many they are at 10, 100, 1,000 and so on. An
// action never learns which of its calls was the last. Thread-safe.
class LeftOutLog {
 public:
  // How many pairs of a resource and a reason are counted, over all backups and restores that are
  // under way; beyond that all counts restart.
  static constexpr std::size_t kCountsMax = 256;

  // `run_uid` is that of the Backup or Restore; `resource` as "snapshots.longhorn.io"; `object` as
  // "namespace/name"; `reason` goes on from "is left out: ".
  void Note(absl::string_view run_uid, absl::string_view resource, absl::string_view object,
            absl::string_view reason);

 private:
  int64_t Count(absl::string_view run_uid, absl::string_view resource, absl::string_view reason);

  Mutex mutex_;
  std::map<std::string, int64_t> counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::longhorn
