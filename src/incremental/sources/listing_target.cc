#include "incremental/sources/listing_target.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace csidelta::incremental {
namespace {

absl::StatusCode CodeOf(ListingFailure failure, absl::StatusCode code) {
  switch (failure) {
    case ListingFailure::kBaseGone:
      return absl::StatusCode::kNotFound;
    case ListingFailure::kMetadataUnavailable:
      return absl::StatusCode::kUnavailable;
    case ListingFailure::kMalformedList:
      return absl::StatusCode::kInvalidArgument;
    case ListingFailure::kDriverHasNoService:
    case ListingFailure::kMetadataVersion:
    case ListingFailure::kNotComparable:
    case ListingFailure::kOtherBase:
      return absl::StatusCode::kFailedPrecondition;
    case ListingFailure::kPermanent:
      break;
  }
  return code;
}

}  // namespace

absl::Status GiveUp(ListingFailure failure, const absl::Status& status, absl::string_view advice) {
  return WithFailure(
      absl::Status(CodeOf(failure, status.code()),
                   absl::StrCat(status.message(), advice.empty() ? "" : "; ", advice)),
      failure);
}

absl::Status OfApiServer(const absl::Status& status) {
  const bool may_pass = IsRetryable(status) || absl::IsInternal(status);
  return GiveUp(
      may_pass ? ListingFailure::kMetadataUnavailable : ListingFailure::kPermanent, status,
      absl::IsPermissionDenied(status) ? "grant it; docs/changed-blocks.md lists what is needed"
                                       : "");
}

absl::StatusOr<csi::BoundSnapshot> ReadTarget(const CallContext& ctx, k8s::ApiClient& api,
                                              const DiffRequest& request) {
  const std::vector<std::string> parts = absl::StrSplit(request.target, '/');
  if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
    return GiveUp(ListingFailure::kPermanent,
                  absl::InvalidArgumentError(absl::StrCat("volume snapshot \"", request.target,
                                                          "\" is not NAMESPACE/NAME")),
                  "");
  }
  absl::StatusOr<csi::BoundSnapshot> found =
      csi::ReadBoundSnapshot(ctx, api, parts[0], parts[1], "");
  RETURN_IF_ERROR(ctx.Check());
  return found.ok() ? std::move(found) : OfApiServer(found.status());
}

absl::Status CompareWithBase(const BaseState& base, const csi::BoundSnapshot& target) {
  std::string difference;
  if (!base.driver.empty() && base.driver != target.driver) {
    difference =
        absl::StrCat("the base is of driver ", base.driver, ", the target of ", target.driver);
  } else if (!base.volume_handle.empty() && !target.volume_handle.empty() &&
             base.volume_handle != target.volume_handle) {
    difference = absl::StrCat("the base is of volume ", base.volume_handle, ", the target of ",
                              target.volume_handle);
  } else if (base.creation_time.has_value() && target.creation_time.has_value() &&
             *base.creation_time > *target.creation_time) {
    difference = "the base is newer than the target";
  }
  return difference.empty() ? absl::OkStatus()
                            : GiveUp(ListingFailure::kNotComparable,
                                     absl::FailedPreconditionError(difference), "");
}

}  // namespace csidelta::incremental
