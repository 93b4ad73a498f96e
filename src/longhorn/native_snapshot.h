#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/json.h"
#include "k8s/api_client.h"
#include "longhorn/types.h"

// The native snapshot that a backup takes of a Longhorn volume: an object of the kind Snapshot, for
// which Longhorn takes one. It lives in the volume and dies with it.
//
//   (nothing)
//       |  CreateNative
//       v
//   kPending --kTaken--> kReady --its backup is deleted-----------+
//       |           |                                             v
//       +-----------+--given up---------------------------> RemoveNative
//
// One that is given up must be deleted: Longhorn takes a pending one as soon as it can, however
// late. Nothing here waits for what is deleted, updates an object of Longhorn, or sets its
// finalizers, owners or volume label, which its webhooks do. (longhorn-manager 1.12 and 1.13:
// controller/snapshot_controller.go, webhook/resources/snapshot.)
namespace csidelta::longhorn {

struct NativeRequest {
  std::string namespace_name;    // Longhorn's
  std::string volume;            // the name of the Volume
  std::string velero_namespace;  // of the Backup
  std::string backup_name;
  std::string backup_uid;
  std::string pvc_namespace;
  std::string pvc_name;
  std::string pvc_uid;
};

// Begins the name of each native snapshot, and of few others.
inline constexpr char kNativeNamePrefix[] = "csd-";

// "csd-" and 40 hexadecimal digits: a DNS label, whatever backup and PVC are called, and the same
// in every process and every retry. Longhorn can never delete a snapshot whose name is longer than
// 63 bytes, and one of more than 230 takes the volume down. Pure.
std::string NativeSnapshotName(absl::string_view backup_uid, absl::string_view volume_uid);

// Whether NativeSnapshotName() may have made it. Pure.
bool IsNativeSnapshotName(absl::string_view name);

// The object to create. Pure.
Json MakeNativeSnapshot(const NativeRequest& request, absl::string_view name);

// Whether it is the object of a native snapshot that has lost its own: Longhorn makes one again,
// with another uid and without the labels, for what the engine still has. No archive names that
// uid, so no restore fills a volume from it, and no deletion of a backup deletes it. Its name and
// the engine's labels tell. A clone's first snapshot has the same name, but none of these labels:
// it is not a backup's, and the clone needs it. Pure.
bool IsNativeMadeAgain(const Snapshot& snapshot);

// Whether it was made for `request`, by an earlier call. Pure.
bool IsNativeOf(const Snapshot& snapshot, const NativeRequest& request);

// FAILED_PRECONDITION when no snapshot of the volume can be taken, or when it would hold nothing
// that could be restored: it is being deleted, faulted, a standby volume, being restored or cloned.
// Pure.
absl::Status RequireUsable(const Volume& volume);

// Whether `error`, as Longhorn's engine words it, refuses a snapshot because the volume has too
// many or they are too large: one goes on waiting until there is room. Pure.
bool IsForWantOfRoom(absl::string_view error);

// What to do about that: "free places with: csi-delta longhorn prune ...". Of the snapshots that
// the volume may have, half stay, and at most 100. Pure.
std::string HowToMakeRoom(const Volume& volume);

// RESOURCE_EXHAUSTED when the engine would refuse another snapshot of the volume. One of the name
// `name` is the one that is asked for, and needs no room. One request.
absl::Status RequireRoom(const CallContext& ctx, k8s::ApiClient& api, const Volume& volume,
                         absl::string_view name);

// Has Longhorn take the snapshot, and returns the object; or the one that an interrupted call made
// for the same request. While Longhorn does not answer it is asked again, until `ctx` ends. An
// error leaves open whether the object exists.
//   ALREADY_EXISTS    another one has the name
//   INVALID_ARGUMENT  Longhorn refused it
absl::StatusOr<Snapshot> CreateNative(const CallContext& ctx, k8s::ApiClient& api,
                                      const NativeRequest& request, absl::string_view name);

enum class NativeState {
  kPending,  // not taken, as far as Longhorn shows
  kTaken,    // the engine has it: what is written now is not in it
  kReady,    // volumes can be made of it
  kGone,     // deleted, being deleted, marked as removed; or another one has the name
};

// Of the Snapshot with this uid; `snapshot` is null where the name is free. Pure.
NativeState StateOf(const Snapshot* snapshot, absl::string_view uid);

// When it was taken, by Longhorn's clock: as the engine says, else when the engine accepted the
// request. Nothing before it was taken, and with a Longhorn that does not tell. Pure.
std::optional<absl::Time> TakenAt(const Snapshot& snapshot);

// Has Longhorn delete the Snapshot with this uid; OK when it is asked to, when none exists, and
// when another one has the name. Does not wait for Longhorn, which keeps the newest of a volume,
// and any of a detached one, as long as it must. While Longhorn does not answer, or a clone stands
// on the snapshot, it is asked again, until `ctx` ends; the error names the command for later.
absl::Status RemoveNative(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                          absl::string_view uid);

// The same for whatever a call of CreateNative() with this request may have made.
absl::Status RemoveNativeOf(const CallContext& ctx, k8s::ApiClient& api,
                            const NativeRequest& request, absl::string_view name);

}  // namespace csidelta::longhorn
