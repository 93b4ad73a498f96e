#include "snapshots/room_wait.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/claim_provisioning.h"
#include "snapshots/creation_failure.h"

namespace csidelta::snapshots {
namespace {

constexpr absl::Duration kRoomPause = absl::Minutes(1);
constexpr absl::Duration kRoomLookMin = absl::Seconds(1);

}  // namespace

absl::Status RoomWaiter::Consider(absl::string_view driver_error) {
  last_error_ = std::string(driver_error);
  const bool is_wanted = driver_error != full_error_ || ctx_.clock->Uptime() >= room_wanted_at_;
  if (make_room_ && ReportsNoRoom(driver_error) && is_wanted) {
    return OutOfRoomError(RoomLimit::kDriver, driver_error);
  }
  return csi::IsDefiniteRefusal(driver_error)
             ? absl::FailedPreconditionError(absl::StrCat(
                   "the driver refuses to take a snapshot of ", what_, ": ", driver_error))
             : absl::OkStatus();
}

absl::Status RoomWaiter::WaitInSlices(
    const CallContext& limited, absl::FunctionRef<absl::Status(const CallContext& slice)> once) {
  while (true) {
    const bool has_made_room = !full_error_.empty();
    const CallContext slice =
        has_made_room
            ? limited.WithTimeout(std::max(room_wanted_at_ - ctx_.clock->Uptime(), kRoomLookMin))
            : limited;
    const absl::Status status = once(slice);
    if (OutOfRoom(status) == RoomLimit::kDriver) {
      RETURN_IF_ERROR(make_room_(OutOfRoomError(RoomLimit::kDriver, last_error_)));
      full_error_ = last_error_;
      room_wanted_at_ = ctx_.clock->Uptime() + kRoomPause;
    } else if (!has_made_room || !absl::IsDeadlineExceeded(status) || !limited.Check().ok()) {
      return status;
    }
  }
}

absl::Status RoomWaiter::Explain(const absl::Status& status, absl::Duration timeout) const {
  const bool could_make_room = !make_room_ && ReportsNoRoom(last_error_);
  return ExplainTimeout(
      status, what_, timeout,
      absl::StrCat(last_error_, could_make_room
                                    ? "; --make-room deletes the oldest that the keep rules allow"
                                    : ""));
}

}  // namespace csidelta::snapshots
