#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "k8s/api_client.h"
#include "objects/event_handler.h"
#include "objects/volume_snapshot.h"

namespace csidelta::diffsnap {

// The VolumeSnapshotContents of one driver by their snapshot handles, as an informer reports them:
// a base that is named by its handle is found without listing the cluster. Of each content it keeps
// what is compared, about 0.5 KiB. It may be a moment behind the API server (kLagMax). Follow()
// runs in one thread; all else is thread-safe.
class ContentIndex : public objects::EventHandler<objects::VolumeSnapshotContent> {
 public:
  // With more contents than this the index is incomplete, and says so.
  static constexpr std::size_t kContentsMax = 200'000;
  // Longer ones are left out: spec.baseSnapshotHandle cannot name them.
  static constexpr std::size_t kHandleBytesMax = 1024;

  // How far behind it may be: that a handle is unknown says nothing about younger contents.
  static constexpr absl::Duration kLagMax = absl::Seconds(3);

  explicit ContentIndex(std::string driver, std::size_t contents_max = kContentsMax)
      : driver_(std::move(driver)), contents_max_(contents_max) {}

  // Follows the contents until `ctx` ends.
  absl::Status Follow(const CallContext& ctx, k8s::ApiClient& api);

  struct Content {
    std::string volume_handle;   // "": made for an existing snapshot, of whatever volume
    std::string namespace_name;  // of its VolumeSnapshot
  };
  // Those with the handle, of its status or of its source. ABORTED before the first list is whole:
  // again in a moment. RESOURCE_EXHAUSTED when the cluster has more than contents_max.
  absl::StatusOr<std::vector<Content>> Find(const std::string& handle) const;

 private:
  struct Kept {
    Content content;
    std::set<std::string> handles;  // one or two
  };

  void OnObjects(std::vector<objects::VolumeSnapshotContent> page, bool is_first) override;
  void OnListComplete() override;
  void OnChanged(const objects::VolumeSnapshotContent& content) override;
  void OnDeleted(const objects::VolumeSnapshotContent& content) override;
  void Put(const objects::VolumeSnapshotContent& content) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string driver_;
  const std::size_t contents_max_;
  mutable Mutex mutex_;
  bool is_synced_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_incomplete_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, Kept> contents_ ABSL_GUARDED_BY(mutex_);                // by name
  std::map<std::string, std::set<std::string>> names_ ABSL_GUARDED_BY(mutex_);  // by handle
  // Of contents_, what a list that is not whole yet did not have.
  std::set<std::string> unlisted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::diffsnap
