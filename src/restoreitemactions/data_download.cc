#include "restoreitemactions/data_download.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/snapshot_types.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::restoreitemactions {
namespace {

constexpr char kResourceUsage[] = "DataUpload";
constexpr size_t kVolumeMarkDigits = 5;  // As many as Velero's action writes.

std::string ClaimName(const MovedClaim& claim) {
  return absl::StrCat(k8s::Namespace(claim.item_from_backup), "/",
                      k8s::Name(claim.item_from_backup));
}

std::string AwaitedVolume(const Json& claim) {
  return GetString(claim, {"spec", "selector", "matchLabels", objects::kDynamicPvRestoreLabel});
}

// The claim's DataUpload in short, as Velero's action on DataUploads left it for this restore.
absl::StatusOr<Json> ReadUploadResult(const CallContext& ctx, const csi::Environment& env,
                                      const MovedClaim& claim) {
  const std::string of_claim = velero::ValidLabelValue(
      absl::StrCat(k8s::Namespace(claim.item_from_backup), ".", k8s::Name(claim.item_from_backup)));
  ASSIGN_OR_RETURN(
      const k8s::ObjectList found,
      env.api.List(ctx, csi::ConfigMapType(), claim.restore.namespace_name,
                   {.label_selector = absl::StrCat(
                        objects::kPvcNamespaceNameLabel, "=", of_claim, ",",
                        objects::kRestoreUidLabel, "=", velero::ValidLabelValue(claim.restore.uid),
                        ",", objects::kResourceUsageLabel, "=", kResourceUsage),
                    .field_selector = ""}));
  const std::string upload =
      k8s::Annotation(claim.item_from_backup, objects::kDataUploadNameAnnotation);
  if (found.items.empty()) {
    return absl::NotFoundError(absl::StrCat("claim ", ClaimName(claim), ": the archive of backup ",
                                            claim.backup.name, " does not hold DataUpload ", upload,
                                            ", so nobody knows where the data are; a restore of "
                                            "some resources has to name datauploads, too"));
  }
  if (found.items.size() > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("claim ", ClaimName(claim), ": the archive of backup ", claim.backup.name,
                     " holds several DataUploads for it, such as ", upload));
  }
  return ParseJsonObject(GetString(found.items[0], {"data", claim.restore.uid}));
}

Json MakeDataDownload(const MovedClaim& claim, const csi::Transfer& transfer, const Json& result) {
  const velero::Restore& restore = claim.restore;
  Json spec = {{"targetVolume",
                {{"pvc", k8s::Name(claim.item_from_backup)},
                 {"namespace", claim.target_namespace},
                 {"pv", ""}}},
               {"operationTimeout", absl::FormatDuration(claim.backup.csi_snapshot_timeout)}};
  for (const char* field : {"backupStorageLocation", "datamover", "snapshotID", "sourceNamespace",
                            "snapshotSize", "nodeOS"}) {
    if (const Json* value = FindJson(result, {field}); value != nullptr) {
      SetJson(spec, {field}, *value);
    }
  }
  return {{"apiVersion", absl::StrCat(transfer.type.group, "/", transfer.type.version)},
          {"kind", transfer.type.kind},
          {"metadata",
           {{"name", csi::TransferName(restore.name, transfer.operation_id)},
            {"namespace", restore.namespace_name},
            {"ownerReferences", Json::array({{{"apiVersion", "velero.io/v1"},
                                              {"kind", "Restore"},
                                              {"name", restore.name},
                                              {"uid", restore.uid},
                                              {"controller", true}}})},
            {"labels",
             {{objects::kRestoreNameLabel, velero::ValidLabelValue(restore.name)},
              {objects::kRestoreUidLabel, restore.uid},
              {objects::kAsyncOperationIdLabel, transfer.operation_id}}}}},
          {"spec", std::move(spec)}};
}

}  // namespace

csi::Transfer DownloadOf(const MovedClaim& claim) {
  return {.type = csi::DataDownloadType(),
          .namespace_name = claim.restore.namespace_name,
          .operation_id =
              csi::DownloadOperationId(claim.restore.uid, k8s::Uid(claim.item_from_backup))};
}

bool IsAwaitedByVelero(const Json& item, const Json& item_from_backup) {
  const std::string awaited = AwaitedVolume(item);
  return !awaited.empty() && awaited != AwaitedVolume(item_from_backup);
}

absl::Status AskForData(const CallContext& ctx, const csi::Environment& env,
                        const MovedClaim& claim, Json& item) {
  const csi::Transfer transfer = DownloadOf(claim);
  ASSIGN_OR_RETURN(const Json result, ReadUploadResult(ctx, env, claim));
  if (GetString(result, {"snapshotID"}).empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "claim ", ClaimName(claim), ": DataUpload ",
        k8s::Annotation(claim.item_from_backup, objects::kDataUploadNameAnnotation), " of backup ",
        claim.backup.name, " brought no data into the bucket: restore an older backup"));
  }
  ASSIGN_OR_RETURN(
      const Json download,
      csi::EnsureTransfer(ctx, env.api, transfer, MakeDataDownload(claim, transfer, result)));
  SetJson(item, {"spec", "selector", "matchLabels", objects::kDynamicPvRestoreLabel},
          velero::ValidLabelValue(
              absl::StrCat(claim.target_namespace, ".", k8s::Name(claim.item_from_backup), ".",
                           Sha256Hex(claim.restore.uid).substr(0, kVolumeMarkDigits))));
  CSIDELTA_LOG(kInfo, "the data mover is asked for the claim's data",
               {"namespace", claim.target_namespace}, {"pvc", k8s::Name(claim.item_from_backup)},
               {"data_download", k8s::Name(download)});
  return absl::OkStatus();
}

}  // namespace csidelta::restoreitemactions
