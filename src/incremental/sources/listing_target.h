#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "csi/bound_snapshot.h"
#include "incremental/sources/changed_block_source.h"
#include "incremental/sources/listing_failure.h"
#include "k8s/api_client.h"

// What sources have in common whose target is a VolumeSnapshot: "namespace/name".
namespace csidelta::incremental {

// What is remembered of the volume snapshot that is the base. What is not known is not compared.
struct BaseState {
  std::string driver;
  std::string volume_handle;
  std::optional<absl::Time> creation_time;
};

// An error of `failure`, with the code that the seam has for it, and what to do about it.
absl::Status GiveUp(ListingFailure failure, const absl::Status& status, absl::string_view advice);

// What an answer of the API server means for the listing.
absl::Status OfApiServer(const absl::Status& status);

// Reads the VolumeSnapshot that `request.target` names, which must be ready. Errors have their
// class, but those of `ctx`, which are returned as they are.
absl::StatusOr<csi::BoundSnapshot> ReadTarget(const CallContext& ctx, k8s::ApiClient& api,
                                              const DiffRequest& request);

// Whether the two can be compared by what is known of them: kNotComparable, and why.
absl::Status CompareWithBase(const BaseState& base, const csi::BoundSnapshot& target);

}  // namespace csidelta::incremental
