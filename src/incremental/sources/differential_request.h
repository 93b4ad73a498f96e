#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/random.h"
#include "base/retry.h"
#include "csi/expose/audience_tokens.h"
#include "incremental/sources/changed_block_source.h"
#include "incremental/sources/listing_target.h"
#include "k8s/api_client.h"
#include "net/http_client.h"

namespace csidelta::incremental {

struct DifferentialRequestOptions {
  BaseState base = {};
  // The storage vendor's own, NAME=VALUE, for the driver of the target. A server that asks its
  // driver by SnapshotMetadata refuses them.
  std::vector<std::string> parameters = {};
  // The kind may not be installed: not to be allowed to make one then means that there
  // is no service to ask.
  bool kind_may_be_absent = false;
  net::HttpClientOptions http = {
      .tls = {},
      .proxy = {},
      .limits = {.silence_max = absl::Minutes(9)}};  // The trust is the object's.
  int64_t entries_max = 16384;                       // of one page
  absl::Duration accept_time_max = absl::Seconds(30);
  absl::Duration answer_time_max = absl::Minutes(10);
  // One after the other, for one list: results do not live for ever.
  int objects_max = 3;
  absl::Duration leftover_age_max = absl::Hours(24);
  BackoffOptions page_backoff = {.delay_first = absl::Milliseconds(200),
                                 .delay_max = absl::Seconds(10),
                                 .attempts_max = 8,
                                 .jitter = 0.5};
};

// What changed, by way of a DifferentialSnapshot: an object of the target's namespace that a
// controller alongside the driver handles, and that then says where the list is served.
//
//   look at the target --> make the object --> Accepted --> Success: where, whose certificate,
//                               ^                              |     which audience
//                               |                              v
//                               +---- the result is gone -- page after page --> complete
//                                     (from where it ended)
//
// `request.target` is "namespace/name" of a VolumeSnapshot; `request.base` the base's snapshot
// handle; "" lists what is allocated. The driver that the object was resolved to must be the one
// that was asked for. The object is deleted at the end, also after a failure; what a run left that
// died goes with one that comes leftover_age_max later, or earlier with the controller.
//
// Errors carry a ListingFailure; those of the sink and of `ctx` are returned as they are.
// Thread-safe; borrows what it is given.
class DifferentialRequestSource : public ChangedBlockSource {
 public:
  DifferentialRequestSource(k8s::ApiClient& api, csi::AudienceTokens& tokens, Random& random,
                            DifferentialRequestOptions options)
      : api_(api), tokens_(tokens), random_(random), options_(std::move(options)) {}

  absl::string_view name() const override { return "differential-snapshot"; }
  bool lists_allocated() const override { return true; }

  absl::Status ListExtents(const CallContext& ctx, const DiffRequest& request,
                           ExtentSink sink) override;

 private:
  k8s::ApiClient& api_;
  csi::AudienceTokens& tokens_;
  Random& random_;
  const DifferentialRequestOptions options_;
};

}  // namespace csidelta::incremental
