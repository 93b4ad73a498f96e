#include "snapshots/snapshot_prune.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/snapshot_protection.h"
#include "csi/snapshot_state.h"
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

// "Error (Refused)"
std::string StateText(const SnapshotEntry& entry) {
  const std::string reason =
      entry.status.conditions.empty() ? "" : entry.status.conditions.front().reason;
  return absl::StrCat(ToString(entry.status.state), reason.empty() ? "" : " (", reason,
                      reason.empty() ? "" : ")");
}

// Decides in the order of the header's table: no step changes an earlier decision.
class Pruner {
 public:
  Pruner(const std::vector<SnapshotEntry>& entries, const PruneRequest& request);
  std::vector<PruneDecision> Decide();

 private:
  static NamespacedName PvcOf(const SnapshotEntry& entry) {
    return {entry.namespace_name, entry.pvc};
  }

  void RecordReady(const SnapshotEntry& entry);

  // Decides the rows that need only the entry and the newest Ready one of its PVC.
  void DecideAlone(const SnapshotEntry& entry, PruneDecision& decision) const;
  bool HasNewerReady(const SnapshotEntry& entry) const;
  void ApplyRules();
  void ApplyProtections();
  void Protect(const SnapshotEntry& entry, std::vector<Finding> protections,
               PruneDecision& decision) const;

  const std::vector<SnapshotEntry>& entries_;
  const PruneRequest& request_;
  std::map<NamespacedName, std::optional<absl::Time>> newest_ready_;
  std::vector<PruneDecision> decisions_;  // what stays open is removed
};

Pruner::Pruner(const std::vector<SnapshotEntry>& entries, const PruneRequest& request)
    : entries_(entries), request_(request), decisions_(entries.size()) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    decisions_[i].entry = i;
    if (entries[i].is_selected && (entries[i].is_made_by_verbs || request.any_maker)) {
      RecordReady(entries[i]);
    } else {
      decisions_[i].Settle(PruneVerdict::kIgnored, "OtherMaker", {});
    }
  }
}

std::vector<PruneDecision> Pruner::Decide() {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (decisions_[i].is_open()) {
      DecideAlone(entries_[i], decisions_[i]);
    }
  }
  ApplyRules();
  ApplyProtections();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!decisions_[i].is_open()) {
      continue;
    }
    if (HasFailed(entries_[i])) {
      decisions_[i].Settle(
          PruneVerdict::kRemoved, "Failed",
          {absl::StrCat("is ", StateText(entries_[i]), ", and a newer one of its PVC is Ready")});
    } else {
      decisions_[i].Settle(PruneVerdict::kRemoved, "NoRule", {"no rule keeps it"});
    }
  }
  return std::move(decisions_);
}

void Pruner::RecordReady(const SnapshotEntry& entry) {
  if (entry.status.state == csi::SnapshotState::kReady) {
    std::optional<absl::Time>& newest = newest_ready_[PvcOf(entry)];
    newest = std::max(newest, DateOf(entry));  // Nothing is less than any time.
  }
}

void Pruner::DecideAlone(const SnapshotEntry& entry, PruneDecision& decision) const {
  const bool has_failed = HasFailed(entry);
  if (entry.status.state != csi::SnapshotState::kReady && !has_failed) {
    decision.Keep("NotFinished",
                  absl::StrCat("is ", ToString(entry.status.state), ": no rule counts it"));
  } else if (entry.pvc.empty() || !DateOf(entry).has_value()) {
    decision.Keep("NotCounted", entry.pvc.empty() ? "was not taken of a PVC: no rule counts it"
                                                  : "has no date: no rule counts it");
  } else if (has_failed && !HasNewerReady(entry)) {
    decision.Keep("NoNewerReady",
                  absl::StrCat("is ", StateText(entry), ", and no newer one of its PVC is Ready"));
  }
}

bool Pruner::HasNewerReady(const SnapshotEntry& entry) const {
  const auto newest = newest_ready_.find(PvcOf(entry));
  return newest != newest_ready_.end() && newest->second > DateOf(entry);
}

void Pruner::ApplyRules() {
  std::map<NamespacedName, std::vector<PruneDecision*>> ready;
  for (PruneDecision& one : decisions_) {
    if (one.is_open() && !HasFailed(entries_[one.entry])) {
      ready[PvcOf(entries_[one.entry])].push_back(&one);
    }
  }
  for (auto& [pvc, competing] : ready) {
    KeepByRules(std::move(competing), request_.rules, request_.now,
                [this](std::size_t i) { return DateOf(entries_[i]).value_or(request_.now); });
  }
}

void Pruner::ApplyProtections() {
  std::vector<bool> goes;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (decisions_[i].is_open() && !entries_[i].kept_for.empty()) {
      Protect(entries_[i], entries_[i].kept_for, decisions_[i]);
    }
    goes.push_back(decisions_[i].is_open());
  }
  // Each of two that no rule keeps has another beside it; both together are the last.
  for (SparedEntry& one : SparedOf(entries_, std::move(goes), /*spares_last_ready=*/true)) {
    Protect(entries_[one.entry], {std::move(one.why)}, decisions_[one.entry]);
  }
}

void Pruner::Protect(const SnapshotEntry& entry, std::vector<Finding> protections,
                     PruneDecision& decision) const {
  decision.Protect(std::move(protections));
  for (std::size_t i = 0; i < decision.protections.size(); ++i) {
    if (decision.protections[i].code == csi::kBackupCode && !entry.backup.empty() &&
        request_.backups.has_value() && !request_.backups->contains(entry.backup)) {
      decision.messages[i].append("; that Backup is not in this cluster any more");
    }
  }
}

}  // namespace

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
      objects::ForEach<objects::Object>([&] { names.clear(); },
                                        [&](const objects::Object& backup) {
                                          names.insert(velero::ValidLabelValue(backup.name()));
                                        }))));
  return names;
}

}  // namespace csidelta::snapshots
