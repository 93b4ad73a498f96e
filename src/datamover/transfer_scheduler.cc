#include "datamover/transfer_scheduler.h"

#include <algorithm>
#include <utility>

namespace csidelta::datamover {
namespace {

// After a restart, until all are known.
constexpr absl::Duration kAskAgainUntilKnown = absl::Seconds(2);

}  // namespace

TransferScheduler::TransferScheduler(TransferLimits limits, const Clock& clock,
                                     std::function<bool()> may_admit,
                                     std::function<void(const std::string& task)> enqueue)
    : clock_(clock),
      may_admit_(std::move(may_admit)),
      enqueue_(std::move(enqueue)),
      queue_(std::move(limits)) {}

void TransferScheduler::Put(QueuedTransfer transfer) {
  const bool may_admit = may_admit_();
  std::vector<std::string> tasks;
  {
    const MutexLock lock(mutex_);
    if (!may_admit) {
      queue_.Revoke(transfer.uid);  // Another process leads: what it writes counts.
    }
    queue_.Put(std::move(transfer));
    if (may_admit) {
      tasks = AdmitAll("");
    }
  }
  EnqueueAll(tasks);
}

void TransferScheduler::Remove(absl::string_view uid) {
  const bool may_admit = may_admit_();
  std::vector<std::string> tasks;
  {
    const MutexLock lock(mutex_);
    queue_.Remove(uid);
    if (may_admit) {
      tasks = AdmitAll("");
    }
  }
  EnqueueAll(tasks);
}

void TransferScheduler::RecordBackup(const std::string& volume, absl::Time taken_at) {
  const MutexLock lock(mutex_);
  queue_.RecordBackup(volume, taken_at);
}

absl::Time TransferScheduler::AdmitRunning(QueuedTransfer transfer) {
  const std::string uid = transfer.uid;
  const absl::Time now = Stamp();
  const MutexLock lock(mutex_);
  if (queue_.Find(uid) != nullptr) {
    queue_.Put(std::move(transfer));
    queue_.AdmitRunning(uid, now);
  }
  return queue_.AdmittedAt(uid).value_or(now);
}

TransferScheduler::Answer TransferScheduler::Ask(QueuedTransfer transfer) {
  const std::string uid = transfer.uid;
  const bool may_admit = may_admit_();
  const absl::Time now = clock_.Now();
  std::vector<std::string> tasks;
  Answer answer;
  {
    const MutexLock lock(mutex_);
    if (!may_admit || queue_.Find(uid) == nullptr) {
      return {.admitted_at = {},
              .waits_for = "waits until all transfers are known",
              .ask_again = now + kAskAgainUntilKnown};
    }
    queue_.Put(std::move(transfer));
    tasks = AdmitAll(uid);
    answer.admitted_at = queue_.AdmittedAt(uid);
    if (!answer.admitted_at.has_value()) {
      answer.waits_for = queue_.ReasonOf(uid, now);
      answer.ask_again = now + kAskAgainEvery;
      if (!IsOpen(queue_.limits().upload_windows, now)) {
        answer.ask_again =
            std::min(answer.ask_again, NextOpening(queue_.limits().upload_windows, now));
      }
    }
  }
  EnqueueAll(tasks);
  return answer;
}

// As an annotation holds it: objects are compared with it.
absl::Time TransferScheduler::Stamp() const {
  return absl::FromUnixMicros(absl::ToUnixMicros(clock_.Now()));
}

std::vector<std::string> TransferScheduler::AdmitAll(absl::string_view asking) {
  const absl::Time now = Stamp();
  std::vector<std::string> tasks;
  while (const QueuedTransfer* const admitted = queue_.AdmitNext(now)) {
    if (admitted->uid != asking) {
      tasks.push_back(admitted->task);
    }
  }
  return tasks;
}

void TransferScheduler::EnqueueAll(const std::vector<std::string>& tasks) const {
  for (const std::string& task : tasks) {
    enqueue_(task);
  }
}

TransferScheduler::Counts TransferScheduler::counts() const {
  const absl::Time now = clock_.Now();
  const MutexLock lock(mutex_);
  return {.admitted = queue_.admitted(),
          .waiting = queue_.waiting(),
          .restores = queue_.admitted_restores(),
          .waiting_for = queue_.CountWaiting(now),
          .is_paused = queue_.limits().is_paused,
          .uploads_are_admitted = IsOpen(queue_.limits().upload_windows, now)};
}

int TransferScheduler::refused() const {
  const MutexLock lock(mutex_);
  return queue_.refused();
}

int64_t TransferScheduler::steps() const {
  const MutexLock lock(mutex_);
  return queue_.steps();
}

}  // namespace csidelta::datamover
