#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/strings/string_view.h"

namespace csidelta::repository {

// Told how far a stage ("trees", "packs", …) of a long run is. `total` is 0 while nobody knows.
// Called by several threads, at the same time too; may be null.
using ProgressReporter = std::function<void(absl::string_view stage, int64_t done, int64_t total)>;

inline void Report(const ProgressReporter& progress, absl::string_view stage, int64_t done,
                   int64_t total) {
  if (progress != nullptr) {
    progress(stage, done, total);
  }
}

// Threads of a maintenance run that wait for the store, or compute.
inline constexpr std::size_t kMaintenanceThreads = 8;

}  // namespace csidelta::repository
