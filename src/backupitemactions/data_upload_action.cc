#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "objects/client.h"
#include "objects/data_upload.h"
#include "objects/keys.h"
#include "velero/backup.h"
#include "velero/labels.h"

namespace csidelta::backupitemactions {
namespace {

class DataUploadAction : public velero::ActionOn<velero::BackupItemAction> {
 public:
  explicit DataUploadAction(const csi::Environment& env)
      : ActionOn("datauploads.velero.io"), env_(env) {}

  // Only what the host writes into the archive at the very end counts. An error here keeps the item
  // out of the archive: the data mover would take it for one that never entered it.
  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx,
                                                   const objects::Object& item,
                                                   const objects::Object& backup_object) override {
    ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_object));
    velero::BackupItemResult result;
    if (!backup.Finalizing() ||
        item.Annotation(objects::kArchivedAnnotation) != objects::kArchiveAwaited ||
        item.Label(objects::kBackupNameLabel) != velero::ValidLabelValue(backup.name)) {
      return result;
    }
    const absl::Status marked = csi::RetryTransient(ctx, [&] {
      return objects::Apply(ctx, env_.api,
                            objects::DataUpload::Key(item.namespace_name(), item.name()),
                            objects::Patch().SetAnnotation(objects::kArchivedAnnotation, "true"));
    });
    RETURN_IF_ERROR(
        Annotate(marked, absl::StrCat("mark DataUpload ", item.name(), " as archived")));
    result.item = item;
    result.item->SetAnnotation(objects::kArchivedAnnotation, "true");
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
