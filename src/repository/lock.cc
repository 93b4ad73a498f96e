#include "repository/lock.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "repository/maintenance.h"

namespace csidelta::repository {
namespace {

constexpr absl::Duration kRefreshTimeout = absl::Minutes(1);
constexpr absl::Duration kDeleteTimeMax = absl::Minutes(15);  // of one object, with all looks
constexpr char kLocksPayload[] = "csi-delta/locks";

struct ForeignLock {
  Id id;
  LockFile file;
  bool readable = false;
  absl::Time stored_at;       // By the clock of the store, where it says.
  absl::Duration first_seen;  // By our clock's Uptime().
};

// Stale locks that do not read are removed so many at a time.
constexpr int kUnreadableRemovedMax = 64;

// Whether it does not read, and is older than a lock of the living.
bool IsOldJunk(const ForeignLock& lock, absl::Time now) {
  return !lock.readable && lock.stored_at > absl::InfinitePast() &&
         now - lock.stored_at >= kLockStaleAfter;
}

// For people: who it is, where, and for how long by now.
std::string DescribeOwner(const ForeignLock& lock, absl::Time now) {
  if (!lock.readable) {
    return absl::StrCat("lock ", lock.id.ShortHex(), ", which cannot be read");
  }
  const std::optional<LockOwner> owner = DecodeLockHostname(lock.file.hostname);
  const absl::Duration age = absl::Trunc(now - lock.file.time, absl::Seconds(1));
  return absl::StrCat(
      lock.file.exclusive ? "exclusive lock " : "lock ", lock.id.ShortHex(), " of ",
      lock.file.username, " on ", owner.has_value() ? owner->name : lock.file.hostname,
      owner.has_value() && !owner->pod_uid.empty() ? absl::StrCat(", Pod ", owner->pod_uid) : "",
      ", process ", lock.file.pid, ", since ",
      absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", lock.file.time, absl::UTCTimeZone()),
      age > absl::ZeroDuration() ? absl::StrCat(" (", absl::FormatDuration(age), ")") : "");
}

}  // namespace

// Locks of other clients, as seen from one look to the next. Not thread-safe.
class ForeignLocks {
 public:
  ForeignLocks(Repository& repository, const LivenessProbes& liveness_probes, const Clock& clock)
      : repository_(repository), liveness_probes_(liveness_probes), clock_(clock) {}

  // Looks at all locks but `own`, removes those whose owners are dead, and returns the rest. Where
  // credentials may not delete, a lock whose owner is proven dead counts as removed, and so does a
  // stale one that does not read. Whether that is stale the store's clock says, by one of `own`.
  absl::StatusOr<std::vector<ForeignLock>> Look(const CallContext& ctx, const std::set<Id>& own);

  // Whether waiting for this one was not reported yet.
  bool FirstMention(const Id& id) { return mentioned_.insert(id).second; }

  // Locks that were removed, and those of the last look that were not.
  Lock::Unfinished unfinished() const;

 private:
  absl::Status LookAt(const CallContext& ctx, const FileInfo& listed,
                      std::optional<ForeignLock>& present) const;
  bool IsDead(const ForeignLock& lock) const;

  bool IsProven(const ForeignLock& lock) const;

  // Whether it no longer counts.
  bool Remove(const CallContext& ctx, const ForeignLock& lock);

  Repository& repository_;
  const LivenessProbes& liveness_probes_;
  const Clock& clock_;
  std::map<Id, ForeignLock> seen_;
  std::set<Id> mentioned_;
  std::set<Id> removed_;
  bool may_not_delete_ = false;  // Refused once: the others are not tried.
  absl::Time store_now_ = absl::InfinitePast();
  bool is_marked_ = false;  // in this look
  int removals_left_ = 0;
};

absl::StatusOr<std::vector<ForeignLock>> ForeignLocks::Look(const CallContext& ctx,
                                                            const std::set<Id>& own) {
  ASSIGN_OR_RETURN(const std::vector<FileInfo> files, repository_.ListFiles(ctx, FileKind::kLock));
  std::vector<FileInfo> others;
  for (const FileInfo& file : files) {
    if (own.contains(file.id)) {
      store_now_ = std::max(store_now_, file.modified_at);
    } else if (file.size_bytes > 0) {  // Else it is a lock that its writer never finished.
      others.push_back(file);
    }
  }
  std::vector<std::optional<ForeignLock>> locks(others.size());
  RETURN_IF_ERROR(ParallelFor(others.size(), kMaintenanceThreads,
                              [&](std::size_t i) { return LookAt(ctx, others[i], locks[i]); }));
  seen_.clear();
  is_marked_ = false;
  removals_left_ = kUnreadableRemovedMax;
  std::vector<ForeignLock> alive;
  for (const std::optional<ForeignLock>& lock : locks) {
    if (lock.has_value()) {
      seen_.emplace(lock->id, *lock);
      if (!IsDead(*lock) || !(Remove(ctx, *lock) || IsProven(*lock))) {
        alive.push_back(*lock);
      }
    }
  }
  return alive;
}

Lock::Unfinished ForeignLocks::unfinished() const {
  Lock::Unfinished unfinished = {.removed = static_cast<int>(removed_.size()), .others = 0};
  for (const auto& [id, lock] : seen_) {
    unfinished.others += removed_.contains(id) ? 0 : 1;
  }
  return unfinished;
}

absl::Status ForeignLocks::LookAt(const CallContext& ctx, const FileInfo& listed,
                                  std::optional<ForeignLock>& present) const {
  const Id& id = listed.id;
  if (const auto found = seen_.find(id); found != seen_.end()) {
    present = found->second;
    return absl::OkStatus();
  }
  ForeignLock lock = {
      .id = id, .file = {}, .stored_at = listed.modified_at, .first_seen = clock_.Uptime()};
  const absl::StatusOr<std::string> text = repository_.LoadFile(ctx, FileKind::kLock, id);
  if (absl::IsNotFound(text.status())) {
    return absl::OkStatus();  // Released since the listing.
  }
  if (!text.ok() && !absl::IsDataLoss(text.status())) {
    return text.status();
  }
  if (text.ok()) {
    if (absl::StatusOr<LockFile> file = DecodeLock(*text); file.ok()) {
      lock.file = *std::move(file);
      lock.readable = true;
    }
  }
  present = std::move(lock);
  return absl::OkStatus();
}

bool ForeignLocks::IsDead(const ForeignLock& lock) const {
  // A living client replaces a lock by one with another id each five minutes.
  return clock_.Uptime() - lock.first_seen >= kLockStaleAfter || IsProven(lock) ||
         IsOldJunk(lock, store_now_);
}

bool ForeignLocks::IsProven(const ForeignLock& lock) const {
  const std::optional<LockOwner> owner =
      lock.readable ? DecodeLockHostname(lock.file.hostname) : std::nullopt;
  return owner.has_value() && IsProvenDead(*owner, liveness_probes_);
}

bool ForeignLocks::Remove(const CallContext& ctx, const ForeignLock& lock) {
  if (lock.readable && may_not_delete_) {
    return false;
  }
  absl::Status status;
  if ((lock.file.exclusive || !lock.readable) && !IsProven(lock) && !is_marked_) {
    // Only frozen, perhaps: a prune that goes on has requests under way.
    status = repository_.store().Put(ctx, kMayStillDeleteKey, "1", {});
    is_marked_ = status.ok();
  }
  // A stranger's are many, perhaps: the rest is left to those who come later.
  if (status.ok() && !lock.readable && (may_not_delete_ || removals_left_-- <= 0)) {
    return true;
  }
  if (status.ok()) {
    status = repository_.RemoveFile(ctx, FileKind::kLock, lock.id);
  }
  if (!status.ok()) {
    may_not_delete_ |= absl::IsPermissionDenied(status);
    CSIDELTA_LOG(kInfo, "a stale lock stays", {"lock", lock.id.Hex()},
                 {"error", std::string(status.message())});
    return !lock.readable && absl::IsPermissionDenied(status);
  }
  removed_.insert(lock.id);
  CSIDELTA_LOG(kInfo, "removed a stale lock", {"lock", DescribeOwner(lock, clock_.Now())});
  return true;
}

namespace {

// Those of `locks` that conflict with our lock.
std::vector<ForeignLock> Conflicting(std::vector<ForeignLock> locks, bool exclusive) {
  std::erase_if(locks, [exclusive](const ForeignLock& lock) {
    return !exclusive && !lock.file.exclusive && lock.readable;
  });
  return locks;
}

absl::Status Conflict(const std::vector<ForeignLock>& conflicts, absl::Time now) {
  absl::Status status = AsLocked(absl::AbortedError(
      absl::StrCat("the repository is locked: ", DescribeOwner(conflicts.front(), now))));
  status.SetPayload(kLocksPayload, absl::Cord(absl::StrJoin(conflicts, ",",
                                                            [](std::string* out, const auto& lock) {
                                                              absl::StrAppend(out, lock.id.Hex());
                                                            })));
  return status;
}

// Waiters that met must not meet again and again.
absl::Duration PollDelay(SecureRandom& random) {
  std::array<uint8_t, 1> byte;
  random.Fill(absl::MakeSpan(byte));
  return kLockPollEvery / 2 + kLockPollEvery / 2 * (byte[0] / 255.0);
}

}  // namespace

std::vector<std::string> LocksOf(const absl::Status& status) {
  const auto locks = status.GetPayload(kLocksPayload);
  if (!locks.has_value()) {
    return {};
  }
  return absl::StrSplit(std::string(*locks), ',');
}

Lock::~Lock() {
  refresher_ = std::jthread();  // Stops and joins.
  CallContext ctx;
  ctx.clock = &clock_;
  const absl::Status status = Release(FinalContext(ctx));
  if (!status.ok()) {
    CSIDELTA_LOG(kInfo, "the lock of this run stays; it expires by itself",
                 {"error", std::string(status.message())});
  }
}

absl::StatusOr<Id> Lock::WriteOwn(const CallContext& ctx) {
  const LockFile file = {.time = clock_.Now(),
                         .exclusive = options_.exclusive,
                         .hostname = EncodeLockHostname(options_.owner),
                         .username = options_.username,
                         .pid = options_.owner.process.pid};
  return repository_.SaveFile(ctx, FileKind::kLock, EncodeLock(file));
}

// Writes our lock and keeps it if no other client did the same. ABORTED (IsLocked) when others hold
// conflicting ones.
absl::Status Lock::TryTake(const CallContext& ctx, ForeignLocks& foreign) {
  ASSIGN_OR_RETURN(std::vector<ForeignLock> before, foreign.Look(ctx, leftovers_));
  // By our clock; that of the store decides, once it has our lock.
  std::erase_if(before,
                [now = clock_.Now()](const ForeignLock& lock) { return IsOldJunk(lock, now); });
  std::vector<ForeignLock> conflicts = Conflicting(std::move(before), options_.exclusive);
  if (conflicts.empty()) {
    const Moment written_at = Look();
    ASSIGN_OR_RETURN(const Id id, WriteOwn(ctx));
    clock_.SleepFor(kLockSettle, ctx.stop);
    std::set<Id> own = leftovers_;
    own.insert(id);
    absl::StatusOr<std::vector<ForeignLock>> after = foreign.Look(ctx, own);
    conflicts = after.ok() ? Conflicting(*after, options_.exclusive) : std::move(conflicts);
    if (after.ok() && conflicts.empty()) {
      unfinished_ = foreign.unfinished();
      const MutexLock lock(mutex_);
      held_ = true;
      id_ = id;
      refreshed_at_ = written_at;
      reconciling_ = written_at;
      return absl::OkStatus();
    }
    // Also when the stop is why there is no second look: it would never be refreshed or released.
    const absl::Status removed = repository_.RemoveFile(FinalContext(ctx), FileKind::kLock, id);
    RETURN_IF_ERROR(after.status());
    if (absl::IsPermissionDenied(removed)) {
      leftovers_.insert(id);
    } else {
      RETURN_IF_ERROR(removed);
    }
  }
  if (options_.wait_max > absl::ZeroDuration() && options_.on_wait != nullptr &&
      foreign.FirstMention(conflicts.front().id)) {
    options_.on_wait(absl::StrCat("waiting for ", DescribeOwner(conflicts.front(), clock_.Now())));
  }
  return Conflict(conflicts, clock_.Now());
}

absl::StatusOr<std::unique_ptr<Lock>> Lock::Acquire(const CallContext& ctx, Repository& repository,
                                                    const LockOptions& options) {
  std::unique_ptr<Lock> lock(new Lock(repository, options, *ctx.clock));
  RETURN_IF_ERROR(lock->Take(ctx, options.wait_max));
  return lock;
}

absl::Status Lock::Take(const CallContext& ctx, absl::Duration wait_max) {
  ForeignLocks foreign(repository_, options_.liveness_probes, clock_);
  const absl::Duration give_up_at = clock_.Uptime() + wait_max;
  while (true) {
    const absl::Status status = TryTake(ctx, foreign);
    if (absl::IsPermissionDenied(status) && !options_.required) {
      return absl::OkStatus();
    }
    if (status.ok()) {
      if (options_.refresh_by_thread) {
        refresher_ = std::jthread([this](const std::stop_token& stop) { RefreshLoop(stop); });
      }
      return status;
    }
    const absl::Duration left = give_up_at - clock_.Uptime();
    if (!IsLocked(status) || left <= absl::ZeroDuration()) {
      return status;
    }
    clock_.SleepFor(std::min(left, PollDelay(*repository_.environment().random)), ctx.stop);
    RETURN_IF_ERROR(ctx.Check());
  }
}

absl::Status Lock::LetOthersIn(const CallContext& ctx) {
  RETURN_IF_ERROR(FenceIfOld(ctx));
  RETURN_IF_ERROR(Release(ctx));
  RETURN_IF_ERROR(ctx.Pause(2 * kLockPollEvery));
  return Take(ctx, std::max(options_.wait_max, kLockWaitForStale));
}

// Marks the lock lost when its file is gone.
absl::Status Lock::CheckStillThere(const CallContext& ctx, const Id& id) {
  const absl::Status status = repository_.store().Stat(ctx, FileKey(FileKind::kLock, id)).status();
  if (absl::IsNotFound(status)) {
    lost_ = true;
  }
  if (lost_) {
    return absl::AbortedError("the lock of this run was removed by another client");
  }
  return status;
}

absl::Duration Lock::AgeOf(const Moment& moment) const {
  const Moment now = Look();
  return std::max(now.uptime - moment.uptime, absl::AbsDuration(now.now - moment.now));
}

absl::Status Lock::Refresh(const CallContext& ctx) {
  const MutexLock lock(mutex_);
  return Replace(ctx);
}

absl::Status Lock::Replace(const CallContext& ctx) {
  if (!held_ || lost_) {
    return absl::AbortedError("the lock of this run was removed by another client");
  }
  const Moment written_at = Look();
  ASSIGN_OR_RETURN(const Id next, WriteOwn(ctx));
  // The old one must still be there when the new one is: between our two locks there is no
  // moment without one.
  const absl::Status there = CheckStillThere(ctx, id_);
  if (!there.ok()) {
    // At worst a lock of a dead process stays, which runs out.
    repository_.RemoveFile(FinalContext(ctx), FileKind::kLock, next).IgnoreError();
    return there;
  }
  const Id old = std::exchange(id_, next);
  refreshed_at_ = written_at;
  reconciling_ = written_at;
  leftovers_.insert(old);
  RemoveLeftovers(FinalContext(ctx), /*all=*/false).IgnoreError();
  return absl::OkStatus();
}

absl::Status Lock::RemoveLeftovers(const CallContext& ctx, bool all) {
  absl::Status status;
  while (!leftovers_.empty() && status.ok() && (all || !may_not_delete_)) {
    status = repository_.RemoveFile(ctx, FileKind::kLock, *leftovers_.begin());
    if (status.ok()) {
      leftovers_.erase(leftovers_.begin());
    }
  }
  if (absl::IsPermissionDenied(status) && !std::exchange(may_not_delete_, true)) {
    CSIDELTA_LOG(kWarn,
                 "these credentials may not delete: a lock of this run stays for each five minutes "
                 "that it lasts, until a client with the right to delete removes them",
                 {"error", std::string(status.message())});
  }
  return status;
}

absl::Status Lock::Fence(const CallContext& ctx) {
  const MutexLock lock(mutex_);
  return CheckFence(ctx);
}

absl::Status Lock::CheckFence(const CallContext& ctx) {
  if (!held_) {
    return absl::AbortedError("no lock is held");
  }
  const Moment now = Look();
  if (now.uptime - refreshed_at_.uptime > kLockFenceAgeMax) {
    RETURN_IF_ERROR(CheckStillThere(ctx, id_));
    return absl::AbortedError("the lock of this run could not be refreshed for too long");
  }
  if (AgeOf(refreshed_at_) > kLockFenceAgeMax) {
    // Others may be about to remove it. A new one that is there before the old one is gone shows
    // that they have not, and keeps them away.
    return Replace(ctx);
  }
  RETURN_IF_ERROR(CheckStillThere(ctx, id_));
  reconciling_ = now;
  return absl::OkStatus();
}

absl::Status Lock::FenceIfOld(const CallContext& ctx) {
  const MutexLock lock(mutex_);
  return !held_ || lost_ || AgeOf(reconciling_) > kLockLookAgain ? CheckFence(ctx)
                                                                 : absl::OkStatus();
}

absl::Status Lock::Delete(const CallContext& ctx, const std::string& key) {
  return Delete(ctx, absl::MakeConstSpan(&key, 1),
                [](std::size_t, const absl::Status& deleted) { return deleted; });
}

absl::Status Lock::Delete(const CallContext& ctx, absl::Span<const std::string> keys,
                          storage::DeletionSink sink) {
  std::vector<std::size_t> left(keys.size());
  std::iota(left.begin(), left.end(), 0);
  absl::Duration give_up_at = clock_.Uptime() + kDeleteTimeMax;
  while (!left.empty()) {
    RETURN_IF_ERROR(FenceIfOld(ctx));
    const Moment looked_at = CheckedAt();
    CallContext soon = ctx;
    soon.deadline = std::min(ctx.deadline, looked_at.uptime + kLockLookAgeMax);
    soon.not_after = looked_at.now + kLockLookAgeMax;
    std::vector<std::string> some;
    some.reserve(left.size());
    for (const std::size_t number : left) {
      some.push_back(keys[number]);
    }
    std::vector<std::size_t> again;
    const auto judge = [&](std::size_t i, const absl::Status& deleted) {
      const bool look_is_old = AgeOf(looked_at) > kLockLookAgain;
      if (deleted.ok() || !look_is_old || clock_.Uptime() >= give_up_at || !ctx.Check().ok()) {
        give_up_at = clock_.Uptime() + kDeleteTimeMax;
        return sink(left[i], deleted);
      }
      again.push_back(left[i]);
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(storage::DeleteObjects(soon, repository_.store(), some, judge));
    left = std::move(again);
  }
  return absl::OkStatus();
}

absl::Status Lock::TryDelete(const CallContext& ctx, absl::Span<const std::string> keys,
                             absl::FunctionRef<void(std::size_t number, bool is_gone)> sink) {
  return Delete(ctx, keys, [&](std::size_t number, const absl::Status& deleted) {
    const MutexLock lock(mutex_);
    if (deleted.ok()) {
      refused_in_a_row_ = 0;
    } else if (!absl::IsPermissionDenied(deleted) || refused_in_a_row_ == kRefusedInARowMax) {
      return deleted;
    } else {
      ++refused_in_a_row_;
      ++refused_.count;
      refused_.why.Update(deleted);
      if (refused_.first.size() < kRefusedNamedMax) {
        refused_.first.push_back(keys[number]);
      }
    }
    sink(number, deleted.ok());
    return absl::OkStatus();
  });
}

absl::Status Lock::Release(const CallContext& ctx) {
  refresher_ = std::jthread();
  const MutexLock lock(mutex_);
  if (!held_) {
    return absl::OkStatus();
  }
  leftovers_.insert(id_);
  const absl::Status removed = RemoveLeftovers(ctx, /*all=*/true);
  held_ = !removed.ok() && !absl::IsPermissionDenied(removed);
  return held_ ? removed : absl::OkStatus();
}

void Lock::RefreshLoop(const std::stop_token& stop) {
  absl::Duration delay = kLockRefreshEvery;
  while (clock_.SleepFor(delay, stop)) {
    CallContext ctx;
    ctx.stop = stop;
    ctx.clock = &clock_;
    const absl::Status status = Refresh(ctx.WithTimeout(kRefreshTimeout));
    delay = status.ok() ? kLockRefreshEvery : kLockRefreshRetry;
    if (!status.ok() && !stop.stop_requested()) {
      CSIDELTA_LOG(kInfo, "refreshing the lock failed", {"error", std::string(status.message())});
    }
    if (absl::IsAborted(status)) {
      return;  // Lost: Fence() will say so.
    }
  }
}

bool MayStillDelete(const CallContext& ctx, const Repository& repository) {
  return MayStillDeleteSince(ctx, repository).has_value();
}

std::optional<absl::Time> MayStillDeleteSince(const CallContext& ctx,
                                              const Repository& repository) {
  const absl::StatusOr<storage::ObjectInfo> mark = repository.store().Stat(ctx, kMayStillDeleteKey);
  if (absl::IsNotFound(mark.status())) {
    return std::nullopt;
  }
  const bool is_dated = mark.ok() && mark->modified_at > absl::InfinitePast();
  return is_dated ? mark->modified_at : absl::InfiniteFuture();
}

absl::StatusOr<Id> SaveIndex(const CallContext& ctx, Repository& repository,
                             absl::Span<const IndexedPack> packs, const LockFence& fence,
                             int64_t* stored_bytes) {
  CSIDELTA_CHECK(!packs.empty());
  if (fence) {
    RETURN_IF_ERROR(fence(ctx));
  }
  ASSIGN_OR_RETURN(const Id id,
                   repository.SaveFile(ctx, FileKind::kIndex, EncodeIndex(packs), stored_bytes));
  const absl::Status held = fence ? fence(ctx) : absl::OkStatus();
  if (absl::IsAborted(held)) {
    const CallContext last = FinalContext(ctx);
    std::vector<IndexedPack> stored(packs.begin(), packs.end());
    std::erase_if(stored, [&](const IndexedPack& pack) {
      return absl::IsNotFound(repository.store().Stat(last, PackKey(pack.id)).status());
    });
    const bool is_whole = stored.size() == packs.size();
    if (!is_whole &&
        (stored.empty() || repository.SaveFile(last, FileKind::kIndex, EncodeIndex(stored)).ok())) {
      repository.RemoveFile(last, FileKind::kIndex, id).IgnoreError();
    }
  }
  RETURN_IF_ERROR(held);
  return id;
}

}  // namespace csidelta::repository
