#include "diffsnap/metadata_listing.h"

#include <algorithm>
#include <limits>
#include <stop_token>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi.grpc.pb.h"
#include "diffsnap/csi_drivers.h"
#include "incremental/sources/block_metadata.h"

namespace csidelta::diffsnap {
namespace {

namespace pb = ::csi::v1;

constexpr char kAllocatedMethod[] = "/csi.v1.SnapshotMetadata/GetMetadataAllocated";
constexpr char kDeltaMethod[] = "/csi.v1.SnapshotMetadata/GetMetadataDelta";
// In one message: few enough that the first page does not wait, many enough to be fast.
constexpr int64_t kResultsMin = 256;
constexpr int64_t kResultsMax = 16'000;
// Of a message that was too long, the part that is asked for instead, down to a smallest one.
constexpr int32_t kResultsDivisor = 4;
constexpr int32_t kResultsLeast = 16;
// Streams that end with OK and have no message.
constexpr int kSilentMax = 1;
// Of one page: blocks that touch could go on for the whole volume.
constexpr int64_t kTuplesInPageMax = int64_t{4} << 20;

// What both requests ask alike.
template <typename Request>
void AskFor(const DriverRequest& question, int64_t from_bytes, int32_t results_max,
            Request& request) {
  request.set_starting_offset(from_bytes);
  request.set_max_results(results_max);
  for (const auto& [name, secret] : question.secrets) {
    (*request.mutable_secrets())[name] = secret.Reveal();
  }
}

grpc::ByteBuffer EncodeRequest(const DriverRequest& question, int64_t from_bytes,
                               int32_t results_max) {
  if (question.base_handle.empty()) {
    pb::GetMetadataAllocatedRequest request;
    AskFor(question, from_bytes, results_max, request);
    request.set_snapshot_id(question.target_handle);
    return incremental::ToBuffer(request);
  }
  pb::GetMetadataDeltaRequest request;
  AskFor(question, from_bytes, results_max, request);
  request.set_base_snapshot_id(question.base_handle);
  request.set_target_snapshot_id(question.target_handle);
  return incremental::ToBuffer(request);
}

DriverRequest WithoutCursor(DriverRequest request) {
  request.from_bytes = 0;
  request.entries_max = 0;
  request.volume_size_bytes = 0;
  return request;
}

}  // namespace

MetadataListing::MetadataListing(std::shared_ptr<grpc::Channel> channel,
                                 const DriverRequest& request, const Limits& limits)
    : channel_(std::move(channel)),
      question_(WithoutCursor(request)),
      limits_(limits),
      results_per_message_max_(
          static_cast<int32_t>(std::clamp(request.entries_max, kResultsMin, kResultsMax))),
      handed_out_bytes_(request.from_bytes),
      assembler_(std::numeric_limits<int64_t>::max(), collector_, request.from_bytes) {}

bool MetadataListing::ContinuesWith(const DriverRequest& request) const {
  return handed_out_bytes_ == request.from_bytes && question_ == WithoutCursor(request);
}

void MetadataListing::OpenStream() {
  stream_from_bytes_ = assembler_.next_offset_bytes();
  assembler_.BeginStream();
  reader_ = std::make_unique<incremental::GrpcReader>(
      channel_, question_.base_handle.empty() ? kAllocatedMethod : kDeltaMethod,
      EncodeRequest(question_, stream_from_bytes_, results_per_message_max_),
      limits_.stream_time_max);
}

absl::Status MetadataListing::TakeMessage(absl::string_view wire) {
  ASSIGN_OR_RETURN(const incremental::BlockMessage message, incremental::DecodeBlockMessage(wire));
  RETURN_IF_ERROR(assembler_.TakeMessage(message));
  return incremental::DecodeBlockTuples(wire, [this](const incremental::BlockTuple& tuple) {
    ++tuples_in_page_;
    return assembler_.TakeTuple(tuple);
  });
}

// One message more, or one end of a stream.
absl::Status MetadataListing::ReadMore(const CallContext& ctx, gpr_timespec until) {
  RETURN_IF_ERROR(ctx.Check());
  if (gpr_time_cmp(gpr_now(until.clock_type), until) >= 0) {
    return absl::DeadlineExceededError("the list took longer than a page may");
  }
  if (reader_ == nullptr) {
    OpenStream();
  }
  grpc::ByteBuffer buffer;
  bool read = false;
  {
    const std::stop_callback on_stop(ctx.stop, [this] { reader_->Cancel(); });
    read = reader_->Read(buffer, until);
  }
  if (!read) {
    return AfterStream();
  }
  const absl::Status taken = incremental::ReceiveWhole(
      buffer, [this](absl::string_view wire) { return TakeMessage(wire); });
  return taken.ok() ? taken : ContractViolation(taken.message());
}

absl::Status MetadataListing::AfterStream() {
  if (reader_->timed_out()) {
    return absl::DeadlineExceededError("the driver said nothing for as long as a page may take");
  }
  const grpc::Status status = reader_->Finish();
  reader_.reset();
  const bool brought_something = assembler_.next_offset_bytes() > stream_from_bytes_;
  if (status.ok() && brought_something && !assembler_.reached_capacity()) {
    ended_well_ = true;
    return absl::OkStatus();
  }
  // Behind what an earlier page had, a driver that has no more need not say so.
  if (status.ok() && !assembler_.has_message() && handed_out_bytes_ == 0) {
    return ++silent_ > kSilentMax
               ? ContractViolation("the driver ended the list twice without any message")
               : absl::OkStatus();
  }
  if (status.ok() || (ended_well_ && status.error_code() == grpc::StatusCode::OUT_OF_RANGE)) {
    complete_ = true;
    return assembler_.Flush();
  }
  if (incremental::IsMessageTooLong(status) && results_per_message_max_ > kResultsLeast) {
    results_per_message_max_ = std::max(results_per_message_max_ / kResultsDivisor, kResultsLeast);
    return absl::OkStatus();
  }
  return incremental::IsMessageTooLong(status)
             ? ContractViolation(
                   absl::StrCat("a message of ", results_per_message_max_,
                                " blocks at most is too long: ", status.error_message()))
             : incremental::StatusOfServer(status, TextsOf(question_.secrets));
}

void MetadataListing::TakeExtents(int64_t entries_max, DriverPage& page) {
  while (!extents_.empty() && std::ssize(page.blocks) < entries_max) {
    page.blocks.push_back({.extent = extents_.front()});
    extents_.pop_front();
  }
}

absl::Status MetadataListing::Fill(const CallContext& ctx, gpr_timespec until, int64_t entries_max,
                                   DriverPage& page) {
  while (true) {
    TakeExtents(entries_max, page);
    // With one block more than fits it is known that there is another page.
    page.more = !extents_.empty();
    if (page.more || complete_) {
      return absl::OkStatus();
    }
    if (tuples_in_page_ >= kTuplesInPageMax) {
      page.more = true;
      RETURN_IF_ERROR(assembler_.Flush());
      TakeExtents(entries_max, page);
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(ReadMore(ctx, until));
  }
}

absl::StatusOr<DriverPage> MetadataListing::NextPage(const CallContext& ctx, int64_t entries_max) {
  const gpr_timespec until = incremental::GrpcDeadlineIn(TimeLeft(ctx, limits_.page_time_max));
  DriverPage page;
  tuples_in_page_ = 0;
  const absl::Status filled = Fill(ctx, until, entries_max, page);
  is_open_ = filled.ok() && page.more;
  if (!filled.ok()) {
    RETURN_IF_ERROR(IsContractViolation(filled) ? filled : assembler_.Flush());
    TakeExtents(entries_max, page);
    page.more = true;
  }
  if (!filled.ok() && page.blocks.empty()) {
    return filled;
  }
  page.volume_size_bytes = assembler_.volume_capacity_bytes();
  if (!page.blocks.empty()) {
    handed_out_bytes_ = page.blocks.back().extent.end_bytes();
  }
  return page;
}

}  // namespace csidelta::diffsnap
