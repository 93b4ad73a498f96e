#include "snapshots/snapshot_prune.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/snapshot_state.h"
#include "k8s/api_client.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "velero/labels.h"

namespace csidelta::snapshots {
namespace {

using NamespacedName = std::pair<std::string, std::string>;

bool HasFailed(const SnapshotEntry& entry) {
  return entry.status.state == csi::SnapshotState::kError ||
         entry.status.state == csi::SnapshotState::kLost;
}

// Decides in the order of the header's table: each step leaves what an earlier one decided.
class Pruner {
 public:
  Pruner(const std::vector<SnapshotEntry>& entries, const PruneRequest& request);
  std::vector<PruneDecision> Decide();

 private:
  static NamespacedName PvcOf(const SnapshotEntry& entry) {
    return {entry.namespace_name, entry.pvc};
  }

  void NoteReady(const SnapshotEntry& entry);
  void Settle(std::size_t i, PruneVerdict verdict, PruneReason reason,
              std::vector<std::string> messages);

  // What needs no other one of the PVC but its newest Ready one.
  void DecideAlone(std::size_t i);
  bool HasNewerReady(const SnapshotEntry& entry) const;

  // "Error (Refused)"
  static std::string StateText(const SnapshotEntry& entry);
  void ApplyRules(std::vector<std::size_t>& positions);
  void ApplyProtections();
  void Protect(std::size_t i, std::vector<csi::Protection> protections);
  void Remove(std::size_t i);

  const std::vector<SnapshotEntry>& entries_;
  const PruneRequest& request_;
  std::map<NamespacedName, std::optional<absl::Time>> newest_ready_;
  std::vector<PruneDecision> decisions_;
  std::vector<bool> is_open_;  // not decided yet: what stays so is removed
};

Pruner::Pruner(const std::vector<SnapshotEntry>& entries, const PruneRequest& request)
    : entries_(entries), request_(request), decisions_(entries.size()), is_open_(entries.size()) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    decisions_[i].entry = i;
    is_open_[i] = entries[i].is_selected && (entries[i].is_made_by_verbs || request.any_maker);
    if (is_open_[i]) {
      NoteReady(entries[i]);
    }
  }
}

std::vector<PruneDecision> Pruner::Decide() {
  std::map<NamespacedName, std::vector<std::size_t>> ready;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    DecideAlone(i);
    if (is_open_[i] && !HasFailed(entries_[i])) {
      ready[PvcOf(entries_[i])].push_back(i);
    }
  }
  for (auto& [pvc, positions] : ready) {
    ApplyRules(positions);
  }
  ApplyProtections();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (is_open_[i]) {
      Remove(i);
    }
  }
  return std::move(decisions_);
}

void Pruner::NoteReady(const SnapshotEntry& entry) {
  if (entry.status.state == csi::SnapshotState::kReady) {
    std::optional<absl::Time>& newest = newest_ready_[PvcOf(entry)];
    newest = std::max(newest, DateOf(entry));  // Nothing is less than any time.
  }
}

void Pruner::Settle(std::size_t i, PruneVerdict verdict, PruneReason reason,
                    std::vector<std::string> messages) {
  decisions_[i].verdict = verdict;
  decisions_[i].reason = reason;
  decisions_[i].messages = std::move(messages);
  is_open_[i] = false;
}

void Pruner::DecideAlone(std::size_t i) {
  const SnapshotEntry& entry = entries_[i];
  if (!is_open_[i]) {
    return;
  }
  const bool has_failed = HasFailed(entry);
  if (entry.status.state != csi::SnapshotState::kReady && !has_failed) {
    Settle(i, PruneVerdict::kKept, PruneReason::kNotFinished,
           {absl::StrCat("is ", ToString(entry.status.state), ": no rule counts it")});
  } else if (entry.pvc.empty() || !DateOf(entry).has_value()) {
    Settle(i, PruneVerdict::kKept, PruneReason::kNotCounted,
           {entry.pvc.empty() ? "was not taken of a PVC: no rule counts it"
                              : "has no date: no rule counts it"});
  } else if (has_failed && !HasNewerReady(entry)) {
    Settle(i, PruneVerdict::kKept, PruneReason::kNoNewerReady,
           {absl::StrCat("is ", StateText(entry), ", and no newer one of its PVC is Ready")});
  }
}

bool Pruner::HasNewerReady(const SnapshotEntry& entry) const {
  const auto newest = newest_ready_.find(PvcOf(entry));
  return newest != newest_ready_.end() && newest->second > DateOf(entry);
}

std::string Pruner::StateText(const SnapshotEntry& entry) {
  const std::string reason =
      entry.status.conditions.empty() ? "" : entry.status.conditions.front().reason;
  return absl::StrCat(ToString(entry.status.state), reason.empty() ? "" : " (", reason,
                      reason.empty() ? "" : ")");
}

void Pruner::ApplyRules(std::vector<std::size_t>& positions) {
  std::stable_sort(positions.begin(), positions.end(), [this](std::size_t left, std::size_t right) {
    return DateOf(entries_[left]) > DateOf(entries_[right]);
  });
  std::vector<DatedItem> items;
  items.reserve(positions.size());
  for (const std::size_t i : positions) {
    items.push_back({.time = DateOf(entries_[i]).value_or(request_.now)});
  }
  std::vector<std::vector<std::string>> reasons = DecideKeep(items, request_.rules, request_.now);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (!reasons[i].empty()) {
      Settle(positions[i], PruneVerdict::kKept, PruneReason::kRule, std::move(reasons[i]));
    }
  }
}

void Pruner::ApplyProtections() {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (is_open_[i] && !entries_[i].kept_for.empty()) {
      Protect(i, entries_[i].kept_for);
    }
  }
  // Each of two that no rule keeps has another beside it; both together are the last.
  for (const std::size_t i : LastReadyOf(entries_, is_open_)) {
    Protect(i, {csi::LastReadyProtection()});
  }
}

void Pruner::Protect(std::size_t i, std::vector<csi::Protection> protections) {
  std::vector<std::string> messages;
  messages.reserve(protections.size());
  for (const csi::Protection& one : protections) {
    const bool is_backup_gone = one.reason == csi::ProtectionReason::kBackup &&
                                !entries_[i].backup.empty() && request_.backups.has_value() &&
                                !request_.backups->contains(entries_[i].backup);
    messages.push_back(absl::StrCat(
        one.message, is_backup_gone ? "; that Backup is not in this cluster any more" : ""));
  }
  Settle(i, PruneVerdict::kKept, PruneReason::kProtected, std::move(messages));
  decisions_[i].protections = std::move(protections);
}

void Pruner::Remove(std::size_t i) {
  if (HasFailed(entries_[i])) {
    Settle(i, PruneVerdict::kRemoved, PruneReason::kFailed,
           {absl::StrCat("is ", StateText(entries_[i]), ", and a newer one of its PVC is Ready")});
  } else {
    Settle(i, PruneVerdict::kRemoved, PruneReason::kNoRule, {"no rule keeps it"});
  }
}

}  // namespace

absl::string_view ToString(PruneReason reason) {
  constexpr std::array<absl::string_view, 8> kNames = {"OtherMaker", "NotFinished",  "NotCounted",
                                                       "Rule",       "NoNewerReady", "Protected",
                                                       "NoRule",     "Failed"};
  return kNames[static_cast<std::size_t>(reason)];
}

std::vector<PruneDecision> DecidePrune(const std::vector<SnapshotEntry>& entries,
                                       const PruneRequest& request) {
  return Pruner(entries, request).Decide();
}

bool ConcernsBackups(const std::vector<SnapshotEntry>& entries, bool any_maker) {
  return any_maker || std::any_of(entries.begin(), entries.end(), [](const SnapshotEntry& entry) {
           return entry.is_selected && entry.is_made_by_verbs && entry.has_velero_labels;
         });
}

absl::StatusOr<std::set<std::string>> ReadBackupNames(const CallContext& ctx, k8s::ApiClient& api) {
  std::set<std::string> names;
  RETURN_IF_ERROR(k8s::IgnoreNotFound(objects::ReadPages<objects::Object>(
      ctx, api, objects::Backup::Type(), "", {},
      [&](const std::vector<objects::Object>& page, bool is_first) {
        if (is_first) {
          names.clear();
        }
        for (const objects::Object& backup : page) {
          names.insert(velero::ValidLabelValue(backup.name()));
        }
      })));
  return names;
}

}  // namespace csidelta::snapshots
