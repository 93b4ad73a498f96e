#include "incremental/csi_metadata_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "csi/bound_snapshot.h"
#include "csi/metadata_service.h"
#include "incremental/block_metadata.h"
#include "incremental/csi_metadata_channel.h"
#include "incremental/extent_assembler.h"

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
  enum class Next { kComplete, kGoOn };
  absl::Status LookAtTarget();

  // Everything that a stream needs and that the one before did not leave.
  absl::Status Prepare();
  StreamEnd ReadStream();

  absl::StatusOr<Next> AfterOk(int64_t from_bytes);
  absl::StatusOr<Next> AfterError(const StreamEnd& end, int64_t from_bytes);

  absl::StatusOr<Next> AfterOutOfRange(const absl::Status& status);
  absl::StatusOr<Next> AfterUnavailable(const StreamEnd& end);

  absl::StatusOr<Next> AfterUnauthenticated(const absl::Status& status);
  absl::StatusOr<Next> WaitAndGoOn(const absl::Status& status);

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
  std::optional<CsiMetadataChannel> channel_;
  Secret token_;
  std::optional<ExtentAssembler> assembler_;
  absl::Duration stream_deadline_;  // By the clock's Uptime().
  int connections_ = 0;
  int unexplained_ = 0;
  int silent_ = 0;
  bool token_refused_ = false;
  bool restarted_ = false;
  bool ended_well_ = false;  // the stream before ended with OK: this one asks for the tail
};

absl::Status Listing::Do() {
  RETURN_IF_ERROR(ctx_.Check());
  RETURN_IF_ERROR(LookAtTarget());
  if (is_delta()) {
    RETURN_IF_ERROR(CompareWithBase(options_.base, *target_));
  }
  Next next = Next::kGoOn;
  while (next == Next::kGoOn) {
    const absl::Status prepared = Prepare();
    RETURN_IF_ERROR(ctx_.Check());
    RETURN_IF_ERROR(prepared);
    const int64_t from_bytes = assembler_->next_offset_bytes();
    const StreamEnd end = ReadStream();
    if (end.receiver_spoke) {
      return assembler_->sink_failed() ? end.status
                                       : GiveUp(ListingFailure::kMalformedList, end.status, "");
    }
    ASSIGN_OR_RETURN(next, end.status.ok() ? AfterOk(from_bytes) : AfterError(end, from_bytes));
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
  }
  const absl::StatusOr<Secret> token = tokens_.Token(ctx_, service_->audience);
  if (!token.ok()) {
    return OfApiServer(Annotate(token.status(), "token for the service of snapshot metadata"));
  }
  token_ = *token;
  return absl::OkStatus();
}

StreamEnd Listing::ReadStream() {
  if (!channel_.has_value()) {
    absl::StatusOr<CsiMetadataChannel> channel =
        CsiMetadataChannel::Open(ctx_,
                                 {.address = service_->address,
                                  .server_name = options_.server_name,
                                  .ca_pem = service_->ca_pem},
                                 options_.message_bytes_max, connections_++);
    if (!channel.ok()) {
      return {.status = absl::UnavailableError(channel.status().message())};
    }
    channel_.emplace(*std::move(channel));
  }
  const absl::Duration now = ctx_.clock->Uptime();
  stream_deadline_ = std::min(ctx_.deadline, now + options_.stream_time_max);
  assembler_->BeginStream();
  const MetadataQuery query{.token = token_,
                            .namespace_name = target_->namespace_name,
                            .base = request_.base,
                            .target = target_->name,
                            .starting_offset_bytes = assembler_->next_offset_bytes(),
                            .results_per_message_max = results_max_};
  return channel_->Read(ctx_, query, stream_deadline_ - now, [&](absl::string_view wire) {
    ASSIGN_OR_RETURN(const BlockMessage message, DecodeBlockMessage(wire));
    RETURN_IF_ERROR(assembler_->TakeMessage(message));
    return DecodeBlockTuples(wire,
                             [&](const BlockTuple& tuple) { return assembler_->TakeTuple(tuple); });
  });
}

absl::StatusOr<Listing::Next> Listing::AfterOk(int64_t from_bytes) {
  const bool brought_something = assembler_->next_offset_bytes() > from_bytes;
  if (assembler_->reached_capacity()) {
    return Next::kComplete;
  }
  if (ctx_.clock->Uptime() >= stream_deadline_ - kSuspiciousBeforeDeadline) {
    const absl::Status suspicion = absl::DeadlineExceededError(
        "the stream ended as if complete, but at the moment of its deadline");
    return AfterError({.status = suspicion, .server_spoke = true}, from_bytes);
  }
  if (!assembler_->has_message()) {
    return ++silent_ > kSilentMax
               ? absl::StatusOr<Next>(GiveUp(
                     ListingFailure::kMalformedList,
                     absl::InvalidArgumentError("the driver ended the list twice without "
                                                "any message, which does not say "
                                                "that there is nothing to list"),
                     absl::StrCat("a driver says that by a message without blocks: ask the vendor "
                                  "of ",
                                  target_->driver)))
               : WaitAndGoOn(absl::UnavailableError("the list has no message at all"));
  }
  if (!brought_something) {
    return Next::kComplete;
  }
  ended_well_ = true;
  return Next::kGoOn;
}

absl::StatusOr<Listing::Next> Listing::AfterError(const StreamEnd& end, int64_t from_bytes) {
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
      return brought_something ? absl::StatusOr<Next>(Next::kGoOn) : Unavailable(status);
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

absl::StatusOr<Listing::Next> Listing::AfterOutOfRange(const absl::Status& status) {
  if (ended_well_ || assembler_->reached_capacity()) {
    return Next::kComplete;
  }
  if (assembler_->delivered() || restarted_) {
    return Unavailable(status);
  }
  restarted_ = true;
  assembler_.emplace(request_.size_bytes, sink_);
  return Next::kGoOn;
}

absl::StatusOr<Listing::Next> Listing::AfterUnavailable(const StreamEnd& end) {
  // Some services return UNAVAILABLE for permanent errors, too.
  RETURN_IF_ERROR(LookAtTarget());
  if (end.server_spoke && is_delta() && service_->may_be_old() && !backoff_.MayTryAgain()) {
    return RefusedBase(ListingFailure::kMetadataUnavailable, end.status);
  }
  // The service may have moved, or have another certificate.
  channel_.reset();
  service_.reset();
  return WaitAndGoOn(end.status);
}

absl::StatusOr<Listing::Next> Listing::AfterUnauthenticated(const absl::Status& status) {
  if (token_refused_) {
    return GiveUp(
        ListingFailure::kPermanent, status,
        absl::StrCat("the service does not take tokens for the audience ", service_->audience,
                     " that SnapshotMetadataService ", target_->driver, " names"));
  }
  token_refused_ = true;
  tokens_.Refuse(ctx_, service_->audience, token_);
  return Next::kGoOn;
}

absl::StatusOr<Listing::Next> Listing::WaitAndGoOn(const absl::Status& status) {
  if (!backoff_.MayTryAgain()) {
    return Unavailable(status);
  }
  ctx_.clock->SleepFor(std::min(ctx_.TimeLeft(), backoff_.NextDelay()), ctx_.stop);
  RETURN_IF_ERROR(ctx_.Check());
  return Next::kGoOn;
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

CsiMetadataSource::CsiMetadataSource(k8s::ApiClient& api, csi::AudienceTokens& tokens,
                                     Random& random, CsiMetadataOptions options)
    : api_(api), tokens_(tokens), random_(random), options_(std::move(options)) {
  CSIDELTA_CHECK(options_.results_per_message_max > 0);
}

absl::Status CsiMetadataSource::ListExtents(const CallContext& ctx, const DiffRequest& request,
                                            ExtentSink sink) {
  absl::Status status = Listing(ctx, api_, tokens_, random_, options_, request, sink).Do();
  return FailureOf(status).has_value()
             ? Annotate(status, absl::StrCat("changed blocks of ", request.target))
             : status;
}

}  // namespace csidelta::incremental
