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

enum class DeletionState {
  kProven,    // the driver deleted it, and the object is gone
  kPending,   // not yet: the object stands for what is to be done
  kDeclined,  // the sidecar never asks the driver: the snapshot is a member of a group that the
              // driver holds; the object is gone
};

// Whether it carries our finalizer. Pure.
bool IsPendingDeletion(const objects::Object& content);

// The content as it was read. Pure.
PendingDeletion PendingDeletionOf(const k8s::ResourceType& type, const objects::Object& content);

// For a user who finds it: what it waits for, and what to do. Pure.
std::string DescribePendingDeletion(const k8s::ResourceType& type, const objects::Object& content);

// Makes `content`, which carries kDeletionFinalizer, unless there is one of its name; one that an
// older version of us made gets the finalizer, or is waited for, at most `wait`, where it is being
// deleted already. False when it stands even then.
absl::StatusOr<bool> EnsurePendingDeletion(const CallContext& ctx, const Environment& env,
                                           const k8s::ObjectKey& key,
                                           const objects::Object& content, absl::Duration wait);

// Asks for the deletion of the content, has the sidecar delete what it names, and removes our
// finalizer when the driver is proven to have done so; a handle that was lost is written again.
// Waits at most `wait`, and looks once in any case. Idempotent; may run in two processes at once.
absl::StatusOr<DeletionState> ProveDeletion(const CallContext& ctx, const Environment& env,
                                            const PendingDeletion& deletion, absl::Duration wait);

}  // namespace csidelta::csi
