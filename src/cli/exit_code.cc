#include "cli/exit_code.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "csi/lock.h"
#include "incremental/mover/block_uploader.h"
#include "repository/repository.h"

namespace csidelta::cli {
namespace {

constexpr char kInterrupted[] = "interrupted";
constexpr char kNothingChanged[] = "nothing is changed";
constexpr char kReadOnly[] = "Read-only file system";

// The next step for a status without an exit code of its own, if it is right for every verb; ""
// otherwise. A message with "; " has its own step.
absl::string_view NextStep(const absl::Status& status, absl::string_view location) {
  switch (status.code()) {
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return absl::StrContains(status.message(), kReadOnly)
                 ? ""
                 : "check the rights and the credentials of this user";
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      return "try again later";
    case absl::StatusCode::kResourceExhausted:
      return "make room, or raise the limit that was met, and run it again";
    case absl::StatusCode::kDataLoss:
      return location.empty() ? "" : "csi-delta check --read-data finds what else is damaged";
    case absl::StatusCode::kInternal:
      return "this is an error of csi-delta, please report it";
    default:
      return "";
  }
}

}  // namespace

ExitCode ExitCodeOf(const absl::Status& status) {
  CSIDELTA_CHECK(!status.ok());  // a success would exit with kFailed
  if (repository::IsNoRepository(status)) {
    return ExitCode::kNoRepository;
  }
  if (repository::IsWrongPassword(status)) {
    return ExitCode::kWrongPassword;
  }
  if (repository::IsLocked(status) || csi::IsVolumeBusy(status)) {
    return ExitCode::kLocked;
  }
  if (incremental::IsFallbackRefused(status)) {
    return ExitCode::kFallbackRefused;
  }
  if (engine::IsTargetTooSmall(status)) {
    return ExitCode::kTargetTooSmall;
  }
  return absl::IsCancelled(status) ? ExitCode::kInterrupted : ExitCode::kFailed;
}

std::string Explain(const absl::Status& status, absl::string_view location) {
  const absl::string_view message = status.message();
  // A message with a next step of its own: of several keys, of the repository to copy from, of a
  // PVC that is not made.
  const bool has_step = absl::StrContains(message, "; ");
  absl::string_view step = NextStep(status, location);
  switch (ExitCodeOf(status)) {
    case ExitCode::kNoRepository:
      step = "make one with csi-delta init, or give another address with --repo";
      break;
    case ExitCode::kWrongPassword:
      if (!has_step) {
        return absl::StrCat("the password does not open ", location,
                            "; give the right one with --password-file or RESTIC_PASSWORD");
      }
      break;
    case ExitCode::kLocked:
      if (csi::IsVolumeBusy(status) && absl::StrContains(message, kNothingChanged)) {
        return std::string(message);  // of an in-place restore, which does not wait
      }
      if (csi::IsVolumeBusy(status)) {
        return absl::StrCat(message, "; wait for it with --wait-lease, or try again later");
      }
      return absl::StrCat(message, "; wait for it with --retry-lock, or try again later");
    case ExitCode::kFallbackRefused:
      return absl::StrCat(message, "; allow it with --on-fallback proceed");
    case ExitCode::kTargetTooSmall:
      step = "give a larger target, nothing was written";
      break;
    case ExitCode::kInterrupted:
      return absl::StartsWith(message, kInterrupted) ? std::string(message)
                                                     : std::string(kInterrupted);
    default:
      break;
  }
  return has_step || step.empty() ? std::string(message) : absl::StrCat(message, "; ", step);
}

}  // namespace csidelta::cli
