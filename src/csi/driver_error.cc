#include "csi/driver_error.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace csidelta::csi {
namespace {

constexpr char kRoomPayload[] = "csi-delta/out-of-room";
constexpr absl::Duration kRoomPause = absl::Minutes(1);

bool HasAnyOf(absl::string_view text, std::initializer_list<absl::string_view> words) {
  return absl::c_any_of(words,
                        [&](absl::string_view word) { return absl::StrContains(text, word); });
}

// DigitalOcean: "rate-limited - one request per 10m0s"; AWS:
// "SnapshotCreationPerVolumeRateExceeded"; Compute Engine: "rateLimitExceeded".
bool ReportsRateLimit(absl::string_view driver_error) {
  const std::string text =
      absl::StrReplaceAll(absl::AsciiStrToLower(driver_error), {{" ", ""}, {"-", ""}});
  return HasAnyOf(text, {"ratelimit", "rateexceeded", "requestlimitexceeded", "toomanyrequests",
                         "throttl", "toofrequent"});
}

}  // namespace

bool IsDefiniteRefusal(absl::string_view message) {
  return RefusesSize(message) || ReportsNoSource(message) ||
         HasAnyOf(message, {"code = InvalidArgument", "code = Unimplemented",
                            "modifies the mode of the source volume"});
}

bool RefusesSize(absl::string_view message) {
  return absl::StrContains(message, "code = OutOfRange") ||
         // vSphere's, of any size but the snapshot's
         (absl::StrContains(message, "code = InvalidArgument") &&
          absl::StrContains(message, "snapshot size")) ||
         absl::StrContains(message, "is less than the size");  // csi-provisioner's own
}

bool ReportsNoSource(absl::string_view message) {
  return absl::StrContains(message, "code = NotFound") ||
         // Longhorn's, with "code = Internal": the snapshot or its volume is gone.
         (absl::StrContains(message, "failed to verify data source") &&
          absl::StrContains(message, "not found"));
}

bool ReportsMissingSnapshot(absl::string_view message) {
  const std::string text = absl::AsciiStrToLower(message);
  return absl::StrContains(text, "can not find snapshot for snapshotid") ||
         absl::StrContains(text, "code = notfound");
}

bool ReportsNoRoom(absl::string_view driver_error) {
  const std::string text = absl::AsciiStrToLower(driver_error);  // An error may quote another.
  // The words before "desc" are the sidecar's, and always name a snapshot.
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(text, absl::MaxSplits(" desc = ", 1));
  // vSphere, IBM Storage Scale, Mayastor, Longhorn.
  const bool names_limit = absl::StrContains(parts.second, "snapshot") &&
                           HasAnyOf(parts.second, {"configured maximum", "maximum limit of",
                                                   "max limit of snapshots", "snapshotmaxcount"});
  return !ReportsRateLimit(driver_error) &&
         (HasAnyOf(text, {"code = resourceexhausted"}) ||
          (names_limit &&
           HasAnyOf(text, {"code = failedprecondition", "code = outofrange", "code = internal"})));
}

bool ReportsNoSuchCall(absl::string_view driver_error) {
  return absl::StrContains(driver_error, "code = Unimplemented ");
}

std::optional<RoomLimit> OutOfRoom(const absl::Status& status) {
  const auto payload = status.GetPayload(kRoomPayload);
  if (!payload.has_value()) {
    return std::nullopt;
  }
  return *payload == "quota" ? RoomLimit::kQuota : RoomLimit::kDriver;
}

absl::Status OutOfRoomError(RoomLimit limit, absl::string_view message) {
  absl::Status status = absl::ResourceExhaustedError(message);
  status.SetPayload(kRoomPayload, absl::Cord(limit == RoomLimit::kQuota ? "quota" : "driver"));
  return status;
}

absl::Status AsQuotaRefusal(const absl::Status& status) {
  return absl::IsPermissionDenied(status) && absl::StrContains(status.message(), kQuotaRefusal)
             ? OutOfRoomError(RoomLimit::kQuota, status.message())
             : status;
}

absl::Status DriverErrors::Check(absl::string_view error) {
  last_ = std::string(error);
  const bool has_no_room = ReportsNoRoom(error);
  if (has_no_room && rules_.on_full) {
    return MakeRoom();
  }
  if (has_no_room && rules_.drop_base && DropBase()) {
    return absl::OkStatus();
  }
  if (!has_no_room && !IsDefiniteRefusal(error)) {
    refused_since_ = absl::InfiniteFuture();
    return absl::OkStatus();
  }
  const absl::Time now = clock_.Now();
  refused_since_ = std::min(refused_since_, now);
  if (now < refused_since_ +
                (has_no_room ? rules_.no_room_is_final_after : rules_.refusal_is_final_after)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat("the driver refuses to take a snapshot of ",
                                                    what_, ": ", last_,
                                                    has_no_room ? rules_.room_hint : ""));
}

absl::Status DriverErrors::MakeRoom() {
  if (clock_.Uptime() < room_wanted_at_) {  // Two answers may differ, in a request's id say.
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(rules_.on_full(OutOfRoomError(RoomLimit::kDriver, last_)));
  room_wanted_at_ = clock_.Uptime() + kRoomPause;
  return absl::OkStatus();
}

// True while a base that was dropped may still be there.
bool DriverErrors::DropBase() {
  if (clock_.Uptime() < base_gone_at_) {
    return true;
  }
  if (!rules_.drop_base(last_)) {
    return false;
  }
  base_gone_at_ = clock_.Uptime() + kBaseDeletionTimeMax;
  return true;
}

absl::Status DriverErrors::Explain(const absl::Status& status) const {
  if (!absl::IsDeadlineExceeded(status)) {
    return status;
  }
  const bool could_make_room = !rules_.on_full && ReportsNoRoom(last_);
  return absl::DeadlineExceededError(absl::StrCat(
      "no snapshot of ", what_, " was ", awaited_, " within ", absl::FormatDuration(timeout_),
      last_.empty() ? ", and the driver reported no error"
                    : absl::StrCat(": the driver reports: ", last_,
                                   could_make_room ? rules_.room_hint : "")));
}

}  // namespace csidelta::csi
