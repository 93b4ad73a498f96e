#include "datamover/worker/deletion_queue.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "datamover/mover_environment.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

using objects::DeletionPhase;
using objects::ForgetItem;

bool IsOpen(const objects::DataDeletion& deletion) {
  const DeletionPhase phase = deletion.phase();
  return phase != DeletionPhase::kCompleted && phase != DeletionPhase::kFailed &&
         !deletion.is_being_deleted();
}

absl::Time EarliestOf(const objects::DataDeletion& deletion) {
  const objects::DataDeletionSpec spec = deletion.spec();
  return spec.upload.empty() || spec.worker_ended
             ? absl::InfinitePast()
             : deletion.created_at().value_or(absl::InfinitePast()) + kUnnamedDeletionAfter;
}

constexpr std::size_t kSnapshotDigits = 64;

}  // namespace

absl::StatusOr<velero::DataReference> ReferenceOf(const objects::DataDeletionSpec& spec) {
  ASSIGN_OR_RETURN(velero::DataReference reference, velero::ParseDataReference(spec.snapshot_id));
  if (!spec.upload.empty() && !velero::IsUid(spec.upload)) {
    return absl::InvalidArgumentError("spec.upload is not the uid of a DataUpload");
  }
  return reference;
}

objects::ForgetItem ItemOf(const objects::DataDeletionSpec& spec,
                           const velero::DataReference& reference) {
  return spec.upload.empty() ? objects::ForgetItem{.snapshot_id = reference.snapshot_id}
                             : objects::ForgetItem{.tag = TaskNameOf("DataUpload", spec.upload)};
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
      .version = deletion.version_number(),
      .created_at = deletion.created_at().value_or(absl::InfinitePast()),
      .earliest = EarliestOf(deletion),
      .due_at = DueAt(deletion),
      .is_in_progress = status.phase == DeletionPhase::kInProgress,
      .leads_alone = status.trouble == objects::DeletionTrouble::kRetained,
      .is_retried = status.phase == DeletionPhase::kWaiting && !status.next_attempt_at.has_value()};
}

void DeletionQueue::Put(const objects::DataDeletion& deletion) {
  std::optional<Entry> entry = EntryOf(deletion);
  const MutexLock lock(mutex_);
  const auto known = entries_.find(deletion.uid());
  if (known == entries_.end() || known->second.version <= deletion.version_number()) {
    Replace(deletion.uid(), std::move(entry));
  }
}

void DeletionQueue::Remove(const std::string& uid) {
  const MutexLock lock(mutex_);
  Replace(uid, std::nullopt);
}

bool DeletionQueue::Lead(const std::string& uid) {
  const absl::Time now = clock_.Now();
  const MutexLock lock(mutex_);
  const auto found = entries_.find(uid);
  if (found == entries_.end() || workers_.Runs(found->second.repository)) {
    return Leads(uid);
  }
  const std::string& repository = found->second.repository;
  Choose(repository, now);  // By the time that has passed.
  if (repositories_.at(repository).leader == uid && absl::c_linear_search(Next(now), repository)) {
    workers_.Run(repository);
    return true;
  }
  EnqueueNext(now);
  return false;
}

std::vector<objects::ForgetItem> DeletionQueue::Batch(const std::string& uid) const {
  std::vector<objects::ForgetItem> items;
  const absl::Time now = clock_.Now();
  const MutexLock lock(mutex_);
  const auto found = entries_.find(uid);
  if (found == entries_.end()) {
    return items;
  }
  const Entry& leader = found->second;
  std::set<objects::ForgetItem> known = {leader.item};
  items.push_back(leader.item);
  if (leader.leads_alone) {
    return items;
  }
  for (const auto& [created_at, other] : repositories_.at(leader.repository).members) {
    const Entry& entry = entries_.at(other);
    if (items.size() < objects::kForgetItemsMax && !entry.leads_alone && entry.earliest <= now &&
        known.insert(entry.item).second) {
      items.push_back(entry.item);
    }
  }
  return items;
}

std::vector<DeletionQueue::Name> DeletionQueue::Others(
    const std::string& uid, const std::vector<objects::ForgetItem>& items) const {
  const std::set<objects::ForgetItem> wanted(items.begin(), items.end());
  std::vector<Name> others;
  const MutexLock lock(mutex_);
  const auto found = entries_.find(uid);
  if (found == entries_.end()) {
    return others;
  }
  for (const auto& [created_at, other] : repositories_.at(found->second.repository).members) {
    const Entry& entry = entries_.at(other);
    if (other != uid && wanted.contains(entry.item)) {
      others.push_back(entry.name);
    }
  }
  return others;
}

void DeletionQueue::Replace(const std::string& uid, std::optional<Entry> entry) {
  const absl::Time now = clock_.Now();
  const bool is_gone = !entry.has_value();
  const bool led = Leads(uid);
  Erase(uid, now);
  if (!is_gone) {
    Insert(uid, *std::move(entry), now);
  }
  if (is_gone || (led && !Leads(uid))) {
    EnqueueNext(now);
  }
}

void DeletionQueue::Erase(const std::string& uid, absl::Time now) {
  const auto found = entries_.find(uid);
  if (found == entries_.end()) {
    return;
  }
  const Entry entry = std::move(found->second);
  entries_.erase(found);
  Repository& repository = repositories_.at(entry.repository);
  repository.members.erase({entry.created_at, uid});
  if (repository.leader == uid) {
    workers_.Leave(entry.repository);
  }
  Choose(entry.repository, now);
  if (repository.members.empty()) {
    repositories_.erase(entry.repository);
  }
}

void DeletionQueue::Insert(const std::string& uid, Entry entry, absl::Time now) {
  const std::string name = entry.repository;
  const bool is_in_progress = entry.is_in_progress;
  Repository& repository = repositories_[name];
  repository.members.insert({entry.created_at, uid});
  entries_[uid] = std::move(entry);
  if (is_in_progress && !workers_.Runs(name)) {
    repository.leader = uid;
    workers_.Run(name);
  }
  Choose(name, now);
}

bool DeletionQueue::Leads(const std::string& uid) const {
  const auto found = entries_.find(uid);
  return found != entries_.end() && workers_.Runs(found->second.repository) &&
         repositories_.at(found->second.repository).leader == uid;
}

void DeletionQueue::Choose(const std::string& name, absl::Time now) {
  if (workers_.Runs(name)) {
    return;
  }
  Repository& repository = repositories_.at(name);
  const std::string* const leader = LeaderOf(repository.members, now);
  if (leader == nullptr) {
    workers_.Leave(name);
    return;
  }
  repository.leader = *leader;
  const Entry& entry = entries_.at(*leader);
  // A clock that is behind the API server's delays nothing.
  workers_.Wait(name, std::max(std::min(entry.created_at, now), entry.due_at));
}

const std::string* DeletionQueue::LeaderOf(const std::set<Age>& members, absl::Time now) const {
  const std::string* leader = nullptr;
  absl::Time due_at;
  bool has_oldest = false;  // of those that lead others
  for (const auto& [created_at, uid] : members) {
    const Entry& entry = entries_.at(uid);
    if (entry.is_in_progress) {
      return &uid;
    }
    const bool is_on_its_own = entry.leads_alone || entry.is_retried;
    if (entry.earliest > now || (!is_on_its_own && has_oldest)) {
      continue;
    }
    has_oldest = has_oldest || !entry.leads_alone;
    if (leader == nullptr || entry.due_at < due_at) {
      leader = &uid;
      due_at = entry.due_at;
    }
  }
  return leader;
}

std::vector<std::string> DeletionQueue::Next(absl::Time now) const {
  return workers_.First(workers_max_ - std::min(workers_max_, workers_.running()), now);
}

void DeletionQueue::EnqueueNext(absl::Time now) const {
  for (const std::string& repository : Next(now)) {
    Enqueue(entries_.at(repositories_.at(repository).leader).name);
  }
}

objects::DataDeletion MakeDeletionOfUnnamed(const objects::DataTransfer& upload,
                                            const velero::DataReference& reference,
                                            bool worker_ended) {
  velero::DataReference unnamed = reference;
  unnamed.snapshot_id = std::string(kSnapshotDigits, '0');
  const std::string backup_name = upload.Label(objects::kBackupNameLabel);
  auto deletion =
      objects::DataDeletion::Make(upload.namespace_name(), absl::StrCat("unnamed-", upload.uid()));
  deletion.SetLabels(
      {{objects::kBackupNameLabel, backup_name}, {objects::kExcludeFromBackupLabel, "true"}});
  deletion.SetSpec({.location = upload.storage_location(),
                    .snapshot_id = velero::FormatDataReference(unnamed),
                    .backup = backup_name,
                    .upload = upload.uid(),
                    .worker_ended = worker_ended});
  return deletion;
}

}  // namespace csidelta::datamover
