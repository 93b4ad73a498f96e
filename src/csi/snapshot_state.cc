#include "csi/snapshot_state.h"

#include <array>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "csi/driver_error.h"

namespace csidelta::csi {
namespace {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;
using Kind = ContentReading::Kind;

struct Verdict {
  SnapshotState state = SnapshotState::kCreating;
  std::string reason;
  std::string message = {};
  std::optional<absl::Time> since = {};
};

std::optional<absl::Time> TakenAt(const VolumeSnapshot& snapshot, const ContentReading& reading) {
  if (reading.kind == Kind::kPresent && reading.content->taken_at().has_value()) {
    return reading.content->taken_at();  // With nanoseconds.
  }
  return snapshot.taken_at();
}

Verdict Deleting(const VolumeSnapshot& snapshot) {
  const std::vector<std::string> finalizers = snapshot.finalizers();
  return {.state = SnapshotState::kDeleting,
          .reason = finalizers.empty() ? "Requested" : "HeldByFinalizer",
          .message = finalizers.empty() ? ""
                                        : absl::StrCat("waits for the finalizers ",
                                                       absl::StrJoin(finalizers, ", ")),
          .since = snapshot.deleted_at()};
}

// The error of the binding, if any.
std::optional<Verdict> BrokenBinding(const VolumeSnapshot& snapshot,
                                     const ContentReading& reading) {
  if (!snapshot.bound_content().empty() && reading.kind == Kind::kGone) {
    return Verdict{.state = SnapshotState::kLost,
                   .reason = "ContentGone",
                   .message = absl::StrCat("VolumeSnapshotContent ", snapshot.bound_content(),
                                           " does not exist")};
  }
  if (reading.is_handle_gone) {
    return Verdict{.state = SnapshotState::kLost,
                   .reason = "HandleGone",
                   .message = "the storage does not have the snapshot"};
  }
  if (reading.kind == Kind::kPresent && !reading.content->Names(snapshot)) {
    return Verdict{.state = SnapshotState::kError,
                   .reason = "BoundToAnother",
                   .message = absl::StrCat("VolumeSnapshotContent ", reading.content->name(),
                                           " belongs to ", reading.content->snapshot_namespace(),
                                           "/", reading.content->snapshot_name())};
  }
  return std::nullopt;
}

Verdict Judge(const VolumeSnapshot& snapshot, const ContentReading& reading) {
  if (snapshot.is_being_deleted()) {
    return Deleting(snapshot);
  }
  if (std::optional<Verdict> broken = BrokenBinding(snapshot, reading)) {
    return *std::move(broken);
  }
  if (snapshot.is_ready() && !snapshot.source_content().empty() &&
      !snapshot.restore_size_bytes().has_value()) {
    return {.state = SnapshotState::kUnverified,
            .reason = "NoRestoreSize",
            .message = "the driver has not said that it has the snapshot",
            .since = snapshot.ready_at()};
  }
  if (snapshot.is_ready()) {
    return {.state = SnapshotState::kReady, .reason = "Ready", .since = snapshot.ready_at()};
  }
  if (std::optional<objects::SnapshotError> error = snapshot.error()) {
    return {.state = SnapshotState::kError,
            .reason = IsDefiniteRefusal(error->message) ? "Refused" : "Retried",
            .message = std::move(error->message),
            .since = error->time};
  }
  const std::optional<absl::Time> taken_at = TakenAt(snapshot, reading);
  const bool has_handle = reading.kind == Kind::kPresent && !reading.content->handle().empty();
  if (taken_at.has_value() && (has_handle || reading.kind != Kind::kPresent)) {
    return {.state = SnapshotState::kUploading,
            .reason = "Taken",
            .message = "taken; the application may go on",
            .since = taken_at};
  }
  const bool is_bound = !snapshot.bound_content().empty();
  return {.state = SnapshotState::kCreating,
          .reason = is_bound ? "AskedDriver" : "WaitsForController",
          .since = snapshot.created_at()};
}

}  // namespace

absl::string_view ToString(SnapshotState state) {
  constexpr std::array<absl::string_view, 7> kNames = {
      "Creating", "Uploading", "Ready", "Error", "Deleting", "Lost", "Unverified"};
  return kNames[static_cast<std::size_t>(state)];
}

bool IsUsable(SnapshotState state) {
  return state == SnapshotState::kReady || state == SnapshotState::kUnverified;
}

Usability UsabilityOf(const VolumeSnapshot& snapshot, const ContentReading& reading) {
  const SnapshotStatus status = StatusOf(snapshot, reading);
  const SnapshotCondition& condition = status.conditions.front();
  if (IsUsable(status.state) || condition.reason == "BoundToAnother") {
    return {};
  }
  const bool is_under_way = status.state == SnapshotState::kCreating ||
                            status.state == SnapshotState::kUploading ||
                            condition.reason == "Retried";
  return {.kind = is_under_way ? Usability::Kind::kNotYet : Usability::Kind::kNever,
          .why = absl::StrCat("VolumeSnapshot ", snapshot.namespace_name(), "/", snapshot.name(),
                              " is ", ToString(status.state), condition.message.empty() ? "" : ": ",
                              condition.message)};
}

bool IsBeingTaken(const VolumeSnapshot& snapshot, absl::Time now) {
  const auto created = snapshot.created_at();
  return StatusOf(snapshot, {}).state == SnapshotState::kCreating && created.has_value() &&
         now < *created + kOthersAgeMax;
}

SnapshotStatus StatusOf(const VolumeSnapshot& snapshot, const ContentReading& reading) {
  CSIDELTA_CHECK(reading.kind != Kind::kPresent || reading.content != nullptr);
  Verdict verdict = Judge(snapshot, reading);
  SnapshotStatus status = {.state = verdict.state, .taken_at = TakenAt(snapshot, reading)};
  status.conditions.push_back({.type = std::string(ToString(verdict.state)),
                               .holds = true,
                               .reason = verdict.reason,
                               .message = std::move(verdict.message),
                               .last_transition_time = verdict.since});
  if (verdict.state != SnapshotState::kReady) {
    status.conditions.push_back({.type = std::string(ToString(SnapshotState::kReady)),
                                 .holds = false,
                                 .reason = std::move(verdict.reason)});
  }
  return status;
}

}  // namespace csidelta::csi
