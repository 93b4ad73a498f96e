#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "objects/volume_snapshot.h"
#include "velero/item_action.h"

namespace csidelta::restoreitemactions {

// What the driver says about the snapshot behind a restored VolumeSnapshot.
struct ContentState {
  enum class Kind {
    kReady,    // usable, as far as the driver tells
    kPending,  // no answer yet, or one that may pass
    kGone,     // the driver does not know the handle
  };
  Kind kind = Kind::kPending;
  std::string driver;  // "" until it is known, like what follows
  std::string handle;
  std::string message;  // the driver's last error
};

// Reads the state from a VolumeSnapshotContent. Pure.
ContentState StateOfContent(const objects::VolumeSnapshotContent& content);

// Looks once at the content that `snapshot`, a VolumeSnapshot in the cluster, is restored from.
absl::StatusOr<ContentState> InspectContent(const CallContext& ctx, const csi::Environment& env,
                                            const objects::VolumeSnapshot& snapshot);

// The same, waiting until the answer is not kPending any more or ctx ends: then kPending.
absl::StatusOr<ContentState> AwaitContent(const CallContext& ctx, const csi::Environment& env,
                                          const objects::VolumeSnapshot& snapshot);

// The description of an operation whose claim got its volume, and that the data.
inline constexpr char kClaimIsBound[] = "bound";

// The asynchronous operation of a restored claim: did it get its volume, and that the data
// (csi/population.h)?
//
//   created --> waiting --Bound to a volume with the data----> completed
//                  |    --Bound, the driver copies-----------> waiting
//                  |    --Bound, the driver does not show it-> waiting
//                  |    --Bound, the copy failed-------------> failed, Event on the claim
//                  |    --Bound to another volume------------> failed, Event on the claim
//                  |    --no VolumeSnapshot, no fitting class-> failed, Event on the claim
//                  |    --WaitForFirstConsumer, no node------> completed, "not checked"
//                  |    --driver: no such snapshot-----------> failed, Event on the claim
//                  |    --provisioner: definite refusal------> failed, Event on the claim
//                  |    --the claim is gone or Lost----------> failed
//                  +----Velero's itemOperationTimeout--------> failed by Velero, CancelClaim()
//
// Copies of large volumes take hours, so time alone is no failure: Velero decides how long it
// waits. Nothing is ever deleted, and a claim whose operation failed is left to bind later if it
// can.
struct ClaimOperation {
  std::string namespace_name;  // where the claim is restored
  std::string claim_name;
  std::string snapshot_name;  // of the VolumeSnapshot there that it is filled from
};

// The operation's id in Velero's records: readable by later releases and unique in its restore.
// Pure.
std::string EncodeOperation(const ClaimOperation& operation);
// INVALID_ARGUMENT when `operation_id` is not csi-delta's. Pure.
absl::StatusOr<ClaimOperation> DecodeOperation(absl::string_view operation_id);

// How the operation stands. Trouble with the API server is "not completed".
velero::OperationProgress CheckClaim(const CallContext& ctx, const csi::Environment& env,
                                     const ClaimOperation& operation);
// The same of the operation with this id; it has failed when the id is not csi-delta's.
velero::OperationProgress CheckClaim(const CallContext& ctx, const csi::Environment& env,
                                     absl::string_view operation_id);

// Velero waits no longer. The claim stays as it is; an Event on it says what it waits for.
// INVALID_ARGUMENT when the id is not csi-delta's.
absl::Status CancelClaim(const CallContext& ctx, const csi::Environment& env,
                         absl::string_view operation_id);

}  // namespace csidelta::restoreitemactions
