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
#include "objects/workload.h"

// Decides if the volume of a bound PVC has the data of the VolumeSnapshot that it is made of. Bound
// does not mean that: CSI lets a driver answer CreateVolume before it copies, and a deletion of the
// source then ends the copy permanently. All code that reports "done" or deletes a source asks
// here. An unknown state is kUnknown, never kFilled.
//
//   driver                              how it is known                          while it copies
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
  std::string namespace_name = {};  // of the PVC
  std::string pvc = {};
};

// True if this driver fills a volume before its PVC is bound, by the table of the .cc. Pure.
bool IsFilledWhenBound(absl::string_view driver);

// The volume of a bound PVC. If its PersistentVolume cannot be read (no permission), as the PVC
// names it. NOT_FOUND if it does not exist.
absl::StatusOr<PopulatedVolume> VolumeOf(const CallContext& ctx, k8s::ApiClient& api,
                                         const objects::PersistentVolumeClaim& pvc);
PopulatedVolume VolumeOf(const objects::PersistentVolume& volume);
// As the PVC names it: by its provisioner and its PersistentVolume. Longhorn names its Volume after
// that. Pure.
PopulatedVolume NamedVolumeOf(const objects::PersistentVolumeClaim& pvc);

// Reads what the drivers show at one moment: each list at most once. Borrows everything. Not
// thread-safe. Errors are those of the API server but PERMISSION_DENIED, which makes a state
// unknown.
class PopulationReader {
 public:
  // Longhorn's namespace is that of the plugin's settings. Without an environment all namespaces
  // are listed, or, if that is not allowed, Longhorn's default namespace.
  PopulationReader(const CallContext& ctx, k8s::ApiClient& api, const Environment* env = nullptr)
      : ctx_(ctx), api_(api), env_(env) {}

  absl::StatusOr<Population> Read(const PopulatedVolume& volume);

  // The copies from the driver's snapshot of this handle that are not, or may not be, complete. One
  // line each: "PVC shop/copy: Longhorn's clone of ...: initiated". `pvcs` are those known to be
  // made of it. `snapshot_uid`: of its VolumeSnapshot, "" if unknown. It finds PVCs that were
  // restored into in place: the PersistentVolume names it, if these can be listed: refused().
  absl::StatusOr<std::vector<std::string>> UnfilledFromSnapshot(const std::string& driver,
                                                                const std::string& handle,
                                                                const std::string& snapshot_uid,
                                                                std::vector<PopulatedVolume> pvcs);
  // PERMISSION_DENIED once PVCs that were restored into in place could not be looked for.
  const absl::Status& refused() const { return refused_; }

  // The same for all that the driver itself shows as copies from the snapshot of this handle, or
  // from the volume, or from a snapshot inside of it. Only Longhorn is known to keep snapshots
  // there, and to show copies. PERMISSION_DENIED if its Volumes may not be listed.
  absl::StatusOr<std::vector<std::string>> UnfilledFromHandle(const std::string& driver,
                                                              const std::string& handle);

  // True if the storage lost the snapshot of this handle, though its VolumeSnapshot stays Ready:
  // Longhorn keeps snapshots inside of a volume, and the volume is gone. False if unknown. REQUIRES
  // that the VolumeSnapshot was read before.
  absl::StatusOr<bool> IsHandleGone(const std::string& driver, absl::string_view handle);

 private:
  absl::StatusOr<Population> ReadByLonghorn(const PopulatedVolume& volume);
  absl::StatusOr<Population> ReadByPods(const PopulatedVolume& volume, const std::string& why);
  absl::StatusOr<bool> HasFilledWhenBoundMark(const std::string& driver);
  absl::Status ReadRestored();
  absl::StatusOr<std::optional<longhorn::Volume>> FindVolume(const std::string& name);
  absl::StatusOr<std::string> LonghornNamespace();
  // Null if they cannot be read; then `no_volumes_` is the reason.
  absl::StatusOr<const std::vector<longhorn::Volume>*> Volumes();
  absl::StatusOr<std::vector<longhorn::Volume>> ListVolumes();
  absl::Status ReadPods(const std::string& namespace_name);
  std::string Failure(const longhorn::Volume& volume);

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const Environment* const env_;
  std::map<std::string, bool> is_filled_when_bound_;  // by driver
  std::optional<std::vector<longhorn::Volume>> volumes_;
  absl::Status no_volumes_;
  absl::Status refused_;
  // Volumes of unfinished in-place restores, by the uid of the VolumeSnapshot.
  std::optional<std::map<std::string, std::vector<PopulatedVolume>>> restored_;
  // By namespace; nothing if they cannot be listed.
  std::map<std::string, std::optional<std::vector<objects::Pod>>> pods_;
};

// The VolumeSnapshots whose data is inside of this volume and is deleted with it, though they stay
// Ready: "shop/monday", sorted. Of all drivers, only Longhorn is known to keep it there. One LIST.
absl::StatusOr<std::vector<std::string>> SnapshotsInside(const CallContext& ctx,
                                                         k8s::ApiClient& api,
                                                         const PopulatedVolume& volume);

}  // namespace csidelta::csi
