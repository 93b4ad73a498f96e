#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/support/csi_driver/block_messages.h"
#include "tests/support/csi_driver/call.h"
#include "tests/support/csi_driver/lying_list.h"
#include "tests/support/csi_driver/services.h"

namespace csidelta::csi_driver {
namespace {

namespace pb = ::csi::v1;

// Sends a list of blocks as a stream of messages, with the faults that were asked for.
template <typename Response>
class BlockStream {
 public:
  BlockStream(const BlockOptions& options, Faults& faults, const char* method,
              const std::vector<StreamFault>& stream_faults, grpc::ServerContext* context,
              grpc::ServerWriter<Response>* writer)
      : options_(options),
        faults_(faults),
        method_(method),
        stream_faults_(stream_faults),
        context_(context),
        writer_(writer) {}

  // A list from the beginning has a message, also where there is nothing to list.
  absl::Status SendAll(LyingList& list, int64_t extents_max, bool from_beginning) {
    while (true) {
      Response message;
      bool more = true;
      while (more && message.block_metadata_size() < extents_max) {
        ASSIGN_OR_RETURN(const std::optional<ListedExtent> next, list.Next());
        more = next.has_value();
        if (more) {
          pb::BlockMetadata& block = *message.add_block_metadata();
          block.set_byte_offset(next->extent.offset_bytes);
          block.set_size_bytes(next->extent.length_bytes);
        }
      }
      // The end is a place, too: faults happen after the last message.
      RETURN_IF_ERROR(MeetFaults(list.capacity_bytes()));
      if (ended_) {
        return absl::OkStatus();
      }
      if (message.block_metadata().empty()) {
        return sent_ == 0 && from_beginning ? Write(list.capacity_bytes(), Response())
                                            : absl::OkStatus();
      }
      RETURN_IF_ERROR(Send(list.capacity_bytes(), std::move(message)));
    }
  }

 private:
  // What happens before the next message is sent.
  absl::Status MeetFaults(int64_t capacity_bytes) {
    for (const StreamFault& fault : stream_faults_) {
      if (!fault.HappensAt(sent_)) {
        continue;
      }
      if (!faults_.Pause(method_, fault, [this] { return context_->IsCancelled(); })) {
        return absl::CancelledError("the caller went away");
      }
      RETURN_IF_ERROR(fault.error);
      ended_ = ended_ || fault.lies.contains(Lie::kEnd);
      if (!ended_ && fault.lies.contains(Lie::kEmptyMessage)) {
        RETURN_IF_ERROR(Write(capacity_bytes, Response()));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Send(int64_t capacity_bytes, Response message) {
    for (const StreamFault& fault : stream_faults_) {
      if (fault.HappensAt(sent_) && fault.lies.contains(Lie::kHugeMessage)) {
        MakeHuge(message);
      }
    }
    RETURN_IF_ERROR(Write(capacity_bytes, std::move(message)));
    ++sent_;
    return absl::OkStatus();
  }

  absl::Status Write(int64_t capacity_bytes, Response message) {
    const bool fixed = options_.fixed != Told(Lie::kTypeChanges);
    message.set_block_metadata_type(fixed ? pb::FIXED_LENGTH : pb::VARIABLE_LENGTH);
    message.set_volume_capacity_bytes(capacity_bytes +
                                      (Told(Lie::kCapacityChanges) ? options_.bytes : 0));
    if (context_->IsCancelled() || !writer_->Write(message)) {
      return absl::CancelledError("the caller went away");
    }
    return absl::OkStatus();
  }

  // Whether a lie that lasts has begun.
  bool Told(Lie lie) const {
    return std::any_of(stream_faults_.begin(), stream_faults_.end(),
                       [this, lie](const StreamFault& fault) {
                         return fault.lies.contains(lie) && sent_ >= fault.after_messages;
                       });
  }

  const BlockOptions& options_;
  Faults& faults_;
  const std::string method_;
  const std::vector<StreamFault>& stream_faults_;
  grpc::ServerContext* const context_;
  grpc::ServerWriter<Response>* const writer_;
  int64_t sent_ = 0;
  bool ended_ = false;
};

class SnapshotMetadataService final : public pb::SnapshotMetadata::Service {
 public:
  SnapshotMetadataService(const DriverOptions& options, Faults& faults, Store& store)
      : options_(options), faults_(faults), store_(store) {}

  grpc::Status GetMetadataAllocated(
      grpc::ServerContext* context, const pb::GetMetadataAllocatedRequest* request,
      grpc::ServerWriter<pb::GetMetadataAllocatedResponse>* writer) override {
    return ServeCall(
        faults_, "GetMetadataAllocated", context, *request, [&](const Verdict& verdict) {
          return Stream({.target_id = request->snapshot_id(),
                         .base_id = {},
                         .starting_offset_bytes = request->starting_offset()},
                        request->max_results(), verdict, "GetMetadataAllocated", context, writer);
        });
  }

  grpc::Status GetMetadataDelta(grpc::ServerContext* context,
                                const pb::GetMetadataDeltaRequest* request,
                                grpc::ServerWriter<pb::GetMetadataDeltaResponse>* writer) override {
    return ServeCall(faults_, "GetMetadataDelta", context, *request, [&](const Verdict& verdict) {
      return Stream({.target_id = request->target_snapshot_id(),
                     .base_id = request->base_snapshot_id(),
                     .starting_offset_bytes = request->starting_offset()},
                    request->max_results(), verdict, "GetMetadataDelta", context, writer);
    });
  }

 private:
  template <typename Response>
  absl::Status Stream(const ChangeQuery& query, int32_t max_results, const Verdict& verdict,
                      const char* method, grpc::ServerContext* context,
                      grpc::ServerWriter<Response>* writer) {
    if (!options_.snapshot_metadata) {
      return absl::UnimplementedError("this driver has no snapshot metadata");
    }
    if (max_results < 0) {
      return absl::InvalidArgumentError(absl::StrCat("max_results is ", max_results));
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<LyingList> list,
                     LyingList::Open(store_, query, options_.blocks, verdict));
    BlockStream<Response> stream(options_.blocks, faults_, method, verdict.stream, context, writer);
    return stream.SendAll(*list, ExtentsPerMessage(max_results, options_.page_extents),
                          query.starting_offset_bytes == 0);
  }

  const DriverOptions& options_;
  Faults& faults_;
  Store& store_;
};

}  // namespace

std::unique_ptr<pb::SnapshotMetadata::Service> MakeSnapshotMetadata(const DriverOptions& options,
                                                                    Faults& faults, Store& store) {
  return std::make_unique<SnapshotMetadataService>(options, faults, store);
}

}  // namespace csidelta::csi_driver
