#include "csi/retry.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace csidelta::csi {

bool MayBeStarting(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status) ||
         absl::IsNotFound(status) || IsRetryable(status);
}

absl::Status WithMore(const absl::Status& status, absl::string_view more) {
  absl::Status longer(status.code(), absl::StrCat(status.message(), more));
  status.ForEachPayload(
      [&](absl::string_view type, const absl::Cord& payload) { longer.SetPayload(type, payload); });
  return longer;
}

}  // namespace csidelta::csi
