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

// How a claim gets a volume that was filled elsewhere:
//
//   target claim, without a volume
//       |  claim `name` in the mover's namespace, Block, of the same class; a Pod fills it
//       v
//   its volume: Retain, confirmed; marked; then the claim deleted
//       |  target in mode Block: the volume itself
//       |  target in mode Filesystem: a volume object `name` of the same CSI source, because the
//       |  mode of one that exists cannot be changed; the old object goes, and with it what
//       |  attached it
//       v
//   volume and target claim name each other --> Bound --> the reclaim policy as it was
//
// Every step looks first: it may be repeated, and another process may have done half of it. What
// must outlive the claim stands in marks of the volume.
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
  // Of what is in the mover's namespace.
  std::optional<objects::OwnerReference> owner = {};
};

struct RestoredVolume {
  enum class State {
    kWaiting,  // for what waiting_for says
    kReady,    // a Pod may be made; the claim is bound, or waits for that Pod
  };
  State state = State::kWaiting;
  std::string waiting_for;
  bool awaits_target = false;    // for the target to be made, or for a Pod that uses it
  bool is_target_there = false;  // its PVC
  std::string target_uid;        // "" until it was seen, like what follows
  std::string storage_class;
  std::string volume_name;  // "" until the claim is bound
  int64_t size_bytes = 0;
  objects::NodeSelector node_affinity;  // where the Pod must run, as in csi::Exposure
};

// Goes as far as it can without waiting. To be called again until the Pod runs. Errors:
//   FAILED_PRECONDITION  permanently: the target has a volume, is another one, or its driver
//                        refuses
// and what the API server says.
absl::StatusOr<RestoredVolume> PrepareVolume(const CallContext& ctx, k8s::ApiClient& api,
                                             const RestoreRequest& request);

struct RebindResult {
  bool is_done = false;
  std::string waiting_for;  // where it is not
};

// Gives the volume `volume_name`, that of claim `name`, to the target. REQUIRES that the Pod that
// filled it was asked to go. FAILED_PRECONDITION when it cannot succeed: the target or the volume
// is gone, or the target has another volume.
absl::StatusOr<RebindResult> RebindVolume(const CallContext& ctx, k8s::ApiClient& api,
                                          const RestoreRequest& request,
                                          const std::string& volume_name);

// Asks for the deletion of claim `name` and its volume, also where it was half rebound, but not
// of one that the target is bound to, or names: that is finished but for the binding.
// `volume_name`: of the volume, once it was known; "" before. Idempotent; waits for nothing.
absl::Status RemoveRestoredVolume(const CallContext& ctx, k8s::ApiClient& api,
                                  const RestoreRequest& request, const std::string& volume_name);

}  // namespace csidelta::csi
