#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/lock.h"

// What forget, prune, check, repair and copy share.
namespace csidelta::repository {

// Threads of a maintenance run that wait for the store, or compute.
inline constexpr std::size_t kMaintenanceThreads = 8;

// Told how far a stage ("trees", "packs", ...) is. `total` is 0 while it is unknown. May be null;
// called by several threads at the same time.
using ProgressReporter = std::function<void(absl::string_view stage, int64_t done, int64_t total)>;

// The stages whose progress is in bytes; that of the others is in objects.
inline constexpr absl::string_view kReadingPacks = "reading packs";
inline constexpr absl::string_view kRepacking = "repacking";
inline constexpr absl::string_view kCopying = "copying";
inline bool IsInBytes(absl::string_view stage) {
  return stage == kReadingPacks || stage == kRepacking || stage == kCopying;
}

inline void Report(const ProgressReporter& progress, absl::string_view stage, auto done,
                   auto total) {
  if (progress != nullptr) {
    progress(stage, static_cast<int64_t>(done), static_cast<int64_t>(total));
  }
}

// Whether an error speaks of the bytes that were read, not of the way to them: missing, short,
// malformed or not proving themselves.
bool IsDamage(const absl::Status& status);

// "500", "10K", "1.5G": bytes, with restic's units, powers of 1024. INVALID_ARGUMENT otherwise.
absl::StatusOr<int64_t> ParseByteSize(absl::string_view text);

// "5%" as 5. INVALID_ARGUMENT unless it is a number from 0 to 100 with a percent sign.
absl::StatusOr<double> ParsePercent(absl::string_view text);

// Deletes `count` packs with Lock::TryDelete(), and returns how many are gone.
// REQUIRES that `lock` is exclusive and no index names them.
absl::StatusOr<int64_t> DeletePacks(const CallContext& ctx, Lock& lock, std::size_t count,
                                    absl::FunctionRef<PackId(std::size_t)> pack_at,
                                    const ProgressReporter& progress);

}  // namespace csidelta::repository
