#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "objects/backup.h"

// What Velero is told of a deletion. From 1.19 on it keeps a backup while an action returns errors,
// and tries again; before, it logs them and forgets the backup. So an error is for what another try
// may do. The rest is recorded: a warning in the log of the deletion, and an entry of the ConfigMap
// objects::kUndeletedConfigMap, which doctor lists.
namespace csidelta::deleteitemactions {

// Data of a deleted backup that stays.
struct UndeletedData {
  const objects::Backup& backup;
  std::string text;  // which, and where, for people: "snapshot s-1 of driver d"
};

// The reason for a csi::DeletionResult::kNoDriver; all snapshots of the driver are one entry. The
// archive goes with the deletion, so Velero calls no delete action of another cluster any more.
inline constexpr char kNoDriver[] =
    "this cluster does not have the driver; where it is, csi-delta doctor names what stays "
    "(kept-snapshots). Set accessMode: ReadOnly in the BackupStorageLocation of a standby cluster";

// Records data that this cluster can never delete. Each is recorded once. If the ConfigMap is full,
// or may not be written, the warning is all. Other errors of the API server are returned, so that
// no record is lost.
absl::Status RecordUndeleted(const CallContext& ctx, const csi::Environment& env,
                             const UndeletedData& data, absl::string_view why);

// `status`, unless no other try can succeed; then the outcome of RecordUndeleted():
//   INVALID_ARGUMENT  the archive lacks what is needed, or the API server refuses the request
//   NOT_FOUND         if `find_kind` says so too: the cluster does not serve a kind that is needed
absl::Status ConcludeDeletion(const CallContext& ctx, const csi::Environment& env,
                              const UndeletedData& data, const absl::Status& status,
                              absl::FunctionRef<absl::Status()> find_kind);

}  // namespace csidelta::deleteitemactions
