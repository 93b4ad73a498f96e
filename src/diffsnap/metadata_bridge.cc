#include "diffsnap/metadata_bridge.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::diffsnap {
namespace {

absl::Status CheckRequest(const DriverRequest& request) {
  if (!request.driver_token.empty()) {
    return absl::InvalidArgumentError("the place is none of this driver's: begin without it");
  }
  if (!request.parameters.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter \"", request.parameters.begin()->first,
                     "\": this driver is asked by SnapshotMetadata, which takes none"));
  }
  return absl::OkStatus();
}

}  // namespace

MetadataBridge::MetadataBridge(std::shared_ptr<grpc::Channel> channel,
                               const CsiDriverOptions& options)
    : channel_(std::move(channel)),
      options_(options),
      dropper_([this](const std::stop_token& stop) { DropOld(stop); }) {}

absl::StatusOr<DriverPage> MetadataBridge::GetPage(const CallContext& ctx,
                                                   const DriverRequest& request) {
  RETURN_IF_ERROR(CheckRequest(request));
  std::unique_ptr<MetadataListing> listing = TakeKept(request);
  if (listing == nullptr) {
    listing = std::make_unique<MetadataListing>(
        channel_, request,
        MetadataListing::Limits{.page_time_max = options_.page_time_max,
                                .stream_time_max = options_.stream_time_max});
  }
  ASSIGN_OR_RETURN(DriverPage page, listing->NextPage(ctx, request.entries_max));
  if (page.volume_size_bytes == 0) {
    page.volume_size_bytes = request.volume_size_bytes;
  }
  if (page.volume_size_bytes == 0) {
    return absl::FailedPreconditionError("nothing is listed, and the volume's size is unknown");
  }
  if (listing->is_open()) {
    Keep(std::move(listing));
  }
  return page;
}

std::unique_ptr<MetadataListing> MetadataBridge::TakeKept(const DriverRequest& request) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
    return kept.listing->ContinuesWith(request);
  });
  if (found == kept_.end()) {
    return nullptr;
  }
  std::unique_ptr<MetadataListing> listing = std::move(found->listing);
  kept_.erase(found);
  return listing;
}

void MetadataBridge::Keep(std::unique_ptr<MetadataListing> listing) {
  std::vector<Kept> dropped;  // Their calls end when the lock is open again.
  const MutexLock lock(mutex_);
  kept_.push_back({.listing = std::move(listing), .since = options_.clock->Uptime()});
  while (std::ssize(kept_) > options_.streams_kept_max) {
    dropped.push_back(std::move(kept_.front()));
    kept_.pop_front();
  }
  kept_some_.notify_all();
}

void MetadataBridge::DropOld(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<Kept> dropped;
    absl::Duration until_next;
    {
      MutexLock lock(mutex_);
      if (!kept_some_.wait(lock, stop, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
            return !kept_.empty();
          })) {
        return;
      }
      const absl::Duration now = options_.clock->Uptime();
      while (!kept_.empty() && now - kept_.front().since >= options_.stream_age_max) {
        dropped.push_back(std::move(kept_.front()));
        kept_.pop_front();
      }
      until_next = kept_.empty() ? absl::ZeroDuration()
                                 : kept_.front().since + options_.stream_age_max - now;
    }
    dropped.clear();
    if (until_next > absl::ZeroDuration()) {
      options_.clock->SleepFor(until_next, stop);
    }
  }
}

}  // namespace csidelta::diffsnap
