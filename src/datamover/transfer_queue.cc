#include "datamover/transfer_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/enum_names.h"

namespace csidelta::datamover {
namespace {

constexpr int kQuarter = 4;

constexpr EnumNames<WaitReason, kWaitReasons> kReasonNames = {
    {{WaitReason::kNext, "next"},
     {WaitReason::kTotal, "total"},
     {WaitReason::kRestores, "restores"},
     {WaitReason::kNamespace, "namespace"},
     {WaitReason::kStorageClass, "storage-class"},
     {WaitReason::kLocation, "location"},
     {WaitReason::kVolume, "volume"},
     {WaitReason::kUploadWindow, "upload-window"},
     {WaitReason::kPaused, "paused"},
     {WaitReason::kPrerequisite, "prerequisite"},
     {WaitReason::kRefused, "refused"},
     {WaitReason::kOther, "other"}}};

template <typename Limits>
bool IsFull(const Limits& limits, const std::map<std::string, int>& admitted,
            const std::string& name) {
  const auto limit = limits.find(name);
  if (limit == limits.end()) {
    return false;
  }
  const auto count = admitted.find(name);
  return count != admitted.end() && count->second >= limit->second;
}

std::string AtMost(int limit, absl::string_view what, absl::string_view of_what = "") {
  return absl::StrCat("waits: at most ", limit, " ", what, limit == 1 ? "" : "s", of_what,
                      " at once");
}

}  // namespace

TransferLimits LimitsOf(const MoverSettings& settings) {
  TransferLimits limits{.is_paused = settings.is_paused,
                        .upload_windows = settings.upload_windows,
                        .total = settings.transfers_max,
                        .per_namespace = {},
                        .per_storage_class = {},
                        .per_location = {}};
  for (const auto& [name, storage_class] : settings.storage_classes) {
    if (storage_class.transfers_max > 0) {
      limits.per_storage_class[name] = storage_class.transfers_max;
    }
  }
  for (const auto& [name, location] : settings.locations) {
    if (location.transfers_max > 0) {
      limits.per_location[name] = location.transfers_max;
    }
  }
  if (settings.transfers_per_namespace_max > 0) {
    limits.per_namespace = settings.transfers_per_namespace_max;
  }
  return limits;
}

std::string ToString(WaitReason reason) { return EnumName(kReasonNames, reason); }

int RestoresMaxBesideUploads(int total) {
  return std::max(1, total - std::max(1, total / kQuarter));
}

TransferQueue::TransferQueue(TransferLimits limits) : limits_(std::move(limits)) {}

// --- What is known

void TransferQueue::Put(QueuedTransfer transfer) {
  Entry& entry = transfers_[transfer.uid];
  if (entry.transfer == transfer) {
    return;
  }
  const Entry before = entry;
  const bool is_new = before.transfer.uid.empty();
  if (!is_new) {
    Detach(entry);
  }
  entry.transfer = std::move(transfer);
  if (entry.transfer.admitted_at == entry.granted_at ||
      entry.transfer.given_back_at == entry.granted_at) {
    entry.granted_at.reset();
  }
  if (entry.transfer.admitted_at.has_value()) {
    RevokeAll(entry.transfer.volume);
  }
  Attach(entry, {.is_new_admission = !before.is_admitted()});
  if (!is_new) {
    EraseUnused(before.transfer);
  }
}

// All of a volume that no object shows.
void TransferQueue::RevokeAll(const std::string& volume) {
  for (const std::string& uid : std::set<std::string>(volumes_[volume].admitted)) {
    Revoke(uid);
  }
}

void TransferQueue::Revoke(absl::string_view uid) {
  const auto found = transfers_.find(uid);
  if (found != transfers_.end() && found->second.granted_at.has_value()) {
    Detach(found->second);
    found->second.granted_at.reset();
    Attach(found->second, {.is_new_admission = false});
  }
}

void TransferQueue::Remove(absl::string_view uid) {
  if (const auto found = transfers_.find(uid); found != transfers_.end()) {
    Detach(found->second);
    EraseUnused(found->second.transfer);
    transfers_.erase(found);
  }
}

void TransferQueue::RecordBackup(const std::string& volume, absl::Time taken_at) {
  Volume& noted = volumes_[volume];
  if (taken_at <= noted.last_backup) {
    return;
  }
  const Entry* queued = noted.queued.empty() ? nullptr : &transfers_.at(noted.queued);
  if (queued != nullptr) {
    Dequeue(queued->transfer);
  }
  noted.last_backup = taken_at;
  if (queued != nullptr) {
    Enqueue(queued->transfer);
  }
}

const QueuedTransfer* TransferQueue::Find(absl::string_view uid) const {
  const auto found = transfers_.find(uid);
  return found == transfers_.end() ? nullptr : &found->second.transfer;
}

std::optional<absl::Time> TransferQueue::AdmittedAt(absl::string_view uid) const {
  const auto found = transfers_.find(uid);
  if (found == transfers_.end()) {
    return std::nullopt;
  }
  const Entry& entry = found->second;
  return entry.granted_at.has_value() ? entry.granted_at : entry.transfer.admitted_at;
}

// --- Indexes

TransferQueue::Rank TransferQueue::AgeOf(const QueuedTransfer& transfer) {
  return {.last_backup = absl::InfinitePast(),
          .created_at = transfer.created_at,
          .name = transfer.name,
          .uid = transfer.uid};
}

TransferQueue::Rank TransferQueue::RankOf(const QueuedTransfer& transfer) const {
  Rank rank = AgeOf(transfer);
  rank.last_backup = volumes_.at(transfer.volume).last_backup;
  return rank;
}

TransferQueue::LaneKey TransferQueue::LaneOf(const QueuedTransfer& transfer) const {
  return {.kind = transfer.kind,
          .storage_class = limits_.per_storage_class.contains(transfer.storage_class)
                               ? transfer.storage_class
                               : "",
          .location = limits_.per_location.contains(transfer.location) ? transfer.location : ""};
}

void TransferQueue::Attach(const Entry& entry, Attaching how) {
  const QueuedTransfer& transfer = entry.transfer;
  ++steps_;
  ++namespaces_[transfer.volume_namespace].transfers;
  refused_ += transfer.is_refused ? 1 : 0;
  Volume& volume = volumes_[transfer.volume];
  volume.line.insert(AgeOf(transfer));
  if (entry.is_admitted()) {
    volume.admitted.insert(transfer.uid);
    Count(transfer, 1, how.is_new_admission);
  }
  Settle(transfer.volume);
}

void TransferQueue::Detach(const Entry& entry) {
  const QueuedTransfer& transfer = entry.transfer;
  ++steps_;
  Volume& volume = volumes_.at(transfer.volume);
  if (volume.queued == transfer.uid) {
    Dequeue(transfer);
    volume.queued.clear();
  }
  if (volume.admitted.erase(transfer.uid) > 0) {
    Count(transfer, -1, false);
  }
  volume.line.erase(AgeOf(transfer));
  Settle(transfer.volume);
  --namespaces_.at(transfer.volume_namespace).transfers;
  refused_ -= transfer.is_refused ? 1 : 0;
}

// What is kept of the namespace and the volume of a transfer, once the last one is gone.
void TransferQueue::EraseUnused(const QueuedTransfer& transfer) {
  if (const auto volume = volumes_.find(transfer.volume);
      volume != volumes_.end() && volume->second.line.empty() &&
      volume->second.last_backup == absl::InfinitePast()) {
    volumes_.erase(volume);
  }
  if (const auto home = namespaces_.find(transfer.volume_namespace);
      home != namespaces_.end() && home->second.transfers == 0) {
    namespaces_.erase(home);
  }
}

// The position of its namespace in each lane depends on both.
void TransferQueue::Count(const QueuedTransfer& transfer, int change, bool is_new_admission) {
  Namespace& home = namespaces_.at(transfer.volume_namespace);
  for (const LaneKey& key : home.lanes) {
    EraseHead(key, transfer.volume_namespace);
  }
  admitted_ += change;
  restores_ += transfer.kind == TransferKind::kRestore ? change : 0;
  home.admitted += change;
  home.served = is_new_admission ? ++served_ : home.served;
  by_class_[transfer.storage_class] += change;
  by_location_[transfer.location] += change;
  for (const LaneKey& key : home.lanes) {
    InsertHead(key, transfer.volume_namespace);
  }
}

// Of a volume none of whose transfers is admitted the first one is queued.
void TransferQueue::Settle(const std::string& name) {
  Volume& volume = volumes_.at(name);
  std::string next;
  if (volume.admitted.empty() && !volume.line.empty() &&
      !transfers_.at(volume.line.begin()->uid).transfer.is_held_back) {
    next = volume.line.begin()->uid;
  }
  if (next == volume.queued) {
    return;
  }
  if (!volume.queued.empty()) {
    Dequeue(transfers_.at(volume.queued).transfer);
  }
  volume.queued = next;
  if (!next.empty()) {
    Enqueue(transfers_.at(next).transfer);
  }
}

void TransferQueue::Enqueue(const QueuedTransfer& transfer) {
  const LaneKey key = LaneOf(transfer);
  EraseHead(key, transfer.volume_namespace);
  lanes_[key].queued[transfer.volume_namespace].insert(RankOf(transfer));
  namespaces_.at(transfer.volume_namespace).lanes.insert(key);
  InsertHead(key, transfer.volume_namespace);
}

void TransferQueue::Dequeue(const QueuedTransfer& transfer) {
  const LaneKey key = LaneOf(transfer);
  EraseHead(key, transfer.volume_namespace);
  Lane& lane = lanes_.at(key);
  const auto queued = lane.queued.find(transfer.volume_namespace);
  queued->second.erase(RankOf(transfer));
  if (!queued->second.empty()) {
    InsertHead(key, transfer.volume_namespace);
    return;
  }
  lane.queued.erase(queued);
  namespaces_.at(transfer.volume_namespace).lanes.erase(key);
  if (lane.queued.empty()) {
    lanes_.erase(key);
  }
}

void TransferQueue::EraseHead(const LaneKey& key, const std::string& volume_namespace) {
  ++steps_;
  const auto lane = lanes_.find(key);
  if (lane == lanes_.end()) {
    return;
  }
  if (const auto queued = lane->second.queued.find(volume_namespace);
      queued != lane->second.queued.end()) {
    const Namespace& home = namespaces_.at(volume_namespace);
    lane->second.heads.erase({.admitted = home.admitted,
                              .served = home.served,
                              .first = *queued->second.begin(),
                              .volume_namespace = volume_namespace});
  }
}

void TransferQueue::InsertHead(const LaneKey& key, const std::string& volume_namespace) {
  Lane& lane = lanes_.at(key);
  const Namespace& home = namespaces_.at(volume_namespace);
  lane.heads.insert({.admitted = home.admitted,
                     .served = home.served,
                     .first = *lane.queued.at(volume_namespace).begin(),
                     .volume_namespace = volume_namespace});
}

// --- Who is next

bool TransferQueue::NamespaceIsFull(int admitted) const {
  return limits_.per_namespace.has_value() && admitted >= *limits_.per_namespace;
}

bool TransferQueue::ClassIsFull(const std::string& storage_class) const {
  return IsFull(limits_.per_storage_class, by_class_, storage_class);
}

bool TransferQueue::LocationIsFull(const std::string& location) const {
  return IsFull(limits_.per_location, by_location_, location);
}

const TransferQueue::Head* TransferQueue::FirstOf(TransferKind kind) {
  const Head* first = nullptr;
  for (const auto& [key, lane] : lanes_) {
    ++steps_;
    if (key.kind != kind || ClassIsFull(key.storage_class) || LocationIsFull(key.location)) {
      continue;
    }
    // Where this namespace is full, those behind it are: they have as many or more.
    const Head& head = *lane.heads.begin();
    if (!NamespaceIsFull(head.admitted) && (first == nullptr || head < *first)) {
      first = &head;
    }
  }
  return first;
}

const QueuedTransfer* TransferQueue::AdmitNext(absl::Time now) {
  if (limits_.is_paused || admitted_ >= limits_.total) {
    return nullptr;
  }
  const Head* const restore = FirstOf(TransferKind::kRestore);
  const Head* const upload =
      IsOpen(limits_.upload_windows, now) ? FirstOf(TransferKind::kUpload) : nullptr;
  const bool restore_may = upload == nullptr || restores_ < RestoresMaxBesideUploads(limits_.total);
  const Head* const next = restore != nullptr && restore_may ? restore : upload;
  if (next == nullptr) {
    return nullptr;
  }
  Entry& entry = transfers_.at(next->first.uid);
  Grant(entry, now);
  return &entry.transfer;
}

void TransferQueue::AdmitRunning(absl::string_view uid, absl::Time now) {
  const auto found = transfers_.find(uid);
  if (found != transfers_.end() && !found->second.is_admitted()) {
    Grant(found->second, now);
  }
}

void TransferQueue::Grant(Entry& entry, absl::Time now) {
  Detach(entry);
  entry.granted_at = now;
  Attach(entry, {.is_new_admission = true});
}

const QueuedTransfer* TransferQueue::BeforeItOf(const QueuedTransfer& transfer) const {
  const Volume& volume = volumes_.at(transfer.volume);
  const std::string& first =
      volume.admitted.empty() ? volume.line.begin()->uid : *volume.admitted.begin();
  return first == transfer.uid ? nullptr : &transfers_.at(first).transfer;
}

WaitReason TransferQueue::WhyWaits(absl::string_view uid, absl::Time now) const {
  const auto found = transfers_.find(uid);
  CSIDELTA_CHECK(found != transfers_.end());
  const QueuedTransfer& transfer = found->second.transfer;
  if (transfer.is_held_back) {
    return !transfer.given_back_at.has_value() ? WaitReason::kOther
           : transfer.is_refused               ? WaitReason::kRefused
                                               : WaitReason::kPrerequisite;
  }
  if (limits_.is_paused) {
    return WaitReason::kPaused;
  }
  if (BeforeItOf(transfer) != nullptr) {
    return WaitReason::kVolume;
  }
  const bool is_upload = transfer.kind == TransferKind::kUpload;
  if (is_upload && !IsOpen(limits_.upload_windows, now)) {
    return WaitReason::kUploadWindow;
  }
  if (ClassIsFull(transfer.storage_class)) {
    return WaitReason::kStorageClass;
  }
  if (LocationIsFull(transfer.location)) {
    return WaitReason::kLocation;
  }
  if (NamespaceIsFull(namespaces_.at(transfer.volume_namespace).admitted)) {
    return WaitReason::kNamespace;
  }
  if (admitted_ >= limits_.total) {
    return WaitReason::kTotal;
  }
  return is_upload || restores_ < RestoresMaxBesideUploads(limits_.total) ? WaitReason::kNext
                                                                          : WaitReason::kRestores;
}

std::map<WaitReason, int> TransferQueue::CountWaiting(absl::Time now) const {
  std::map<WaitReason, int> counts;
  for (const auto& [uid, entry] : transfers_) {
    if (!entry.is_admitted()) {
      ++counts[WhyWaits(uid, now)];
    }
  }
  return counts;
}

std::string TransferQueue::ReasonOf(absl::string_view uid, absl::Time now) const {
  const WaitReason reason = WhyWaits(uid, now);
  const QueuedTransfer& transfer = transfers_.find(uid)->second.transfer;
  switch (reason) {
    case WaitReason::kPaused:
      return "waits: the setting \"paused\" admits no transfer";
    case WaitReason::kVolume:
      return absl::StrCat("waits for ", BeforeItOf(transfer)->name,
                          ", which moves the same volume");
    case WaitReason::kUploadWindow:
      return absl::StrCat("waits: uploads are admitted from ",
                          FormatTimeOfDay(NextOpening(limits_.upload_windows, now)), " UTC on");
    case WaitReason::kStorageClass:
      return AtMost(limits_.per_storage_class.at(transfer.storage_class), "transfer",
                    absl::StrCat(" of storage class ", transfer.storage_class));
    case WaitReason::kLocation:
      return AtMost(limits_.per_location.at(transfer.location), "transfer",
                    absl::StrCat(" of BackupStorageLocation ", transfer.location));
    case WaitReason::kNamespace:
      return AtMost(*limits_.per_namespace, "transfer",
                    absl::StrCat(" of namespace ", transfer.volume_namespace));
    case WaitReason::kRestores:
      return absl::StrCat(AtMost(RestoresMaxBesideUploads(limits_.total), "restore"),
                          " while uploads are queued");
    case WaitReason::kTotal:
    case WaitReason::kNext:
      break;
    case WaitReason::kPrerequisite:
    case WaitReason::kRefused:
    case WaitReason::kOther:
      return "waits, and is not queued for an admission now";
  }
  return AtMost(limits_.total, "transfer");
}

}  // namespace csidelta::datamover
