#include "incremental/sources/grpc_call.h"

#include <grpc/support/log.h>

#include <utility>

#include "absl/strings/match.h"
#include "incremental/sources/listing_failure.h"

namespace csidelta::incremental {
namespace {

void DropGrpcLine(gpr_log_func_args*) {}

}  // namespace

void SilenceGrpc() { gpr_set_log_function(DropGrpcLine); }

void LimitLookahead(grpc::ChannelArguments& options) {
  constexpr int kLookaheadBytes = 512 << 10;
  options.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  options.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
}

gpr_timespec GrpcDeadlineIn(absl::Duration duration) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(absl::ToInt64Milliseconds(duration), GPR_TIMESPAN));
}

absl::Status StatusOfServer(const grpc::Status& status,
                            const std::vector<absl::string_view>& secrets) {
  return status.ok() ? absl::OkStatus()
                     : absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                                    HarmlessText(status.error_message(), secrets));
}

bool IsMessageTooLong(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
         absl::StrContains(status.error_message(), "message larger than max");
}

grpc::ByteBuffer ToBuffer(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
}

absl::Status ReceiveWhole(const grpc::ByteBuffer& buffer, MessageReceiver receiver) {
  grpc::Slice whole;
  if (!buffer.TrySingleSlice(&whole).ok() && !buffer.DumpToSingleSlice(&whole).ok()) {
    return absl::InternalError("a message cannot be read");
  }
  return receiver({reinterpret_cast<const char*>(whole.begin()), whole.size()});
}

GrpcReader::GrpcReader(std::shared_ptr<grpc::Channel> channel, const char* method,
                       const grpc::ByteBuffer& request, absl::Duration time_max)
    : channel_(std::move(channel)), method_(method, grpc::internal::RpcMethod::SERVER_STREAMING) {
  call_.set_deadline(GrpcDeadlineIn(time_max));
  reader_.reset(grpc::internal::ClientAsyncReaderFactory<grpc::ByteBuffer>::Create(
      channel_.get(), &queue_, method_, &call_, request, /*start=*/true, this));
}

GrpcReader::~GrpcReader() {
  if (!finished_) {
    Cancel();
    Finish().IgnoreError();
  }
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

// There is never more than one operation under way.
bool GrpcReader::Await(gpr_timespec until) {
  void* tag = nullptr;
  bool ok = false;
  if (queue_.AsyncNext(&tag, &ok, until) == grpc::CompletionQueue::TIMEOUT) {
    timed_out_ = true;
    Cancel();
    queue_.Next(&tag, &ok);
    return false;
  }
  return ok;
}

bool GrpcReader::Read(grpc::ByteBuffer& buffer, gpr_timespec until) {
  if (!began_) {
    began_ = true;
    if (!Await(until)) {
      return false;
    }
  }
  buffer.Clear();
  reader_->Read(&buffer, this);
  return Await(until);
}

grpc::Status GrpcReader::Finish() {
  const gpr_timespec never = gpr_inf_future(GPR_CLOCK_MONOTONIC);
  if (!began_) {
    began_ = true;
    Await(never);
  }
  grpc::Status status;
  reader_->Finish(&status, this);
  Await(never);
  finished_ = true;
  return status;
}

}  // namespace csidelta::incremental
