#include "incremental/csi_metadata_channel.h"

#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/codegen/rpc_method.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
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
constexpr std::size_t kServerTextMax = 512;

// gRPC's own lines would stand between a program's; what matters of them is in the status.
void DropGrpcLine(gpr_log_func_args*) {}

// A server's text as it may stand in a message of ours.
std::string HarmlessText(absl::string_view text, const Secret& token) {
  std::string harmless(text);
  if (!token.empty()) {
    harmless = absl::StrReplaceAll(harmless, {{token.Reveal(), "***"}});
  }
  if (harmless.size() > kServerTextMax) {
    harmless.resize(kServerTextMax);
    harmless.append("...");
  }
  std::replace_if(
      harmless.begin(), harmless.end(), [](char c) { return c < 0x20 || c > 0x7E; }, '?');
  return harmless.empty() ? "no message" : harmless;
}

grpc::ByteBuffer ToBuffer(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
}

grpc::ByteBuffer EncodeQuery(const MetadataQuery& query) {
  if (query.base.empty()) {
    snapshotmetadata::GetMetadataAllocatedRequest request;
    request.set_security_token(query.token.Reveal());
    request.set_namespace_(query.namespace_name);
    request.set_snapshot_name(query.target);
    request.set_starting_offset(query.starting_offset_bytes);
    request.set_max_results(query.results_per_message_max);
    return ToBuffer(request);
  }
  snapshotmetadata::GetMetadataDeltaRequest request;
  request.set_security_token(query.token.Reveal());
  request.set_namespace_(query.namespace_name);
  request.set_base_snapshot_id(query.base);
  request.set_target_snapshot_name(query.target);
  request.set_starting_offset(query.starting_offset_bytes);
  request.set_max_results(query.results_per_message_max);
  return ToBuffer(request);
}

absl::Status Receive(const grpc::ByteBuffer& buffer, MessageReceiver receiver) {
  grpc::Slice whole;
  if (!buffer.TrySingleSlice(&whole).ok() && !buffer.DumpToSingleSlice(&whole).ok()) {
    return absl::InternalError("a message cannot be read");
  }
  return receiver({reinterpret_cast<const char*>(whole.begin()), whole.size()});
}

gpr_timespec DeadlineIn(absl::Duration time_max) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(absl::ToInt64Milliseconds(time_max), GPR_TIMESPAN));
}

class GrpcChannel : public CsiMetadataChannel {
 public:
  explicit GrpcChannel(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)) {}

  StreamEnd Read(const CallContext& ctx, const MetadataQuery& query, absl::Duration time_max,
                 MessageReceiver receiver) override {
    grpc::ClientContext call;
    call.set_deadline(DeadlineIn(time_max));
    const std::stop_callback on_stop(ctx.stop, [&call] { call.TryCancel(); });
    const grpc::internal::RpcMethod method(query.base.empty() ? kAllocatedMethod : kDeltaMethod,
                                           grpc::internal::RpcMethod::SERVER_STREAMING);
    const std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>> reader(
        grpc::internal::ClientReaderFactory<grpc::ByteBuffer>::Create(channel_.get(), method, &call,
                                                                      EncodeQuery(query)));
    StreamEnd end;
    grpc::ByteBuffer buffer;
    while (end.status.ok() && reader->Read(&buffer)) {
      end.status = Receive(buffer, receiver);
      buffer.Clear();
    }
    if (!end.status.ok()) {
      end.receiver_spoke = true;
      call.TryCancel();
      reader->Finish().IgnoreError();
      return end;
    }
    const grpc::Status status = reader->Finish();
    end.server_spoke = channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
    if (!status.ok()) {
      end.status = absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                                HarmlessText(status.error_message(), query.token));
    }
    return end;
  }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
};

grpc::ChannelArguments ChannelOptions(const std::string& server_name, int64_t message_bytes_max) {
  grpc::ChannelArguments options;
  options.SetSslTargetNameOverride(server_name);
  options.SetString(GRPC_ARG_DEFAULT_AUTHORITY, server_name);
  options.SetMaxReceiveMessageSize(static_cast<int>(message_bytes_max));
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

absl::StatusOr<std::unique_ptr<CsiMetadataChannel>> CsiMetadataChannel::Open(
    const CallContext& ctx, const MetadataEndpoint& endpoint, int64_t message_bytes_max,
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
  gpr_set_log_function(DropGrpcLine);
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = endpoint.ca_pem;
  const std::string& server_name = endpoint.server_name.empty() ? url->host : endpoint.server_name;
  return std::make_unique<GrpcChannel>(grpc::CreateCustomChannel(
      target, grpc::SslCredentials(tls), ChannelOptions(server_name, message_bytes_max)));
}

}  // namespace csidelta::incremental
