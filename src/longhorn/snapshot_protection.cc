#include "longhorn/snapshot_protection.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

namespace csidelta::longhorn {
namespace {

std::string BackupText(const ProtectionInput& input) {
  return absl::StrCat(input.backup.empty() ? "a backup" : absl::StrCat("backup ", input.backup),
                      " made it, and deletes it",
                      input.is_backup_gone ? "; that Backup is not in this cluster any more" : "");
}

}  // namespace

absl::string_view ToString(ProtectionReason reason) {
  constexpr std::array<absl::string_view, 9> kNames = {"VolumeSnapshot", "PendingPvc", "Clone",
                                                       "Uploading",      "LastBackup", "Backup",
                                                       "Newest",         "LongName",   "Young"};
  return kNames[static_cast<std::size_t>(reason)];
}

void SnapshotNeeds::Add(const std::string& snapshot, ProtectionReason reason, std::string message) {
  Needed& needed = by_name_[snapshot];
  if (needed.named.size() < kNeedsNamedMax) {
    needed.named.push_back({.reason = reason, .message = std::move(message)});
  } else {
    ++needed.more;
  }
}

std::vector<Protection> SnapshotNeeds::Of(const std::string& snapshot) const {
  const auto found = by_name_.find(snapshot);
  if (found == by_name_.end()) {
    return {};
  }
  std::vector<Protection> protections = found->second.named;
  std::stable_sort(
      protections.begin(), protections.end(),
      [](const Protection& left, const Protection& right) { return left.reason < right.reason; });
  if (found->second.more > 0) {
    absl::StrAppend(&protections.back().message, ", and ", found->second.more, " more need it");
  }
  return protections;
}

std::vector<Protection> ProtectionsOf(const ProtectionInput& input, const SnapshotNeeds& needs) {
  std::vector<Protection> protections = needs.Of(std::string(input.name));
  const auto add = [&](ProtectionReason reason, std::string message) {
    protections.push_back({.reason = reason, .message = std::move(message)});
  };
  if (input.is_made_by_managed || !input.backup.empty()) {
    add(ProtectionReason::kBackup, BackupText(input));
  }
  if (input.is_newest) {
    add(ProtectionReason::kNewest,
        "the newest of its volume: Longhorn would mark it as removed, and leave it");
  }
  if (input.name.size() > kDeletableNameBytesMax) {
    add(ProtectionReason::kLongName,
        absl::StrCat("its name has ", input.name.size(), " characters, and Longhorn refuses to ",
                     "delete one of more than ", kDeletableNameBytesMax));
  }
  if (input.dated.has_value() && *input.dated > input.now - kYoungSnapshotAgeMax) {
    add(ProtectionReason::kYoung, "younger than 5 minutes");
  }
  return protections;
}

}  // namespace csidelta::longhorn
