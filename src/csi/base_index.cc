#include "csi/base_index.h"

#include <utility>

#include "k8s/object.h"

namespace csidelta::csi {
namespace {

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

void BaseIndex::OnPage(const std::vector<Json>& contents, bool is_first) {
  const MutexLock lock(mutex_);
  if (is_first) {
    listed_.clear();
  }
  for (const Json& content : contents) {
    Note(content);
    listed_.insert(k8s::Name(content));
  }
}

void BaseIndex::OnListed() {
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

void BaseIndex::OnEvent(const k8s::WatchEvent& event) {
  const MutexLock lock(mutex_);
  if (event.kind == k8s::WatchEvent::Kind::kDeleted) {
    Drop(k8s::Name(event.object));
  } else {
    Note(event.object);
  }
}

void BaseIndex::Note(const Json& content) {
  const std::string name = k8s::Name(content);
  Drop(name);
  if (k8s::BeingDeleted(content)) {
    return;
  }
  absl::StatusOr<objects::VolumeSnapshotContent> typed =
      objects::VolumeSnapshotContent::Of(content);
  if (!typed.ok()) {
    return;
  }
  BaseSnapshot base = ReadBase(*typed);
  by_claim_[base.owner.claim_uid].insert(name);
  if (base.is_needed) {
    needed_[base.driver].insert(name);
  }
  bases_[name] = std::move(base);
}

void BaseIndex::Drop(const std::string& content_name) {
  const auto found = bases_.find(content_name);
  if (found == bases_.end()) {
    return;
  }
  Erase(by_claim_, found->second.owner.claim_uid, content_name);
  Erase(needed_, found->second.driver, content_name);
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

}  // namespace csidelta::csi
