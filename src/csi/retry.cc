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

absl::Status CleanUpAfter(
    const absl::Status& status, const Clock& clock, absl::string_view what,
    absl::FunctionRef<absl::StatusOr<std::string>(const CallContext& after)> remove) {
  const CallContext after = CleanUpContext(clock);
  const absl::Duration give_up_at = clock.Uptime() + kRefusalGracePeriod;
  absl::StatusOr<std::string> removed = remove(after);
  while (!removed.ok() && MayBeStarting(removed.status()) && clock.Uptime() < give_up_at) {
    clock.SleepFor(kRefusalPause, after.stop);
    removed = remove(after);
  }
  if (removed.ok()) {
    return removed->empty() ? status : WithMore(status, absl::StrCat("; ", what, *removed));
  }
  return WithMore(status, absl::StrCat("; ", what, " is left, because it cannot be deleted: ",
                                       removed.status().message()));
}

}  // namespace csidelta::csi
