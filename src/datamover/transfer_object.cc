#include "datamover/transfer_object.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/human_text.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "objects/client.h"

namespace csidelta::datamover {
namespace {

constexpr std::size_t kMessageBytesMax = 2048;

}  // namespace

std::optional<absl::Time> TransferObject::TimeOf(absl::string_view key) const {
  return ParseRfc3339(Annotation(key));
}

void TransferObject::SetMessage(absl::string_view message) {
  if (const std::string cut = CutText(message, kMessageBytesMax); cut != this->message()) {
    DataTransfer::SetMessage(cut);
  }
}

void TransferObject::SetAnnotation(absl::string_view key, absl::string_view value) {
  DataTransfer::SetAnnotation(key, CutText(value, kMessageBytesMax));
}

void TransferObject::SetTime(absl::string_view key, absl::Time time) {
  SetAnnotation(key, FormatRfc3339(time));
}

void TransferObject::AddFinalizer() {
  if (is_being_deleted()) {
    return;
  }
  RemoveFinalizer();
  std::vector<std::string> all = finalizers();
  all.push_back(objects::kMoverFinalizer);
  SetFinalizers(all);
}

absl::Status TransferObject::Write(const CallContext& ctx, k8s::ApiClient& api) {
  if (object() == stored_) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(stored_, objects::Update(ctx, api, key(), object()));
  static_cast<DataTransfer&>(*this) = stored_;
  return absl::OkStatus();
}

std::optional<objects::OwnerReference> VeleroOwnerOf(const objects::DataTransfer& transfer,
                                                     absl::string_view kind) {
  for (objects::OwnerReference& owner : transfer.owners()) {
    if (owner.kind == kind && absl::StartsWith(owner.api_version, "velero.io/")) {
      return std::move(owner);
    }
  }
  return std::nullopt;
}

std::string OwningBackupOf(const objects::DataTransfer& upload) {
  return VeleroOwnerOf(upload, "Backup").value_or(objects::OwnerReference()).name;
}

}  // namespace csidelta::datamover
