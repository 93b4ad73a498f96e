#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "diffsnap/driver.h"
#include "incremental/sources/extent_assembler.h"
#include "incremental/sources/grpc_call.h"

namespace csidelta::diffsnap {

// One listing of csi.v1's SnapshotMetadata, read in pages as far as they are asked for; its stream
// stays open in between. What touches is joined, as far as it lies in one page. A stream that ends
// with OK before the end of the volume is believed when one from there on brings nothing: there are
// drivers that end early. A listing without any message is asked for once more, and then no answer:
// it does not say that nothing changed. Not thread-safe.
class MetadataListing {
 public:
  struct Limits {
    absl::Duration page_time_max;
    absl::Duration stream_time_max;
  };

  // Begins where `request` does.
  MetadataListing(std::shared_ptr<grpc::Channel> channel, const DriverRequest& request,
                  const Limits& limits);
  MetadataListing(const MetadataListing&) = delete;
  MetadataListing& operator=(const MetadataListing&) = delete;

  // Whether the next page is what `request` asks for.
  bool ContinuesWith(const DriverRequest& request) const;

  // A page that ends early, because the driver broke off or took too long, is followed by another
  // like any other: what is wrong will be said where nothing can be handed out.
  absl::StatusOr<DriverPage> NextPage(const CallContext& ctx, int64_t entries_max);

  // Whether another page can follow.
  bool is_open() const { return is_open_; }

 private:
  // Where the assembler puts what it made.
  struct Collector {
    std::deque<Extent>* extents;
    absl::Status operator()(const incremental::ListedExtent& listed) const {
      extents->push_back(listed.extent);
      return absl::OkStatus();
    }
  };

  void OpenStream();
  absl::Status ReadMore(const CallContext& ctx, gpr_timespec until);
  absl::Status AfterStream();
  void TakeExtents(int64_t entries_max, DriverPage& page);
  absl::Status TakeMessage(absl::string_view wire);
  absl::Status Fill(const CallContext& ctx, gpr_timespec until, int64_t entries_max,
                    DriverPage& page);

  const std::shared_ptr<grpc::Channel> channel_;
  DriverRequest question_;  // of any page: without place and number
  const Limits limits_;
  int32_t results_per_message_max_;
  int64_t handed_out_bytes_;    // the end of what the pages so far had
  std::deque<Extent> extents_;  // made and not handed out
  const Collector collector_{&extents_};
  incremental::ExtentAssembler assembler_;
  std::unique_ptr<incremental::GrpcReader> reader_;  // null: between two streams
  int64_t stream_from_bytes_ = 0;
  int64_t tuples_in_page_ = 0;
  bool ended_well_ = false;  // the stream before ended with OK: this one asks for the tail
  int silent_ = 0;           // streams that ended with OK and had no message
  bool complete_ = false;
  bool is_open_ = true;
};

}  // namespace csidelta::diffsnap
