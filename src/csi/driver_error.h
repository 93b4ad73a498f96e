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

// True if repeating the request will not change `message`: the snapshot does not exist, or the
// request can never be met. `message`: of a driver, or of a provisioner's ProvisioningFailed event.
// Pure.
bool IsDefiniteRefusal(absl::string_view message);
// The two of these for which there is a remediation: the requested size is refused; what the volume
// is to be made of does not exist. Pure.
bool RefusesSize(absl::string_view message);
bool ReportsNoSource(absl::string_view message);
// True if the sidecar reports NOT_FOUND, or a listing without the snapshot. All else may pass.
// Pure.
bool ReportsMissingSnapshot(absl::string_view message);
// True if the driver reports that it has no room for a snapshot: ResourceExhausted, or the words of
// a driver that answers with another code. A limit of calls in a time passes, and is none. Pure.
bool ReportsNoRoom(absl::string_view driver_error);
// True if the driver does not have the call: Unimplemented. Pure.
bool ReportsNoSuchCall(absl::string_view driver_error);

// --- Room

// The limit that allows no more VolumeSnapshots.
enum class RoomLimit { kQuota, kDriver };

// The limit that `status` names; nothing for other statuses. Pure.
std::optional<RoomLimit> OutOfRoom(const absl::Status& status);
// RESOURCE_EXHAUSTED, for which OutOfRoom() returns `limit`. Pure.
absl::Status OutOfRoomError(RoomLimit limit, absl::string_view message);

// After a base was dropped: for the driver to delete it, and for the sidecar to try again.
inline constexpr absl::Duration kBaseDeletionTimeMax = absl::Minutes(5);

// The beginning of a ResourceQuota's refusal, as the API server's admission writes it.
inline constexpr absl::string_view kQuotaRefusal = "exceeded quota: ";
// Turns a ResourceQuota's refusal, which has the code of a missing right, into OutOfRoomError().
// Other statuses stay. Pure.
absl::Status AsQuotaRefusal(const absl::Status& status);

// Makes room in the driver, which refused with an OutOfRoom() status; the sidecar retries by
// itself. An error ends the wait for the driver. May be null: then the driver is waited for.
using RoomInDriver = std::function<absl::Status(const absl::Status& refused)>;

// --- Errors while a snapshot is waited for

// Drops a snapshot that csi-delta keeps of the volume for itself, a base, because the driver
// refused with `driver_error`. False if there is none that may go.
using BaseDropper = std::function<bool(absl::string_view driver_error)>;

// How long errors are tolerated: the sidecar retries after each of them.
struct ErrorRules {
  // A refusal can pass within this time: it can be a limit of calls per minute.
  absl::Duration refusal_is_final_after = absl::Minutes(1);
  absl::Duration no_room_is_final_after = absl::Minutes(1);
  RoomInDriver on_full = {};
  // Asked first if the driver has no room; then errors are tolerated while the driver deletes it.
  BaseDropper drop_base = {};
  std::string room_hint = {};  // how room could be made, for messages: "; --make-room deletes ..."
};

// The errors that the driver reports through the status of objects, while these are waited for. Not
// thread-safe. Borrows the clock.
class DriverErrors {
 public:
  // `what`: the object of the snapshot, for messages, "PVC shop/data". `timeout`: of the wait.
  // `awaited`: the state that is waited for, "taken".
  DriverErrors(const Clock& clock, std::string what, absl::Duration timeout, ErrorRules rules = {},
               std::string awaited = "taken")
      : clock_(clock),
        what_(std::move(what)),
        timeout_(timeout),
        rules_(std::move(rules)),
        awaited_(std::move(awaited)) {}

  // For the predicate of a wait, with the error that an object's status has now ("": none).
  // FAILED_PRECONDITION when the error is final. If the driver has no room, has room made. The same
  // error counts again only after a pause, because the sidecar reports it once and retries many
  // times. Errors of ErrorRules::on_full.
  absl::Status Check(absl::string_view error);

  // Adds the driver's last error to DEADLINE_EXCEEDED. Other statuses stay.
  absl::Status Explain(const absl::Status& status) const;

  // The error of the last Check().
  const std::string& last() const { return last_; }

 private:
  absl::Status MakeRoom();
  bool DropBase();

  const Clock& clock_;
  std::string what_;
  absl::Duration timeout_;
  ErrorRules rules_;
  std::string awaited_;
  std::string last_;
  absl::Time refused_since_ = absl::InfiniteFuture();
  absl::Duration room_wanted_at_;                            // for the same one again; an uptime
  absl::Duration base_gone_at_ = -absl::InfiniteDuration();  // expected; an uptime
};

}  // namespace csidelta::csi
