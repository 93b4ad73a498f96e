#include "datamover/deletion_queue.h"

#include <algorithm>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "datamover/mover_environment.h"

namespace csidelta::datamover {
namespace {

using objects::DeletionPhase;
using objects::ForgetItem;

bool IsOpen(const objects::DataDeletion& deletion) {
  const DeletionPhase phase = deletion.phase();
  return phase != DeletionPhase::kCompleted && phase != DeletionPhase::kFailed &&
         !deletion.is_being_deleted();
}

// Versions of one object are compared as numbers (KEP-5504).
uint64_t VersionOf(const objects::DataDeletion& deletion) {
  uint64_t version = 0;
  return absl::SimpleAtoi(deletion.resource_version(), &version) ? version : 0;
}

absl::Time EarliestOf(const objects::DataDeletion& deletion) {
  const objects::DataDeletionSpec spec = deletion.spec();
  return spec.upload.empty() || spec.worker_ended
             ? absl::InfinitePast()
             : deletion.created_at().value_or(absl::InfinitePast()) + kUnnamedDeletionAfter;
}

}  // namespace

absl::StatusOr<velero::DataReference> ReferenceOf(const objects::DataDeletionSpec& spec) {
  ASSIGN_OR_RETURN(velero::DataReference reference, velero::ParseDataReference(spec.snapshot_id));
  if (!spec.upload.empty() && !velero::IsUid(spec.upload)) {
    return absl::InvalidArgumentError("spec.upload is not the uid of a DataUpload");
  }
  return reference;
}

ForgetItem ItemOf(const objects::DataDeletionSpec& spec, const velero::DataReference& reference) {
  return spec.upload.empty() ? ForgetItem{.snapshot_id = reference.snapshot_id}
                             : ForgetItem{.tag = TaskNameOf("DataUpload", spec.upload)};
}

absl::Time DueAt(const objects::DataDeletion& deletion) {
  return deletion.status().next_attempt_at.value_or(EarliestOf(deletion));
}

DeletionQueue::DeletionQueue(int workers_max, const Clock& clock,
                             std::function<void(const Name&)> wake)
    : workers_max_(static_cast<std::size_t>(workers_max)), clock_(clock), wake_(std::move(wake)) {}

std::optional<DeletionQueue::Entry> DeletionQueue::EntryOf(const objects::DataDeletion& deletion) {
  const objects::DataDeletionSpec spec = deletion.spec();
  const absl::StatusOr<velero::DataReference> reference = ReferenceOf(spec);
  if (!IsOpen(deletion) || !reference.ok()) {
    return std::nullopt;
  }
  const objects::DataDeletionStatus status = deletion.status();
  return Entry{
      .name = {deletion.namespace_name(), deletion.name()},
      .repository = absl::StrCat(deletion.namespace_name(), "/", spec.location, "/",
                                 velero::RepositoryPath(*reference)),
      .item = ItemOf(spec, *reference),
      .version = VersionOf(deletion),
      .created_at = deletion.created_at().value_or(absl::InfinitePast()),
      .earliest = EarliestOf(deletion),
      .due_at = DueAt(deletion),
      .is_in_progress = status.phase == DeletionPhase::kInProgress,
      .leads_alone = status.trouble == objects::DeletionTrouble::kRetained,
      .is_retried = status.phase == DeletionPhase::kWaiting && !status.next_attempt_at.has_value()};
}

void DeletionQueue::Put(const objects::DataDeletion& deletion) {
  const std::string uid = deletion.uid();
  std::optional<Entry> entry = EntryOf(deletion);
  std::vector<Name> next;
  {
    const MutexLock lock(mutex_);
    const Entry* const known = Find(uid);
    if (known != nullptr && known->version > VersionOf(deletion)) {
      return;
    }
    next = NamesOf(entry.has_value() ? Keep(uid, *std::move(entry)) : Erase(uid));
  }
  EnqueueWaiting(next);
}

void DeletionQueue::Remove(const std::string& uid) {
  std::vector<Name> next;
  {
    const MutexLock lock(mutex_);
    next = NamesOf(Erase(uid));
  }
  EnqueueWaiting(next);
}

bool DeletionQueue::Lead(const std::string& uid) {
  std::vector<Name> first;
  {
    const MutexLock lock(mutex_);
    const Entry* const entry = Find(uid);
    if (entry == nullptr) {
      return false;
    }
    if (const auto leader = leaders_.find(entry->repository); leader != leaders_.end()) {
      return leader->second == uid;
    }
    if (leaders_.size() >= workers_max_) {
      return false;
    }
    const std::vector<std::string> next = Next(clock_.Now());
    if (std::find(next.begin(), next.end(), uid) != next.end()) {
      leaders_[entry->repository] = uid;
      return true;
    }
    first = NamesOf(next);
  }
  EnqueueWaiting(first);
  return false;
}

std::vector<ForgetItem> DeletionQueue::Batch(const std::string& uid) const {
  std::vector<ForgetItem> items;
  const absl::Time now = clock_.Now();
  const MutexLock lock(mutex_);
  const auto found = entries_.find(uid);
  if (found == entries_.end()) {
    return items;
  }
  const Entry& leader = found->second;
  std::set<ForgetItem> known = {leader.item};
  items.push_back(leader.item);
  if (leader.leads_alone) {
    return items;
  }
  for (const auto& [created_at, other] : repositories_.at(leader.repository)) {
    const Entry& entry = entries_.at(other);
    if (items.size() < objects::kForgetItemsMax && !entry.leads_alone && entry.earliest <= now &&
        known.insert(entry.item).second) {
      items.push_back(entry.item);
    }
  }
  return items;
}

std::vector<DeletionQueue::Name> DeletionQueue::Others(const std::string& uid,
                                                       const std::vector<ForgetItem>& items) const {
  const std::set<ForgetItem> wanted(items.begin(), items.end());
  std::vector<Name> others;
  const MutexLock lock(mutex_);
  const auto found = entries_.find(uid);
  if (found == entries_.end()) {
    return others;
  }
  for (const auto& [created_at, other] : repositories_.at(found->second.repository)) {
    const Entry& entry = entries_.at(other);
    if (other != uid && wanted.contains(entry.item)) {
      others.push_back(entry.name);
    }
  }
  return others;
}

DeletionQueue::Entry* DeletionQueue::Find(const std::string& uid) {
  const auto found = entries_.find(uid);
  return found == entries_.end() ? nullptr : &found->second;
}

std::vector<std::string> DeletionQueue::Keep(const std::string& uid, Entry entry) {
  repositories_[entry.repository].insert({entry.created_at, uid});
  if (entry.is_in_progress) {
    leaders_.try_emplace(entry.repository, uid);
  }
  const bool is_free = !entry.is_in_progress && Release(entry.repository, uid);
  entries_[uid] = std::move(entry);
  return is_free ? Next(clock_.Now()) : std::vector<std::string>();
}

bool DeletionQueue::Release(const std::string& repository, const std::string& uid) {
  const auto leader = leaders_.find(repository);
  if (leader == leaders_.end() || leader->second != uid) {
    return false;
  }
  leaders_.erase(leader);
  return true;
}

std::vector<std::string> DeletionQueue::Erase(const std::string& uid) {
  const auto found = entries_.find(uid);
  if (found == entries_.end()) {
    return {};
  }
  const Entry entry = std::move(found->second);
  entries_.erase(found);
  const auto members = repositories_.find(entry.repository);
  members->second.erase({entry.created_at, uid});
  const absl::Time now = clock_.Now();
  std::optional<Leader> successor;
  if (members->second.empty()) {
    repositories_.erase(members);
  } else if (!leaders_.contains(entry.repository)) {
    successor = LeaderOf(members->second, now);
  }
  if (Release(entry.repository, uid)) {
    return Next(now);
  }
  return successor.has_value() && successor->due_at <= now
             ? std::vector<std::string>{successor->uid}
             : std::vector<std::string>{};
}

std::optional<DeletionQueue::Leader> DeletionQueue::LeaderOf(const std::set<Age>& members,
                                                             absl::Time now) const {
  std::optional<Leader> leader;
  bool has_oldest = false;  // of those that lead others
  for (const auto& [created_at, uid] : members) {
    const Entry& entry = entries_.at(uid);
    if (entry.is_in_progress) {
      return Leader{.uid = uid, .due_at = absl::InfinitePast()};
    }
    const bool is_on_its_own = entry.leads_alone || entry.is_retried;
    if (entry.earliest > now || (!is_on_its_own && has_oldest)) {
      continue;
    }
    has_oldest = has_oldest || !entry.leads_alone;
    if (!leader.has_value() || entry.due_at < leader->due_at) {
      leader = Leader{.uid = uid, .due_at = entry.due_at};
    }
  }
  return leader;
}

std::vector<std::string> DeletionQueue::Next(absl::Time now) const {
  std::vector<std::string> next;
  if (leaders_.size() >= workers_max_) {
    return next;
  }
  std::vector<std::tuple<absl::Time, absl::Time, std::string>> line;
  for (const auto& [repository, members] : repositories_) {
    const std::optional<Leader> leader =
        leaders_.contains(repository) ? std::nullopt : LeaderOf(members, now);
    if (leader.has_value() && leader->due_at <= now) {
      const absl::Time created_at = entries_.at(leader->uid).created_at;
      line.emplace_back(std::max(created_at, leader->due_at), created_at, leader->uid);
    }
  }
  const std::size_t count = std::min(line.size(), workers_max_ - leaders_.size());
  std::partial_sort(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(count), line.end());
  next.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    next.push_back(std::get<2>(line[i]));
  }
  return next;
}

std::vector<DeletionQueue::Name> DeletionQueue::NamesOf(
    const std::vector<std::string>& uids) const {
  std::vector<Name> names;
  names.reserve(uids.size());
  for (const std::string& uid : uids) {
    names.push_back(entries_.at(uid).name);
  }
  return names;
}

void DeletionQueue::EnqueueWaiting(const std::vector<Name>& names) const {
  for (const Name& name : names) {
    wake_(name);
  }
}

}  // namespace csidelta::datamover
