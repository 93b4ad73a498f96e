#include <memory>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "deleteitemactions/actions.h"
#include "longhorn/native_snapshot.h"
#include "objects/keys.h"
#include "velero/backup.h"
#include "velero/labels.h"

namespace csidelta::deleteitemactions {
namespace {

class LonghornSnapshotAction : public velero::ActionOn<velero::DeleteItemAction> {
 public:
  explicit LonghornSnapshotAction(const csi::Environment& env)
      : ActionOn(k8s::ToString(longhorn::Snapshot::Type()), objects::kLonghornMadeByLabel),
        env_(env) {}

  // The Backup may have another uid than when the snapshot was taken, when it was read again from
  // the object store. What decides is the uid of the snapshot.
  absl::Status Execute(const CallContext& ctx, const objects::Object& item,
                       const objects::Object& backup_object) override {
    ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_object));
    if (item.Label(objects::kLonghornMadeByLabel).empty() ||
        item.Label(objects::kBackupNameLabel) != velero::ValidLabelValue(backup.name)) {
      return absl::OkStatus();
    }
    const k8s::ObjectKey key = longhorn::Snapshot::Key(item.namespace_name(), item.name());
    RETURN_IF_ERROR(
        longhorn::RemoveNative(ctx.WithTimeout(csi::kCleanUpTimeout), env_.api, key, item.uid()));
    CSIDELTA_LOG(
        kInfo,
        "Longhorn is asked to delete the native snapshot; it keeps one that is the newest, "
        "or whose volume is detached, as long as it must",
        {"namespace", key.namespace_name}, {"snapshot", key.name}, {"backup", backup.name});
    return absl::OkStatus();
  }

 private:
  const csi::Environment env_;
};

}  // namespace

std::unique_ptr<velero::DeleteItemAction> MakeLonghornSnapshotAction(const csi::Environment& env) {
  return std::make_unique<LonghornSnapshotAction>(env);
}

}  // namespace csidelta::deleteitemactions
