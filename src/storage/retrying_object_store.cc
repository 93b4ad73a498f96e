#include "storage/retrying_object_store.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace csidelta::storage {
namespace {

constexpr absl::Duration kNoLimit = absl::InfiniteDuration();
constexpr absl::Duration kRequestedPauseMax = absl::Minutes(2);
constexpr int kFullAttemptsMax = 3;  // of a place without room
// Of a listing that is longer only the last key is remembered, as long as keys ascend. S3's do, but
// for directory buckets, whose order shows long before.
constexpr int64_t kKeysRemembered = 10'000;

// Stands for a key: two of them agree by chance once in 2^128 pairs.
using Fingerprint = std::pair<uint64_t, uint64_t>;

Fingerprint FingerprintOf(const std::string& key) {
  return {absl::HashOf(key), absl::HashOf(key, 1)};
}

}  // namespace

// Runs `attempt` until its answer is final. When our own time limit ends an attempt, the caller
// hears what was wrong before that.
absl::Status RetryingObjectStore::RetryUntilDone(
    const CallContext& ctx, absl::Duration total_max,
    absl::FunctionRef<absl::Status(const CallContext&)> attempt,
    absl::FunctionRef<bool(const absl::Status&)> may_heal, absl::FunctionRef<bool()> has_moved) {
  const CallContext limited = ctx.WithTimeout(total_max);
  Backoff backoff(options_.backoff, random_);
  absl::Status last;
  int full = 0;
  bool has_told = options_.on_wait == nullptr;
  absl::Duration begun = ctx.clock->Uptime();
  while (true) {
    absl::Status status = attempt(limited);
    if (absl::IsDeadlineExceeded(status) && ctx.Check().ok()) {
      return last.ok() ? absl::UnavailableError(status.message()) : last;
    }
    if (has_moved()) {
      backoff.Reset();
      full = 0;
      begun = ctx.clock->Uptime();
    }
    full += IsFull(status) ? 1 : 0;
    if (!may_heal(status) || !backoff.MayTryAgain() || full == kFullAttemptsMax) {
      return status;
    }
    last = std::move(status);
    const absl::Duration delay =
        std::max(backoff.NextDelay(), std::min(RequestedPause(last), kRequestedPauseMax));
    if (delay >= limited.TimeLeft()) {
      return last;
    }
    if (!has_told && ctx.clock->Uptime() + delay - begun >= options_.grace_period) {
      has_told = true;
      options_.on_wait(last);
    }
    CSIDELTA_LOG(kDebug, "object store: trying again", {"store", inner().Describe()},
                 {"reason", std::string(last.message())});
    limited.clock->SleepFor(delay, limited.stop);
    RETURN_IF_ERROR(ctx.Check());
    meter_.Add(&StoreUsage::retries, 1);
    if (ctx.retries != nullptr) {
      ++*ctx.retries;
    }
  }
}

absl::Status RetryingObjectStore::Put(const CallContext& ctx, const std::string& key,
                                      absl::string_view bytes, const PutOptions& options) {
  bool is_first = true;
  const auto put = [&](const CallContext& limited) -> absl::Status {
    absl::Status status = inner().Put(limited, key, bytes, options);
    const bool was_first = std::exchange(is_first, false);
    if (was_first || !absl::IsAlreadyExists(status)) {
      return status;
    }
    ASSIGN_OR_RETURN(const ObjectInfo stored, inner().Stat(limited, key));
    if (stored.size_bytes != std::ssize(bytes)) {
      return status;
    }
    ASSIGN_OR_RETURN(const std::string others, inner().Get(limited, key, stored.size_bytes));
    return others == bytes ? absl::OkStatus() : status;
  };
  // What was stored wrongly lies under a name that others will read.
  return RetryUntilDone(ctx, kNoLimit, put, [](const absl::Status& status) {
    return MayHeal(status) || absl::IsDataLoss(status);
  });
}

absl::Status RetryingObjectStore::Pass(const CallContext& ctx, const PassedCall& call,
                                       absl::FunctionRef<absl::Status(const CallContext&)> pass) {
  const bool is_long = call.kind == CallKind::kGet || call.kind == CallKind::kRemoveLeftovers;
  return RetryUntilDone(ctx, is_long ? kNoLimit : options_.total_max, pass);
}

absl::Status RetryingObjectStore::PassOnOnce(
    const CallContext& ctx, ObjectSink sink,
    absl::FunctionRef<absl::Status(const CallContext&, const std::string&, ObjectSink)> list) {
  absl::flat_hash_set<Fingerprint> first;  // Keys that were passed on, until order is relied on.
  bool relies_on_order = false;
  std::string last;      // The key that came last.
  bool in_order = true;  // All keys came in their order.
  int64_t passed_on = 0;
  int64_t before = 0;    // What the attempts before the last passed on.
  absl::Status refused;  // What `sink` said; not to be repeated here.
  const auto attempt = [&](const CallContext& limited) -> absl::Status {
    if (relies_on_order && !in_order) {
      return absl::FailedPreconditionError(
          absl::StrCat("a listing was cut off after ", passed_on,
                       " keys that are in no order: it cannot go on"));
    }
    const std::string after = in_order ? last : "";
    last = after;
    const absl::Status listed = list(limited, after, [&](const ObjectInfo& object) -> absl::Status {
      const bool is_new =
          relies_on_order ? after < object.key : first.insert(FingerprintOf(object.key)).second;
      if (is_new) {
        in_order = in_order && last < object.key;
        last = object.key;
        ++passed_on;
        refused = sink(object);
      }
      if (in_order && passed_on >= kKeysRemembered && !relies_on_order) {
        relies_on_order = true;
        first = {};
      }
      return refused;
    });
    return refused.ok() ? listed : absl::OkStatus();
  };
  const auto has_moved = [&] { return std::exchange(before, passed_on) < passed_on; };
  const absl::Status status = RetryUntilDone(ctx, kNoLimit, attempt, MayHeal, has_moved);
  return refused.ok() ? status : refused;
}

absl::Status RetryingObjectStore::List(const CallContext& ctx, const std::string& prefix,
                                       ObjectSink sink) {
  return PassOnOnce(ctx, sink,
                    [&](const CallContext& limited, const std::string& after, auto once) {
                      return after.empty() ? inner().List(limited, prefix, once)
                                           : inner().ListAfter(limited, prefix, after, once);
                    });
}

absl::Status RetryingObjectStore::ListFolder(const CallContext& ctx, const std::string& prefix,
                                             ObjectSink sink) {
  return PassOnOnce(ctx, sink, [&](const CallContext& limited, const std::string&, auto once) {
    return inner().ListFolder(limited, prefix, once);
  });
}

}  // namespace csidelta::storage
