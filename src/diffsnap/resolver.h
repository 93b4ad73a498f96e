#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "k8s/informer.h"
#include "objects/differential_snapshot.h"
#include "objects/event_handler.h"
#include "objects/volume_snapshot.h"

namespace csidelta::diffsnap {

// What is compared of a VolumeSnapshotContent.
struct IndexedContent {
  std::string volume_handle;      // "": made for an existing snapshot, of whatever volume
  std::string namespace_name;     // of its VolumeSnapshot
  std::set<std::string> handles;  // one or two: of its status and of its source
};

// The VolumeSnapshotContents of one driver by their snapshot handles, as an informer reports them:
// a base that is named by its handle is found without listing the cluster. Of each content it keeps
// about 0.5 KiB. It may be a moment behind the API server (kLagMax). Thread-safe.
class ContentIndex : public objects::Index<objects::VolumeSnapshotContent, IndexedContent> {
 public:
  // With more contents than this the index is incomplete, and says so.
  static constexpr std::size_t kContentsMax = 200'000;
  // Longer ones are left out: spec.baseSnapshotHandle cannot name them.
  static constexpr std::size_t kHandleBytesMax = 1024;

  // How far behind it may be: that a handle is unknown says nothing about younger contents.
  static constexpr absl::Duration kLagMax = absl::Seconds(3);

  explicit ContentIndex(std::string driver, std::size_t contents_max = kContentsMax);

  static k8s::WatchedObjects Watched() { return {.type = objects::VolumeSnapshotContent::Type()}; }

  // Those with the handle, of its status or of its source. ABORTED before the first list is whole:
  // again in a moment. RESOURCE_EXHAUSTED when the cluster has more than contents_max.
  absl::StatusOr<std::vector<IndexedContent>> FindByHandle(const std::string& handle) const;

 private:
  const std::string driver_;
  const std::size_t contents_max_;
};

// What a DifferentialSnapshot stands for now, seen from beside one driver.
struct Resolution {
  enum class Kind {
    kForeign,     // its target is another driver's
    kUnresolved,  // the driver of its target is not known yet
    kNotReady,    // ours; may become one of the two below
    kFailure,     // ours, and never anything else
    kSuccess,     // ours, and this is the pair
  };

  Kind kind = Kind::kUnresolved;
  std::string error = {};  // of kNotReady and kFailure: "Code: text"
  objects::ResolvedNames resolved =
      {};  // complete with kSuccess; the driver alone with kNotReady, kFailure
};

// Looks up the volume snapshots that `object` names, in its own namespace and nowhere else, and
// holds them to each other: one driver, one volume. A base that is given by its handle is taken as
// it is, unless the cluster knows that handle as another volume's: the driver decides.
// One that the cluster does not know is kNotReady until `object` is older than
// ContentIndex::kLagMax. Which of two is older is the driver's business, too. Writes nothing.
// Errors of the API server and of `contents`, the driver's; what is missing or not ready is no
// error.
absl::StatusOr<Resolution> Resolve(const CallContext& ctx, k8s::ApiClient& api,
                                   const ContentIndex& contents, const std::string& driver,
                                   const objects::DifferentialSnapshot& object);

// Why spec.parameters cannot be handed to the driver; "" when nothing is wrong.
std::string FaultOfParameters(const objects::DifferentialSnapshot& object);

}  // namespace csidelta::diffsnap
