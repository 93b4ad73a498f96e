#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/random.h"
#include "base/retry.h"
#include "csi/expose/audience_tokens.h"
#include "csi/expose/metadata_service.h"
#include "incremental/sources/changed_block_source.h"
#include "incremental/sources/listing_target.h"
#include "k8s/api_client.h"

namespace csidelta::incremental {

struct CsiMetadataOptions {
  BaseState base;
  // The name in the server's certificate; "": what the driver's object says.
  std::string server_name;
  // Of one message; from 1 on. Servers may send less.
  int32_t results_per_message_max = 4096;
  int64_t message_bytes_max = int64_t{8} << 20;
  // Of one stream, from which the next goes on. The service ends each at 10 minutes by default,
  // without saying so.
  absl::Duration stream_time_max = absl::Minutes(9);
  // Between streams that bring nothing.
  BackoffOptions backoff = {
      .delay_first = absl::Milliseconds(500), .delay_max = absl::Seconds(30), .attempts_max = 6};
};

// What a CSI driver knows of its volume snapshots, by the service SnapshotMetadata beside it.
//
// `request.target` is "namespace/name" of a VolumeSnapshot; `request.base` the base's snapshot
// handle, or what the driver takes for one; "" lists what is allocated. A listing takes as many
// streams as it needs:
//
//   look at the target --> find the service --> token --> stream from S --> S = end of last tuple
//        ^                      ^                ^              |
//        |                      |                |              +-- OK, and nothing new: complete
//        |                      |                +----------------- OK, more may come: ask from S
//        |                      |                +----------------- token refused: another, once
//        +-- UNAVAILABLE: is it still there? then connect again ---- wait, then go on from S
//
// A stream that ends with OK is believed only when one from where it ended brings nothing, or when
// it reached the end of the volume: there are drivers that end early. A listing without any message
// is asked for once more, and then malformed: that nothing changed, or that nothing is allocated,
// is said by a message without blocks. Every attempt that makes progress restarts the grace period.
// Extents flow to the sink as they come, touching ones joined.
//
// Errors carry a ListingFailure; those of the sink and of `ctx` are returned as they are. A list
// that was begun and failed is not used: what it did not list is not unchanged. Thread-safe;
// borrows what it is given.
class CsiMetadataSource : public ChangedBlockSource {
 public:
  // REQUIRES options.results_per_message_max > 0.
  CsiMetadataSource(k8s::ApiClient& api, csi::AudienceTokens& tokens, Random& random,
                    CsiMetadataOptions options)
      : api_(api), tokens_(tokens), random_(random), options_(std::move(options)) {
    CSIDELTA_CHECK(options_.results_per_message_max > 0);
  }

  absl::string_view name() const override { return "csi-metadata"; }
  bool lists_allocated() const override { return true; }

  absl::Status ListExtents(const CallContext& ctx, const DiffRequest& request,
                           ExtentSink sink) override;

 private:
  k8s::ApiClient& api_;
  csi::AudienceTokens& tokens_;
  Random& random_;
  const CsiMetadataOptions options_;
};

// Makes a TLS connection as a listing does. OK if the service answers anything. Errors are those of
// net::HttpClient: FAILED_PRECONDITION, with both names, for a certificate that is not trusted.
absl::Status ReachMetadataService(const CallContext& ctx, const csi::MetadataService& service);

}  // namespace csidelta::incremental
