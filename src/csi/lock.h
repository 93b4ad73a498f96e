#pragma once

#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/status_macros.h"
#include "csi/volume_lease.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/volume_snapshot.h"

// One operation per volume, for backups and for people.
//
// A Lease orders the operations of csi-delta. A list finds the VolumeSnapshots of other clients
// that are being taken:
//
//   Lease --held--> busy        without the right on Leases, which people may lack: lists alone
//     | taken
//   list: another one is being taken --> busy
//     | none
//   (the caller's POST)
//     |
//   list as of the POST, for those without a Lease in common: an older one --> busy: the caller
//     | none                                                                   deletes its own
//   (the caller waits until it is taken)
//     |
//   the Lease is deleted
//
// Busy is an error, or is waited for with the Lease held. Nothing waits for a VolumeSnapshot that
// failed, or that is older than kOthersAgeMax and still not taken.
namespace csidelta::csi {

// Waits, and renews its Leases meanwhile. A lost Lease does not end the wait. Neither does a
// refusal of the API server, for kRefusalGracePeriod, because the same was allowed a moment ago.
// Borrows everything.
class LeaseWaiter {
 public:
  // `leases`: to renew; may be empty.
  LeaseWaiter(const CallContext& ctx, k8s::ApiClient& api, std::vector<VolumeLease*> leases)
      : ctx_(ctx), api_(api), leases_(std::move(leases)) {}

  // As k8s::WaitFor.
  template <typename Kind>
  absl::Status WaitFor(const k8s::ObjectKey& key, objects::Predicate<Kind> done,
                       const Kind* known = nullptr) {
    return Wait<Kind>(done, [&](const CallContext& slice, objects::Predicate<Kind> predicate) {
      return objects::WaitFor<Kind>(slice, api_, key, predicate, std::exchange(known, nullptr));
    });
  }
  // As k8s::WaitForExisting.
  template <typename Kind>
  absl::Status WaitForExisting(const k8s::ObjectKey& key, objects::Predicate<Kind> done) {
    bool exists = true;
    return Wait<Kind>(done, [&](const CallContext& slice, objects::Predicate<Kind> predicate) {
      return std::exchange(exists, false)
                 ? objects::WaitForExisting<Kind>(slice, api_, key, predicate)
                 : objects::WaitFor<Kind>(slice, api_, key, predicate);
    });
  }
  // As k8s::WaitForAmong, in one namespace.
  template <typename Kind>
  absl::Status WaitForAmong(absl::string_view namespace_name, objects::Predicate<Kind> done) {
    return Wait<Kind>(done, [&](const CallContext& slice, objects::Predicate<Kind> predicate) {
      return objects::WaitForAmong<Kind>(slice, api_, namespace_name, predicate);
    });
  }
  // By `once`, which waits until its context ends, and may be called again.
  template <typename Kind>
  absl::Status Wait(
      objects::Predicate<Kind> done,
      absl::FunctionRef<absl::Status(const CallContext& slice, objects::Predicate<Kind> predicate)>
          once) {
    return WaitInSlices([&](const CallContext& slice, Evaluated& evaluated) {
      return once(slice, [&](const Kind* object) {
        evaluated.was_asked = true;
        absl::StatusOr<bool> verdict = done(object);
        evaluated.status = verdict.status();
        return verdict;
      });
    });
  }

 private:
  // The answer of a slice's predicate.
  struct Evaluated {
    bool was_asked = false;
    absl::Status status = absl::OkStatus();
  };

  absl::Status WaitInSlices(
      absl::FunctionRef<absl::Status(const CallContext& slice, Evaluated& evaluated)> once);
  // The uptime at which the first Lease must be renewed.
  absl::Duration RenewAt() const;
  void Renew();

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  std::vector<VolumeLease*> leases_;
};

// --- The lock

// True if `status` reports that another operation on a volume is under way.
bool IsVolumeBusy(const absl::Status& status);
// The same status, marked as one.
absl::Status AsVolumeBusy(absl::Status status);
// Such a status. `what`: "PVC shop/data"; `by`: which operation.
absl::Status VolumeBusyError(absl::string_view what, absl::string_view by);

// The volumes to lock, and the operation. Values alone.
struct LockRequest {
  std::vector<VolumeLeaseRequest> leases;  // taken in this order
  std::string namespace_name;              // of the PVCs
  // The labels of the PVCs, by name; {} unless `is_thorough`.
  std::map<std::string, std::map<std::string, std::string>> pvcs;
  std::string subject;  // what a PVC is called in messages: "PVC"
  std::string name;     // of the VolumeSnapshot, or the group, that is to be made
  // How long other operations are waited for; zero: they are an error.
  absl::Duration wait_max;
  // VolumeSnapshots of backups count always, because no common Lease orders them. Otherwise they
  // count only after a Lease was taken over from a dead holder.
  bool counts_backups = false;
  // Groups that are about to call the driver count too, and CheckAtPost() lists.
  bool is_thorough = false;
  // A missing right is recorded in not_checked(); else it is an error.
  bool may_lack_rights = false;
};

// Not thread-safe. Borrows the context and the client. The destructor leaves.
class VolumeLock {
 public:
  VolumeLock(const CallContext& ctx, k8s::ApiClient& api, LockRequest request)
      : ctx_(ctx), api_(api), request_(std::move(request)) {}
  VolumeLock(const VolumeLock&) = delete;
  VolumeLock& operator=(const VolumeLock&) = delete;
  ~VolumeLock() { Leave(); }

  // Takes the Leases and checks for other operations, for LockRequest::wait_max. After an error
  // nothing is held: IsVolumeBusy() or DEADLINE_EXCEEDED, each naming the other, or an error of the
  // API server.
  absl::Status Enter();
  // After the POST, with the resourceVersion of the new object: IsVolumeBusy() if another client
  // was quicker. REQUIRES that Enter() succeeded.
  absl::Status CheckAtPost(const std::string& revision);
  // Deletes the Leases; may be called again. A Lease that cannot be deleted expires.
  void Leave();
  // Calls `operation`, which returns a StatusOr, between Enter() and Leave(). If it is busy and
  // others are waited for, calls it again once the other operation is over.
  template <typename Operation>
  auto Run(const Operation& operation) -> decltype(operation()) {
    while (true) {
      RETURN_IF_ERROR(Enter());
      auto result = operation();
      if (!IsVolumeBusy(result.status()) || !waits_for_others()) {
        Leave();
        return result;
      }
      RETURN_IF_ERROR(AwaitOther(ctx_));
    }
  }

  LeaseWaiter Waiter(const CallContext& ctx);
  // The checks for which a right is missing: "Lease not taken: ...".
  const std::vector<std::string>& not_checked() const { return not_checked_; }
  // OK, and recorded in not_checked(), if LockRequest::may_lack_rights; else `denied`. `what`:
  // "Lease not taken".
  absl::Status RecordMissingRight(absl::string_view what, const absl::Status& denied);

 private:
  bool waits_for_others() const { return request_.wait_max > absl::ZeroDuration(); }
  // After a status that is IsVolumeBusy(): waits until that operation is over.
  absl::Status AwaitOther(const CallContext& waiting);
  absl::Status EnterOnce(const CallContext& waiting);
  absl::Status TakeLease(const CallContext& waiting, const VolumeLeaseRequest& request);
  bool HoldsAllLeases() const;
  absl::Status CheckSnapshots(const std::string& revision);
  absl::Status CheckGroups();
  bool IsOther(const objects::VolumeSnapshot& snapshot) const;
  std::string PvcText(absl::string_view pvc) const;

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const LockRequest request_;
  bool may_hold_leases_ = true;
  std::list<VolumeLease> leases_;
  k8s::ObjectKey busy_with_;  // after a status that is IsVolumeBusy(); this and the next
  absl::Time busy_until_ = absl::InfiniteFuture();
  std::vector<std::string> not_checked_;
};

}  // namespace csidelta::csi
