#include "longhorn/snapshot_prune.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace csidelta::longhorn {
namespace {

constexpr char kAttached[] = "attached";

std::string ProtectionsText(const std::vector<Protection>& protections) {
  return absl::StrJoin(protections, "; ", [](std::string* out, const Protection& one) {
    absl::StrAppend(out, one.message);
  });
}

class Pruner {
 public:
  Pruner(const Inventory& inventory, const PruneRequest& request)
      : inventory_(inventory), request_(request) {}

  std::vector<PruneDecision> Decide();

 private:
  const SnapshotEntry& EntryAt(std::size_t i) const {
    return inventory_.snapshots[decisions_[i].entry];
  }

  void Settle(std::size_t i, PruneVerdict verdict, PruneReason reason, std::string message);
  void Keep(std::size_t i, PruneReason reason, std::string message) {
    Settle(i, PruneVerdict::kKept, reason, std::move(message));
  }

  // What needs no other one.
  void DecideAlone(std::size_t i);

  // What competes are the open ones of a volume, which stand together, the oldest first.
  void ApplyRules();
  void ApplyRules(std::size_t begin, std::size_t end);
  void DecideLast(std::size_t i);
  std::string WhyRemoved(const SnapshotEntry& entry, const VolumeEntry& volume) const;

  const Inventory& inventory_;
  const PruneRequest& request_;
  std::vector<PruneDecision> decisions_;
  std::vector<bool> is_open_;  // not decided yet
};

std::vector<PruneDecision> Pruner::Decide() {
  for (std::size_t i = 0; i < inventory_.snapshots.size(); ++i) {
    if (IsSelected(inventory_, inventory_.snapshots[i], request_.selection)) {
      decisions_.push_back({.entry = i});
      is_open_.push_back(true);
    }
  }
  for (std::size_t i = 0; i < decisions_.size(); ++i) {
    DecideAlone(i);
  }
  if (!request_.rules.IsEmpty()) {
    ApplyRules();
  }
  for (std::size_t i = 0; i < decisions_.size(); ++i) {
    if (is_open_[i]) {
      DecideLast(i);
    }
  }
  return std::move(decisions_);
}

void Pruner::Settle(std::size_t i, PruneVerdict verdict, PruneReason reason, std::string message) {
  decisions_[i].verdict = verdict;
  decisions_[i].reason = reason;
  decisions_[i].message = std::move(message);
  is_open_[i] = false;
}

void Pruner::DecideAlone(std::size_t i) {
  const SnapshotEntry& entry = EntryAt(i);
  if (entry.state == SnapshotState::kDeleting) {
    Keep(i, PruneReason::kDeleting, "its deletion was requested before");
  } else if (entry.state == SnapshotState::kRemoved) {
    Keep(i, PruneReason::kRemoved, "marked as removed: it goes with the next purge");
  } else if (entry.state != SnapshotState::kReady) {
    Keep(i, PruneReason::kNotReady,
         absl::StrCat("is ", ToString(entry.state),
                      entry.error.empty() ? "" : absl::StrCat(" (", entry.error, ")"),
                      ": no rule counts it"));
  } else if (!entry.is_user_created) {
    Keep(i, PruneReason::kSystem, "Longhorn took it itself, and removes it with the next purge");
  } else if (!DateOf(entry).has_value()) {
    Keep(i, PruneReason::kNotCounted, "has no date: no rule counts it");
  }
}

void Pruner::ApplyRules() {
  std::size_t begin = 0;
  while (begin < decisions_.size()) {
    std::size_t end = begin;
    while (end < decisions_.size() && EntryAt(end).volume == EntryAt(begin).volume) {
      ++end;
    }
    ApplyRules(begin, end);
    begin = end;
  }
}

void Pruner::ApplyRules(std::size_t begin, std::size_t end) {
  std::vector<std::size_t> newest_first;
  std::vector<DatedItem> items;
  for (std::size_t i = end; i-- > begin;) {
    if (is_open_[i]) {
      newest_first.push_back(i);
      items.push_back({.time = DateOf(EntryAt(i)).value_or(request_.now)});
    }
  }
  const std::vector<std::vector<std::string>> reasons =
      DecideKeep(items, request_.rules, request_.now);
  for (std::size_t i = 0; i < newest_first.size(); ++i) {
    if (!reasons[i].empty()) {
      Keep(newest_first[i], PruneReason::kRule, absl::StrJoin(reasons[i], ", "));
    }
  }
}

void Pruner::DecideLast(std::size_t i) {
  const SnapshotEntry& entry = EntryAt(i);
  const VolumeEntry& volume = inventory_.volumes[entry.volume];
  const auto hold = [&](PruneReason reason, std::string message) {
    Settle(i, PruneVerdict::kHeld, reason, std::move(message));
  };
  if (!entry.kept_for.empty()) {
    Keep(i, PruneReason::kProtected, ProtectionsText(entry.kept_for));
  } else if (!volume.is_there) {
    hold(PruneReason::kVolumeGone, "its volume was not found: Longhorn removes what is left");
  } else if (volume.is_being_deleted) {
    hold(PruneReason::kVolumeGone, "its volume is being deleted, and takes it along");
  } else if (volume.is_migrating) {
    hold(PruneReason::kVolumeBusy, "its volume is migrating");
  } else if (volume.is_being_filled) {
    hold(PruneReason::kVolumeBusy, "its volume is being restored or cloned");
  } else if (volume.state != kAttached && !request_.also_detached) {
    hold(PruneReason::kDetached,
         absl::StrCat("its volume is ", volume.state.empty() ? "not attached" : volume.state,
                      ": Longhorn deletes nothing of it until it is attached"));
  } else {
    Settle(i, PruneVerdict::kRemoved, PruneReason::kNoRule, WhyRemoved(entry, volume));
  }
}

std::string Pruner::WhyRemoved(const SnapshotEntry& entry, const VolumeEntry& volume) const {
  std::vector<std::string> reasons;
  if (entry.job_state == JobState::kGone) {
    reasons.push_back(absl::StrCat("RecurringJob ", entry.job, " is gone"));
  } else if (entry.job_state == JobState::kNotOfVolume) {
    reasons.push_back(
        absl::StrCat("RecurringJob ", entry.job, " does not apply to the volume any more"));
  }
  if (request_.selection.before.has_value()) {
    reasons.emplace_back("older than asked for");
  }
  if (!request_.rules.IsEmpty()) {
    reasons.emplace_back("no rule keeps it");
  }
  return absl::StrCat(absl::StrJoin(reasons, ", "),
                      volume.state == kAttached ? "" : "; goes when its volume is attached next");
}

}  // namespace

absl::string_view ToString(PruneReason reason) {
  constexpr std::array<absl::string_view, 11> kNames = {
      "Deleting",  "Removed",    "NotReady",   "System",   "NotCounted", "Rule",
      "Protected", "VolumeGone", "VolumeBusy", "Detached", "NoRule"};
  return kNames[static_cast<std::size_t>(reason)];
}

std::vector<PruneDecision> DecidePrune(const Inventory& inventory, const PruneRequest& request) {
  return Pruner(inventory, request).Decide();
}

}  // namespace csidelta::longhorn
