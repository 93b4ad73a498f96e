#include "storage/object_store.h"

#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "storage/object_rules.h"

namespace csidelta::storage {

absl::Status DeleteObjects(const CallContext& ctx, ObjectStore& store,
                           absl::Span<const std::string> keys, DeletionSink sink) {
  Mutex mutex;
  std::vector<std::size_t> alone(keys.size());
  std::iota(alone.begin(), alone.end(), 0);
  const DeletionLimits limits = store.deletion_limits();
  const std::size_t batch = limits.keys_per_request_max;
  if (batch > 1 && keys.size() > 1) {
    alone.clear();
    const auto delete_batch = [&](std::size_t i) -> absl::Status {
      const auto some = keys.subspan(i * batch, batch);
      absl::StatusOr<std::vector<absl::Status>> deleted = absl::UnimplementedError("no more");
      if (store.deletion_limits().keys_per_request_max > 1) {  // Else it has refused another.
        deleted = store.DeleteBatch(ctx, some);
      }
      CSIDELTA_CHECK(!deleted.ok() || deleted->size() == some.size());
      const MutexLock lock(mutex);
      for (std::size_t j = 0; j < some.size(); ++j) {
        const absl::Status& status = deleted.ok() ? (*deleted)[j] : deleted.status();
        if (absl::IsUnimplemented(status) || (deleted.ok() && MayHeal(status))) {
          alone.push_back(i * batch + j);
        } else {
          RETURN_IF_ERROR(sink(i * batch + j, status));
        }
      }
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(ParallelFor((keys.size() + batch - 1) / batch, limits.requests_in_flight_max,
                                delete_batch));
  }
  const auto delete_one = [&](std::size_t i) {
    const absl::Status deleted = store.Delete(ctx, keys[alone[i]]);
    const MutexLock lock(mutex);
    return sink(alone[i], deleted);
  };
  return ParallelFor(alone.size(), store.deletion_limits().requests_in_flight_max, delete_one);
}

}  // namespace csidelta::storage
