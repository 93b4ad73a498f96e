#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "deleteitemactions/actions.h"
#include "deleteitemactions/undeleted.h"
#include "longhorn/native_snapshot.h"
#include "longhorn/volume_data.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/keys.h"
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
    ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
    if (item.Label(objects::kLonghornMadeByLabel).empty() ||
        item.Label(objects::kBackupNameLabel) != velero::ValidLabelValue(backup.name())) {
      return absl::OkStatus();
    }
    const k8s::ObjectKey key = longhorn::Snapshot::Key(item.namespace_name(), item.name());
    ASSIGN_OR_RETURN(const auto snapshot, longhorn::Snapshot::From(item));
    if (item.uid().empty()) {
      return RecordUndeleted(ctx, env_, {.backup = backup, .text = k8s::ToString(key)},
                             "the archive does not tell its uid, so it may be another one");
    }
    RETURN_IF_ERROR(RequireNoCopies(ctx, snapshot));
    RETURN_IF_ERROR(
        longhorn::RemoveNative(ctx.WithTimeout(csi::kCleanUpTimeout), env_.api, key, item.uid()));
    CSIDELTA_LOG(
        kInfo,
        "Longhorn is asked to delete the native snapshot; it keeps one that is the newest, "
        "or whose volume is detached, as long as it must",
        {"namespace", key.namespace_name}, {"snapshot", key.name}, {"backup", backup.name()});
    return absl::OkStatus();
  }

 private:
  // Longhorn does not refuse: the deletion of what it copies from ends the copy for good.
  absl::Status RequireNoCopies(const CallContext& ctx, const longhorn::Snapshot& snapshot) {
    const auto volumes = objects::List<longhorn::Volume>(ctx, env_.api, snapshot.namespace_name());
    if (absl::IsNotFound(volumes.status())) {
      return absl::OkStatus();  // Longhorn is not here, and neither is the snapshot.
    }
    RETURN_IF_ERROR(Annotate(volumes.status(),
                             absl::StrCat("native snapshot ", snapshot.name(),
                                          " is kept: whether data is copied from it is not known "
                                          "(deploy/longhorn-rbac.yaml allows to list volumes)")));
    const std::string handle =
        absl::StrCat(longhorn::kSnapshotHandlePrefix, snapshot.volume(), "/", snapshot.name());
    for (const longhorn::Volume& volume : *volumes) {
      if (longhorn::IsCopiedFromSnapshot(volume, handle) &&
          longhorn::DataStateOf(volume) != longhorn::DataState::kThere) {
        return absl::FailedPreconditionError(absl::StrCat(
            "native snapshot ", snapshot.name(), " is kept: data is copied from it into PVC ",
            volume.pvc_namespace(), "/", volume.pvc_name(), " (", longhorn::DataText(volume),
            "); delete the backup again later"));
      }
    }
    return absl::OkStatus();
  }

  const csi::Environment env_;
};

}  // namespace

std::unique_ptr<velero::DeleteItemAction> MakeLonghornSnapshotAction(const csi::Environment& env) {
  return std::make_unique<LonghornSnapshotAction>(env);
}

}  // namespace csidelta::deleteitemactions
