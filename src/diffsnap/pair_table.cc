#include "diffsnap/pair_table.h"

namespace csidelta::diffsnap {

ResolvedPair PairOf(const objects::DifferentialSnapshot& object) {
  objects::ResolvedNames resolved = object.resolved();
  return {.scope = {.namespace_name = object.namespace_name(),
                    .uid = object.uid(),
                    .base_handle = std::move(resolved.base_handle),
                    .target_handle = std::move(resolved.target_handle)},
          .volume_handle = std::move(resolved.volume_handle),
          .volume_size_bytes = resolved.volume_size_bytes,
          .parameters = object.parameters(),
          .start_offset = object.start_offset(),
          .lists_all_for_unknown_base = object.lists_all_for_unknown_base(),
          .secrets_owner = {.class_name = std::move(resolved.class_name),
                            .namespace_name = object.namespace_name(),
                            .snapshot_name = object.target_name()}};
}

bool PairTable::Put(const std::string& namespace_name, const std::string& name, ResolvedPair pair) {
  auto held = std::make_shared<const ResolvedPair>(std::move(pair));
  const MutexLock lock(mutex_);
  const auto found = pairs_.find({namespace_name, name});
  if (found == pairs_.end() && pairs_.size() >= pairs_max_) {
    return false;
  }
  pairs_[{namespace_name, name}] = std::move(held);
  return true;
}

void PairTable::Remove(const std::string& namespace_name, const std::string& name) {
  const MutexLock lock(mutex_);
  pairs_.erase({namespace_name, name});
}

std::shared_ptr<const ResolvedPair> PairTable::Find(const std::string& namespace_name,
                                                    const std::string& name) const {
  const MutexLock lock(mutex_);
  const auto found = pairs_.find({namespace_name, name});
  return found == pairs_.end() ? nullptr : found->second;
}

}  // namespace csidelta::diffsnap
