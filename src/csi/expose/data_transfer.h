#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "k8s/api_client.h"
#include "objects/data_transfer.h"
#include "velero/item_action.h"

// The objects that request a transfer of a data mover: a DataUpload for each PVC of a backup, a
// DataDownload for each PVC of a restore. Velero finds them by the label
// velero.io/async-operation-id, whichever program made them.
namespace csidelta::csi {

// The operation ids, as Velero's own actions make them; they fit a label value. A PVC of a backup
// or restore has one id, whichever data mover moves it. Pure.
std::string UploadOperationId(absl::string_view backup_uid, absl::string_view claim_uid);
std::string DownloadOperationId(absl::string_view restore_uid, absl::string_view claim_uid);

// "<prefix>-<20 hexadecimal digits of `operation_id`>", at most 253 bytes: the same in every
// process and every retry. Pure.
std::string TransferName(absl::string_view prefix, absl::string_view operation_id);

// A transfer by its operation id. `Kind`: objects::DataUpload or objects::DataDownload.
template <typename Kind>
struct Transfer {
  std::string namespace_name;  // Velero's
  std::string operation_id;

  // The object; nothing if not found. FAILED_PRECONDITION if there are several; else errors of
  // the API server.
  absl::StatusOr<std::optional<Kind>> Find(const CallContext& ctx, k8s::ApiClient& api) const;

  // Creates `object` unless the transfer has one already; returns the one that exists.
  absl::StatusOr<Kind> Ensure(const CallContext& ctx, k8s::ApiClient& api,
                              const Kind& object) const;

  // The mover's progress. Errors of the API server mean "not completed". An object that is gone,
  // failed or cancelled is completed, with an error that is never empty.
  velero::OperationProgress Progress(const CallContext& ctx, const Environment& env) const;

  // Requests the cancellation. OK if there is nothing to cancel.
  absl::Status Cancel(const CallContext& ctx, k8s::ApiClient& api) const;
};

extern template struct Transfer<objects::DataUpload>;
extern template struct Transfer<objects::DataDownload>;

}  // namespace csidelta::csi
