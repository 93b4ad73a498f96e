#include <memory>

#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "backupitemactions/longhorn_sweep.h"
#include "base/status_macros.h"
#include "csi/environment.h"
#include "longhorn/kinds_guard.h"
#include "longhorn/types.h"
#include "objects/backup.h"
#include "objects/keys.h"

namespace csidelta::backupitemactions {
namespace {

constexpr char kLonghornSnapshotReason[] =
    "it holds no data, and restored Longhorn would take a new snapshot under its name; "
    "longhornItems: keep archives such objects";

class LonghornSnapshotAction : public velero::ActionOn<velero::BackupItemAction> {
 public:
  explicit LonghornSnapshotAction(const csi::Environment& env)
      : ActionOn(k8s::ToString(longhorn::Snapshot::Type())), env_(env), settings_(env) {}

  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx,
                                                   const objects::Object& item,
                                                   const objects::Object& backup_object) override {
    velero::BackupItemResult result;
    ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
    if (IsNativeOf(item, backup)) {
      if (!backup.is_finalizing()) {
        RETURN_IF_ERROR(RecordArchived(ctx, env_, item.name()));
      }
      return result;
    }
    ASSIGN_OR_RETURN(const auto config, settings_.Get(ctx, backup.uid()));
    if (config->longhorn_items == velero::LonghornItems::kKeep) {
      return result;
    }
    log_.Note(backup.uid(), k8s::ToString(longhorn::Snapshot::Type()),
              absl::StrCat(item.namespace_name(), "/", item.name()), kLonghornSnapshotReason);
    result.item = item;
    result.item->SetAnnotation(objects::kSkipFromBackupAnnotation, "true");
    return result;
  }

 private:
  // The deletion of a backup deletes what its archive holds of these.
  static bool IsNativeOf(const objects::Object& item, const objects::Backup& backup) {
    return !item.Label(objects::kLonghornMadeByLabel).empty() &&
           item.Label(objects::kBackupUidLabel) == backup.uid();
  }

  const csi::Environment env_;
  csi::SettingsOrDefaults settings_;
  longhorn::LeftOutLog log_;
};

}  // namespace

std::unique_ptr<velero::BackupItemAction> MakeLonghornSnapshotAction(const csi::Environment& env) {
  return std::make_unique<LonghornSnapshotAction>(env);
}

}  // namespace csidelta::backupitemactions
