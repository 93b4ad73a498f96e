#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "objects/backup.h"
#include "objects/persistent_volume.h"
#include "objects/workload.h"
#include "velero/volume_policy.h"

namespace csidelta::velero {

// The key of `parameters` by which a policy of type `custom` gives a volume to us, and its values.
inline constexpr char kCsiDeltaParameter[] = "csi-delta";
inline constexpr char kCsiDeltaSnapshot[] = "snapshot";  // a local volume snapshot
inline constexpr char kCsiDeltaMove[] = "move";          // our data mover
inline constexpr char kCsiDeltaTrue[] = "true";          // what spec.snapshotMoveData says
inline constexpr char kCsiDeltaLonghorn[] = "longhorn";  // a native snapshot, of kLonghornDriver
// With type `snapshot`, or with ours: the VolumeSnapshotClass to use.
inline constexpr char kSnapshotClassParameter[] = "snapshotClass";

// Longhorn's CSI driver: the name in a PersistentVolume, whose handle is the name of a Volume.
inline constexpr char kLonghornDriver[] = "driver.longhorn.io";

// How the decision learns what costs a request. Each is called at most once per decision, and only
// when the answer depends on it; an error is returned as it is. All must be set.
struct VolumeQueries {
  // The policies of the backup, the global ones at the end; never null.
  std::function<absl::StatusOr<std::shared_ptr<const VolumePolicies>>()> policies;
  // The claim's PersistentVolume; nothing when it has none or it is gone.
  std::function<absl::StatusOr<std::optional<objects::PersistentVolume>>()> pv;
  // Pods of the claim's namespace; others than those using the claim do no harm. Never null.
  std::function<absl::StatusOr<std::shared_ptr<const std::vector<objects::Pod>>>()> pods;
};

struct VolumeDecision {
  enum class Kind {
    kLeaveAlone,   // not managed, or nothing to do
    kAlreadyDone,  // another action took the volume in this backup
    kSnapshot,     // ours take a local volume snapshot
    kMove,         // ours take a volume snapshot, and our data mover moves what it holds
    kLonghorn,     // the action for Longhorn has it take a native snapshot
  };
  Kind kind = Kind::kLeaveAlone;
  // For people: why. Logged once per volume.
  std::string reason{};
  // The reason is a warning: no other plugin may save this volume either.
  bool warn = false;
  // kAlreadyDone: the VolumeSnapshot that the claim names, in the claim's namespace.
  std::string volume_snapshot_name{};
  // By a rule of type `custom`. Else Velero's own action may take it too, from Velero 1.14 on.
  bool is_by_custom_rule = false;
  // kSnapshot, kMove: the class that the policy asks for; "" for none.
  std::string snapshot_class{};
  // kSnapshot, kMove, kLonghorn: the PersistentVolume, as `queries.pv` returned it.
  objects::PersistentVolume pv{};
};

struct DecisionInput {
  const objects::Backup& backup;
  const objects::PersistentVolumeClaim& pvc;  // as the host passes it, after earlier actions
  bool enable_csi = false;
  // The claim's labels may be older than this backup, when a restored claim kept them. A caller
  // that found the VolumeSnapshot they name gone or of another backup asks again with true.
  bool ignore_claim_labels = false;
};

// Decides what this plugin does with a claim's volume in a backup; see docs/volume-policies.md for
// the table. Pure but for `queries`.
// Where the server runs without EnableCSI only native snapshots are taken; another volume that a
// policy gives to us is warned of then.
//   INVALID_ARGUMENT  a policy gives the volume to us with a value that we do not know, or that
//                     does not fit the volume; the message names the claim, the rule and the legal
//                     values.
absl::StatusOr<VolumeDecision> DecideVolume(const DecisionInput& input,
                                            const VolumeQueries& queries);

// Whether Velero's file-system backup takes this claim's volume in `pod` without any policy: by
// the pod's annotations, opt-in or opt-out as the backup says. Pure.
bool FsBackupTakesClaim(const objects::Backup& backup, const objects::Pod& pod,
                        absl::string_view claim_name);

}  // namespace csidelta::velero
