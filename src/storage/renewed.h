#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"

namespace csidelta::storage {

// What credentials of a bucket have in common, of whichever kind. Thread-safe.
class RenewableCredentials {
 public:
  virtual ~RenewableCredentials() = default;

  // The server called the present ones expired: the next use asks their source again.
  virtual void Forget() = 0;

  // Whether their source may ever have others.
  virtual bool MayBeExchanged() const = 0;
};

// Keeps a `T` with a member `expires_at` and loads another five minutes before its end. One thread
// loads, while the others go on with what they have; a failure counts only when nothing valid is
// left. Thread-safe.
template <typename T>
class Renewed {
 public:
  using Loader = absl::FunctionRef<absl::StatusOr<T>()>;

  // `load` has a time limit for all that it does.
  absl::StatusOr<T> Get(const CallContext& ctx, Loader load) {
    if (std::optional<T> fresh = Kept(ctx.clock->Now() + kRenewBefore)) {
      return *std::move(fresh);
    }
    std::unique_lock loading(load_mutex_, std::try_to_lock);
    if (!loading.owns_lock()) {
      if (std::optional<T> valid = Kept(ctx.clock->Now())) {
        return *std::move(valid);
      }
      loading.lock();
    }
    if (std::optional<T> fresh = Kept(ctx.clock->Now() + kRenewBefore)) {
      return *std::move(fresh);
    }
    absl::StatusOr<T> loaded = load();
    if (!loaded.ok()) {
      std::optional<T> valid = Kept(ctx.clock->Now());
      return valid.has_value() ? absl::StatusOr<T>(*std::move(valid)) : loaded.status();
    }
    const MutexLock lock(mutex_);
    kept_ = *loaded;
    return loaded;
  }

  void Forget() {
    const MutexLock lock(mutex_);
    kept_.reset();
  }

 private:
  static constexpr absl::Duration kRenewBefore = absl::Minutes(5);

  std::optional<T> Kept(absl::Time valid_at) const {
    const MutexLock lock(mutex_);
    return kept_.has_value() && valid_at < kept_->expires_at ? kept_ : std::nullopt;
  }

  Mutex load_mutex_;  // Held while one thread loads.
  mutable Mutex mutex_;
  std::optional<T> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::storage
