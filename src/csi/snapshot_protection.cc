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

bool IsDeltaBase(const VolumeSnapshot& snapshot, const ProtectionInput& input) {
  return (input.content.kind == ContentReading::Kind::kPresent &&
          !input.content.content->Label(objects::kBaseLabel).empty()) ||
         (!input.mover_namespace.empty() && snapshot.namespace_name() == input.mover_namespace);
}

// The message of each row; "" if it does not hold.

std::string PendingSource(const VolumeSnapshot& /*snapshot*/, const ProtectionInput& input) {
  if (!input.pending_pvcs.empty()) {
    return absl::StrCat("PVC ", absl::StrJoin(input.pending_pvcs, ", "),
                        " is being filled from it: wait until it is bound");
  }
  return input.unfilled.empty() ? ""
                                : absl::StrCat("data is copied from it, or may be: ",
                                               absl::StrJoin(input.unfilled, "; "));
}

std::string GroupMember(const VolumeSnapshot& snapshot, const ProtectionInput& /*input*/) {
  const std::string group = snapshot.group_name();
  return group.empty() ? ""
                       : absl::StrCat("a member of VolumeGroupSnapshot ", group,
                                      ": delete that, and its members go with it");
}

std::string DeltaBase(const VolumeSnapshot& snapshot, const ProtectionInput& input) {
  return IsDeltaBase(snapshot, input)
             ? "the next backup of its PVC is compared with it (delta base)"
             : "";
}

std::string OfBackup(const VolumeSnapshot& snapshot, const ProtectionInput& /*input*/) {
  const std::string backup = snapshot.Label(objects::kBackupNameLabel);
  if (backup.empty() && !IsMadeByUs(snapshot)) {
    return "";
  }
  return absl::StrCat(backup.empty() ? "a backup" : absl::StrCat("backup ", backup),
                      " made it, and deletes it");
}

std::string Keep(const VolumeSnapshot& snapshot, const ProtectionInput& /*input*/) {
  return snapshot.Label(objects::kKeepLabel) == "true"
             ? absl::StrCat("labelled ", objects::kKeepLabel, "=true")
             : "";
}

std::string LastReady(const VolumeSnapshot& /*snapshot*/, const ProtectionInput& input) {
  return input.is_last_ready ? kLastReadyMessage : "";
}

std::string Young(const VolumeSnapshot& snapshot, const ProtectionInput& input) {
  const std::optional<absl::Time> created = snapshot.created_at();
  return created.has_value() && input.now < *created + kYoungSnapshotAgeMax
             ? "younger than 5 minutes"
             : "";
}

struct Row {
  absl::string_view code;
  std::array<bool, 4> counts_for;  // by Requester
  std::string (*message)(const VolumeSnapshot& snapshot, const ProtectionInput& input);
};
constexpr std::array<Row, 7> kRows = {{
    {"PendingSource", {true, true, true, true}, PendingSource},
    {kGroupMemberCode, {true, true, false, false}, GroupMember},
    {"DeltaBase", {true, true, true, false}, DeltaBase},
    {kBackupCode, {true, true, false, true}, OfBackup},
    {"Keep", {true, true, false, false}, Keep},
    {kLastReadyCode, {true, true, false, false}, LastReady},
    {"Young", {false, true, false, false}, Young},
}};

}  // namespace

std::vector<Finding> ProtectionsOf(const VolumeSnapshot& snapshot, const ProtectionInput& input,
                                   Requester requester) {
  std::vector<Finding> found;
  for (const Row& row : kRows) {
    if (!row.counts_for[static_cast<std::size_t>(requester)]) {
      continue;
    }
    if (std::string message = row.message(snapshot, input); !message.empty()) {
      found.push_back({.code = row.code, .message = std::move(message)});
    }
  }
  return found;
}

Finding LastReadyProtection() { return {.code = kLastReadyCode, .message = kLastReadyMessage}; }

}  // namespace csidelta::csi
