#include "incremental/sources/csi_metadata_source.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/bound_snapshot.h"
#include "incremental/sources/block_metadata.h"
#include "incremental/sources/extent_assembler.h"
#include "incremental/sources/grpc_call.h"
#include "net/http_client.h"
#include "net/resolver.h"
#include "net/url.h"
#include "objects/keys.h"
#include "snapshot_metadata.grpc.pb.h"

namespace csidelta::incremental {
namespace {

using csi::BoundSnapshot;
using csi::MetadataService;

// An OK this close to our own deadline may be a driver's way to say that it was stopped.
constexpr absl::Duration kSuspiciousBeforeDeadline = absl::Seconds(1);
// Streams in a row that bring nothing but an unexplained error.
constexpr int kUnexplainedMax = 2;
// Streams that end with OK and have no message.
constexpr int kSilentMax = 1;
constexpr int32_t kResultsMin = 16;
constexpr int32_t kResultsDivisor = 4;
constexpr char kAllocatedMethod[] = "/snapshotmetadata.SnapshotMetadata/GetMetadataAllocated";
constexpr char kDeltaMethod[] = "/snapshotmetadata.SnapshotMetadata/GetMetadataDelta";
// Servers cut a client off that pings more often than every five minutes.
constexpr absl::Duration kKeepaliveInterval = absl::Seconds(330);
constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(20);

// How a stream ended.
struct StreamEnd {
  absl::Status status;          // the server's word, the transport's, or that of the receiver
  bool server_spoke = false;    // the connection stood to the end: the status is the server's
  bool receiver_spoke = false;  // the receiver ended it
};

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

// One listing, with all its state.
class Listing {
 public:
  Listing(const CallContext& ctx, k8s::ApiClient& api, csi::AudienceTokens& tokens, Random& random,
          const CsiMetadataOptions& options, const DiffRequest& request, ExtentSink sink)
      : ctx_(ctx),
        api_(api),
        tokens_(tokens),
        options_(options),
        request_(request),
        sink_(sink),
        backoff_(options.backoff, random),
        results_max_(options.results_per_message_max) {
    assembler_.emplace(request.size_bytes, sink);
  }

  absl::Status Do();

 private:
  absl::Status LookAtTarget();

  // Everything that a stream needs and that the one before did not leave.
  absl::Status Prepare();

  // gRPC over TLS. Trusts the service's certificate alone, resolves names without the C library,
  // goes through no proxy. Takes one address after the other. Connects with the first stream.
  absl::Status OpenChannel();

  // Asks for what follows what there is, whole messages, until the stream ends, a message is
  // malformed, ctx_ is stopped, or the time of a stream is over. The server's text is made harmless
  // and never holds the token.
  StreamEnd ReadStream();
  template <typename Request>
  grpc::ByteBuffer Encode(Request request) const;
  absl::Status TakeMessage(absl::string_view wire);

  // OK: the next stream goes on, unless is_complete_.
  absl::Status AfterOk(int64_t from_bytes);
  absl::Status AfterError(const StreamEnd& end, int64_t from_bytes);
  absl::Status AfterOutOfRange(const absl::Status& status);
  absl::Status AfterUnavailable(const StreamEnd& end);
  absl::Status AfterUnauthenticated(const absl::Status& status);
  absl::Status WaitAndGoOn(const absl::Status& status);

  absl::Status Unavailable(const absl::Status& status) const;

  // An old service takes the base for a name, and what it then says means nothing.
  absl::Status RefusedBase(ListingFailure failure, const absl::Status& status) const;
  bool is_delta() const { return !request_.base.empty(); }

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  csi::AudienceTokens& tokens_;
  const CsiMetadataOptions& options_;
  const DiffRequest& request_;
  ExtentSink sink_;
  Backoff backoff_;
  int32_t results_max_;
  std::optional<BoundSnapshot> target_;
  std::optional<MetadataService> service_;
  std::shared_ptr<grpc::Channel> channel_;
  Secret token_;
  std::optional<ExtentAssembler> assembler_;
  absl::Duration stream_deadline_;  // By the clock's Uptime().
  std::size_t connections_ = 0;
  int unexplained_ = 0;
  int silent_ = 0;
  bool token_refused_ = false;
  bool restarted_ = false;
  bool ended_well_ = false;  // the stream before ended with OK: this one asks for the tail
  bool is_complete_ = false;
};

absl::Status Listing::Do() {
  RETURN_IF_ERROR(ctx_.Check());
  RETURN_IF_ERROR(LookAtTarget());
  if (is_delta()) {
    RETURN_IF_ERROR(CompareWithBase(options_.base, *target_));
  }
  while (!is_complete_) {
    const absl::Status prepared = Prepare();
    RETURN_IF_ERROR(ctx_.Check());
    RETURN_IF_ERROR(prepared);
    const int64_t from_bytes = assembler_->next_offset_bytes();
    const StreamEnd end = ReadStream();
    if (end.receiver_spoke) {
      return assembler_->sink_failed() ? end.status
                                       : GiveUp(ListingFailure::kMalformedList, end.status, "");
    }
    RETURN_IF_ERROR(end.status.ok() ? AfterOk(from_bytes) : AfterError(end, from_bytes));
  }
  const absl::Status finished = assembler_->Finish();
  return finished.ok() || assembler_->sink_failed()
             ? finished
             : GiveUp(ListingFailure::kMalformedList, finished, "");
}

absl::Status Listing::LookAtTarget() {
  ASSIGN_OR_RETURN(BoundSnapshot found, ReadTarget(ctx_, api_, request_));
  if (target_.has_value() &&
      (found.uid != target_->uid || found.snapshot_handle != target_->snapshot_handle)) {
    return GiveUp(ListingFailure::kPermanent,
                  absl::FailedPreconditionError(
                      absl::StrCat("volume snapshot ", request_.target, " has become another one")),
                  "begin again");
  }
  target_ = std::move(found);
  return absl::OkStatus();
}

absl::Status Listing::Prepare() {
  if (!service_.has_value()) {
    absl::StatusOr<MetadataService> service = csi::FindMetadataService(ctx_, api_, target_->driver);
    if (absl::IsNotFound(service.status())) {
      return GiveUp(ListingFailure::kDriverHasNoService, service.status(), "");
    }
    if (absl::IsInvalidArgument(service.status())) {
      return GiveUp(ListingFailure::kMetadataUnavailable, service.status(), "");
    }
    if (!service.ok()) {
      return OfApiServer(service.status());
    }
    service_ = *std::move(service);
    if (!options_.server_name.empty()) {
      service_->server_name = options_.server_name;
    }
  }
  const absl::StatusOr<Secret> token = tokens_.Token(ctx_, service_->audience);
  if (!token.ok()) {
    return OfApiServer(Annotate(token.status(), "token for the service of snapshot metadata"));
  }
  token_ = *token;
  return absl::OkStatus();
}

absl::Status Listing::OpenChannel() {
  const std::string& address = service_->address;
  const absl::StatusOr<net::Url> url = net::ParseUrl(absl::StrCat("https://", address));
  if (!url.ok() || url->target != "/" || !url->user_info.empty() ||
      !absl::EndsWith(address, absl::StrCat(":", url->port))) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\" is no address of the form host:port"));
  }
  const std::size_t attempt = connections_++;
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses, net::ResolveHost(ctx_, url->host));
  const std::string& chosen = addresses[attempt % addresses.size()];
  // An address in the target: gRPC has no name to resolve.
  const std::string target = absl::StrContains(chosen, ':')
                                 ? absl::StrCat("ipv6:%5B", chosen, "%5D:", url->port)
                                 : absl::StrCat("ipv4:", chosen, ":", url->port);
  SilenceGrpc();
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = service_->ca_pem;
  channel_ = grpc::CreateCustomChannel(
      target, grpc::SslCredentials(tls),
      ChannelOptions(service_->server_name.empty() ? url->host : service_->server_name,
                     options_.message_bytes_max));
  return absl::OkStatus();
}

template <typename Request>
grpc::ByteBuffer Listing::Encode(Request request) const {
  request.set_security_token(token_.Reveal());
  request.set_namespace_(target_->namespace_name);
  request.set_starting_offset(assembler_->next_offset_bytes());
  request.set_max_results(results_max_);
  return ToBuffer(request);
}

absl::Status Listing::TakeMessage(absl::string_view wire) {
  ASSIGN_OR_RETURN(const BlockMessage message, DecodeBlockMessage(wire));
  RETURN_IF_ERROR(assembler_->TakeMessage(message));
  return DecodeBlockTuples(wire,
                           [&](const BlockTuple& tuple) { return assembler_->TakeTuple(tuple); });
}

StreamEnd Listing::ReadStream() {
  if (const absl::Status opened = channel_ == nullptr ? OpenChannel() : absl::OkStatus();
      !opened.ok()) {
    return {.status = absl::UnavailableError(opened.message())};
  }
  snapshotmetadata::GetMetadataAllocatedRequest allocated;
  allocated.set_snapshot_name(target_->name);
  snapshotmetadata::GetMetadataDeltaRequest delta;
  delta.set_base_snapshot_id(request_.base);
  delta.set_target_snapshot_name(target_->name);
  const absl::Duration now = ctx_.clock->Uptime();
  stream_deadline_ = std::min(ctx_.deadline, now + options_.stream_time_max);
  assembler_->BeginStream();
  GrpcReader reader(channel_, is_delta() ? kDeltaMethod : kAllocatedMethod,
                    is_delta() ? Encode(delta) : Encode(allocated), stream_deadline_ - now);
  const std::stop_callback on_stop(ctx_.stop, [&reader] { reader.Cancel(); });
  StreamEnd end;
  grpc::ByteBuffer buffer;
  while (end.status.ok() && reader.Read(buffer, gpr_inf_future(GPR_CLOCK_MONOTONIC))) {
    end.status = ReceiveWhole(buffer, [&](absl::string_view wire) { return TakeMessage(wire); });
  }
  if (!end.status.ok()) {
    end.receiver_spoke = true;
    return end;
  }
  end.status = StatusOfServer(reader.Finish(), {token_.Reveal()});
  end.server_spoke = channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
  return end;
}

absl::Status Listing::AfterOk(int64_t from_bytes) {
  is_complete_ = assembler_->reached_capacity();
  if (is_complete_) {
    return absl::OkStatus();
  }
  if (ctx_.clock->Uptime() >= stream_deadline_ - kSuspiciousBeforeDeadline) {
    const absl::Status suspicion = absl::DeadlineExceededError(
        "the stream ended as if complete, but at the moment of its deadline");
    return AfterError({.status = suspicion, .server_spoke = true}, from_bytes);
  }
  if (!assembler_->has_message() && ++silent_ > kSilentMax) {
    return GiveUp(
        ListingFailure::kMalformedList,
        absl::InvalidArgumentError("the driver ended the list twice without any message, which "
                                   "does not say that there is nothing to list"),
        absl::StrCat("a driver says that by a message without blocks: ask the vendor of ",
                     target_->driver));
  }
  if (!assembler_->has_message()) {
    return WaitAndGoOn(absl::UnavailableError("the list has no message at all"));
  }
  is_complete_ = assembler_->next_offset_bytes() == from_bytes;
  ended_well_ = true;
  return absl::OkStatus();
}

absl::Status Listing::AfterError(const StreamEnd& end, int64_t from_bytes) {
  RETURN_IF_ERROR(ctx_.Check());
  const absl::Status& status = end.status;
  const bool brought_something = assembler_->next_offset_bytes() > from_bytes;
  if (brought_something) {
    backoff_.Reset();
    unexplained_ = 0;
    token_refused_ = false;
  }
  if (absl::IsOutOfRange(status)) {
    return AfterOutOfRange(status);
  }
  ended_well_ = false;
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return AfterUnavailable(end);
    case absl::StatusCode::kNotFound:
      RETURN_IF_ERROR(LookAtTarget());
      return RefusedBase(
          is_delta() ? ListingFailure::kBaseGone : ListingFailure::kMetadataUnavailable, status);
    case absl::StatusCode::kUnauthenticated:
      return AfterUnauthenticated(status);
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
      return WaitAndGoOn(status);
    case absl::StatusCode::kResourceExhausted:
      results_max_ = std::max(results_max_ / kResultsDivisor, std::min(results_max_, kResultsMin));
      return WaitAndGoOn(status);
    case absl::StatusCode::kDeadlineExceeded:
      return brought_something ? absl::OkStatus() : Unavailable(status);
    case absl::StatusCode::kInvalidArgument:
      return RefusedBase(is_delta() ? ListingFailure::kNotComparable : ListingFailure::kPermanent,
                         status);
    case absl::StatusCode::kFailedPrecondition:
      return GiveUp(ListingFailure::kNotComparable, status, "");
    case absl::StatusCode::kUnimplemented:
      return GiveUp(ListingFailure::kDriverHasNoService, status, "");
    case absl::StatusCode::kPermissionDenied:
      return GiveUp(ListingFailure::kPermanent, status,
                    absl::StrCat("the service account needs to get volumesnapshots in namespace ",
                                 target_->namespace_name, ", all of them"));
    default:
      // The service did not say that waiting helps.
      return ++unexplained_ > kUnexplainedMax ? Unavailable(status) : WaitAndGoOn(status);
  }
}

absl::Status Listing::AfterOutOfRange(const absl::Status& status) {
  is_complete_ = ended_well_ || assembler_->reached_capacity();
  if (is_complete_) {
    return absl::OkStatus();
  }
  if (assembler_->delivered() || restarted_) {
    return Unavailable(status);
  }
  restarted_ = true;
  assembler_.emplace(request_.size_bytes, sink_);
  return absl::OkStatus();
}

absl::Status Listing::AfterUnavailable(const StreamEnd& end) {
  // Some services return UNAVAILABLE for permanent errors, too.
  RETURN_IF_ERROR(LookAtTarget());
  if (end.server_spoke && is_delta() && service_->may_be_old() && !backoff_.MayTryAgain()) {
    return RefusedBase(ListingFailure::kMetadataUnavailable, end.status);
  }
  if (!end.server_spoke && !backoff_.MayTryAgain()) {
    // gRPC tells little of a handshake.
    const absl::Status reached = ReachMetadataService(ctx_, *service_);
    if (absl::IsFailedPrecondition(reached)) {
      return Unavailable(absl::UnavailableError(absl::StrCat(
          reached.message(), "; the name in the certificate may be given by the annotation ",
          objects::kMetadataServerNameAnnotation)));
    }
  }
  // The service may have moved, or have another certificate.
  channel_.reset();
  service_.reset();
  return WaitAndGoOn(end.status);
}

absl::Status Listing::AfterUnauthenticated(const absl::Status& status) {
  if (token_refused_) {
    return GiveUp(
        ListingFailure::kPermanent, status,
        absl::StrCat("the service does not take tokens for the audience ", service_->audience,
                     " that SnapshotMetadataService ", target_->driver, " names"));
  }
  token_refused_ = true;
  tokens_.Refuse(ctx_, service_->audience, token_);
  return absl::OkStatus();
}

absl::Status Listing::WaitAndGoOn(const absl::Status& status) {
  if (!backoff_.MayTryAgain()) {
    return Unavailable(status);
  }
  ctx_.clock->SleepFor(std::min(ctx_.TimeLeft(), backoff_.NextDelay()), ctx_.stop);
  RETURN_IF_ERROR(ctx_.Check());
  return absl::OkStatus();
}

absl::Status Listing::Unavailable(const absl::Status& status) const {
  return GiveUp(ListingFailure::kMetadataUnavailable, status,
                absl::StrCat("look at the service of SnapshotMetadataService ", target_->driver));
}

absl::Status Listing::RefusedBase(ListingFailure failure, const absl::Status& status) const {
  if (is_delta() && service_->may_be_old()) {
    return GiveUp(ListingFailure::kMetadataVersion, status,
                  absl::StrCat("SnapshotMetadataService ", target_->driver,
                               " is of v1alpha1, which may not know handles: upgrade it"));
  }
  return GiveUp(failure, status, "");
}

}  // namespace

absl::Status ReachMetadataService(const CallContext& ctx, const MetadataService& service) {
  constexpr absl::Duration kConnectTimeMax = absl::Seconds(10);
  ASSIGN_OR_RETURN(const net::Url url,
                   net::ParseUrl(absl::StrCat("https://", service.address, "/")));
  net::HttpClientOptions options;
  options.tls.ca_pem = service.ca_pem;
  options.tls.server_name = service.server_name;
  options.limits.connect_time_max = kConnectTimeMax;
  // It speaks HTTP/2, and takes this for noise. But first there is TLS.
  const absl::Status status = net::HttpClient(options)
                                  .Send(ctx.WithTimeout(kConnectTimeMax),
                                        {.method = "GET", .url = url, .headers = {}, .body = ""})
                                  .status();
  return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ||
                 net::SurelyNotSent(status)
             ? status
             : absl::OkStatus();
}

absl::Status CsiMetadataSource::ListExtents(const CallContext& ctx, const DiffRequest& request,
                                            ExtentSink sink) {
  absl::Status status = Listing(ctx, api_, tokens_, random_, options_, request, sink).Do();
  return FailureOf(status).has_value()
             ? Annotate(status, absl::StrCat("changed blocks of ", request.target))
             : status;
}

}  // namespace csidelta::incremental
