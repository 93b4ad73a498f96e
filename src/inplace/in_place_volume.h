#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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
//       |  all is looked at once more
//       v
//   PersistentVolume `name`: the same CSI source, Retain, reserved for PVC `name` of the mover's
//       |  namespace, which a Pod there writes into
//       v
//   ready --CheckInPlace at each look--> still the same PVC and volume, and no Pod uses it
//       |
//       v
//   HideInPlace --> both are gone, and the volume is detached. The PVC names no DataDownload, and
//                   has no record, or one that says that its volume may be partly old
//
// The claim has none of the labels by which volumes that were filled are found, and removed with
// their data.
//
// A kubelet that has a volume under the name of one PersistentVolume does not get on with a second
// one, so they are never attached at the same time. PVC, uid and PersistentVolume stay.
//
// Who asks may be anybody who may create a DataDownload: all is checked here, with the mover's own
// rights. Every step looks first: it may be repeated, and another process may have done half of it.
namespace csidelta::inplace {

// Later the mover does not begin: the caller may have gone, and the PVC be in use again.
inline constexpr absl::Duration kMoverStartTimeMax = absl::Minutes(30);
// By how much the caller's clock, which that is counted by, may be ahead of the API server's, which
// stamps the DataDownload: the mover refuses one that says that it may begin later than both.
inline constexpr absl::Duration kMoverClockSkewMax = absl::Minutes(5);

struct InPlaceRequest {
  std::string name;  // of what is made
  std::string mover_namespace;
  std::string target_namespace;
  std::string target_claim;
  std::string target_uid = {};     // of the PVC; no other one is written into
  std::string target_volume = {};  // the PersistentVolume that it has; no other is written into
  std::string transfer;            // NAMESPACE/NAME of the DataDownload
  std::string transfer_uid;        // its uid
  std::string upload = {};         // the DataUpload whose data it is; ""
  absl::Time consent_before = absl::InfinitePast();  // the PVC may take so long to have that uid
  absl::Time start_before = absl::InfinitePast();    // nothing is begun later
  // Of what is in the mover's namespace.
  std::optional<objects::OwnerReference> owner = {};
};

struct InPlaceVolume {
  std::string waiting_for = {};  // "": a Pod may be made with PVC `name`
  std::string volume_name = {};  // of the PVC that is written into; "" until it was seen
  std::string storage_class = {};
};

// Goes as far as it can without waiting. To be called again until the Pod runs. Errors:
//   FAILED_PRECONDITION  it is not done: the PVC is another one, does not consent, is in use, or
//                        anything else that inplace/restore_guard.h is about, or that may not be read;
//                        or it is too late. What is Busy is waited for
//   ABORTED              the PVC changed meanwhile: call again
// and what the API server says.
absl::StatusOr<InPlaceVolume> ExposeInPlace(const CallContext& ctx, k8s::ApiClient& api,
                                            const InPlaceRequest& request);

// While a worker writes, and after: FAILED_PRECONDITION where the PVC is not the same any more, has
// another volume, or a Pod uses it.
absl::Status CheckInPlace(const CallContext& ctx, k8s::ApiClient& api,
                          const InPlaceRequest& request);
// The same without the Pods: once the worker is done they may begin.
absl::Status CheckSameTarget(const CallContext& ctx, k8s::ApiClient& api,
                             const InPlaceRequest& request);

struct InPlaceEnd {
  bool is_whole = false;         // all was written
  bool is_fenced = false;        // nothing writes any more, whatever is still there
  bool may_still_write = false;  // a worker that was told to end was not seen to
};

// Asks for the deletion of what ExposeInPlace() made, and of nothing else; then, once that is gone,
// or the volume is fenced, ends record and consent. While a worker may still write, all of it
// stays: it keeps others away. Returns what is waited for, "" when it is done. REQUIRES that the
// Pod was asked to go. Idempotent.
absl::StatusOr<std::string> HideInPlace(const CallContext& ctx, k8s::ApiClient& api,
                                        const InPlaceRequest& request, const InPlaceEnd& end);

}  // namespace csidelta::inplace
