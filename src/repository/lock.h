#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "repository/blob.h"
#include "repository/repository.h"
#include "storage/object_store.h"

namespace csidelta::repository {

inline constexpr absl::Duration kLockRefreshEvery = absl::Minutes(5);
inline constexpr absl::Duration kLockRefreshRetry = absl::Seconds(15);
// A lock that was not refreshed for this long no longer protects a commit.
inline constexpr absl::Duration kLockFenceAgeMax = absl::Minutes(20);
// Lock::Delete() looks at the lock again when the last look is older than the first, and sends no
// request that is older than the second.
inline constexpr absl::Duration kLockLookAgain = absl::Seconds(30);
inline constexpr absl::Duration kLockLookAgeMax = absl::Minutes(1);
// A foreign lock that our own clock saw unchanged for this long has no living owner: every writer
// replaces its lock each five minutes.
inline constexpr absl::Duration kLockStaleAfter = absl::Minutes(30);
inline constexpr absl::Duration kLockWaitForStale = absl::Minutes(31);
inline constexpr absl::Duration kLockSettle = absl::Milliseconds(200);
inline constexpr absl::Duration kLockPollEvery = absl::Seconds(10);

// The kernel gives the time namespace of the boot this inode number, on all machines.
inline constexpr uint64_t kInitialTimeNamespace = 0xEFFFFFFA;

// Which process, on any machine. Empty or zero where it could not be found out.
struct ProcessIdentity {
  std::string boot_id;         // 32 hexadecimal digits, of this start of the kernel.
  uint64_t pid_namespace = 0;  // Inode number.
  int64_t pid = 0;             // Inside that namespace.
  uint64_t start_ticks = 0;    // Since the boot, as its time namespace counts.
  // Inode number. A kernel without time namespaces has the first one alone.
  uint64_t time_namespace = kInitialTimeNamespace;
};

// Whose lock: a name for people and what proves the owner dead. In a lock's hostname:
//   <name>_boot-<boot id>_ns-<pid namespace>_pid-<pid>_start-<ticks>[_time-<time namespace>]
//     [_pod-<uid>]
// The time namespace is left out where it is that of the boot.
struct LockOwner {
  std::string name = "csi-delta";  // Without "_".
  ProcessIdentity process;
  std::string pod_uid;
};

std::string EncodeLockHostname(const LockOwner& owner);
// nullopt when the lock was written by another program: then nothing is known.
std::optional<LockOwner> DecodeLockHostname(absl::string_view hostname);

struct LockFile {
  absl::Time time;
  bool exclusive = false;
  std::string hostname;
  std::string username;
  int64_t pid = 0;
};
std::string EncodeLock(const LockFile& lock);
absl::StatusOr<LockFile> DecodeLock(absl::string_view json);

// This process, read from /proc.
ProcessIdentity OwnProcess();

// When the process `pid` of our own PID namespace was started; 0 when none exists, nullopt when
// it cannot be told.
std::optional<uint64_t> StartTicksOf(int64_t pid);

// How to look at processes and Pods. Replaced in tests.
struct LivenessProbes {
  ProcessIdentity self = OwnProcess();
  std::function<std::optional<uint64_t>(int64_t pid)> start_ticks_of = StartTicksOf;
  // Whether a Pod is known to be gone; null where that is unknown.
  std::function<bool(const std::string& pod_uid)> pod_is_gone = nullptr;
};

// Whether the owner is dead beyond doubt: same boot, same PID namespace, and its pid is gone or
// was, seen from the same time namespace, started at another time; or its Pod is gone. Anything
// missing: no proof.
bool IsProvenDead(const LockOwner& owner, const LivenessProbes& liveness_probes);

struct LockOptions {
  bool exclusive = false;
  // How long to wait for foreign locks that conflict; zero: not at all. To outlast the lock of an
  // owner that died elsewhere it takes kLockWaitForStale.
  absl::Duration wait_max;
  LockOwner owner;
  std::string username = "csi-delta";
  LivenessProbes liveness_probes;
  // Called once for each conflicting lock that we wait for, with a sentence for people.
  std::function<void(const std::string&)> on_wait = nullptr;
  // False: the store is read-only, or we only read: a PERMISSION_DENIED from it means that there is
  // no lock, which held() tells.
  bool required = true;
  // False: who holds the lock calls Refresh() each kLockRefreshEvery.
  bool refresh_by_thread = true;
};

// Which locks stood in the way, as hexadecimal digits: of a status that IsLocked().
std::vector<std::string> LocksOf(const absl::Status& status);

class ForeignLocks;

using LockFence = std::function<absl::Status(const CallContext&)>;

// Objects that the store refuses to delete.
struct RefusedDeletions {
  int64_t count = 0;
  std::vector<std::string> first = {};  // keys, kRefusedNamedMax at most
  absl::Status why = {};                // of the first; OK where the store refused none
};
inline constexpr int kRefusedInARowMax = 100;
inline constexpr std::size_t kRefusedNamedMax = 5;

// The right to use a repository, as restic knows it: a file under locks/ that is replaced every
// five minutes by a thread of its own. Credentials that may not delete are enough: then its files
// stay, until a client that may delete removes them. Before acquiring, locks whose owners are
// proven dead are removed, and so are those that our own clock has seen unchanged for
// kLockStaleAfter, and those that do not read and are as old by the store's.
//
//   absent --Acquire--> held --Release--> absent
//                       held --it was removed, or no refresh succeeded--> lost: Fence() fails
//
// Thread-safe. The destructor releases, trying for a few seconds.
class Lock {
 public:
  // ABORTED (see IsLocked()) naming the holder when others hold conflicting locks for longer than
  // `wait_max`. The context is that of the acquisition; refreshing has its own.
  static absl::StatusOr<std::unique_ptr<Lock>> Acquire(const CallContext& ctx,
                                                       Repository& repository,
                                                       const LockOptions& options);
  ~Lock();

  // What was asked for, whether or not the store takes locks.
  bool is_exclusive() const { return options_.exclusive; }

  // False when the store takes no locks and options.required was false.
  bool held() const {
    const MutexLock lock(mutex_);
    return held_;
  }

  // What Acquire() met of other runs: the locks that it removed because their owners are dead, and
  // all others, of csi-delta and of other programs, whose owners may be at work.
  struct Unfinished {
    int removed = 0;
    int others = 0;
  };
  const Unfinished& unfinished() const { return unfinished_; }

  // OK when our lock is still in the store and was refreshed in the last kLockFenceAgeMax. Call it
  // before what cannot be taken back: the snapshot's PUT. ABORTED otherwise: data that we reused
  // may be gone. When only the time of day says that the last refresh is older (the machine slept,
  // or its clock was set), the lock is refreshed first.
  absl::Status Fence(const CallContext& ctx);

  // Fence(), but a look of the last kLockLookAgain is good enough.
  absl::Status FenceIfOld(const CallContext& ctx);
  // FenceIfOld() for who writes index files. This lock outlives it.
  LockFence AsFence() {
    return [this](const CallContext& ctx) { return FenceIfOld(ctx); };
  }

  // Deletes an object that only the lock's owner may delete. The lock was looked at no longer than
  // kLockLookAgeMax before each request is sent, by either clock: a process that was stopped, or a
  // machine that slept, meanwhile looks again before it sends another. Errors are those of Fence()
  // and of the store.
  absl::Status Delete(const CallContext& ctx, const std::string& key);
  // The same for many objects, by storage::DeleteObjects().
  absl::Status Delete(const CallContext& ctx, absl::Span<const std::string> keys,
                      storage::DeletionSink sink);
  // The same; tells which are gone, and remembers those that the store refuses to delete.
  // PERMISSION_DENIED when it refused kRefusedInARowMax before: then it may be so for all.
  absl::Status TryDelete(const CallContext& ctx, absl::Span<const std::string> keys,
                         absl::FunctionRef<void(std::size_t number, bool is_gone)> sink);
  RefusedDeletions refused() const {
    const MutexLock lock(mutex_);
    return refused_;
  }

  // Replaces the lock's file now. Done by the thread; exposed for tests. OK once the new file is
  // written: an old one that cannot be removed goes later, with the others of this lock.
  absl::Status Refresh(const CallContext& ctx);

  absl::Status Release(const CallContext& ctx);

  // Releases the lock for as long as clients that wait for it need to take it, and takes it again;
  // waits for them at least as long as for a stale lock. An error leaves it released, or lost. What
  // they changed is the caller's to find out.
  absl::Status LetOthersIn(const CallContext& ctx);

 private:
  Lock(Repository& repository, LockOptions options, const Clock& clock)
      : repository_(repository), options_(std::move(options)), clock_(clock) {}
  void RefreshLoop(const std::stop_token& stop);
  absl::StatusOr<Id> WriteOwn(const CallContext& ctx);
  absl::Status Take(const CallContext& ctx, absl::Duration wait_max);
  absl::Status TryTake(const CallContext& ctx, ForeignLocks& foreign);
  absl::Status CheckStillThere(const CallContext& ctx, const Id& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckFence(const CallContext& ctx) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Replace(const CallContext& ctx) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Unless `all`, not once the store has refused to delete any.
  absl::Status RemoveLeftovers(const CallContext& ctx, bool all)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // By both clocks: the uptime stands still while a virtual machine is paused, and the time of day
  // may be set.
  struct Moment {
    absl::Duration uptime;
    absl::Time now;
  };
  Moment Look() const { return {.uptime = clock_.Uptime(), .now = clock_.Now()}; }
  absl::Duration AgeOf(const Moment& moment) const;
  Moment CheckedAt() const {
    const MutexLock lock(mutex_);
    return reconciling_;
  }

  Repository& repository_;
  const LockOptions options_;
  const Clock& clock_;
  Unfinished unfinished_;  // Set by Acquire().
  mutable Mutex mutex_;    // Held while the lock's file is replaced or looked at.
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  Id id_ ABSL_GUARDED_BY(mutex_);
  std::set<Id> leftovers_;  // Files of this lock that are to be removed. Guarded but for Acquire().
  bool may_not_delete_ ABSL_GUARDED_BY(mutex_) = false;
  Moment refreshed_at_ ABSL_GUARDED_BY(mutex_);
  RefusedDeletions refused_ ABSL_GUARDED_BY(mutex_);
  int refused_in_a_row_ ABSL_GUARDED_BY(mutex_) = 0;
  Moment reconciling_ ABSL_GUARDED_BY(mutex_);  // When the lock was last seen in the store.
  std::jthread refresher_;
};

// Whether packs that no index lists may be deleted any moment: see kMayStillDeleteKey. A store that
// does not answer has not denied it.
bool MayStillDelete(const CallContext& ctx, const Repository& repository);
// Since when, by the clock of the store: index files that are older may still be deleted as well,
// no newer ones. Never, where nothing may be; InfiniteFuture where that is not known.
std::optional<absl::Time> MayStillDeleteSince(const CallContext& ctx, const Repository& repository);

// Stores an index file, unless `fence`, where there is one, says that the lock is gone. If it went
// meanwhile, others may have removed packs that the file lists, and come to rely on the rest: one
// that lists the rest, if there is any, takes its place. Adds its size to `stored_bytes`, where
// that is given.
absl::StatusOr<Id> SaveIndex(const CallContext& ctx, Repository& repository,
                             absl::Span<const IndexedPack> packs, const LockFence& fence,
                             int64_t* stored_bytes = nullptr);

}  // namespace csidelta::repository
