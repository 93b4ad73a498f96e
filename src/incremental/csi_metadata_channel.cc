#include "incremental/csi_metadata_channel.h"

#include <grpcpp/grpcpp.h>

#include <stop_token>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "incremental/grpc_call.h"
#include "net/resolver.h"
#include "net/url.h"
#include "snapshot_metadata.grpc.pb.h"

namespace csidelta::incremental {
namespace {

constexpr char kAllocatedMethod[] = "/snapshotmetadata.SnapshotMetadata/GetMetadataAllocated";
constexpr char kDeltaMethod[] = "/snapshotmetadata.SnapshotMetadata/GetMetadataDelta";
// Servers cut a client off that pings more often than every five minutes.
constexpr absl::Duration kKeepaliveInterval = absl::Seconds(330);
constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(20);

// What both requests ask alike.
template <typename Request>
void AskFor(const MetadataQuery& query, Request& request) {
  request.set_security_token(query.token.Reveal());
  request.set_namespace_(query.namespace_name);
  request.set_starting_offset(query.starting_offset_bytes);
  request.set_max_results(query.results_per_message_max);
}

grpc::ByteBuffer EncodeQuery(const MetadataQuery& query) {
  if (query.base.empty()) {
    snapshotmetadata::GetMetadataAllocatedRequest request;
    AskFor(query, request);
    request.set_snapshot_name(query.target);
    return ToBuffer(request);
  }
  snapshotmetadata::GetMetadataDeltaRequest request;
  AskFor(query, request);
  request.set_base_snapshot_id(query.base);
  request.set_target_snapshot_name(query.target);
  return ToBuffer(request);
}

grpc::ChannelArguments ChannelOptions(const std::string& server_name, int64_t message_bytes_max) {
  grpc::ChannelArguments options;
  options.SetSslTargetNameOverride(server_name);
  options.SetString(GRPC_ARG_DEFAULT_AUTHORITY, server_name);
  options.SetMaxReceiveMessageSize(static_cast<int>(message_bytes_max));
  LimitLookahead(options);
  options.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                 static_cast<int>(absl::ToInt64Milliseconds(kKeepaliveInterval)));
  options.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                 static_cast<int>(absl::ToInt64Milliseconds(kKeepaliveTimeout)));
  options.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  options.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  options.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // What is tried again is decided above.
  options.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  options.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // A new channel is a new connection.
  return options;
}

}  // namespace

StreamEnd CsiMetadataChannel::Read(const CallContext& ctx, const MetadataQuery& query,
                                   absl::Duration time_max, MessageReceiver receiver) {
  GrpcReader reader(channel_, query.base.empty() ? kAllocatedMethod : kDeltaMethod,
                    EncodeQuery(query), time_max);
  const std::stop_callback on_stop(ctx.stop, [&reader] { reader.Cancel(); });
  StreamEnd end;
  grpc::ByteBuffer buffer;
  while (end.status.ok() && reader.Read(buffer, gpr_inf_future(GPR_CLOCK_MONOTONIC))) {
    end.status = ReceiveWhole(buffer, receiver);
  }
  if (!end.status.ok()) {
    end.receiver_spoke = true;
    return end;
  }
  end.status = StatusOfServer(reader.Finish(), {query.token.Reveal()});
  end.server_spoke = channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
  return end;
}

absl::StatusOr<CsiMetadataChannel> CsiMetadataChannel::Open(const CallContext& ctx,
                                                            const MetadataEndpoint& endpoint,
                                                            int64_t message_bytes_max,
                                                            int attempt) {
  const absl::StatusOr<net::Url> url = net::ParseUrl(absl::StrCat("https://", endpoint.address));
  if (!url.ok() || url->target != "/" || !url->user_info.empty() ||
      !absl::EndsWith(endpoint.address, absl::StrCat(":", url->port))) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", endpoint.address, "\" is no address of the form host:port"));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses, net::ResolveHost(ctx, url->host));
  const std::string& chosen = addresses[static_cast<std::size_t>(attempt) % addresses.size()];
  // An address in the target: gRPC has no name to resolve.
  const std::string target = absl::StrContains(chosen, ':')
                                 ? absl::StrCat("ipv6:%5B", chosen, "%5D:", url->port)
                                 : absl::StrCat("ipv4:", chosen, ":", url->port);
  SilenceGrpc();
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = endpoint.ca_pem;
  const std::string& server_name = endpoint.server_name.empty() ? url->host : endpoint.server_name;
  return CsiMetadataChannel(grpc::CreateCustomChannel(
      target, grpc::SslCredentials(tls), ChannelOptions(server_name, message_bytes_max)));
}

}  // namespace csidelta::incremental
