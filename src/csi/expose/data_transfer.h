#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "k8s/api_client.h"
#include "objects/data_download.h"
#include "objects/data_upload.h"
#include "velero/item_action.h"

// The objects by which Velero, and we in its place, ask a data mover for something: a DataUpload
// for each claim of a backup, a DataDownload for each claim of a restore, a DataDeletion for each
// DataUpload of a backup that is deleted. Velero finds the first two by the label
// velero.io/async-operation-id, whichever program made them.
namespace csidelta::csi {

// The operation ids that Velero's own actions give, which fit a label value: for one claim of one
// backup or restore there is one, whichever data mover moves it. Pure.
std::string UploadOperationId(absl::string_view backup_uid, absl::string_view claim_uid);
std::string DownloadOperationId(absl::string_view restore_uid, absl::string_view claim_uid);

// "<stem>-<20 hexadecimal digits of `operation_id`>", at most 253 bytes: the same in every process
// and every retry. Pure.
std::string TransferName(absl::string_view prefix, absl::string_view operation_id);

// An objects::DataUpload or objects::DataDownload, the Kind, as its operation names it.
template <typename Kind>
struct Transfer {
  std::string namespace_name;  // Velero's
  std::string operation_id;

  // The object; nothing when none exists. FAILED_PRECONDITION when there are several, and what the
  // API server says.
  absl::StatusOr<std::optional<Kind>> Find(const CallContext& ctx, k8s::ApiClient& api) const;

  // Creates `object`, of this transfer, unless the transfer has an object already; returns the one
  // that there is.
  absl::StatusOr<Kind> Ensure(const CallContext& ctx, k8s::ApiClient& api,
                              const Kind& object) const;

  // How the mover is getting on. Trouble with the API server is "not completed"; an object that is
  // gone, failed or cancelled is completed with an error that is never empty.
  velero::OperationProgress Progress(const CallContext& ctx, const Environment& env) const;

  // Asks the mover to stop. OK when there is nothing to stop any more.
  absl::Status Cancel(const CallContext& ctx, k8s::ApiClient& api) const;
};

extern template struct Transfer<objects::DataUpload>;
extern template struct Transfer<objects::DataDownload>;

}  // namespace csidelta::csi
