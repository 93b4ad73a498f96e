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

TransferObject::TransferObject(const k8s::ResourceType& type, objects::DataTransfer object)
    : type_(type), stored_(object), object_(std::move(object)) {}

k8s::ObjectKey TransferObject::key() const {
  return {type_, object_.namespace_name(), object_.name()};
}

std::string TransferObject::Annotation(absl::string_view key) const {
  return object_.Annotation(key);
}

std::optional<absl::Time> TransferObject::TimeOf(absl::string_view key) const {
  return ParseRfc3339(Annotation(key));
}

void TransferObject::SetPhase(objects::DataPhase phase) {
  object_.SetPhase(phase);
}

void TransferObject::SetMessage(absl::string_view message) {
  if (const std::string cut = CutText(message, kMessageBytesMax); cut != object_.message()) {
    object_.SetMessage(cut);
  }
}

void TransferObject::SetAnnotation(absl::string_view key, absl::string_view value) {
  object_.SetAnnotation(key, CutText(value, kMessageBytesMax));
}

void TransferObject::SetTime(absl::string_view key, absl::Time time) {
  SetAnnotation(key, FormatRfc3339(time));
}

void TransferObject::RemoveAnnotation(absl::string_view key) {
  if (!Annotation(key).empty()) {
    object_.RemoveAnnotation(key);
  }
}

void TransferObject::AddFinalizer() {
  if (object_.is_being_deleted()) {
    return;
  }
  RemoveFinalizer();
  std::vector<std::string> finalizers = object_.finalizers();
  finalizers.push_back(objects::kMoverFinalizer);
  object_.SetFinalizers(finalizers);
}

absl::Status TransferObject::Write(const CallContext& ctx, k8s::ApiClient& api) {
  if (object_ == stored_) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(object_, objects::Update(ctx, api, key(), object_));
  stored_ = object_;
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
