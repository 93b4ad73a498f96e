#include "restoreitemactions/data_download.h"

#include <cstddef>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "k8s/object.h"
#include "objects/client.h"
#include "objects/core.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "velero/data_reference.h"
#include "velero/labels.h"

namespace csidelta::restoreitemactions {
namespace {

using objects::PersistentVolumeClaim;

constexpr char kResourceUsage[] = "DataUpload";
constexpr size_t kVolumeMarkDigits = 5;  // As many as Velero's action writes.

std::string ClaimName(const MovedClaim& claim) {
  return absl::StrCat(claim.item_from_backup.namespace_name(), "/", claim.item_from_backup.name());
}

std::string AwaitedVolume(const PersistentVolumeClaim& claim) {
  const std::map<std::string, std::string> labels = claim.selected_labels();
  const auto found = labels.find(objects::kDynamicPvRestoreLabel);
  return found == labels.end() ? "" : found->second;
}

// The claim's DataUpload in short, as Velero's action on DataUploads left it for this restore.
absl::StatusOr<std::string> ReadUploadResult(const CallContext& ctx, const csi::Environment& env,
                                             const MovedClaim& claim) {
  const std::string of_claim = velero::ValidLabelValue(
      absl::StrCat(claim.item_from_backup.namespace_name(), ".", claim.item_from_backup.name()));
  ASSIGN_OR_RETURN(
      const auto found,
      objects::List<objects::ConfigMap>(
          ctx, env.api, claim.restore.namespace_name(),
          {.label_selector = absl::StrCat(objects::kPvcNamespaceNameLabel, "=", of_claim, ",",
                                          objects::kRestoreUidLabel, "=",
                                          velero::ValidLabelValue(claim.restore.uid()), ",",
                                          objects::kResourceUsageLabel, "=", kResourceUsage)}));
  const std::string upload = claim.item_from_backup.Annotation(objects::kDataUploadNameAnnotation);
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat("claim ", ClaimName(claim), ": the archive of backup ",
                                            claim.backup.name(), " does not hold DataUpload ",
                                            upload,
                                            ", so where the data are is unknown; a restore of "
                                            "some resources has to name datauploads, too"));
  }
  if (found.size() > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("claim ", ClaimName(claim), ": the archive of backup ", claim.backup.name(),
                     " holds several DataUploads for it, such as ", upload));
  }
  return found[0].Value(claim.restore.uid());
}

objects::DataDownload MakeDataDownload(const MovedClaim& claim,
                                       const csi::Transfer<objects::DataDownload>& transfer) {
  const objects::Restore& restore = claim.restore;
  auto download = objects::DataDownload::Make(
      restore.namespace_name(), csi::TransferName(restore.name(), transfer.operation_id));
  download.SetOwners({{.api_version = "velero.io/v1",
                       .kind = "Restore",
                       .name = restore.name(),
                       .uid = restore.uid(),
                       .is_controller = true}});
  download.SetLabels({{objects::kRestoreNameLabel, velero::ValidLabelValue(restore.name())},
                      {objects::kRestoreUidLabel, restore.uid()},
                      {objects::kAsyncOperationIdLabel, transfer.operation_id},
                      {objects::kExcludeFromBackupLabel, "true"}});
  download.SetTarget(claim.target_namespace, claim.item_from_backup.name(), "");
  download.SetOperationTimeout(absl::FormatDuration(claim.backup.csi_snapshot_timeout()));
  return download;
}

}  // namespace

csi::Transfer<objects::DataDownload> DownloadOf(const MovedClaim& claim) {
  return {
      .namespace_name = claim.restore.namespace_name(),
      .operation_id = csi::DownloadOperationId(claim.restore.uid(), claim.item_from_backup.uid())};
}

bool IsAwaitedByVelero(const PersistentVolumeClaim& item,
                       const PersistentVolumeClaim& item_from_backup) {
  const std::string awaited = AwaitedVolume(item);
  return !awaited.empty() && awaited != AwaitedVolume(item_from_backup);
}

absl::StatusOr<std::string> UploadCommand(const CallContext& ctx, const csi::Environment& env,
                                          const MovedClaim& claim) {
  ASSIGN_OR_RETURN(const std::string result, ReadUploadResult(ctx, env, claim));
  objects::DataDownload download = MakeDataDownload(claim, DownloadOf(claim));
  RETURN_IF_ERROR(download.SetSource(result));
  RETURN_IF_ERROR(velero::ParseDataReference(download.moved_snapshot()).status());
  if (!k8s::IsObjectName(download.storage_location())) {  // It gets to a shell.
    return absl::InvalidArgumentError("the archive's storage location has no name of an object");
  }
  // A new cluster has no DataUpload, and then the program needs to know where the data is.
  std::string what =
      absl::StrCat(download.moved_snapshot(), " --location ", download.storage_location());
  const std::string velero_namespace = download.namespace_name();
  const auto uploads = objects::List<objects::DataUpload>(
      ctx, env.api, velero_namespace,
      {.label_selector = absl::StrCat(objects::kPvcUidLabel, "=", claim.item_from_backup.uid())});
  for (const objects::DataUpload& upload : uploads.value_or(std::vector<objects::DataUpload>())) {
    what = upload.snapshot_id() == download.moved_snapshot() ? upload.name() : what;
  }
  return absl::StrCat(
      "csi-delta restore --upload ", what, " --into ", claim.target_namespace, "/",
      claim.item_from_backup.name(),
      velero_namespace == "velero" ? "" : absl::StrCat(" --velero-namespace ", velero_namespace),
      " --yes");
}

absl::Status AskForData(const CallContext& ctx, const csi::Environment& env,
                        const MovedClaim& claim, PersistentVolumeClaim& item) {
  const csi::Transfer<objects::DataDownload> transfer = DownloadOf(claim);
  ASSIGN_OR_RETURN(const std::string result, ReadUploadResult(ctx, env, claim));
  objects::DataDownload download = MakeDataDownload(claim, transfer);
  RETURN_IF_ERROR(download.SetSource(result));
  if (download.moved_snapshot().empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "claim ", ClaimName(claim), ": DataUpload ",
        claim.item_from_backup.Annotation(objects::kDataUploadNameAnnotation), " of backup ",
        claim.backup.name(), " brought no data into the bucket: restore an older backup"));
  }
  ASSIGN_OR_RETURN(download, transfer.Ensure(ctx, env.api, download));
  item.SetSelectedLabel(objects::kDynamicPvRestoreLabel,
                        velero::ValidLabelValue(absl::StrCat(
                            claim.target_namespace, ".", claim.item_from_backup.name(), ".",
                            Sha256Hex(claim.restore.uid()).substr(0, kVolumeMarkDigits))));
  CSIDELTA_LOG(kInfo, "the data mover is asked for the claim's data",
               {"namespace", claim.target_namespace}, {"pvc", claim.item_from_backup.name()},
               {"data_download", download.name()});
  return absl::OkStatus();
}

}  // namespace csidelta::restoreitemactions
