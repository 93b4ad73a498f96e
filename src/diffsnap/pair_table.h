#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "diffsnap/class_secrets.h"
#include "diffsnap/cursor.h"
#include "objects/differential_snapshot.h"

namespace csidelta::diffsnap {

// What a DifferentialSnapshot was resolved to when it became a Success.
struct ResolvedPair {
  CursorScope scope;
  std::string volume_handle;
  int64_t volume_size_bytes = 0;  // of the target; 0: not known
  std::map<std::string, std::string> parameters;
  std::string start_offset;  // of the object's spec: for who names none
  bool lists_all_for_unknown_base = false;
  SecretsOwner secrets_owner = {};  // whose secrets are read for each page
};

// What is served for an object that is a Success. Pure.
ResolvedPair PairOf(const objects::DifferentialSnapshot& object);

// The pairs that are served, by namespace and name. Who follows the API server writes it, who
// answers reads it; what is being read outlives its removal. Thread-safe.
class PairTable {
 public:
  // Of at most 12 KiB or so each.
  static constexpr std::size_t kPairsMax = 20'000;

  explicit PairTable(std::size_t pairs_max = kPairsMax) : pairs_max_(pairs_max) {}

  // False when the table is full, and has no pair of this name: it is not served.
  bool Put(const std::string& namespace_name, const std::string& name, ResolvedPair pair);
  void Remove(const std::string& namespace_name, const std::string& name);

  // Null when none exists.
  std::shared_ptr<const ResolvedPair> Find(const std::string& namespace_name,
                                           const std::string& name) const;

  // Until then what is not in the table may exist nevertheless.
  void SetSynced() {
    const MutexLock lock(mutex_);
    is_synced_ = true;
  }
  bool is_synced() const {
    const MutexLock lock(mutex_);
    return is_synced_;
  }

 private:
  const std::size_t pairs_max_;
  mutable Mutex mutex_;
  bool is_synced_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const ResolvedPair>> pairs_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::diffsnap
