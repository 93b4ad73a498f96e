#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/secret.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace csidelta::incremental {

// Where snapshot metadata is served.
struct MetadataEndpoint {
  std::string address;      // "host:port"
  std::string server_name;  // that the certificate must have; "": the host of `address`
  std::string ca_pem;       // the only certificates to trust
};

// What to ask for: one stream.
struct MetadataQuery {
  Secret token;
  std::string namespace_name;
  std::string base;    // "": what is allocated
  std::string target;  // the name of a VolumeSnapshot
  int64_t starting_offset_bytes = 0;
  int32_t results_per_message_max = 0;
};

// How a stream ended.
struct StreamEnd {
  absl::Status status;          // the server's word, the transport's, or that of the receiver
  bool server_spoke = false;    // the connection stood to the end: the status is the server's
  bool receiver_spoke = false;  // the receiver ended it
};

// A connection to one endpoint: gRPC over TLS. Trusts the endpoint's certificates alone, resolves
// names without the C library, goes through no proxy. Pings so rarely that no server minds.
// Thread-safe.
class CsiMetadataChannel {
 public:
  // Resolves the name; connects when the first stream is opened. `attempt` 0, 1, ... takes one
  // address after the other. INVALID_ARGUMENT for an address that is none; errors of
  // net::ResolveHost. `message_bytes_max`: what a server may send at once.
  static absl::StatusOr<CsiMetadataChannel> Open(const CallContext& ctx,
                                                 const MetadataEndpoint& endpoint,
                                                 int64_t message_bytes_max, int attempt);

  // Feeds `receiver` every message, whole, until the stream ends, `receiver` returns an error, ctx
  // is stopped, or `time_max` is over, which the server is told. Codes are gRPC's, which are
  // Abseil's; the server's text is made harmless and never holds the token.
  StreamEnd Read(const CallContext& ctx, const MetadataQuery& query, absl::Duration time_max,
                 absl::FunctionRef<absl::Status(absl::string_view wire)> receiver);

 private:
  explicit CsiMetadataChannel(std::shared_ptr<grpc::Channel> channel)
      : channel_(std::move(channel)) {}

  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace csidelta::incremental
