#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/node.h"
#include "objects/object.h"

// Gives a PVC a volume that was filled elsewhere:
//
//   target claim, without a volume
//       |  claim `name` in the mover's namespace, Block, of the same class, with TransferModes(); a
//       |  Pod fills it
//       v
//   its volume: Retain, confirmed; marked; then the claim deleted
//       |  target in mode Block: the volume itself
//       |  target in mode Filesystem: a volume object `name` of the same CSI source, because the
//       |  mode of one that exists cannot be changed; the old object goes, and with it what
//       |  attached it
//       v
//   volume with the target's access modes; it and the target claim name each other --> Bound -->
//   the reclaim policy as it was
//
// Every step first reads what exists: it may be repeated, and another process may have done half of
// it. Marks of the volume keep what must outlive the PVC.
namespace csidelta::csi {

struct RestoreRequest {
  std::string name;  // of what is made
  std::string mover_namespace;
  std::string target_namespace;
  std::string target_claim;
  std::string target_uid = {};        // "" until it was seen first
  int64_t size_bytes_least = 0;       // of what is restored; 0 when not known
  std::string file_system = {};       // that the volume holds; "": what the target's class says
  bool ignore_delay_binding = false;  // do not wait until a Pod uses the target
  bool is_without_claim = false;      // makes no claim `name`
  std::map<std::string, std::string> labels = {};
  // The owner of all objects in the mover's namespace.
  std::optional<objects::OwnerReference> owner = {};
};

struct RestoredVolume {
  enum class State {
    kWaiting,  // for what waiting_for says
    kReady,    // a Pod may be made; the claim is bound, or waits for that Pod
  };
  State state = State::kWaiting;
  std::string waiting_for;       // with kReady: of a refused claim that waits for its Pod
  bool awaits_target = false;    // for the target to be made, or for a Pod that uses it
  bool is_target_there = false;  // its PVC
  std::string target_uid;        // "" until it was seen, like what follows
  std::string storage_class;
  std::string volume_name;  // "" until the claim is bound
  int64_t size_bytes = 0;
  objects::NodeSelector node_affinity;  // where the Pod must run, as in csi::Exposure
};

// Advances as far as it can without waiting. To be called again until the Pod runs. REQUIRES a name
// and labels. Errors:
//   FAILED_PRECONDITION  permanently: the target has a volume, is another one, or its driver
//                        refuses
// and errors of the API server.
absl::StatusOr<RestoredVolume> PrepareVolume(const CallContext& ctx, k8s::ApiClient& api,
                                             const RestoreRequest& request);

struct RebindResult {
  bool is_done = false;
  std::string waiting_for;  // if it is not
};

// Gives the volume `volume_name`, of PVC `name`, to the target. REQUIRES that the deletion of the
// Pod that filled it was requested. FAILED_PRECONDITION if it cannot succeed: the target or the
// volume is gone, or the target has another volume.
absl::StatusOr<RebindResult> RebindVolume(const CallContext& ctx, k8s::ApiClient& api,
                                          const RestoreRequest& request,
                                          const std::string& volume_name);

// Requests the deletion of PVC `name` and its volume, even if half rebound. A volume that the
// target names, or is bound to, stays: only its binding is missing. `volume_name`: "" before it was
// known. REQUIRES a name and labels. Idempotent; waits for nothing.
absl::Status RemoveRestoredVolume(const CallContext& ctx, k8s::ApiClient& api,
                                  const RestoreRequest& request, const std::string& volume_name);

}  // namespace csidelta::csi
