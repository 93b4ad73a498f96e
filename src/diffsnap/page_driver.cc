#include "diffsnap/page_driver.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "differential_snapshot.grpc.pb.h"
#include "incremental/sources/grpc_call.h"

namespace csidelta::diffsnap {
namespace {

namespace wire = ::csi::differentialsnapshot::v1;

constexpr uint64_t kNumberMax = std::numeric_limits<int64_t>::max();
// September 2001: what is less is a length of time by mistake.
constexpr uint64_t kInstantSecondsMin = 1'000'000'000;
// Of a page that was too long, the part that is asked for instead, down to a smallest one.
constexpr uint64_t kEntriesDivisor = 4;
constexpr uint64_t kEntriesMin = 16;

wire::DifferentialSnapshotRequest EncodeRequest(const DriverRequest& request) {
  wire::DifferentialSnapshotRequest message;
  message.set_snapshot_base(request.base_handle);
  message.set_snapshot_target(request.target_handle);
  message.set_mode("Block");
  message.set_volume_id(request.volume_handle);
  if (!request.driver_token.empty()) {
    message.set_start_offset(request.driver_token);
  } else if (request.from_bytes > 0) {
    message.set_start_offset(absl::StrCat(request.from_bytes));
  }
  message.set_max_entries(static_cast<uint64_t>(request.entries_max));
  message.mutable_parameters()->insert(request.parameters.begin(), request.parameters.end());
  for (const auto& [name, secret] : request.secrets) {
    (*message.mutable_secrets())[name] = secret.Reveal();
  }
  return message;
}

absl::StatusOr<int64_t> NumberOf(absl::string_view what, uint64_t number) {
  if (number > kNumberMax) {
    return ContractViolation(absl::StrCat("a ", what, " of ", number, ", which is beyond 2^63-1"));
  }
  return static_cast<int64_t>(number);
}

absl::StatusOr<std::vector<incremental::ChangedBlock>> BlocksOf(
    wire::DifferentialSnapshotResponse& answer) {
  std::vector<incremental::ChangedBlock> blocks;
  blocks.reserve(static_cast<std::size_t>(answer.change_block_list_size()));
  for (wire::ChangedBlock& block : *answer.mutable_change_block_list()) {
    incremental::ChangedBlock& taken = blocks.emplace_back();
    ASSIGN_OR_RETURN(taken.extent.offset_bytes, NumberOf("block's offset", block.offset()));
    ASSIGN_OR_RETURN(taken.extent.length_bytes, NumberOf("block's size", block.size()));
    taken.zero_out = block.zero_out();
    taken.context = std::move(*block.mutable_context());
  }
  return blocks;
}

}  // namespace

absl::StatusOr<DriverPage> PageDriver::GetPage(const CallContext& ctx,
                                               const DriverRequest& request) {
  wire::DifferentialSnapshotRequest question = EncodeRequest(request);
  wire::DifferentialSnapshotResponse answer;
  const std::unique_ptr<wire::DifferentialSnapshot::Stub> stub =
      wire::DifferentialSnapshot::NewStub(channel_);
  const auto ask = [&](grpc::ClientContext& call) {
    return stub->GetDifferentialSnapshot(&call, question, &answer);
  };
  const CallContext in_time = ctx.WithTimeout(page_time_max_);  // All attempts together.
  grpc::Status status = CallDriver(in_time, page_time_max_, ask);
  while (incremental::IsMessageTooLong(status) && question.max_entries() > kEntriesMin) {
    question.set_max_entries(std::max(question.max_entries() / kEntriesDivisor, kEntriesMin));
    status = CallDriver(in_time, page_time_max_, ask);
  }
  if (incremental::IsMessageTooLong(status)) {
    return ContractViolation(absl::StrCat("a page of ", question.max_entries(),
                                          " blocks at most is too long: ", status.error_message()));
  }
  RETURN_IF_ERROR(incremental::StatusOfServer(status, TextsOf(request.secrets)));
  DriverPage page;
  ASSIGN_OR_RETURN(page.blocks, BlocksOf(answer));
  ASSIGN_OR_RETURN(page.volume_size_bytes, NumberOf("volume size", answer.volume_size()));
  if (answer.timeout() >= kInstantSecondsMin) {
    ASSIGN_OR_RETURN(const int64_t seconds, NumberOf("timeout", answer.timeout()));
    page.expires_at = absl::FromUnixSeconds(seconds);
  } else if (answer.timeout() > 0 && !timeout_logged_.exchange(true)) {
    CSIDELTA_LOG(kWarn, "the driver's timeout is no instant since 1970: taken for none",
                 {"timeout", absl::StrCat(answer.timeout())});
  }
  page.more = !answer.next_offset().empty();
  page.driver_token = std::move(*answer.mutable_next_offset());
  return page;
}

}  // namespace csidelta::diffsnap
