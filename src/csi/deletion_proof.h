#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "k8s/api_client.h"
#include "objects/object.h"

// Proves that a driver deleted the snapshot, or group, that a temporary content names.
//
// Protocol facts, external-snapshotter 8.6.0. The sidecar deletes the handle in the status of a
// content, sets that handle and readyToUse to null, and removes its own finalizer. A query of the
// driver that began before the content had a status can still fail then. Its error replaces the
// whole status: the handle is lost, and the sidecar removes its finalizer without a call to the
// driver. The finalizer of csi-delta keeps the object in both cases, and the status tells them
// apart.
namespace csidelta::csi {

// A content of either kind that was made, with kDeletionFinalizer, to have a driver's snapshot or
// group deleted. Only csi-delta removes such an object.
struct PendingDeletion {
  k8s::ObjectKey key;
  std::string handle;  // of the driver's snapshot or group
};

// How far a deletion is.
enum class DeletionResult {
  kNothing,     // the archived object names nothing of this backup
  kGone,        // proven: the driver holds it no more, and the object is gone
  kInProgress,  // requested, not proven yet: the object stands for it in the cluster, and a later
                // backup continues
  kDeclined,    // the snapshot is a member of a group, and the sidecar deletes none of those alone;
                // the object is gone
  kDeferred,    // a claim is still being filled from the snapshot; the sweep deletes it afterwards
  kNoDriver,    // this cluster does not have the driver, so nothing was requested of it
};

// True if the content has kDeletionFinalizer. Pure.
bool IsPendingDeletion(const objects::Object& content);

// The content as it was read. Pure.
PendingDeletion PendingDeletionOf(const k8s::ResourceType& type, const objects::Object& content);

// A message for the user who finds it: what it waits for, and what to do. Pure.
std::string DescribePendingDeletion(const k8s::ResourceType& type, const objects::Object& content);

// Writes the handle into the status of `key`, a content of either kind that was made for an
// existing snapshot or group. The sidecar deletes what the status names. First waits for the
// sidecar's first report about the object, for `grace_period` and five seconds at most. An error in
// that report replaces the whole status (external-snapshotter 8.6). Without the right to write a
// status, waits half a minute for the sidecar to do it. OK if the object is gone or being deleted.
absl::Status WriteHandle(const CallContext& ctx, const Environment& env, const k8s::ObjectKey& key,
                         const std::string& handle, absl::Duration grace_period);

// Deletes the content, and removes kDeletionFinalizer once the driver is proven to have deleted the
// snapshot or group. A handle that was lost is written again. Reads at least once, and waits at
// most `wait`; logs what is not proven by then. Idempotent; may run in two processes at once.
// Returns kGone, kInProgress or kDeclined.
absl::StatusOr<DeletionResult> ProveDeletion(const CallContext& ctx, const Environment& env,
                                             const PendingDeletion& deletion, absl::Duration wait);

}  // namespace csidelta::csi
