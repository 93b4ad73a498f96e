#include "incremental/listing_failure.h"

#include <array>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/types/optional.h"
#include "base/check.h"

namespace csidelta::incremental {
namespace {

constexpr char kPayload[] = "csi-delta/listing-failure";

constexpr std::array<std::pair<ListingFailure, absl::string_view>, 7> kNames = {
    {{ListingFailure::kBaseGone, "base-snapshot-gone"},
     {ListingFailure::kDriverHasNoService, "driver-has-no-metadata-service"},
     {ListingFailure::kMetadataUnavailable, "metadata-unavailable"},
     {ListingFailure::kMetadataVersion, "metadata-version"},
     {ListingFailure::kNotComparable, "not-comparable"},
     {ListingFailure::kMalformedList, "malformed-list"},
     {ListingFailure::kPermanent, "permanent"}}};

}  // namespace

absl::string_view ListingFailureName(ListingFailure failure) {
  for (const auto& [known, name] : kNames) {
    if (known == failure) {
      return name;
    }
  }
  return "permanent";
}

absl::Status WithFailure(absl::Status status, ListingFailure failure) {
  CSIDELTA_CHECK(!status.ok());
  status.SetPayload(kPayload, absl::Cord(ListingFailureName(failure)));
  return status;
}

std::optional<ListingFailure> FailureOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  if (!payload.has_value()) {
    return std::nullopt;
  }
  for (const auto& [failure, name] : kNames) {
    if (*payload == name) {
      return failure;
    }
  }
  return std::nullopt;
}

}  // namespace csidelta::incremental
