#include "storage/retrying_object_store.h"

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "storage/store_full.h"

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
    CSIDELTA_LOG(kDebug, "object store: trying again", {"store", inner_.Describe()},
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
    absl::Status status = inner_.Put(limited, key, bytes, options);
    const bool was_first = std::exchange(is_first, false);
    if (was_first || !absl::IsAlreadyExists(status)) {
      return status;
    }
    ASSIGN_OR_RETURN(const ObjectInfo stored, inner_.Stat(limited, key));
    if (stored.size_bytes != std::ssize(bytes)) {
      return status;
    }
    ASSIGN_OR_RETURN(const std::string others, inner_.Get(limited, key, stored.size_bytes));
    return others == bytes ? absl::OkStatus() : status;
  };
  // What was stored wrongly lies under a name that others will read.
  return RetryUntilDone(ctx, put, [](const absl::Status& status) {
    return MayHeal(status) || absl::IsDataLoss(status);
  });
}

absl::StatusOr<std::string> RetryingObjectStore::Get(const CallContext& ctx, const std::string& key,
                                                     int64_t size_bytes_max) {
  std::string bytes;
  RETURN_IF_ERROR(RetryUntilDone(ctx, [&](const CallContext& limited) -> absl::Status {
    ASSIGN_OR_RETURN(bytes, inner_.Get(limited, key, size_bytes_max));
    return absl::OkStatus();
  }));
  return bytes;
}

absl::StatusOr<std::string> RetryingObjectStore::GetRange(const CallContext& ctx,
                                                          const std::string& key, ByteRange range) {
  std::string bytes;
  RETURN_IF_ERROR(RetryUntilDone(ctx, [&](const CallContext& limited) -> absl::Status {
    ASSIGN_OR_RETURN(bytes, inner_.GetRange(limited, key, range));
    return absl::OkStatus();
  }));
  return bytes;
}

absl::StatusOr<ObjectInfo> RetryingObjectStore::Stat(const CallContext& ctx,
                                                     const std::string& key) {
  ObjectInfo object;
  RETURN_IF_ERROR(RetryUntilDone(ctx, [&](const CallContext& limited) -> absl::Status {
    ASSIGN_OR_RETURN(object, inner_.Stat(limited, key));
    return absl::OkStatus();
  }));
  return object;
}

absl::Status RetryingObjectStore::PassOnOnce(
    const CallContext& ctx, absl::FunctionRef<absl::Status(const ObjectInfo&)> sink,
    absl::FunctionRef<absl::Status(const CallContext&,
                                   absl::FunctionRef<absl::Status(const ObjectInfo&)>)>
        list) {
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
                                       absl::FunctionRef<absl::Status(const ObjectInfo&)> sink) {
  return PassOnOnce(ctx, sink, [&](const CallContext& limited, auto once) {
    return inner_.List(limited, prefix, once);
  });
}

absl::Status RetryingObjectStore::ListFolder(
    const CallContext& ctx, const std::string& prefix,
    absl::FunctionRef<absl::Status(const ObjectInfo&)> sink) {
  return PassOnOnce(ctx, sink, [&](const CallContext& limited, auto once) {
    return inner_.ListFolder(limited, prefix, once);
  });
}

absl::Status RetryingObjectStore::Delete(const CallContext& ctx, const std::string& key) {
  return RetryUntilDone(ctx,
                        [&](const CallContext& limited) { return inner_.Delete(limited, key); });
}

absl::StatusOr<int64_t> RetryingObjectStore::RemoveLeftovers(
    const CallContext& ctx, absl::Span<const std::string> folders,
    absl::FunctionRef<bool(absl::string_view key)> is_managed, absl::Duration age_min) {
  int64_t removed = 0;
  RETURN_IF_ERROR(RetryUntilDone(ctx, [&](const CallContext& limited) -> absl::Status {
    ASSIGN_OR_RETURN(removed, inner_.RemoveLeftovers(limited, folders, is_managed, age_min));
    return absl::OkStatus();
  }));
  return removed;
}

}  // namespace csidelta::storage
