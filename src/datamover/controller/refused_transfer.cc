#include "datamover/controller/refused_transfer.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

constexpr absl::Duration kTryAgainFirst = absl::Seconds(2);
constexpr absl::Duration kTryAgainMax = absl::Seconds(30);
// Of the time since it was refused first.
constexpr int kPausePart = 8;

}  // namespace

bool IsRefused(const TransferObject& transfer) {
  return transfer.TimeOf(objects::kRefusedSinceAnnotation).has_value();
}

void RecordRefusal(absl::string_view words, absl::Time since, TransferObject& transfer) {
  if (!IsRefused(transfer)) {
    transfer.SetTime(objects::kRefusedSinceAnnotation, since);
  }
  if (!words.empty() && transfer.Annotation(objects::kRefusalAnnotation) != words) {
    transfer.SetAnnotation(objects::kRefusalAnnotation, words);
  }
}

void EndRefusal(TransferObject& transfer) {
  transfer.RemoveAnnotation(objects::kRefusedSinceAnnotation);
  transfer.RemoveAnnotation(objects::kRefusalAnnotation);
}

absl::Time TriesAgainAt(const TransferObject& transfer) {
  const std::optional<absl::Time> since = transfer.TimeOf(objects::kRefusedSinceAnnotation);
  const std::optional<absl::Time> tried_at = transfer.TimeOf(objects::kAwaitingAtAnnotation);
  if (!since.has_value() || !tried_at.has_value()) {
    return absl::InfinitePast();
  }
  return *tried_at + std::clamp((*tried_at - *since) / kPausePart, kTryAgainFirst, kTryAgainMax);
}

std::string WithRefusal(absl::string_view waits_for, const TransferObject& transfer) {
  const std::string words = transfer.Annotation(objects::kRefusalAnnotation);
  return words.empty() || waits_for.empty()
             ? std::string(waits_for)
             : absl::StrCat(waits_for, "; it was refused before: ", words);
}

}  // namespace csidelta::datamover
