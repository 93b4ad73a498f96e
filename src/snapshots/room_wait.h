#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "snapshots/volume_guard.h"

namespace csidelta::snapshots {

// Makes room in the driver, which refused with an OutOfRoom() status; the sidecar asks it again by
// itself. An error ends what waits for the driver. May be null: the driver is waited for.
using RoomInDriver = std::function<absl::Status(const absl::Status& refused)>;

// Waits for what the driver takes, with the Leases of a guard, and has room made where the driver
// reports that it has none. For the same error room is made again only after a pause: the sidecar
// does not report it twice, and asks the driver many times meanwhile. Not thread-safe. Borrows all
// that it is given.
class RoomWaiter {
 public:
  // `what`: of which a snapshot is taken, for messages: "PVC shop/data".
  RoomWaiter(const CallContext& ctx, VolumeGuard& guard, const RoomInDriver& make_room,
             std::string what)
      : ctx_(ctx), guard_(guard), make_room_(make_room), what_(std::move(what)) {}

  // For the predicate of WaitFor(), with what the driver reports ("": nothing). An OutOfRoom()
  // status where room is to be made, which WaitFor() does; FAILED_PRECONDITION where the driver
  // refuses with an error that asking again does not change.
  absl::Status Consider(absl::string_view driver_error);

  // As LeaseWaiter::WaitFor().
  template <typename Kind>
  absl::Status WaitFor(const CallContext& limited, const k8s::ObjectKey& key,
                       objects::Predicate<Kind> done, const Kind* known) {
    return WaitInSlices(limited, [&](const CallContext& slice) {
      return guard_.Waiter(slice).WaitFor<Kind>(key, done, std::exchange(known, nullptr));
    });
  }

  // ExplainTimeout(), with what the driver reported last, and, where room could be made and is not,
  // how.
  absl::Status Explain(const absl::Status& status, absl::Duration timeout) const;

 private:
  absl::Status WaitInSlices(const CallContext& limited,
                            absl::FunctionRef<absl::Status(const CallContext& slice)> once);

  const CallContext& ctx_;
  VolumeGuard& guard_;
  const RoomInDriver& make_room_;
  const std::string what_;
  std::string last_error_;         // that was considered
  std::string full_error_;         // for which room was made; "": for none yet
  absl::Duration room_wanted_at_;  // for the same one again; an uptime
};

}  // namespace csidelta::snapshots
