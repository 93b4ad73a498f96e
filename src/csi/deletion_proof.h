#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "k8s/api_client.h"
#include "objects/object.h"

// Whether a driver really deleted what a temporary content stands for.
//
// Protocol facts, external-snapshotter 8.6.0. The sidecar deletes what status.<handle> of a content
// names, sets the handle and readyToUse of the status to null, and removes its own finalizer. An
// error of a look at the driver that began before the content had a status replaces the whole
// status: the handle is lost, and the sidecar removes its finalizer without having asked the
// driver. Our own finalizer keeps the object from vanishing then, and the status says which of the
// two happened.
namespace csidelta::csi {

// A VolumeSnapshotContent or a VolumeGroupSnapshotContent that was made, with kDeletionFinalizer,
// to have a driver's snapshot or group deleted. Only csi-delta removes such an object.
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
};

// Whether it carries our finalizer. Pure.
bool IsPendingDeletion(const objects::Object& content);

// The content as it was read. Pure.
PendingDeletion PendingDeletionOf(const k8s::ResourceType& type, const objects::Object& content);

// For a user who finds it: what it waits for, and what to do. Pure.
std::string DescribePendingDeletion(const k8s::ResourceType& type, const objects::Object& content);

// Has the status of an object that was made for what the driver has, a content of a VolumeSnapshot
// or of a group, name the driver's handle: there the sidecar reads what it is to delete. Waits
// first for the sidecar's first report about the object, for `grace_period` and five seconds at
// most: an error of that first look replaces the whole status (external-snapshotter 8.6), and a
// handle that was there would be lost, and the deletion with it. Without the right to write a
// status, waits half a minute for the sidecar to do it. OK when the object is gone or is being
// deleted.
absl::Status WriteHandle(const CallContext& ctx, const Environment& env, const k8s::ObjectKey& key,
                         const std::string& handle, absl::Duration grace_period);

// Asks for the deletion of the content, has the sidecar delete what it names, and removes our
// finalizer when the driver is proven to have done so; a handle that was lost is written again.
// Waits at most `wait`, and looks once in any case; logs what is not proven by then. Idempotent;
// may run in two processes at once. kGone, kInProgress or kDeclined.
absl::StatusOr<DeletionResult> ProveDeletion(const CallContext& ctx, const Environment& env,
                                             const PendingDeletion& deletion, absl::Duration wait);

}  // namespace csidelta::csi
