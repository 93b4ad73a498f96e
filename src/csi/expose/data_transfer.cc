#include "csi/expose/data_transfer.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

using objects::DataPhase;

constexpr size_t kObjectNameBytesMax = 253;
constexpr size_t kNameDigits = 20;

// The error that the operation ended with; "" if it succeeded.
template <typename Kind>
std::string ErrorOf(const Kind& object, DataPhase phase) {
  if (phase == DataPhase::kCompleted) {
    return "";
  }
  const std::string message = object.message();
  const std::string what = absl::StrCat(NameText(object.key()),
                                        phase == DataPhase::kFailed ? " failed" : " is canceled");
  return absl::StrCat(what, ": ", message.empty() ? "the data mover does not say why" : message);
}

}  // namespace

std::string UploadOperationId(absl::string_view backup_uid, absl::string_view claim_uid) {
  return velero::ValidLabelValue(absl::StrCat("du-", backup_uid, ".", claim_uid));
}

std::string DownloadOperationId(absl::string_view restore_uid, absl::string_view claim_uid) {
  return velero::ValidLabelValue(absl::StrCat("dd-", restore_uid, ".", claim_uid));
}

std::string TransferName(absl::string_view prefix, absl::string_view operation_id) {
  return absl::StrCat(prefix.substr(0, kObjectNameBytesMax - 1 - kNameDigits), "-",
                      Sha256Hex(operation_id).substr(0, kNameDigits));
}

template <typename Kind>
absl::StatusOr<std::optional<Kind>> Transfer<Kind>::Find(const CallContext& ctx,
                                                         k8s::ApiClient& api) const {
  ASSIGN_OR_RETURN(auto found,
                   objects::List<Kind>(ctx, api, namespace_name,
                                       {.label_selector = absl::StrCat(
                                            objects::kAsyncOperationIdLabel, "=", operation_id)}));
  if (found.size() > 1) {
    return absl::FailedPreconditionError(absl::StrCat(NameText(found[0].key()), " and ",
                                                      found[1].name(), " are both for operation ",
                                                      operation_id));
  }
  return found.empty() ? std::nullopt : std::make_optional(std::move(found[0]));
}

template <typename Kind>
absl::StatusOr<Kind> Transfer<Kind>::Ensure(const CallContext& ctx, k8s::ApiClient& api,
                                            const Kind& object) const {
  ASSIGN_OR_RETURN(std::optional<Kind> there, Find(ctx, api));
  if (there.has_value()) {
    return *std::move(there);
  }
  absl::StatusOr<Kind> created = objects::Create<Kind>(ctx, api, object);
  if (absl::IsAlreadyExists(created.status())) {
    ASSIGN_OR_RETURN(there, Find(ctx, api));
    return there.has_value() ? absl::StatusOr<Kind>(*std::move(there)) : created;
  }
  return created;
}

template <typename Kind>
velero::OperationProgress Transfer<Kind>::Progress(const CallContext& ctx,
                                                   const Environment& env) const {
  velero::OperationProgress progress;
  progress.units = "Bytes";
  const absl::StatusOr<std::optional<Kind>> found = Find(ctx, env.api);
  if (!found.ok()) {
    progress.description = found.status().ToString();
    return progress;
  }
  if (!found->has_value()) {
    progress.completed = true;
    progress.error = absl::StrCat("the ", Kind::kKind.kind, " of operation ", operation_id,
                                  " is gone from namespace ", namespace_name);
    progress.description = "gone";
    progress.started = progress.updated = env.clock.Now();
    return progress;
  }
  const Kind& object = **found;
  const DataPhase phase = object.known_phase();
  if (phase == DataPhase::kNew) {
    return progress;
  }
  const std::string message = object.message();
  progress.description =
      message.empty() ? object.phase() : absl::StrCat(object.phase(), ": ", message);
  progress.completed_units = object.done_bytes();
  progress.total_units = object.total_bytes();
  progress.started = object.started_at();
  if (!progress.started.has_value()) {
    progress.started = object.accepted_at();
  }
  progress.updated = object.completed_at();
  if (object.is_over()) {
    progress.completed = true;
    progress.error = ErrorOf(object, phase);
  }
  return progress;
}

template <typename Kind>
absl::Status Transfer<Kind>::Cancel(const CallContext& ctx, k8s::ApiClient& api) const {
  ASSIGN_OR_RETURN(const std::optional<Kind> found, Find(ctx, api));
  if (!found.has_value() || found->is_over()) {
    return absl::OkStatus();
  }
  return k8s::IgnoreNotFound(objects::Apply(ctx, api, Kind::Key(namespace_name, found->name()),
                                            objects::Patch().Cancel()));
}

template struct Transfer<objects::DataUpload>;
template struct Transfer<objects::DataDownload>;

}  // namespace csidelta::csi
