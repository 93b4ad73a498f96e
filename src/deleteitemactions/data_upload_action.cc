#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/data_transfer.h"
#include "csi/snapshot_types.h"
#include "deleteitemactions/actions.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "velero/backup.h"
#include "velero/data_upload.h"
#include "velero/labels.h"

namespace csidelta::deleteitemactions {
namespace {

constexpr char kNameStem[] = "delete";

bool IsCompleted(const Json& upload) {
  return GetString(upload, {"status", "phase"}) == "Completed";
}

class DataUploadAction : public velero::DeleteItemAction {
 public:
  explicit DataUploadAction(const csi::Environment& env) : env_(env) {}

  velero::ResourceSelector AppliesTo() const override {
    velero::ResourceSelector selector;
    selector.included_resources = {"datauploads.velero.io"};
    return selector;
  }

  // Writes down what is to be deleted, and returns: our data mover does it when it can.
  absl::Status Execute(const CallContext& ctx, const Json& item, const Json& backup_json) override {
    ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_json));
    if (GetString(item, {"spec", "datamover"}) != velero::kDataMoverName ||
        k8s::Label(item, objects::kBackupNameLabel) != velero::ValidLabelValue(backup.name)) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const Json upload, LastWord(ctx, item, backup));
    const std::string snapshot_id = GetString(upload, {"status", "snapshotID"});
    if (!IsCompleted(upload) || snapshot_id.empty()) {
      return absl::OkStatus();
    }
    const Json deletion = MakeDeletion(upload, backup, snapshot_id);
    const absl::Status created =
        env_.api.Create(ctx, csi::DataDeletionType(), backup.namespace_name, deletion).status();
    if (absl::IsAlreadyExists(created)) {
      return absl::OkStatus();
    }
    if (!created.ok()) {
      return Annotate(created, absl::StrCat("the data of DataUpload ", k8s::Name(item),
                                            " stays in the bucket, as ", snapshot_id,
                                            ": the data mover cannot be asked to delete it"));
    }
    CSIDELTA_LOG(kInfo, "the data mover is asked to delete data", {"backup", backup.name},
                 {"data_upload", k8s::Name(item)}, {"data_deletion", k8s::Name(deletion)},
                 {"snapshot_id", snapshot_id});
    return absl::OkStatus();
  }

 private:
  // An upload may have ended after Velero gave it up and wrote the archive.
  absl::StatusOr<Json> LastWord(const CallContext& ctx, const Json& item,
                                const velero::Backup& backup) {
    if (IsCompleted(item)) {
      return item;
    }
    ASSIGN_OR_RETURN(
        const std::optional<Json> live,
        csi::FindTransfer(ctx, env_.api,
                          {.type = csi::DataUploadType(),
                           .namespace_name = backup.namespace_name,
                           .operation_id = k8s::Label(item, objects::kAsyncOperationIdLabel)}));
    return live.has_value() && k8s::Uid(*live) == k8s::Uid(item) ? *live : item;
  }

  static Json MakeDeletion(const Json& upload, const velero::Backup& backup,
                           const std::string& snapshot_id) {
    // A Backup that was found in the bucket says what the location is called here.
    const std::string location = backup.storage_location.empty()
                                     ? GetString(upload, {"spec", "backupStorageLocation"})
                                     : backup.storage_location;
    const k8s::ResourceType& type = csi::DataDeletionType();
    return {
        {"apiVersion", absl::StrCat(type.group, "/", type.version)},
        {"kind", type.kind},
        {"metadata",
         {{"name", csi::TransferName(kNameStem, absl::StrCat(backup.uid, "/", k8s::Uid(upload)))},
          {"namespace", backup.namespace_name},
          {"labels",
           {{objects::kBackupNameLabel, velero::ValidLabelValue(backup.name)},
            {objects::kExcludeFromBackupLabel, "true"}}}}},
        {"spec",
         {{"backupStorageLocation", location},
          {"snapshotID", snapshot_id},
          {"backup", backup.name}}}};
  }

  const csi::Environment env_;
};

}  // namespace

std::unique_ptr<velero::DeleteItemAction> MakeDataUploadAction(const csi::Environment& env) {
  return std::make_unique<DataUploadAction>(env);
}

}  // namespace csidelta::deleteitemactions
