#include "csi/base_index.h"

#include <algorithm>
#include <utility>

namespace csidelta::csi {
namespace {

using objects::VolumeSnapshotContent;
using Names = std::map<std::string, std::set<std::string>, std::less<>>;

void Erase(Names& names, const std::string& key, const std::string& name) {
  if (const auto found = names.find(key); found != names.end()) {
    found->second.erase(name);
    if (found->second.empty()) {
      names.erase(found);
    }
  }
}

}  // namespace

void BaseIndex::OnObjects(std::vector<VolumeSnapshotContent> page, bool is_first) {
  const MutexLock lock(mutex_);
  if (is_first) {
    listed_.clear();
  }
  for (const VolumeSnapshotContent& content : page) {
    Note(content);
    listed_.insert(content.name());
  }
}

void BaseIndex::OnListComplete() {
  const MutexLock lock(mutex_);
  std::vector<std::string> gone;
  for (const auto& [name, base] : bases_) {
    if (!listed_.contains(name)) {
      gone.push_back(name);
    }
  }
  for (const std::string& name : gone) {
    Drop(name);
  }
  listed_.clear();
  is_synced_ = true;
}

void BaseIndex::OnChanged(const VolumeSnapshotContent& content) {
  const MutexLock lock(mutex_);
  Note(content);
}

void BaseIndex::OnDeleted(const VolumeSnapshotContent& content) {
  const MutexLock lock(mutex_);
  Drop(content.name());
}

void BaseIndex::Note(const VolumeSnapshotContent& content) {
  const std::string name = content.name();
  Drop(name);
  if (content.is_being_deleted()) {
    return;
  }
  BaseSnapshot base = ReadBase(content);
  by_claim_[base.owner.claim_uid].insert(name);
  if (base.is_needed) {
    needed_[base.driver].insert(name);
  }
  ++by_driver_[base.driver];
  bases_[name] = std::move(base);
}

void BaseIndex::Drop(const std::string& content_name) {
  const auto found = bases_.find(content_name);
  if (found == bases_.end()) {
    return;
  }
  Erase(by_claim_, found->second.owner.claim_uid, content_name);
  Erase(needed_, found->second.driver, content_name);
  --by_driver_[found->second.driver];
  bases_.erase(found);
}

std::optional<std::vector<BaseSnapshot>> BaseIndex::OfClaim(absl::string_view claim_uid) const {
  const MutexLock lock(mutex_);
  if (!is_synced_) {
    return std::nullopt;
  }
  std::vector<BaseSnapshot> bases;
  if (const auto found = by_claim_.find(claim_uid); found != by_claim_.end()) {
    for (const std::string& name : found->second) {
      bases.push_back(bases_.at(name));
    }
  }
  return bases;
}

std::optional<bool> BaseIndex::Needs(absl::string_view driver) const {
  const MutexLock lock(mutex_);
  return is_synced_ ? std::optional(needed_.contains(driver)) : std::nullopt;
}

BaseCounts BaseIndex::counts() const {
  const MutexLock lock(mutex_);
  BaseCounts counts = {.by_driver = by_driver_};
  for (const auto& [name, base] : bases_) {
    if (const std::optional<absl::Time> taken_at = base.taken_at(); taken_at.has_value()) {
      counts.oldest = std::min(counts.oldest.value_or(absl::InfiniteFuture()), *taken_at);
    }
  }
  return counts;
}

}  // namespace csidelta::csi
