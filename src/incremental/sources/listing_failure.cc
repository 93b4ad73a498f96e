#include "incremental/sources/listing_failure.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_replace.h"
#include "absl/types/optional.h"
#include "base/check.h"
#include "base/enum_names.h"

namespace csidelta::incremental {
namespace {

constexpr std::size_t kServerTextMax = 512;
constexpr char kPayload[] = "csi-delta/listing-failure";

constexpr EnumNames<ListingFailure, 8> kNames = {
    {{ListingFailure::kBaseGone, "base-snapshot-gone"},
     {ListingFailure::kDriverHasNoService, "driver-has-no-metadata-service"},
     {ListingFailure::kMetadataUnavailable, "metadata-unavailable"},
     {ListingFailure::kMetadataVersion, "metadata-version"},
     {ListingFailure::kNotComparable, "not-comparable"},
     {ListingFailure::kMalformedList, "malformed-list"},
     {ListingFailure::kOtherBase, "other-base"},
     {ListingFailure::kPermanent, "permanent"}}};

}  // namespace

absl::Status WithFailure(absl::Status status, ListingFailure failure) {
  CSIDELTA_CHECK(!status.ok());
  status.SetPayload(kPayload, absl::Cord(EnumName(kNames, failure)));
  return status;
}

std::optional<ListingFailure> FailureOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  if (!payload.has_value()) {
    return std::nullopt;
  }
  return EnumValue(kNames, std::string(*payload));
}

std::string HarmlessText(absl::string_view text, const std::vector<absl::string_view>& secrets) {
  std::string harmless(text);
  for (const absl::string_view secret : secrets) {
    if (!secret.empty()) {
      harmless = absl::StrReplaceAll(harmless, {{secret, "***"}});
    }
  }
  if (harmless.size() > kServerTextMax) {
    harmless.resize(kServerTextMax);
    harmless.append("...");
  }
  std::replace_if(
      harmless.begin(), harmless.end(), [](char c) { return c < 0x20 || c > 0x7E; }, '?');
  return harmless.empty() ? "no message" : harmless;
}

}  // namespace csidelta::incremental
