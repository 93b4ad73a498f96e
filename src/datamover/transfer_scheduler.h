#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "datamover/transfer_queue.h"

namespace csidelta::datamover {

// How often a transfer that waits asks again, whatever it is told.
inline constexpr absl::Duration kAskAgainEvery = absl::Minutes(5);

// Admits transfers in the order of TransferQueue. Whenever a transfer is queued, ends or changes,
// those that can be admitted are, and only these are enqueued. All others stay where they are, and
// know why since they asked. The objects show what runs, so a restart changes nothing.
//
// Thread-safe. Neither callback is called under the lock, so both may lock what they like.
class TransferScheduler {
 public:
  // `may_admit`: whether this process leads, and knows all transfers. `enqueue` is called with the
  // task of each transfer that is admitted while it does not ask. Borrows `clock`.
  TransferScheduler(TransferLimits limits, const Clock& clock, std::function<bool()> may_admit,
                    std::function<void(const std::string& task)> enqueue);

  // From the informers: what an object says, that it is over or gone, and that a volume has a good
  // backup, whose snapshot was taken then.
  void Put(QueuedTransfer transfer);
  void Remove(absl::string_view uid);
  void RecordBackup(const std::string& volume, absl::Time taken_at);

  struct Answer {
    std::optional<absl::Time> admitted_at;          // to be written into the object, as it is
    std::string waits_for;                          // where it is not admitted
    absl::Time ask_again = absl::InfiniteFuture();  // likewise
  };
  // Whether a transfer may run, whose object was just read. One that is admitted is so until its
  // object says otherwise; of one that gave its admission back, `transfer` says which.
  Answer Ask(QueuedTransfer transfer);
  // The same for one whose Pod was scheduled while it had no admission: it runs, and counts.
  absl::Time AdmitRunning(QueuedTransfer transfer);

  struct Counts {
    int admitted = 0;
    int waiting = 0;
    int restores = 0;                            // of those that are admitted
    std::map<WaitReason, int> waiting_for = {};  // of those that wait
    bool is_paused = false;
    bool uploads_are_admitted = true;  // one of their windows is open
  };
  Counts counts() const;
  // How many transfers the API server refuses what they need.
  int refused() const;
  // As TransferQueue::steps().
  int64_t steps() const;

 private:
  absl::Time Stamp() const;
  std::vector<std::string> AdmitAll(absl::string_view asking) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EnqueueAll(const std::vector<std::string>& tasks) const;

  const Clock& clock_;
  const std::function<bool()> may_admit_;
  const std::function<void(const std::string& task)> enqueue_;
  mutable Mutex mutex_;
  TransferQueue queue_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::datamover
