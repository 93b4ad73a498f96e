#include "datamover/transfer_object.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/human_text.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "objects/client.h"

namespace csidelta::datamover {
namespace {

constexpr std::size_t kMessageBytesMax = 2048;
constexpr absl::Duration kTryAgainFirst = absl::Seconds(2);
constexpr absl::Duration kTryAgainMax = absl::Seconds(30);
// Of the time since it was refused first.
constexpr int kPausePart = 8;

}  // namespace

std::optional<absl::Time> TransferObject::TimeOf(absl::string_view key) const {
  return ParseRfc3339(Annotation(key));
}

void TransferObject::SetMessage(absl::string_view message) {
  if (const std::string trimmed = CutText(message, kMessageBytesMax); trimmed != this->message()) {
    DataTransfer::SetMessage(trimmed);
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

void TransferObject::RecordRefusal(absl::string_view message, absl::Time since) {
  if (!is_refused()) {
    SetTime(objects::kRefusedSinceAnnotation, since);
  }
  if (!message.empty() && Annotation(objects::kRefusalAnnotation) != message) {
    SetAnnotation(objects::kRefusalAnnotation, message);
  }
}

void TransferObject::EndRefusal() {
  RemoveAnnotation(objects::kRefusedSinceAnnotation);
  RemoveAnnotation(objects::kRefusalAnnotation);
}

absl::Time TransferObject::TriesAgainAt() const {
  const std::optional<absl::Time> since = TimeOf(objects::kRefusedSinceAnnotation);
  const std::optional<absl::Time> tried_at = TimeOf(objects::kAwaitingAtAnnotation);
  if (!since.has_value() || !tried_at.has_value()) {
    return absl::InfinitePast();
  }
  return *tried_at + std::clamp((*tried_at - *since) / kPausePart, kTryAgainFirst, kTryAgainMax);
}

std::string TransferObject::WithRefusal(absl::string_view waits_for) const {
  const std::string refusal = Annotation(objects::kRefusalAnnotation);
  return refusal.empty() || waits_for.empty()
             ? std::string(waits_for)
             : absl::StrCat(waits_for, "; it was refused before: ", refusal);
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
