#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// Why a Snapshot of Longhorn may not be deleted by a prune: the one answer, for what prunes and
// what lists. Pure.
//
//   reason          when                                                      known from
//   --------------  --------------------------------------------------------  --------------------
//   VolumeSnapshot  a VolumeSnapshotContent names it (snap://VOLUME/NAME), or  needs
//                   its driver is still to take it (snapshot-<uid>)
//   PendingPvc      a PVC that is not bound is filled from it                 needs
//   Clone           a Volume is being copied from it, or is a linked clone    needs
//   Uploading       a Backup of Longhorn that is not over reads it            needs
//   LastBackup      the next Backup of Longhorn is compared with it           needs
//   Backup          a backup of Velero made it, and deletes it                its labels
//   Newest          only volume-head comes after it: Longhorn would mark it   its children
//                   as removed, and leave it
//   LongName        Longhorn refuses to delete a name beyond 63 characters    its name
//   Young           younger than 5 minutes: what needs it may be on its way   its date
//
// The needs are what other objects say of it. They are found by the Snapshot's name alone, which is
// unique in Longhorn's namespace: a handle that names another volume keeps it, too.
namespace csidelta::longhorn {

enum class ProtectionReason {
  kVolumeSnapshot,
  kPendingPvc,
  kClone,
  kUploading,
  kLastBackup,
  kBackup,
  kNewest,
  kLongName,
  kYoung,
};

// "VolumeSnapshot", ...
absl::string_view ToString(ProtectionReason reason);

struct Protection {
  ProtectionReason reason;
  std::string message;  // why, one line
};

// More of one Snapshot are counted and not named.
inline constexpr std::size_t kNeedsNamedMax = 8;

// What other objects need, by the Snapshot's name.
class SnapshotNeeds {
 public:
  void Add(const std::string& snapshot, ProtectionReason reason, std::string message);
  // In the order of the table.
  std::vector<Protection> Of(const std::string& snapshot) const;

 private:
  struct Needed {
    std::vector<Protection> named;
    int more = 0;
  };
  std::map<std::string, Needed> by_name_;
};

inline constexpr absl::Duration kYoungSnapshotAgeMax = absl::Minutes(5);
// What the validating webhook of Longhorn 1.12 and newer can look up as the value of a label.
inline constexpr std::size_t kDeletableNameBytesMax = 63;

// What a Snapshot says by itself.
struct ProtectionInput {
  absl::string_view name;
  bool is_newest = false;           // volume-head is a child of it
  bool is_made_by_managed = false;  // carries a label of the plugin
  absl::string_view backup = {};    // of Velero, as its label says it; ""
  bool is_backup_gone = false;      // Velero's Backups were read, and this one is not among them
  std::optional<absl::Time> dated = std::nullopt;
  absl::Time now;
};

// The reasons that hold, in the order of the table; none: it may go.
std::vector<Protection> ProtectionsOf(const ProtectionInput& input, const SnapshotNeeds& needs);

}  // namespace csidelta::longhorn
