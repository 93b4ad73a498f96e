#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "backupitemactions/immediate_action.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "csi/snapshot_types.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "velero/backup.h"
#include "velero/data_upload.h"
#include "velero/labels.h"

namespace csidelta::backupitemactions {
namespace {

class DataUploadAction : public ImmediateAction {
 public:
  explicit DataUploadAction(const csi::Environment& env)
      : ImmediateAction("datauploads.velero.io"), env_(env) {}

  // Only what the host writes into the archive at the very end counts. An error here keeps the item
  // out of the archive: the data mover would take it for one that never entered it.
  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx, const Json& item,
                                                   const Json& backup_object) override {
    ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_object));
    velero::BackupItemResult result;
    if (!backup.Finalizing() ||
        k8s::Annotation(item, objects::kArchivedAnnotation) != objects::kArchiveAwaited ||
        k8s::Label(item, objects::kBackupNameLabel) != velero::ValidLabelValue(backup.name)) {
      return result;
    }
    Json mark;
    SetJson(mark, {"metadata", "annotations", objects::kArchivedAnnotation}, "true");
    RETURN_IF_ERROR(Annotate(csi::RetryTransient(ctx,
                                                 [&] {
                                                   return env_.api
                                                       .Patch(
                                                           ctx,
                                                           {.type = csi::DataUploadType(),
                                                            .namespace_name = k8s::Namespace(item),
                                                            .name = k8s::Name(item)},
                                                           k8s::PatchKind::kMerge, mark, "")
                                                       .status();
                                                 }),
                             absl::StrCat("mark DataUpload ", k8s::Name(item), " as archived")));
    result.item = item;
    SetJson(*result.item, {"metadata", "annotations", objects::kArchivedAnnotation}, "true");
    return result;
  }

 private:
  const csi::Environment env_;
};

}  // namespace

std::unique_ptr<velero::BackupItemAction> MakeDataUploadAction(const csi::Environment& env) {
  return std::make_unique<DataUploadAction>(env);
}

}  // namespace csidelta::backupitemactions
