#include "repository/lock_renewal.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/mutex.h"
#include "base/rate_limiter.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "repository/pruner.h"

namespace csidelta::repository {
namespace {

using storage::ObjectVersion;
using storage::Retention;

constexpr int kLockDaysMax = 36'500;
constexpr std::size_t kNamedFailuresMax = 100;
constexpr std::size_t kRenewedTogether = 1000;
constexpr int64_t kHashedBytes = int64_t{4} << 20;
constexpr absl::Duration kDay = absl::Hours(24);
// An object that a run extended just before is skipped by the run that resumes it.
constexpr absl::Duration kResumedAfterMax = absl::Hours(1);

int64_t DayOf(absl::Time time) { return absl::ToUnixSeconds(time) / absl::ToInt64Seconds(kDay); }

// What one object is, among its versions.
struct Target {
  std::string key;
  ObjectVersion latest;
  ObjectVersion first;  // the version that was put first; no id: only delete markers are left
};

// Tells which objects are needed, or, where that is unknown, takes all for needed.
class NeededObjects {
 public:
  // What is needed, or why it cannot be told. Other errors are the store's.
  absl::StatusOr<std::string> Find(const CallContext& ctx, Repository& repository,
                                   const ProgressReporter& progress) {
    index_ = &repository.index();
    const absl::StatusOr<PrunePlan> plan =
        PlanPrune(ctx, repository, {.merge_small_packs = false, .progress = progress});
    RETURN_IF_ERROR(ctx.Check());
    if (!plan.ok() && !IsDamage(plan.status()) && !absl::IsFailedPrecondition(plan.status())) {
      return plan.status();
    }
    if (!plan.ok()) {
      index_ = nullptr;
      return std::string(plan.status().message());
    }
    unneeded_packs_.resize(index_->pack_count());
    for (const std::vector<uint32_t>* packs : {&plan->unused, &plan->removed}) {
      for (const uint32_t pack : *packs) {
        unneeded_packs_[pack] = true;
      }
    }
    unneeded_sidecars_.insert(plan->sidecar_keys.begin(), plan->sidecar_keys.end());
    return "";
  }

  bool Contains(absl::string_view key) const {
    if (absl::StartsWith(key, "data/")) {
      const absl::StatusOr<PackId> pack = IdOfKey(key);
      if (!pack.ok() || key != PackKey(*pack)) {
        return false;
      }
      if (index_ == nullptr) {
        return true;
      }
      const std::optional<uint32_t> ordinal = index_->FindPack(*pack);
      return ordinal.has_value() && !unneeded_packs_[*ordinal];
    }
    return key == kConfigKey || absl::StartsWith(key, "keys/") || absl::StartsWith(key, "index/") ||
           absl::StartsWith(key, "snapshots/") ||
           (absl::StartsWith(key, kSidecarFolder) && !unneeded_sidecars_.contains(key));
  }

 private:
  const BlobIndex* index_ = nullptr;  // null: what is needed is unknown
  PackBits unneeded_packs_;
  absl::flat_hash_set<std::string> unneeded_sidecars_;
};

class Renewal {
 public:
  Renewal(const CallContext& ctx, Repository& repository, const RenewLocksOptions& options)
      : ctx_(ctx),
        store_(repository.store()),
        options_(options),
        all_are_due_(options.renewed_at == absl::InfinitePast()),
        turns_(std::max(1, options.days / 2)),
        pace_(options.requests_per_second_max, options.requests_per_second_max),
        now_(ctx.clock->Now()),
        until_(absl::FromUnixSeconds(absl::ToUnixSeconds(now_)) + options.days * kDay) {}

  absl::StatusOr<RenewLocksResult> Run(Repository& repository);

 private:
  static void Note(const ObjectVersion& version, std::optional<Target>& current);

  // The first day after the one of `time` on which it is this object's turn. Turns are days since
  // 1970, so that they do not depend on when the runs are.
  int64_t NextTurn(const std::string& key, absl::Time time) const;

  absl::Status Collect(Target target);

  absl::Status RenewCollected();

  absl::Status Renew(const Target& target);

  // Whether the current version is the one that snapshots need. One that was put over another is,
  // if its bytes have the hash that its name says.
  absl::StatusOr<bool> IsGood(const Target& target) const;

  void Fail(const std::string& key, absl::string_view why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Whether the retention had to be extended; `until` is how long it is then.
  absl::StatusOr<bool> Extend(const std::string& key, const std::string& version,
                              absl::Time& until);

  // Before each request.
  absl::Status Count() {
    RETURN_IF_ERROR(pace_.Take(ctx_));
    const MutexLock lock(mutex_);
    ++result_.requests;
    return absl::OkStatus();
  }

  const CallContext& ctx_;
  storage::ObjectStore& store_;
  const RenewLocksOptions& options_;
  const bool all_are_due_;
  const int64_t turns_;
  RateLimiter pace_;
  const absl::Time now_;
  const absl::Time until_;
  std::vector<Target> collected_;
  Mutex mutex_;  // Guards result_ while objects are renewed.
  RenewLocksResult result_;
};

absl::StatusOr<RenewLocksResult> Renewal::Run(Repository& repository) {
  NeededObjects needed;
  ASSIGN_OR_RETURN(result_.undecided, needed.Find(ctx_, repository, options_.progress));
  std::optional<Target> current;
  storage::VersionCursor from;
  do {
    RETURN_IF_ERROR(Count());
    ASSIGN_OR_RETURN(const storage::VersionPage page, store_.ListVersions(ctx_, "", from));
    for (const ObjectVersion& version : page.versions) {
      if (current.has_value() && current->key != version.key) {
        RETURN_IF_ERROR(Collect(*std::exchange(current, std::nullopt)));
      }
      if (needed.Contains(version.key)) {
        Note(version, current);
      }
    }
    if (page.next.key == from.key && page.next.id == from.id && !from.key.empty()) {
      return absl::DataLossError("the listing of versions has no end");
    }
    from = page.next;
  } while (!from.key.empty());
  if (current.has_value()) {
    RETURN_IF_ERROR(Collect(*std::move(current)));
  }
  RETURN_IF_ERROR(RenewCollected());
  return std::move(result_);
}

void Renewal::Note(const ObjectVersion& version, std::optional<Target>& current) {
  if (!current.has_value()) {
    current = Target{.key = version.key, .latest = version, .first = {}};
  }
  // The listing goes back in time. A sidecar is a cache that is written over; its last state
  // counts.
  const bool counts = current->first.id.empty() || !absl::StartsWith(version.key, kSidecarFolder);
  if (!version.is_delete_marker && counts) {
    current->first = version;
  }
}

int64_t Renewal::NextTurn(const std::string& key, absl::Time time) const {
  const Id name = Id::Of(key);
  const int64_t turn = (name.bytes()[0] << 8 | name.bytes()[1]) % turns_;
  const int64_t next = DayOf(time) + 1;
  return next + ((turn - next) % turns_ + turns_) % turns_;
}

absl::Status Renewal::Collect(Target target) {
  // What was deleted is needed no more, unless it cannot be told what is.
  const bool is_kept = !result_.undecided.empty() && !absl::StartsWith(target.key, kSidecarFolder);
  if (target.latest.is_delete_marker && target.key != kConfigKey && !is_kept) {
    return absl::OkStatus();
  }
  ++result_.objects;
  if (!all_are_due_ && NextTurn(target.key, options_.renewed_at) > DayOf(now_)) {
    return absl::OkStatus();
  }
  collected_.push_back(std::move(target));
  return collected_.size() < kRenewedTogether ? absl::OkStatus() : RenewCollected();
}

absl::Status Renewal::RenewCollected() {
  const std::vector<Target> targets = std::exchange(collected_, {});
  RETURN_IF_ERROR(ParallelFor(targets.size(), kMaintenanceThreads,
                              [&](std::size_t i) { return Renew(targets[i]); }));
  Report(options_.progress, "object locks", result_.due, result_.objects);
  return absl::OkStatus();
}

absl::Status Renewal::Renew(const Target& target) {
  absl::Time until = absl::InfinitePast();
  ASSIGN_OR_RETURN(const bool is_good, IsGood(target));
  const absl::StatusOr<bool> extended =
      Extend(target.key, (is_good ? target.latest : target.first).id, until);
  RETURN_IF_ERROR(ctx_.Check());
  if (absl::IsUnimplemented(extended.status())) {
    return extended.status();
  }
  const MutexLock lock(mutex_);
  ++result_.due;
  result_.earliest = std::min(result_.earliest, until);
  if (!extended.ok()) {
    Fail(target.key, extended.status().message());
  } else if (target.latest.is_delete_marker && target.key == kConfigKey) {
    Fail(target.key, "is hidden by a delete marker; csi-delta repair versions shows it again");
  } else if (!is_good && !target.latest.is_delete_marker) {
    Fail(target.key, "was written over; csi-delta repair versions brings its bytes back");
  } else {
    ++(*extended ? result_.extended : result_.skipped);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Renewal::IsGood(const Target& target) const {
  if (target.latest.id == target.first.id || target.key == kConfigKey) {
    return !target.latest.is_delete_marker;  // With this config the repository was opened.
  }
  if (target.latest.is_delete_marker || target.latest.size_bytes != target.first.size_bytes) {
    return false;
  }
  Sha256Hasher hasher;
  for (int64_t offset = 0; offset < target.latest.size_bytes; offset += kHashedBytes) {
    const int64_t length = std::min(kHashedBytes, target.latest.size_bytes - offset);
    ASSIGN_OR_RETURN(
        const std::string bytes,
        store_.GetRange(ctx_, target.key, {.offset_bytes = offset, .length_bytes = length}));
    hasher.Update(bytes);
  }
  return absl::EndsWith(target.key, absl::BytesToHexString(csidelta::AsBytes(hasher.Finish())));
}

void Renewal::Fail(const std::string& key, absl::string_view why) {
  ++result_.failed;
  if (result_.failures.size() < kNamedFailuresMax) {
    result_.failures.push_back(absl::StrCat(key, ": ", why));
  }
}

absl::StatusOr<bool> Renewal::Extend(const std::string& key, const std::string& version,
                                     absl::Time& until) {
  if (version.empty()) {
    return absl::NotFoundError("has no version left");
  }
  // Asked first: servers exist that take an earlier date, too.
  RETURN_IF_ERROR(Count());
  ASSIGN_OR_RETURN(const Retention old, store_.GetRetention(ctx_, key, version));
  until = old.mode.empty() ? absl::InfinitePast() : old.until;
  // At its next turn half of the time must be left.
  const absl::Time enough = now_ + options_.days * kDay / 2 +
                            (NextTurn(key, now_) - DayOf(now_)) * kDay - kResumedAfterMax;
  const bool is_weaker = old.mode != "COMPLIANCE" && options_.mode == "COMPLIANCE";
  if (until >= enough && !is_weaker) {
    return false;
  }
  const absl::Time later = std::max(until, until_);
  RETURN_IF_ERROR(Count());
  RETURN_IF_ERROR(store_.SetRetention(
      ctx_, key, version,
      {.mode = old.mode == "COMPLIANCE" ? old.mode : options_.mode, .until = later}));
  until = later;
  return true;
}

}  // namespace

absl::StatusOr<RenewLocksResult> RenewLocks(const CallContext& ctx, Repository& repository,
                                            const RenewLocksOptions& options) {
  if (options.mode != "GOVERNANCE" && options.mode != "COMPLIANCE") {
    return absl::InvalidArgumentError("the mode of object locks is GOVERNANCE or COMPLIANCE");
  }
  if (options.days < 2 || options.days > kLockDaysMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("object locks last from 2 to ", kLockDaysMax, " days"));
  }
  return Renewal(ctx, repository, options).Run(repository);
}

}  // namespace csidelta::repository
