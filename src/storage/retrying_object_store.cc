#include "storage/retrying_object_store.h"

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace csidelta::storage {
namespace {

constexpr int kFullAttemptsMax = 3;  // of a place without room

// Stands for a key: two of them agree by chance once in 2^128 pairs.
using Fingerprint = std::pair<uint64_t, uint64_t>;

Fingerprint FingerprintOf(const std::string& key) {
  return {absl::HashOf(key), absl::HashOf(key, 1)};
}

}  // namespace

// Runs `attempt` until its answer is final. When our own time limit ends an attempt, the caller
// hears what was wrong before that.
absl::Status RetryingObjectStore::RetryUntilDone(
    const CallContext& ctx, absl::FunctionRef<absl::Status(const CallContext&)> attempt,
    absl::FunctionRef<bool(const absl::Status&)> may_heal) {
  const CallContext limited = ctx.WithTimeout(options_.total_max);
  Backoff backoff(options_.backoff, random_);
  absl::Status last;
  int full = 0;
  bool has_told = options_.on_wait == nullptr;
  const absl::Time begun = ctx.clock->Now();
  while (true) {
    absl::Status status = attempt(limited);
    if (absl::IsDeadlineExceeded(status) && ctx.Check().ok()) {
      return last.ok() ? absl::UnavailableError(status.message()) : last;
    }
    full += IsFull(status) ? 1 : 0;
    if (!may_heal(status) || !backoff.MayTryAgain() || full == kFullAttemptsMax) {
      return status;
    }
    last = std::move(status);
    const absl::Time next = ctx.clock->Now() + backoff.NextDelay();
    if (next >= limited.deadline) {
      return last;
    }
    if (!has_told && next - begun >= options_.grace_period) {
      has_told = true;
      options_.on_wait(last);
    }
    CSIDELTA_LOG(kDebug, "object store: trying again", {"store", inner().Describe()},
                 {"reason", std::string(last.message())});
    limited.clock->SleepUntil(next, limited.stop);
    RETURN_IF_ERROR(ctx.Check());
    meter_.Add(&StoreUsage::retries, 1);
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
  return RetryUntilDone(ctx, put, [](const absl::Status& status) {
    return MayHeal(status) || absl::IsDataLoss(status);
  });
}

template <typename Value>
absl::StatusOr<Value> RetryingObjectStore::RetryUntilAnswered(
    const CallContext& ctx, absl::FunctionRef<absl::StatusOr<Value>(const CallContext&)> attempt) {
  Value value = {};
  RETURN_IF_ERROR(RetryUntilDone(ctx, [&](const CallContext& limited) -> absl::Status {
    ASSIGN_OR_RETURN(value, attempt(limited));
    return absl::OkStatus();
  }));
  return value;
}

absl::StatusOr<std::string> RetryingObjectStore::Get(const CallContext& ctx, const std::string& key,
                                                     int64_t size_bytes_max) {
  return RetryUntilAnswered<std::string>(
      ctx, [&](const CallContext& limited) { return inner().Get(limited, key, size_bytes_max); });
}

absl::StatusOr<std::string> RetryingObjectStore::GetRange(const CallContext& ctx,
                                                          const std::string& key, ByteRange range) {
  return RetryUntilAnswered<std::string>(
      ctx, [&](const CallContext& limited) { return inner().GetRange(limited, key, range); });
}

absl::StatusOr<ObjectInfo> RetryingObjectStore::Stat(const CallContext& ctx,
                                                     const std::string& key) {
  return RetryUntilAnswered<ObjectInfo>(
      ctx, [&](const CallContext& limited) { return inner().Stat(limited, key); });
}

absl::Status RetryingObjectStore::PassOnOnce(
    const CallContext& ctx, ObjectSink sink,
    absl::FunctionRef<absl::Status(const CallContext&, ObjectSink)> list) {
  absl::flat_hash_set<Fingerprint> passed_on;
  absl::Status refused;  // What `sink` said; not to be repeated here.
  const absl::Status status = RetryUntilDone(ctx, [&](const CallContext& limited) {
    const absl::Status listed = list(limited, [&](const ObjectInfo& object) -> absl::Status {
      if (passed_on.insert(FingerprintOf(object.key)).second) {
        refused = sink(object);
      }
      return refused;
    });
    return refused.ok() ? listed : absl::OkStatus();
  });
  return refused.ok() ? status : refused;
}

absl::Status RetryingObjectStore::List(const CallContext& ctx, const std::string& prefix,
                                       ObjectSink sink) {
  return PassOnOnce(ctx, sink, [&](const CallContext& limited, auto once) {
    return inner().List(limited, prefix, once);
  });
}

absl::Status RetryingObjectStore::ListFolder(const CallContext& ctx, const std::string& prefix,
                                             ObjectSink sink) {
  return PassOnOnce(ctx, sink, [&](const CallContext& limited, auto once) {
    return inner().ListFolder(limited, prefix, once);
  });
}

absl::Status RetryingObjectStore::Delete(const CallContext& ctx, const std::string& key) {
  return RetryUntilDone(ctx,
                        [&](const CallContext& limited) { return inner().Delete(limited, key); });
}

absl::StatusOr<int64_t> RetryingObjectStore::RemoveLeftovers(const CallContext& ctx,
                                                             absl::Span<const std::string> folders,
                                                             KeyPredicate is_managed,
                                                             absl::Duration age_min) {
  return RetryUntilAnswered<int64_t>(ctx, [&](const CallContext& limited) {
    return inner().RemoveLeftovers(limited, folders, is_managed, age_min);
  });
}

}  // namespace csidelta::storage
