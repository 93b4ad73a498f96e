#include "tests/support/longhorn/engine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::longhorn_stand_in {

absl::Status Engine::TakeSnapshot(const std::string& name, bool is_user_created,
                                  const std::map<std::string, std::string>& labels,
                                  absl::Time now) {
  if (!is_running_ || is_faulted_) {
    return absl::FailedPreconditionError("the engine does not run");
  }
  if (Has(name)) {
    return absl::AlreadyExistsError(absl::StrCat("snapshot ", name, " already exists"));
  }
  if (const int used = CountUsed(); used >= snapshot_max_count_) {
    return absl::FailedPreconditionError(absl::StrCat("snapshot count usage ", used,
                                                      " is equal or larger than snapshotMaxCount ",
                                                      snapshot_max_count_));
  }
  if (std::ssize(layers_) >= kChainEntriesMax) {
    return absl::FailedPreconditionError(
        absl::StrCat("snapshot count total is already too big: ", layers_.size()));
  }
  if (name.size() > kSnapshotNameBytesMax) {
    is_faulted_ = true;
    is_running_ = false;
    return absl::InternalError(absl::StrCat("failed to snapshot all replicas: open volume-snap-",
                                            name, ".img.meta.tmp: file name too long"));
  }
  // The head becomes the snapshot, and a new head stands on it.
  Layer& head = layers_[kVolumeHead];
  Layer layer = std::exchange(head, Layer{.parent = name});
  layer.is_user_created = is_user_created;
  layer.taken_at = absl::FromUnixSeconds(absl::ToUnixSeconds(now));
  layer.labels = labels;
  layers_[name] = std::move(layer);
  return absl::OkStatus();
}

absl::Status Engine::RemoveSnapshot(const std::string& name) {
  const auto layer = layers_.find(name);
  if (layer == layers_.end() || name == kVolumeHead) {
    return absl::NotFoundError(absl::StrCat("cannot find snapshot ", name));
  }
  layer->second.is_removed = true;
  return absl::OkStatus();
}

absl::Status Engine::StartPurge(absl::Time now) {
  if (is_purging()) {
    return absl::AlreadyExistsError("a snapshot purge is already in progress");
  }
  for (auto& [name, layer] : layers_) {
    layer.is_removed = layer.is_removed || (name != kVolumeHead && !layer.is_user_created);
  }
  purge_end_ = now + kPurgeTime;
  return absl::OkStatus();
}

void Engine::Advance(absl::Time now) {
  if (purge_end_.has_value() && now >= *purge_end_) {
    FinishPurge();
    purge_end_.reset();
  }
}

// From the live end to the oldest, then what no chain from the head reaches any more.
void Engine::FinishPurge() {
  std::vector<std::string> names;
  for (std::string name = layers_[kVolumeHead].parent; !name.empty();
       name = layers_.at(name).parent) {
    names.push_back(name);
  }
  for (const auto& [name, layer] : layers_) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    if (layers_.at(name).is_removed) {
      PurgeOne(name);
    }
  }
}

void Engine::PurgeOne(const std::string& name) {
  const std::vector<std::string> children = ChildrenOf(name);
  if (children.size() > 1) {
    return;  // Two branches read it.
  }
  Layer& layer = layers_.at(name);
  if (children.empty()) {
    layers_.erase(name);
    return;
  }
  Layer& child = layers_.at(children.front());
  if (children.front() == kVolumeHead) {
    std::erase_if(layer.blocks,
                  [&](const auto& block) { return child.blocks.contains(block.first); });
    return;
  }
  child.blocks.merge(layer.blocks);  // Those that the child has stay the child's.
  child.parent = layer.parent;
  layers_.erase(name);
}

absl::Status Engine::Revert(const std::string& name) {
  if (has_frontend_) {
    return absl::FailedPreconditionError("cannot revert to a snapshot with frontend enabled");
  }
  if (!Has(name) || name == kVolumeHead || IsRemoved(name)) {
    return absl::NotFoundError(absl::StrCat("cannot find snapshot ", name));
  }
  layers_[kVolumeHead] = Layer{.parent = name};
  return absl::OkStatus();
}

absl::Status Engine::SetSnapshotMaxCount(int count) {
  if (const int used = CountUsed(); used > count) {
    return absl::FailedPreconditionError(
        absl::StrCat("snapshotMaxCount cannot be ", count, ": ", used, " snapshots exist"));
  }
  snapshot_max_count_ = count;
  return absl::OkStatus();
}

absl::Status Engine::Expand(int64_t size_bytes, absl::Time now) {
  RETURN_IF_ERROR(
      TakeSnapshot(absl::StrCat("expand-", size_bytes), /*is_user_created=*/false, {}, now));
  size_bytes_ = size_bytes;
  return absl::OkStatus();
}

std::map<std::string, ChainEntry> Engine::Entries() const {
  std::map<std::string, ChainEntry> entries;
  for (const auto& [name, layer] : layers_) {
    entries[name] = {.parent = layer.parent,
                     .children = {},
                     .is_removed = layer.is_removed,
                     .is_user_created = layer.is_user_created,
                     .taken_at = layer.taken_at,
                     .size_bytes = std::ssize(layer.blocks) * kEngineBlockBytes,
                     .labels = layer.labels};
  }
  for (const auto& [name, layer] : layers_) {
    if (!layer.parent.empty()) {
      entries.at(layer.parent).children.insert(name);
    }
  }
  return entries;
}

bool Engine::IsRemoved(const std::string& name) const {
  const auto layer = layers_.find(name);
  return layer != layers_.end() && layer->second.is_removed;
}

void Engine::Write(int64_t block, const std::string& data) {
  layers_[kVolumeHead].blocks[block] = data;
}

std::string Engine::Read(const std::string& name, int64_t block) const {
  for (auto layer = layers_.find(name); layer != layers_.end();
       layer = layers_.find(layer->second.parent)) {
    if (const auto found = layer->second.blocks.find(block); found != layer->second.blocks.end()) {
      return found->second;
    }
  }
  return "";
}

std::map<int64_t, std::string> Engine::Contents(const std::string& name) const {
  std::map<int64_t, std::string> contents;
  for (auto layer = layers_.find(name); layer != layers_.end();
       layer = layers_.find(layer->second.parent)) {
    contents.insert(layer->second.blocks.begin(), layer->second.blocks.end());
  }
  return contents;
}

int Engine::CountUsed() const {
  return static_cast<int>(std::count_if(layers_.begin(), layers_.end(), [](const auto& entry) {
    return entry.first != kVolumeHead && !entry.second.is_removed;
  }));
}

std::vector<std::string> Engine::ChildrenOf(const std::string& name) const {
  std::vector<std::string> children;
  for (const auto& [child, layer] : layers_) {
    if (layer.parent == name) {
      children.push_back(child);
    }
  }
  return children;
}

void Engines::Ensure(const std::string& volume, int64_t size_bytes) {
  std::scoped_lock lock(mutex_);
  processes_.try_emplace(volume, Process{.engine = Engine(size_bytes)});
}

void Engines::Remove(const std::string& volume) {
  std::scoped_lock lock(mutex_);
  processes_.erase(volume);
}

bool Engines::Has(const std::string& volume) const {
  std::scoped_lock lock(mutex_);
  return processes_.contains(volume);
}

absl::Status Engines::Call(const std::string& volume,
                           absl::FunctionRef<absl::Status(Engine&)> call) {
  std::scoped_lock lock(mutex_);
  const auto process = processes_.find(volume);
  if (process == processes_.end()) {
    return absl::NotFoundError(absl::StrCat("volume ", volume, " has no engine"));
  }
  ++process->second.calls;
  if (!process->second.engine.is_running()) {
    return absl::UnavailableError(absl::StrCat("the engine of ", volume, " does not run"));
  }
  absl::Status status = call(process->second.engine);
  Tell(volume, process->second);
  return status;
}

bool Engines::Handle(const std::string& volume, absl::FunctionRef<void(Engine&)> change) {
  std::scoped_lock lock(mutex_);
  const auto process = processes_.find(volume);
  if (process == processes_.end()) {
    return false;
  }
  change(process->second.engine);
  Tell(volume, process->second);
  return true;
}

void Engines::Tell(const std::string& volume, Process& process) {
  if (observer_ == nullptr) {
    return;
  }
  std::set<std::string> names;
  for (const auto& [name, entry] : process.engine.Entries()) {
    if (name == kVolumeHead) {
      continue;
    }
    names.insert(name);
    if (process.told.insert(name).second) {
      observer_(volume, name, true);
    }
  }
  for (const std::string& name : std::exchange(process.told, names)) {
    if (!names.contains(name)) {
      observer_(volume, name, false);
    }
  }
}

int64_t Engines::call_count(const std::string& volume) const {
  std::scoped_lock lock(mutex_);
  const auto process = processes_.find(volume);
  return process == processes_.end() ? 0 : process->second.calls;
}

int Engines::purging_count() const {
  std::scoped_lock lock(mutex_);
  return static_cast<int>(
      std::count_if(processes_.begin(), processes_.end(),
                    [](const auto& process) { return process.second.engine.is_purging(); }));
}

}  // namespace csidelta::longhorn_stand_in
