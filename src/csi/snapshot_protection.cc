#include "csi/snapshot_protection.h"

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "csi/snapshot_lifecycle.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

using objects::VolumeSnapshot;

constexpr char kLastReadyMessage[] = "the only Ready one of its PVC";

// A column of the table for each requester.
struct Row {
  ProtectionReason reason;
  bool person;
  bool prune;
  bool backup_deletion;
  bool base_clean_up;
};
constexpr std::array<Row, 8> kRows = {{
    {ProtectionReason::kPendingSource, true, true, true, true},
    {ProtectionReason::kGroupMember, true, true, false, false},
    {ProtectionReason::kDeltaBase, true, true, true, false},
    {ProtectionReason::kBackup, true, true, false, true},
    {ProtectionReason::kKeep, true, true, false, false},
    {ProtectionReason::kShared, true, true, false, false},
    {ProtectionReason::kLastReady, true, true, false, false},
    {ProtectionReason::kYoung, false, true, false, false},
}};

bool Counts(const Row& row, Requester requester) {
  switch (requester) {
    case Requester::kPerson:
      return row.person;
    case Requester::kPrune:
      return row.prune;
    case Requester::kBackupDeletion:
      return row.backup_deletion;
    case Requester::kBaseCleanUp:
      break;
  }
  return row.base_clean_up;
}

bool IsDeltaBase(const VolumeSnapshot& snapshot, const ProtectionInput& input) {
  return (input.content.kind == ContentReading::Kind::kPresent &&
          !input.content.content->Label(objects::kBaseLabel).empty()) ||
         (!input.mover_namespace.empty() && snapshot.namespace_name() == input.mover_namespace);
}

// The message of a reason that holds.
std::optional<std::string> Check(ProtectionReason reason, const VolumeSnapshot& snapshot,
                                 const ProtectionInput& input) {
  switch (reason) {
    case ProtectionReason::kPendingSource:
      if (!input.pending_pvcs.empty()) {
        return absl::StrCat("PVC ", absl::StrJoin(input.pending_pvcs, ", "),
                            " is being filled from it: wait until it is bound");
      }
      if (!input.unfilled.empty()) {
        return absl::StrCat("data is copied from it, or may be: ",
                            absl::StrJoin(input.unfilled, "; "));
      }
      break;
    case ProtectionReason::kGroupMember:
      if (const std::string group = snapshot.group_snapshot(); !group.empty()) {
        return absl::StrCat("a member of VolumeGroupSnapshot ", group,
                            ": delete that, and its members go with it");
      }
      break;
    case ProtectionReason::kDeltaBase:
      if (IsDeltaBase(snapshot, input)) {
        return "the next backup of its PVC is compared with it (delta base)";
      }
      break;
    case ProtectionReason::kBackup:
      if (const std::string backup = snapshot.Label(objects::kBackupNameLabel);
          !backup.empty() || IsMadeByUs(snapshot)) {
        return backup.empty() ? "a backup made it, and deletes it"
                              : absl::StrCat("backup ", backup, " made it, and deletes it");
      }
      break;
    case ProtectionReason::kKeep:
      if (snapshot.Label(objects::kKeepLabel) == "true") {
        return absl::StrCat("labelled ", objects::kKeepLabel, "=true");
      }
      break;
    case ProtectionReason::kShared:
      if (!input.shared_with.empty()) {
        return absl::StrCat("shared with ", absl::StrJoin(input.shared_with, ", "),
                            ": delete that VolumeSnapshot first");
      }
      break;
    case ProtectionReason::kLastReady:
      if (input.is_last_ready) {
        return kLastReadyMessage;
      }
      break;
    case ProtectionReason::kYoung:
      if (const std::optional<absl::Time> created = snapshot.created_at();
          created.has_value() && input.now < *created + kYoungSnapshotAgeMax) {
        return "younger than 5 minutes";
      }
      break;
  }
  return std::nullopt;
}

}  // namespace

absl::string_view ToString(ProtectionReason reason) {
  constexpr std::array<absl::string_view, 8> kNames = {"PendingSource", "GroupMember", "DeltaBase",
                                                       "Backup",        "Keep",        "Shared",
                                                       "LastReady",     "Young"};
  return kNames[static_cast<std::size_t>(reason)];
}

std::vector<Protection> ProtectionsOf(const VolumeSnapshot& snapshot, const ProtectionInput& input,
                                      Requester requester) {
  std::vector<Protection> found;
  for (const Row& row : kRows) {
    if (!Counts(row, requester)) {
      continue;
    }
    if (std::optional<std::string> message = Check(row.reason, snapshot, input)) {
      found.push_back({.reason = row.reason, .message = *std::move(message)});
    }
  }
  return found;
}

Protection LastReadyProtection() {
  return {.reason = ProtectionReason::kLastReady, .message = kLastReadyMessage};
}

}  // namespace csidelta::csi
