#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "k8s/api_client.h"
#include "longhorn/types.h"
#include "objects/persistent_volume.h"
#include "objects/persistent_volume_claim.h"
#include "objects/workload.h"

// Whether the volume of a bound PVC has the data of the VolumeSnapshot that it is made of. Bound
// does not mean that: CSI lets a driver answer CreateVolume before it copies, and the deletion of
// the source then ends the copy for good. The one answer, for all that say "done" or delete a
// source. What is not known is kUnknown, never kFilled.
//
//   driver                              how it tells                             while it copies
//   ----------------------------------  ---------------------------------------  ---------------
//   in kFilledWhenBound (the .cc), or   a bound PVC has its data                 is not bound
//     its CSIDriver has the annotation
//     filled-when-bound
//   driver.longhorn.io                  its Volume (longhorn/volume_data.h)      kCopying, kFailed
//   the same, Volumes not readable      as any other driver: Longhorn attaches   kUnknown
//                                       no volume before its data is there
//   any other                           a Pod that has mounted it: it is         kUnknown
//                                       Running, or Succeeded
namespace csidelta::csi {

enum class PopulationState { kFilled, kCopying, kFailed, kUnknown };

struct Population {
  PopulationState state = PopulationState::kUnknown;
  std::string text = {};  // what is shown, the driver's message, or what to do; "" when filled
};

// A bound PVC, or the PersistentVolume of one.
struct PopulatedVolume {
  std::string driver;  // "": not known
  std::string handle;
  std::string namespace_name;  // of the PVC
  std::string pvc;
};

// Whether the driver of this name fills a volume before its PVC is bound, by the table of the .cc.
// Pure.
bool IsFilledWhenBound(absl::string_view driver);

// The volume of a bound PVC; where its PersistentVolume may not be read, as the PVC names it.
// NOT_FOUND when it is not there.
absl::StatusOr<PopulatedVolume> VolumeOf(const CallContext& ctx, k8s::ApiClient& api,
                                         const objects::PersistentVolumeClaim& pvc);
PopulatedVolume VolumeOf(const objects::PersistentVolume& volume);
// As the PVC names it: by its provisioner, and by its PersistentVolume, whose name Longhorn gives
// its Volume. Pure.
PopulatedVolume NamedVolumeOf(const objects::PersistentVolumeClaim& pvc);

// What the drivers show at one moment: each list is read at most once. Borrows all. Not
// thread-safe. Errors are those of the API server but PERMISSION_DENIED, with which nothing is
// known.
class PopulationReader {
 public:
  // Longhorn's namespace is that of the plugin's settings; without an environment all namespaces
  // are looked at, and if that is not allowed, the one that Longhorn is installed in by default.
  PopulationReader(const CallContext& ctx, k8s::ApiClient& api, const Environment* env = nullptr)
      : ctx_(ctx), api_(api), env_(env) {}

  absl::StatusOr<Population> Read(const PopulatedVolume& volume);

  // What is still copied, or may be, from the driver's snapshot of this handle: one line each,
  // "PVC shop/copy: Longhorn's clone of ...: initiated". `pvcs` are those known to be made of it.
  // `snapshot_uid`: of its VolumeSnapshot, "" where that is not known; a PVC that was restored into
  // in place does not name it, but its PersistentVolume does, if these may be listed.
  absl::StatusOr<std::vector<std::string>> UnfilledFromSnapshot(const std::string& driver,
                                                                const std::string& handle,
                                                                const std::string& snapshot_uid,
                                                                std::vector<PopulatedVolume> pvcs);
  // The same from a volume, or a snapshot inside of it. Only Longhorn keeps snapshots there, of
  // the drivers that are known to copy late.
  absl::StatusOr<std::vector<std::string>> UnfilledFromVolume(const PopulatedVolume& volume);

  // Whether the storage does not have the snapshot of this handle any more, though its
  // VolumeSnapshot stays Ready: Longhorn keeps snapshots inside of a volume, and this is gone. To
  // be called after the VolumeSnapshot was read. False where it is not known.
  absl::StatusOr<bool> IsHandleGone(const std::string& driver, absl::string_view handle);

 private:
  absl::StatusOr<Population> ReadByLonghorn(const PopulatedVolume& volume);
  absl::StatusOr<Population> ReadByPods(const PopulatedVolume& volume, const std::string& why);
  absl::StatusOr<bool> HasFilledWhenBoundMark(const std::string& driver);
  absl::Status ReadRestored();
  absl::StatusOr<std::optional<longhorn::Volume>> FindVolume(const std::string& name);
  absl::StatusOr<std::string> LonghornNamespace();
  // Null where they may not be read; then `why_no_volumes_` says so.
  absl::StatusOr<const std::vector<longhorn::Volume>*> Volumes();
  absl::StatusOr<std::vector<longhorn::Volume>> ListVolumes();
  absl::Status ReadPods(const std::string& namespace_name);
  std::string Failure(const longhorn::Volume& volume);

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const Environment* const env_;
  std::map<std::string, bool> is_filled_when_bound_;  // by driver
  std::optional<std::vector<longhorn::Volume>> volumes_;
  std::string why_no_volumes_;
  // Volumes of unfinished in-place restores, by the uid of the VolumeSnapshot.
  std::optional<std::map<std::string, std::vector<PopulatedVolume>>> restored_;
  // By namespace; nothing where they may not be listed.
  std::map<std::string, std::optional<std::vector<objects::Pod>>> pods_;
};

}  // namespace csidelta::csi
