#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "datamover/mover_environment.h"
#include "datamover/settings.h"
#include "objects/core.h"
#include "objects/event_handler.h"
#include "objects/volume_task.h"

namespace csidelta::datamover {

// How often shares are looked at.
inline constexpr absl::Duration kSharesMovedEvery = absl::Milliseconds(250);
// A worker that has not reported its share for so long is taken to keep to it: it may have ended
// with its node, and the others shall not wait for ever.
inline constexpr absl::Duration kShareAssumedAfter = absl::Seconds(60);

// A task that is not over and has a job.
struct SharingTask {
  std::string name;
  objects::TaskKind kind = objects::TaskKind::kUpload;
  bool is_running = false;       // its worker has reported, and has not ended
  uint64_t version = 0;          // of the object
  objects::JobRates rates = {};  // of no limit: very many
  bool is_reported = false;      // its worker keeps to these rates
};

// Follows the limits of bandwidth in the settings, shares them among workers, and writes the shares
// into their tasks. Per direction:
//
// - A worker has eight times the share of one that begins, or that mainly moves data the other way.
//   None has more than the limit of one worker.
// - Shares, and what may still be in use of earlier ones, never add up to more than the limit. So a
//   share is lowered at once, and raised by what is free. What a worker gives up is free once it
//   reports so, or after kShareAssumedAfter.
// - What one worker does not use of its share is not given to others.
//
// Settings that are gone or damaged change nothing: the last good limits count. The log says so,
// and for damaged ones an Event SettingsRefused on the ConfigMap. Other settings count when the
// controller starts. Borrows `env`. Thread-safe: one thread for each of the two that run.
class RateSharing {
 public:
  // `leads`: whether this process writes tasks.
  RateSharing(const MoverEnvironment& env, std::function<bool()> leads);

  // To be added to the informer of VolumeTasks.
  objects::Index<objects::VolumeTask, SharingTask>& tasks() { return tasks_; }

  // Until `ctx` ends; calls ReadSettings().
  void FollowSettings(const CallContext& ctx);
  // The ConfigMap as it is now; null if there is none.
  void ReadSettings(const CallContext& ctx, const objects::ConfigMap* config_map);

  // Until `ctx` ends; calls MoveShares().
  void Work(const CallContext& ctx);
  void MoveShares(const CallContext& ctx);

 private:
  struct Share {
    SharingTask task;
    objects::JobRates in_use_max = {};  // that its worker may still use
    objects::JobRates next = {};
    absl::Duration since = {};  // when the rates of the task were written
  };

  void ReadTasks(absl::Duration now);
  // Sets `next` of all shares in one direction.
  void Divide(int64_t objects::JobRates::*direction);

  const MoverEnvironment& env_;
  const std::function<bool()> leads_;
  objects::Index<objects::VolumeTask, SharingTask> tasks_;
  std::map<std::string, Share> shares_;  // by task; of MoveShares() alone
  bool was_found_ = false;               // the ConfigMap; of ReadSettings() alone
  std::string refused_;                  // why settings were refused last; likewise
  Mutex mutex_;
  MoverSettings settings_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::datamover
