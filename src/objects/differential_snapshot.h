#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "objects/object.h"

namespace csidelta::objects {

// status.state. What is unknown is kNone.
enum class RequestState { kNone, kPending, kSuccess, kFailure };
// "Pending"; "" for kNone.
std::string ToString(RequestState state);

// status.resolved: what the names in the spec stood for.
struct ResolvedNames {
  std::string driver = {};
  std::string base_handle = {};  // "": what is allocated in the target
  std::string target_handle = {};
  std::string volume_handle = {};  // "": not known
  std::string class_name = {};     // of the target's VolumeSnapshotClass; "": none
  int64_t volume_size_bytes = 0;   // as the target would be restored; 0: not known

  friend bool operator==(const ResolvedNames&, const ResolvedNames&) = default;
};

// An entry of status.conditions.
struct RequestCondition {
  std::string type;
  bool is_met = false;
  std::string reason;
  std::string message;
};

// What Patch::SetRequestStatus() writes: of a Success what is served, of others why not.
struct RequestStatus {
  RequestState state = RequestState::kNone;
  std::string error = {};  // "": none, as of a Success
  ResolvedNames resolved = {};
  std::vector<RequestCondition> conditions = {};
  std::string url = {};       // "": stays as it is
  std::string audience = {};  // "": stays as it is
  std::string ca_pem = {};    // "": stays as it is
};

// Whether spec.parameters may be handed to a driver: not too many, not too long as CSI limits maps,
// and no name that Kubernetes reserves.
bool AreDriverParameters(const std::map<std::string, std::string>& parameters);

// What changed between two snapshots, asked for: deploy/differentialsnapshot-crd.yaml.
class DifferentialSnapshot : public ObjectOf<DifferentialSnapshot> {
 public:
  static constexpr KindName kKind = {"diffsnap.csi-delta.io", "v1alpha1", "differentialsnapshots",
                                     "DifferentialSnapshot"};

  // Spec.
  std::string target_name() const { return Text({"spec", "targetVolumeSnapshotName"}); }
  std::string base_name() const { return Text({"spec", "baseVolumeSnapshotName"}); }
  std::string base_handle() const { return Text({"spec", "baseSnapshotHandle"}); }
  std::string volume_id() const { return Text({"spec", "volumeId"}); }
  std::string mode() const { return Text({"spec", "mode"}); }
  std::string start_offset() const { return Text({"spec", "startOffset"}); }  // as it was written
  std::map<std::string, std::string> parameters() const;
  // Whether everything is listed as changed if the storage does not compare with the base any more.
  bool lists_all_for_unknown_base() const { return Text({"spec", "onUnknownBase"}) == "all"; }

  // Status.
  RequestState state() const;
  std::string error() const { return Text({"status", "error"}); }
  ResolvedNames resolved() const;

  // For a copy that is kept in memory, and never written: removes what its owner may fill at will
  // and no reconciler reads. An object in its last state keeps metadata, state and driver only.
  void RemoveUnneeded(bool is_last_state);
  void RemoveParameters() { Remove({"spec", "parameters"}); }
};

}  // namespace csidelta::objects
