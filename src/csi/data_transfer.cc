#include "csi/data_transfer.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

constexpr size_t kObjectNameBytesMax = 253;
constexpr size_t kNameDigits = 20;

bool HasEnded(absl::string_view phase) {
  return phase == "Completed" || phase == "Failed" || phase == "Canceled";
}

// The object's kind and name, for people.
std::string Words(const Transfer& transfer, const Json& object) {
  return absl::StrCat(transfer.type.kind, " ", transfer.namespace_name, "/", k8s::Name(object));
}

// What the operation ended with; "" when it was a success.
std::string ErrorOf(const Transfer& transfer, const Json& object, absl::string_view phase) {
  if (phase == "Completed") {
    return "";
  }
  const std::string message = GetString(object, {"status", "message"});
  const std::string what =
      absl::StrCat(Words(transfer, object), phase == "Failed" ? " failed" : " is canceled");
  return absl::StrCat(what, ": ", message.empty() ? "the data mover does not say why" : message);
}

}  // namespace

const k8s::ResourceType& DataDeletionType() {
  static const k8s::ResourceType type{"mover.csi-delta.io", "v1alpha1", "datadeletions",
                                      "DataDeletion", true};
  return type;
}

std::string UploadOperationId(absl::string_view backup_uid, absl::string_view claim_uid) {
  return velero::ValidLabelValue(absl::StrCat("du-", backup_uid, ".", claim_uid));
}

std::string DownloadOperationId(absl::string_view restore_uid, absl::string_view claim_uid) {
  return velero::ValidLabelValue(absl::StrCat("dd-", restore_uid, ".", claim_uid));
}

std::string TransferName(absl::string_view stem, absl::string_view operation_id) {
  return absl::StrCat(stem.substr(0, kObjectNameBytesMax - 1 - kNameDigits), "-",
                      Sha256Hex(operation_id).substr(0, kNameDigits));
}

absl::StatusOr<std::optional<Json>> FindTransfer(const CallContext& ctx, k8s::ApiClient& api,
                                                 const Transfer& transfer) {
  ASSIGN_OR_RETURN(k8s::ObjectList found,
                   api.List(ctx, transfer.type, transfer.namespace_name,
                            {.label_selector = absl::StrCat(objects::kAsyncOperationIdLabel, "=",
                                                            transfer.operation_id),
                             .field_selector = ""}));
  if (found.items.size() > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat(Words(transfer, found.items[0]), " and ", k8s::Name(found.items[1]),
                     " are both for operation ", transfer.operation_id));
  }
  return found.items.empty() ? std::nullopt : std::make_optional(std::move(found.items[0]));
}

absl::StatusOr<Json> EnsureTransfer(const CallContext& ctx, k8s::ApiClient& api,
                                    const Transfer& transfer, const Json& object) {
  ASSIGN_OR_RETURN(std::optional<Json> there, FindTransfer(ctx, api, transfer));
  if (there.has_value()) {
    return *std::move(there);
  }
  absl::StatusOr<Json> created = api.Create(ctx, transfer.type, transfer.namespace_name, object);
  if (absl::IsAlreadyExists(created.status())) {
    ASSIGN_OR_RETURN(there, FindTransfer(ctx, api, transfer));
    return there.has_value() ? absl::StatusOr<Json>(*std::move(there)) : created;
  }
  return created;
}

velero::OperationProgress TransferProgress(const CallContext& ctx, const Environment& env,
                                           const Transfer& transfer) {
  velero::OperationProgress progress;
  progress.units = "Bytes";
  const absl::StatusOr<std::optional<Json>> found = FindTransfer(ctx, env.api, transfer);
  if (!found.ok()) {
    progress.description = found.status().ToString();
    return progress;
  }
  if (!found->has_value()) {
    progress.completed = true;
    progress.error =
        absl::StrCat("the ", transfer.type.kind, " of operation ", transfer.operation_id,
                     " is gone from namespace ", transfer.namespace_name);
    progress.description = "gone";
    progress.started = progress.updated = env.clock.Now();
    return progress;
  }
  const Json& object = **found;
  const std::string phase = GetString(object, {"status", "phase"});
  if (phase.empty() || phase == "New") {
    return progress;
  }
  const std::string message = GetString(object, {"status", "message"});
  progress.description = message.empty() ? phase : absl::StrCat(phase, ": ", message);
  progress.completed_units = GetInt(object, {"status", "progress", "bytesDone"});
  progress.total_units = GetInt(object, {"status", "progress", "totalBytes"});
  progress.started = ParseRfc3339(GetString(object, {"status", "startTimestamp"}));
  if (!progress.started.has_value()) {
    progress.started = ParseRfc3339(GetString(object, {"status", "acceptedTimestamp"}));
  }
  progress.updated = ParseRfc3339(GetString(object, {"status", "completionTimestamp"}));
  if (HasEnded(phase)) {
    progress.completed = true;
    progress.error = ErrorOf(transfer, object, phase);
  }
  return progress;
}

absl::Status CancelTransfer(const CallContext& ctx, k8s::ApiClient& api, const Transfer& transfer) {
  ASSIGN_OR_RETURN(const std::optional<Json> found, FindTransfer(ctx, api, transfer));
  if (!found.has_value() || HasEnded(GetString(*found, {"status", "phase"}))) {
    return absl::OkStatus();
  }
  const absl::Status patched =
      api.Patch(ctx,
                {.type = transfer.type,
                 .namespace_name = transfer.namespace_name,
                 .name = k8s::Name(*found)},
                k8s::PatchKind::kMerge, Json{{"spec", {{"cancel", true}}}}, "")
          .status();
  return k8s::IgnoreNotFound(patched);
}

}  // namespace csidelta::csi
