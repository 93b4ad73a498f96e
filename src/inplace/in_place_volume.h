#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/object.h"

// How the volume of a PVC becomes writable to a Pod in another namespace, as a raw block device:
//
//   PVC, bound, of mode Block or Filesystem
//       |  the annotation mover.csi-delta.io/may-write holds the uid of the DataDownload: who may
//       |  change the PVC consents. One of the same name that is made later has another uid
//       |  inplace/restore_guard.h: nothing is against it, and all of it could be read; the volume has
//       |  no other PersistentVolume, and is attached to no node
//       v
//   PVC with a record (objects/copy_record.h): other restores keep away
//       |  all is read once more
//       v
//   PersistentVolume `name`: the same CSI source, Retain, reserved for PVC `name` of the mover's
//       |  namespace, which a Pod there writes into
//       v
//   ready --CheckInPlace at each read--> still the same PVC and volume, and no Pod uses it
//       |
//       v
//   HideInPlace --> both are gone, and the volume is detached. The PVC names no DataDownload, and
//                   has no record, or one that says that its volume may be partly old
//
// The claim has none of the labels by which filled volumes are found and deleted with their data.
//
// A kubelet cannot handle one volume under the names of two PersistentVolumes, so they are never
// attached at the same time. PVC, uid and PersistentVolume stay.
//
// Anybody who may create a DataDownload can request this, so all is checked here, with the mover's
// own rights. Every step reads the objects first: it may be repeated, and another process may have
// done half of it.
namespace csidelta::inplace {

// The mover does not begin later: the caller may be gone, and the PVC in use again.
inline constexpr absl::Duration kMoverStartTimeMax = absl::Minutes(30);
// Allowed lead of the caller's clock, which sets start_before, over the API server's, which stamps
// the DataDownload. The mover refuses a start_before beyond the creation time plus both limits.
inline constexpr absl::Duration kMoverClockSkewMax = absl::Minutes(5);

struct InPlaceRequest {
  std::string name;  // of the PVC and PersistentVolume made
  std::string mover_namespace;
  std::string target_namespace;
  std::string target_claim;
  std::string target_uid = {};     // of the PVC; no other PVC is written into
  std::string target_volume = {};  // its PersistentVolume; no other one is written into
  std::string transfer;            // NAMESPACE/NAME of the DataDownload
  std::string transfer_uid;        // its uid
  std::string upload = {};         // the DataUpload of the data; "" if unknown
  absl::Time consent_before = absl::InfinitePast();  // the PVC may take so long to have that uid
  absl::Time start_before = absl::InfinitePast();    // nothing is begun later
  // The owner of the objects in the mover's namespace.
  std::optional<objects::OwnerReference> owner = {};
};

struct InPlaceVolume {
  std::string waiting_for = {};  // "": a Pod may be made with PVC `name`
  std::string volume_name = {};  // of the PVC that is written into; "" until it was read
  std::string storage_class = {};
};

// Goes as far as it can without waiting. Call it again until the Pod runs. Errors:
//   FAILED_PRECONDITION  it is not done: the PVC is another one, does not consent, is in use, or
//                        anything else that inplace/restore_guard.h is about, or that may not be read;
//                        or it is too late. What is Busy is waited for
//   ABORTED              the PVC changed meanwhile: call again
// Other errors are those of the API server.
absl::StatusOr<InPlaceVolume> ExposeInPlace(const CallContext& ctx, k8s::ApiClient& api,
                                            const InPlaceRequest& request);

// For the time while a worker writes, and after: FAILED_PRECONDITION if the PVC is another one, has
// another volume, or a Pod uses it.
absl::Status CheckInPlace(const CallContext& ctx, k8s::ApiClient& api,
                          const InPlaceRequest& request);
// The same check without Pods: they may start once the worker is done.
absl::Status CheckSameTarget(const CallContext& ctx, k8s::ApiClient& api,
                             const InPlaceRequest& request);

struct InPlaceEnd {
  bool is_whole = false;         // all was written
  bool is_fenced = false;        // nothing writes any more, whatever is still there
  bool may_still_write = false;  // a worker was told to end, but not seen to end
};

// Requests the deletion of the objects that ExposeInPlace() made, and of no others. Once they are
// gone, or the volume is fenced, ends record and consent. While a worker may still write, all of it
// stays, to keep others away. Returns what it waits for, "" if it is done. REQUIRES that the
// deletion of the Pod was requested. Idempotent.
absl::StatusOr<std::string> HideInPlace(const CallContext& ctx, k8s::ApiClient& api,
                                        const InPlaceRequest& request, const InPlaceEnd& end);

}  // namespace csidelta::inplace
