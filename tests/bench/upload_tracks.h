#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/json.h"
#include "tests/bench/scaled_clock.h"

namespace csidelta::bench {

// When a DataUpload became what, by the writes that the API server took.
struct UploadTrack {
  std::string name = {};
  std::string phase = {};
  std::string message = {};  // of that phase
  std::optional<absl::Time> worker_ended_at = {};
  std::optional<absl::Time> canceling_at = {};
  std::optional<absl::Time> ended_at = {};  // its last phase
  int64_t done_bytes = 0;
  // The first progress that its worker reported and that is not copied yet, and when.
  std::optional<std::pair<int64_t, absl::Time>> reported = {};
  absl::Duration lag_max = absl::ZeroDuration();  // from a report until it is copied
};

// What becomes of all DataUploads. Thread-safe.
class UploadTracks {
 public:
  explicit UploadTracks(const ScaledClock& clock) : clock_(clock) {}

  // A DataUpload as it was just stored.
  void Note(const Json& upload);
  // The worker of the DataUpload with this uid wrote its end.
  void NoteWorkerEnd(const std::string& uid, absl::Time at);

  // The worker of the DataUpload with this uid wrote its progress.
  void NoteReport(const std::string& uid, int64_t done_bytes, absl::Time at);

  // From now on it is measured how long reports wait.
  void BeginWindow();
  // All of them as they are now; a report that waits counts until now.
  std::vector<UploadTrack> Look() const;
  // Until `done` holds of all of them, at most for `time_max` of the clock; whether it did.
  bool Await(const std::function<bool(const UploadTrack&)>& done, int count,
             absl::Duration time_max) const;

 private:
  const ScaledClock& clock_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<std::string, UploadTrack> tracks_;  // Guarded by mutex_; by uid.
};

}  // namespace csidelta::bench
