#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace csidelta::incremental {

// Why a source could not list, in terms of what to do next. Beside the status' code, which says
// what happened: a source that asks a driver knows more than the code tells.
enum class ListingFailure {
  kBaseGone,             // the base is not there any more: list what is allocated
  kDriverHasNoService,   // no service to ask: read everything
  kMetadataUnavailable,  // there is a service, but no answer came: read everything, ask next time
  kMetadataVersion,      // an old service, which may have understood the base as something else
  kNotComparable,        // the driver will not compare these two: list what is allocated
  kMalformedList,        // what was listed contradicts itself: believe none of it
  kOtherBase,            // a list that was made beforehand is of another base: read everything
  kPermanent,            // a person must act; reading everything would hide it
};

// `status`, which is an error, with the class as a payload. Annotate() keeps it.
absl::Status WithFailure(absl::Status status, ListingFailure failure);

// The class of an error; nothing when its source gave none.
std::optional<ListingFailure> FailureOf(const absl::Status& status);

// A server's text as it may be in a message: short, printable, and each of `secrets` in
// it ***.
std::string HarmlessText(absl::string_view text, const std::vector<absl::string_view>& secrets);

}  // namespace csidelta::incremental
