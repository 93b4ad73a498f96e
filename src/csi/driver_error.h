#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"

// Errors of a driver: when one is final, when it means that there is no room, and how it is quoted.
namespace csidelta::csi {

// Whether `message`, of a driver or of a provisioner's ProvisioningFailed event, is an answer that
// repeating the request will not change: the snapshot is not there, or the request can never be
// met. Pure.
bool IsDefiniteRefusal(absl::string_view message);
// Whether the driver reports that it has no room: ResourceExhausted. Pure.
bool ReportsNoRoom(absl::string_view driver_error);
// Whether the driver does not have the call at all: Unimplemented. Pure.
bool ReportsNoSuchCall(absl::string_view driver_error);

// --- Room

// What allows no more VolumeSnapshots.
enum class RoomLimit { kQuota, kDriver };

// Of a status that says so; nothing for all others. Pure.
std::optional<RoomLimit> OutOfRoom(const absl::Status& status);
// RESOURCE_EXHAUSTED, of which OutOfRoom() says `limit`. Pure.
absl::Status OutOfRoomError(RoomLimit limit, absl::string_view message);

// How the API server's admission begins to say that a quota is used up.
inline constexpr absl::string_view kQuotaRefusal = "exceeded quota: ";
// A ResourceQuota's refusal, which has the code of a missing right, as OutOfRoomError(); others
// stay. Pure.
absl::Status AsQuotaRefusal(const absl::Status& status);

// Makes room in the driver, which refused with an OutOfRoom() status; the sidecar asks it again by
// itself. An error ends the wait for the driver. May be null: the driver is waited for.
using RoomInDriver = std::function<absl::Status(const absl::Status& refused)>;

// --- Errors while a snapshot is waited for

// For how long errors are borne: the sidecar asks the driver again after every one.
struct ErrorRules {
  // How long a refusal may stand and still pass: a limit of calls per minute.
  absl::Duration refusal_is_final_after = absl::Minutes(1);
  absl::Duration no_room_is_final_after = absl::Minutes(1);
  RoomInDriver on_full = {};
  std::string room_hint = {};  // how room could be made, for messages: "; --make-room deletes ..."
};

// What the driver reports through the status of the objects, while they are waited for. Not
// thread-safe. Borrows the clock.
class DriverErrors {
 public:
  // `what` is taken, for messages: "PVC shop/data". `timeout`: how long it is waited for.
  // `awaited`: for what, "taken".
  DriverErrors(const Clock& clock, std::string what, absl::Duration timeout, ErrorRules rules = {},
               std::string awaited = "taken")
      : clock_(clock),
        what_(std::move(what)),
        timeout_(timeout),
        rules_(std::move(rules)),
        awaited_(std::move(awaited)) {}

  // For the predicate of a wait, with the error that an object's status has now ("": none).
  // FAILED_PRECONDITION when it is final. Has room made where the driver has none, and for the
  // same error again only after a pause: the sidecar does not report it twice, and asks the driver
  // many times meanwhile. Errors of ErrorRules::on_full.
  absl::Status Check(absl::string_view error);

  // DEADLINE_EXCEEDED becomes a sentence with what the driver reported last. Others stay.
  absl::Status Explain(const absl::Status& status) const;

  // What was checked last.
  const std::string& last() const { return last_; }

 private:
  absl::Status MakeRoom();

  const Clock& clock_;
  std::string what_;
  absl::Duration timeout_;
  ErrorRules rules_;
  std::string awaited_;
  std::string last_;
  absl::Time refused_since_ = absl::InfiniteFuture();
  std::string full_error_;         // for which room was made; "": for none yet
  absl::Duration room_wanted_at_;  // for the same one again; an uptime
};

}  // namespace csidelta::csi
