#include "k8s/work_queue.h"

namespace csidelta::k8s {

void WorkQueue::Add(const Key& key, absl::Duration due, uint64_t sequence) {
  const auto [found, is_new] = namespaces_.try_emplace(key.first);
  if (is_new) {
    found->second.round =
        ++rounds_;  // Behind those that wait already: it may have been served now.
  }
  found->second.objects.emplace(due, sequence, key.second);
}

void WorkQueue::Remove(const Key& key, absl::Duration due, uint64_t sequence) {
  const auto found = namespaces_.find(key.first);
  if (found == namespaces_.end()) {
    return;
  }
  found->second.objects.erase({due, sequence, key.second});
  if (found->second.objects.empty()) {
    namespaces_.erase(found);
  }
}

bool WorkQueue::HasDue(absl::Duration now) const {
  for (const auto& [name, waiting] : namespaces_) {
    if (std::get<0>(*waiting.objects.begin()) <= now) {
      return true;
    }
  }
  return false;
}

std::optional<WorkQueue::Key> WorkQueue::Next(absl::Duration now) {
  auto next = namespaces_.end();
  for (auto one = namespaces_.begin(); one != namespaces_.end(); ++one) {
    const bool is_due = std::get<0>(*one->second.objects.begin()) <= now;
    if (is_due && (next == namespaces_.end() || one->second.round < next->second.round)) {
      next = one;
    }
  }
  if (next == namespaces_.end()) {
    return std::nullopt;
  }
  next->second.round = ++rounds_;
  return Key{next->first, std::get<2>(*next->second.objects.begin())};
}

void WorkQueue::ForEachDue(absl::Duration now,
                           absl::FunctionRef<void(absl::Duration due)> note) const {
  for (const auto& [name, waiting] : namespaces_) {
    for (const auto& [due, sequence, object] : waiting.objects) {
      if (due > now) {
        break;
      }
      note(due);
    }
  }
}

}  // namespace csidelta::k8s
