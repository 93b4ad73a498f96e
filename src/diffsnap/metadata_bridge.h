#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <stop_token>
#include <thread>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "diffsnap/csi_drivers.h"
#include "diffsnap/driver.h"
#include "diffsnap/metadata_listing.h"

namespace csidelta::diffsnap {

// A driver that serves csi.v1's SnapshotMetadata, read in pages. The stream behind a page that
// another follows is kept, streams_kept_max of them for stream_age_max: the page that goes on where
// it ended takes it up. Every other page asks again, from where it begins. Places are numbers of
// bytes; there is no context and nothing is known to be zero. Of an empty list the request says the
// volume's size.
class MetadataBridge : public DifferentialDriver {
 public:
  MetadataBridge(std::shared_ptr<grpc::Channel> channel, const CsiDriverOptions& options);

  // INVALID_ARGUMENT, beside the driver's own, for parameters, which that service does not take.
  absl::StatusOr<DriverPage> GetPage(const CallContext& ctx, const DriverRequest& request) override;

 private:
  struct Kept {
    std::unique_ptr<MetadataListing> listing;
    absl::Duration since;  // of the clock that no one can set
  };

  std::unique_ptr<MetadataListing> TakeKept(const DriverRequest& request);
  void Keep(std::unique_ptr<MetadataListing> listing);
  void DropOld(const std::stop_token& stop);

  const std::shared_ptr<grpc::Channel> channel_;
  const CsiDriverOptions options_;
  Mutex mutex_;
  std::condition_variable_any kept_some_;
  std::deque<Kept> kept_ ABSL_GUARDED_BY(mutex_);  // The oldest first.
  std::jthread dropper_;
};

}  // namespace csidelta::diffsnap
