#include "diffsnap/content_index.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "k8s/list_watch.h"

namespace csidelta::diffsnap {

using objects::VolumeSnapshotContent;

absl::Status ContentIndex::Follow(const CallContext& ctx, k8s::ApiClient& api) {
  return k8s::ListAndWatch(ctx, api, {.type = VolumeSnapshotContent::Type(), .namespace_name = ""},
                           *this);
}

absl::StatusOr<std::vector<ContentIndex::Content>> ContentIndex::Find(
    const std::string& handle) const {
  const MutexLock lock(mutex_);
  if (!is_synced_) {
    return absl::AbortedError("the VolumeSnapshotContents are still being listed");
  }
  if (is_incomplete_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the cluster has more than ", contents_max_, " VolumeSnapshotContents of ",
                     driver_, ": a base cannot be looked up by its handle; delete old ones"));
  }
  std::vector<Content> found;
  if (const auto names = names_.find(handle); names != names_.end()) {
    found.reserve(names->second.size());
    for (const std::string& name : names->second) {
      found.push_back(contents_.at(name).content);
    }
  }
  return found;
}

void ContentIndex::OnObjects(std::vector<VolumeSnapshotContent> page, bool is_first) {
  const MutexLock lock(mutex_);
  if (is_first) {
    is_incomplete_ = false;
    unlisted_.clear();
    for (const auto& [name, kept] : contents_) {
      unlisted_.insert(name);
    }
  }
  for (const VolumeSnapshotContent& content : page) {
    unlisted_.erase(content.name());
    Put(content);
  }
}

void ContentIndex::OnListComplete() {
  const MutexLock lock(mutex_);
  for (const std::string& name : std::exchange(unlisted_, {})) {
    Drop(name);
  }
  is_synced_ = true;
}

void ContentIndex::OnChanged(const VolumeSnapshotContent& content) {
  const MutexLock lock(mutex_);
  Put(content);
}

void ContentIndex::OnDeleted(const VolumeSnapshotContent& content) {
  const MutexLock lock(mutex_);
  Drop(content.name());
}

void ContentIndex::Put(const VolumeSnapshotContent& content) {
  const std::string name = content.name();
  Drop(name);
  Kept kept{.content = {.volume_handle = content.source_volume(),
                        .namespace_name = content.snapshot_namespace()},
            .handles = {}};
  for (std::string handle : {content.handle(), content.source_handle()}) {
    if (!handle.empty() && handle.size() <= kHandleBytesMax) {
      kept.handles.insert(std::move(handle));
    }
  }
  if (content.driver() != driver_ || kept.handles.empty()) {
    return;
  }
  if (contents_.size() >= contents_max_) {
    is_incomplete_ = true;
    return;
  }
  for (const std::string& handle : kept.handles) {
    names_[handle].insert(name);
  }
  contents_.emplace(name, std::move(kept));
}

void ContentIndex::Drop(const std::string& name) {
  const auto found = contents_.find(name);
  if (found == contents_.end()) {
    return;
  }
  for (const std::string& handle : found->second.handles) {
    const auto names = names_.find(handle);
    names->second.erase(name);
    if (names->second.empty()) {
      names_.erase(names);
    }
  }
  contents_.erase(found);
}

}  // namespace csidelta::diffsnap
