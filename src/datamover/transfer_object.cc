#include "datamover/transfer_object.h"

#include <algorithm>
#include <utility>

#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "datamover/mover_environment.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

constexpr std::size_t kMessageBytesMax = 2048;

// Not cut inside of a character.
std::string Cut(absl::string_view text) {
  std::size_t end = std::min(text.size(), kMessageBytesMax);
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return std::string(text.substr(0, end));
}

}  // namespace

TransferObject::TransferObject(const k8s::ResourceType& type, Json object)
    : type_(type), stored_(object), object_(std::move(object)) {}

k8s::ObjectKey TransferObject::key() const {
  return {type_, k8s::Namespace(object_), k8s::Name(object_)};
}

std::string TransferObject::Annotation(absl::string_view key) const {
  return k8s::Annotation(object_, key);
}

std::optional<absl::Time> TransferObject::TimeOf(absl::string_view key) const {
  return ParseRfc3339(Annotation(key));
}

void TransferObject::SetPhase(velero::DataPhase phase) {
  SetStatus("phase", velero::ToString(phase));
}

void TransferObject::SetMessage(absl::string_view message) {
  if (std::string cut = Cut(message); cut != GetString(object_, {"status", "message"})) {
    SetStatus("message", std::move(cut));
  }
}

void TransferObject::SetStatus(absl::string_view field, Json value) {
  SetJson(object_, {"status", field}, std::move(value));
}

void TransferObject::SetAnnotation(absl::string_view key, absl::string_view value) {
  SetJson(object_, {"metadata", "annotations", key}, Cut(value));
}

void TransferObject::SetTime(absl::string_view key, absl::Time time) {
  SetAnnotation(key, FormatRfc3339(time));
}

void TransferObject::RemoveAnnotation(absl::string_view key) {
  if (!Annotation(key).empty()) {
    object_["metadata"]["annotations"].erase(std::string(key));
  }
}

void TransferObject::SetProgress(int64_t done_bytes, int64_t total_bytes) {
  SetStatus("progress", {{"bytesDone", done_bytes}, {"totalBytes", total_bytes}});
}

void TransferObject::AddFinalizer() {
  if (k8s::BeingDeleted(object_)) {
    return;
  }
  RemoveFinalizer();
  Json& finalizers = object_["metadata"]["finalizers"];
  if (!finalizers.is_array()) {
    finalizers = Json::array();
  }
  finalizers.push_back(objects::kMoverFinalizer);
}

void TransferObject::RemoveFinalizer() {
  const Json* found = FindJson(object_, {"metadata", "finalizers"});
  if (found == nullptr || !found->is_array()) {
    return;
  }
  Json others = Json::array();
  for (const Json& finalizer : *found) {
    if (finalizer != objects::kMoverFinalizer) {
      others.push_back(finalizer);
    }
  }
  SetJson(object_, {"metadata", "finalizers"}, std::move(others));
}

absl::Status TransferObject::Write(const CallContext& ctx, k8s::ApiClient& api) {
  if (object_ == stored_) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(object_, api.Update(ctx, key(), object_));
  stored_ = object_;
  return absl::OkStatus();
}

}  // namespace csidelta::datamover
