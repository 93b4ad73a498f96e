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

// How often a waiting transfer asks again in any case.
inline constexpr absl::Duration kAskAgainEvery = absl::Minutes(5);

// Admits transfers in the order of TransferQueue, whenever one is queued, ends or changes. Only the
// admitted ones are enqueued. All others wait, with the reason that they were given when they
// asked. Admissions are known from the objects, so a restart changes nothing.
//
// Thread-safe. The callbacks are called without the lock, so they may lock anything.
class TransferScheduler {
 public:
  // `may_admit`: whether this process leads, and knows all transfers. `enqueue` is called with the
  // task of each transfer that is admitted while it does not ask. Borrows `clock`.
  TransferScheduler(TransferLimits limits, const Clock& clock, std::function<bool()> may_admit,
                    std::function<void(const std::string& task)> enqueue);

  // From the informers: an object as it is, one that is over or gone, and a volume's good backup
  // with the time at which its snapshot was taken.
  void Put(QueuedTransfer transfer);
  void Remove(absl::string_view uid);
  void RecordBackup(const std::string& volume, absl::Time taken_at);

  struct Answer {
    std::optional<absl::Time> admitted_at;          // to be written into the object, as it is
    std::string waits_for;                          // if it is not admitted
    absl::Time ask_again = absl::InfiniteFuture();  // likewise
  };
  // Asks whether a transfer whose object was just read may run. An admitted one may until its
  // object contradicts. `transfer` names the admission that it gave back, if any.
  Answer Ask(QueuedTransfer transfer);
  // The same for a transfer whose Pod was scheduled while it had no admission: it runs, and counts.
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
  // The number of transfers that the API server refuses.
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
