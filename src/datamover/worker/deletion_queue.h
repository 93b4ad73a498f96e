#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "datamover/worker/worker_queue.h"
#include "objects/data_deletion.h"
#include "objects/data_transfer.h"
#include "objects/volume_job.h"
#include "velero/data_reference.h"

namespace csidelta::datamover {

// How long the DataDeletion of an unnamed upload's data waits after it was created: meanwhile the
// worker of that upload ends.
inline constexpr absl::Duration kUnnamedDeletionAfter = absl::Minutes(30);

// The data that a DataDeletion names. INVALID_ARGUMENT if it is not a repository snapshot of
// csi-delta, or spec.upload is not a uid. Pure.
absl::StatusOr<velero::DataReference> ReferenceOf(const objects::DataDeletionSpec& spec);

// The item that a worker removes for it. Pure.
objects::ForgetItem ItemOf(const objects::DataDeletionSpec& spec,
                           const velero::DataReference& reference);

// When its next attempt may begin. Pure.
absl::Time DueAt(const objects::DataDeletion& deletion);

// The open DataDeletions, by the repository that they are about: Velero's namespace,
// BackupStorageLocation and repository path. The deletions of one repository are one piece of work,
// which one DataDeletion leads:
//
//   it is InProgress, or
//   it is the oldest that may begin, and its next attempt is due; or
//   its next attempt is due, and it was retried by an operator, or the bucket retains its data:
//     such a one also leads alone.
//
// At most `workers_max` repositories have a leader that works. The others wait in the order in
// which they became due, and are enqueued when one of these ends. Thread-safe.
class DeletionQueue {
 public:
  struct Name {
    std::string namespace_name;
    std::string name;

    friend auto operator<=>(const Name&, const Name&) = default;
  };

  // `wake`: enqueues a DataDeletion; must not call back. Borrows `clock`.
  DeletionQueue(int workers_max, const Clock& clock, std::function<void(const Name&)> wake);

  // A DataDeletion as an informer delivered it, or as it was just written. Older versions are
  // ignored. If it is over, is being deleted, or is not valid, it counts as removed.
  void Put(const objects::DataDeletion& deletion);
  void Remove(const std::string& uid);

  // Whether this DataDeletion leads its repository now. It does until it is put in a phase other
  // than InProgress, or is removed. If another one is to lead first, that is enqueued.
  bool Lead(const std::string& uid);

  // The items that the worker of this leader removes: its own, then those of the others that may
  // begin. Each once, kForgetItemsMax at most. Empty if it is not known.
  std::vector<objects::ForgetItem> Batch(const std::string& uid) const;

  // The other DataDeletions of its repository that are about one of `items`, oldest first.
  std::vector<Name> Others(const std::string& uid,
                           const std::vector<objects::ForgetItem>& items) const;

  void Enqueue(const Name& name) const { wake_(name); }

 private:
  struct Entry {
    Name name;
    std::string repository;
    objects::ForgetItem item;
    uint64_t version = 0;
    absl::Time created_at;
    absl::Time earliest;  // of the first attempt
    absl::Time due_at;
    bool is_in_progress = false;
    bool leads_alone = false;  // as the bucket retains its data
    bool is_retried = false;   // by an operator
  };
  using Age = std::pair<absl::Time, std::string>;  // when it was created, uid
  struct Repository {
    std::set<Age> members;  // all entries
    std::string leader;     // the uid of the one that leads it, or would next; "": none yet
  };

  static std::optional<Entry> EntryOf(const objects::DataDeletion& deletion);
  // Replaces an entry; nothing: it is gone. Enqueues those that may lead instead.
  void Replace(const std::string& uid, std::optional<Entry> entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Insert(const std::string& uid, Entry entry, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(const std::string& uid, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether it leads now.
  bool Leads(const std::string& uid) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Chooses again which member would lead, unless one does.
  void Choose(const std::string& name, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const std::string* LeaderOf(const std::set<Age>& members, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The repositories that are to have a worker next.
  std::vector<std::string> Next(absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EnqueueNext(absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::size_t workers_max_;
  const Clock& clock_;
  const std::function<void(const Name&)> wake_;
  mutable Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // by uid
  std::map<std::string, Repository> repositories_ ABSL_GUARDED_BY(mutex_);
  WorkerQueue workers_ ABSL_GUARDED_BY(mutex_);  // of repositories
};

// The object to create for a DataUpload whose worker was given up before it reported its end. The
// worker may still store its snapshot, which nothing would refer to; if `worker_ended`, it may only
// have stored it. `reference` names the repository.
objects::DataDeletion MakeDeletionOfUnnamed(const objects::DataTransfer& upload,
                                            const velero::DataReference& reference,
                                            bool worker_ended);

}  // namespace csidelta::datamover
