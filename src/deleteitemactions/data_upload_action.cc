#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/expose/data_transfer.h"
#include "deleteitemactions/actions.h"
#include "deleteitemactions/undeleted.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/data_deletion.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::deleteitemactions {
namespace {

constexpr char kDeletionNamePrefix[] = "delete";

using objects::DataUpload;

bool IsCompleted(const DataUpload& upload) { return upload.phase() == "Completed"; }

// Two Veleros in a cluster may have Backups of one name, and one may archive the other's objects. A
// Backup that was read again from the bucket has another uid; in another cluster the namespace may
// be another one.
bool IsOfThisVelero(const DataUpload& upload, const objects::Backup& backup) {
  const std::vector<objects::OwnerReference> owners = upload.owners();
  return upload.namespace_name() == backup.namespace_name() ||
         std::any_of(owners.begin(), owners.end(), [&](const objects::OwnerReference& owner) {
           return !owner.uid.empty() && owner.uid == backup.uid();
         });
}

class DataUploadAction : public velero::ActionOn<velero::DeleteItemAction> {
 public:
  explicit DataUploadAction(const csi::Environment& env)
      : ActionOn("datauploads.velero.io"), env_(env) {}

  // Writes down what is to be deleted, and returns: our data mover does it when it can.
  absl::Status Execute(const CallContext& ctx, const objects::Object& item,
                       const objects::Object& backup_object) override {
    ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
    ASSIGN_OR_RETURN(const DataUpload archived, DataUpload::From(item));
    if (!archived.is_managed() ||
        archived.Label(objects::kBackupNameLabel) != velero::ValidLabelValue(backup.name())) {
      return absl::OkStatus();
    }
    if (!IsOfThisVelero(archived, backup)) {
      return archived.snapshot_id().empty()
                 ? absl::OkStatus()
                 : RecordUndeleted(
                       ctx, env_,
                       {.backup = backup,
                        .text =
                            absl::StrCat("the data of DataUpload ", archived.namespace_name(), "/",
                                         archived.name(), ", as ", archived.snapshot_id())},
                       "it is of a Velero in another namespace, which may need it; if that one is "
                       "gone, csi-delta forget deletes it");
    }
    ASSIGN_OR_RETURN(const DataUpload upload, FinalUpload(ctx, archived, backup));
    const std::string snapshot_id = upload.snapshot_id();
    if (!IsCompleted(upload) || snapshot_id.empty()) {
      return absl::OkStatus();
    }
    const objects::DataDeletion deletion = MakeDeletion(upload, backup);
    const absl::Status created = objects::Create(ctx, env_.api, deletion).status();
    if (absl::IsAlreadyExists(created)) {
      return absl::OkStatus();
    }
    if (!created.ok()) {
      const std::string data =
          absl::StrCat("the data of DataUpload ", archived.name(), " in location ",
                       deletion.spec().location, ", as ", snapshot_id);
      // NOT_FOUND is the kind: Velero runs in the namespace.
      return Annotate(ConcludeDeletion(ctx, env_, {.backup = backup, .text = data}, created,
                                       [&] { return created; }),
                      absl::StrCat("ask the data mover to delete ", data));
    }
    CSIDELTA_LOG(kInfo, "the data mover is asked to delete data", {"backup", backup.name()},
                 {"data_upload", archived.name()}, {"data_deletion", deletion.name()},
                 {"snapshot_id", snapshot_id});
    return absl::OkStatus();
  }

 private:
  // An upload may have ended after Velero gave it up and wrote the archive.
  absl::StatusOr<DataUpload> FinalUpload(const CallContext& ctx, const DataUpload& archived,
                                         const objects::Backup& backup) {
    if (IsCompleted(archived)) {
      return archived;
    }
    const csi::Transfer<DataUpload> transfer = {
        .namespace_name = backup.namespace_name(),
        .operation_id = archived.Label(objects::kAsyncOperationIdLabel)};
    ASSIGN_OR_RETURN(const std::optional<DataUpload> live, transfer.Find(ctx, env_.api));
    return live.has_value() && live->uid() == archived.uid() ? *live : archived;
  }

  static objects::DataDeletion MakeDeletion(const DataUpload& upload,
                                            const objects::Backup& backup) {
    objects::DataDeletion deletion = objects::DataDeletion::Make(
        backup.namespace_name(),
        csi::TransferName(kDeletionNamePrefix, absl::StrCat(backup.uid(), "/", upload.uid())));
    deletion.SetLabel(objects::kBackupNameLabel, velero::ValidLabelValue(backup.name()));
    deletion.SetLabel(objects::kExcludeFromBackupLabel, "true");
    // A Backup that was found in the bucket says what the location is called here.
    deletion.SetSnapshot(
        backup.storage_location().empty() ? upload.storage_location() : backup.storage_location(),
        upload.snapshot_id(), backup.name());
    return deletion;
  }

  const csi::Environment env_;
};

}  // namespace

std::unique_ptr<velero::DeleteItemAction> MakeDataUploadAction(const csi::Environment& env) {
  return std::make_unique<DataUploadAction>(env);
}

}  // namespace csidelta::deleteitemactions
