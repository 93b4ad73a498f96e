#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "csi/lease_wait.h"
#include "csi/volume_lease.h"
#include "k8s/api_client.h"
#include "objects/persistent_volume_claim.h"

// One operation per volume, for VolumeSnapshots that a person asks for, with the rights of that
// person alone.
//
// A Lease in the PVC's namespace orders what these verbs do; a list before the POST finds the
// VolumeSnapshots of others, a backup's for instance, and the groups that take the PVC; and a list
// of what there was at the very revision of the POST finds those that were quicker:
//
//   Lease --held--> busy          no right on Leases: without one, and the lists alone count
//     | taken
//   list: another one is being taken --> busy
//     | none
//   (the caller's POST)
//     |
//   list as of the POST: an older one is being taken --> busy: the caller deletes its own
//     | none
//   (the caller waits until it is taken)
//     |
//   the Lease is deleted
//
// A VolumeSnapshot that failed, or is older than kOthersAgeMax and still not taken, is not waited
// for, as backups do.
namespace csidelta::snapshots {

struct GuardRequest {
  std::vector<objects::PersistentVolumeClaim> pvcs;  // of one namespace
  std::string name;  // of the VolumeSnapshot, or the group, that is to be made
  // Wait for other operations to end, until the time of the call is over; else they are an error.
  bool waits_for_others = false;
};

// Whether `status` says that another operation on a volume is under way.
bool IsVolumeBusy(const absl::Status& status);
// The same status, marked as one.
absl::Status AsVolumeBusy(absl::Status status);
// Such a status; `by`: which operation.
absl::Status VolumeBusyError(absl::string_view pvc, absl::string_view by);

// Not thread-safe. Borrows the context and the client. The destructor leaves.
class VolumeGuard {
 public:
  VolumeGuard(const CallContext& ctx, k8s::ApiClient& api, Random& random, GuardRequest request);
  VolumeGuard(const VolumeGuard&) = delete;
  VolumeGuard& operator=(const VolumeGuard&) = delete;
  ~VolumeGuard() { Leave(); }

  // Takes the Leases and looks for others. IsVolumeBusy() when there are some; then nothing is
  // held.
  absl::Status Enter();
  // After the POST, with the resourceVersion of what it made; "" for now.
  absl::Status LookAgain(const std::string& revision);
  // Deletes the Leases; may be called again. What cannot be deleted runs out.
  void Leave();
  // `operation`, which returns a StatusOr, between Enter() and Leave(); again once the other one is
  // over, where it was busy and others are waited for.
  template <typename Operation>
  auto Run(const Operation& operation) -> decltype(operation()) {
    while (true) {
      RETURN_IF_ERROR(Enter());
      auto result = operation();
      Leave();
      if (!IsVolumeBusy(result.status()) || !request_.waits_for_others) {
        return result;
      }
      RETURN_IF_ERROR(AwaitOther());
    }
  }

  csi::LeaseWaiter Waiter(const CallContext& ctx);
  // What the caller may not do, and what is not known for it: "Lease not taken: ...".
  const std::vector<std::string>& not_checked() const { return not_checked_; }

 private:
  // After a busy LookAgain(), or one that the operation found: until that operation is over.
  absl::Status AwaitOther();
  absl::Status EnterOnce();
  absl::Status TakeLease(const objects::PersistentVolumeClaim& pvc);
  absl::Status CheckGroups();
  std::string Of(const objects::PersistentVolumeClaim& pvc) const;

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const GuardRequest request_;
  const std::string namespace_name_;
  const std::string holder_;
  bool may_hold_leases_ = true;
  std::list<csi::VolumeLease> leases_;
  std::string busy_with_;  // the VolumeSnapshot, where one is known
  std::vector<std::string> not_checked_;
};

// The Lease of a PVC into whose volume something is restored, and of which no VolumeSnapshot is
// taken first, which would take it: creations and other restores find it while the restore begins,
// until the guard is destroyed, or kVolumeLeaseDuration has passed. Runs of the same `restore` are
// not held against each other. Errors of Enter(). Adds to `not_checked`.
absl::StatusOr<std::unique_ptr<VolumeGuard>> GuardRestore(const CallContext& ctx,
                                                          k8s::ApiClient& api, Random& random,
                                                          const objects::PersistentVolumeClaim& pvc,
                                                          absl::string_view restore,
                                                          std::vector<std::string>& not_checked);

}  // namespace csidelta::snapshots
