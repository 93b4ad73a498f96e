#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/core.h"

namespace csidelta::csi {

// Begins the holder of a Lease that a restore takes; no VolumeSnapshot's name begins so.
inline constexpr char kRestoreHolderPrefix[] = "restore/";

// How long a Lease outlives its process, and how often a living process renews it.
inline constexpr absl::Duration kVolumeLeaseDuration = absl::Seconds(20);
inline constexpr absl::Duration kVolumeLeaseRenewAfter = absl::Seconds(8);

// The holder of a Lease, and its volume. For a group of volumes, `claim_name` is the group's name,
// and `claim_uid` an id that no PVC's uid looks like.
struct VolumeLeaseRequest {
  std::string lease_namespace;  // Velero's; the PVC's own for a VolumeSnapshot of a person
  std::string claim_namespace;
  std::string claim_name;
  std::string claim_uid;
  std::string backup_name = {};  // this and the next: "" for a VolumeSnapshot of a person
  std::string backup_uid = {};
  std::string holder;             // unique to this call, in all processes
  std::string subject = "claim";  // what name and uid are of, for messages
  // A person's, or kRestoreHolderPrefix and the restore; then the PVC owns the Lease.
  std::string snapshot_name = {};
};

// The right to take a snapshot of one volume, among all processes of one Velero: a Lease named
// after the PVC's uid. Its creator holds it. The next process watches it, and takes it over when it
// is deleted or has not been renewed for kVolumeLeaseDuration. Only the waiting process's own clock
// counts for that, so clocks need not agree. The Backup owns the Lease: it is deleted with the
// Backup at the latest.
//
//   absent --Take--> held --Release--> absent
//                    held --holder died, kVolumeLeaseDuration--> held by the next
//
// Two requests if the volume is free. Not thread-safe: one owner, which calls Release().
class VolumeLease {
 public:
  // Waits for the Lease. DEADLINE_EXCEEDED, naming the holder, if `ctx` ends first. REQUIRES a
  // holder.
  static absl::StatusOr<VolumeLease> Take(const CallContext& ctx, k8s::ApiClient& api,
                                          const VolumeLeaseRequest& request);

  // The same without waiting: nothing if the Lease is held, and then `held_by` has the operation. A
  // Lease for the same VolumeSnapshot, which an earlier run began, counts as free. So does one that
  // was not renewed for longer than clocks differ.
  static absl::StatusOr<std::optional<VolumeLease>> TakeIfFree(const CallContext& ctx,
                                                               k8s::ApiClient& api,
                                                               const VolumeLeaseRequest& request,
                                                               std::string& held_by);

  // The operation that holds the Lease now and that TakeIfFree() would respect: "backup nightly".
  // "" if it is free. Takes nothing.
  static absl::StatusOr<std::string> HeldForOther(const CallContext& ctx, k8s::ApiClient& api,
                                                  const VolumeLeaseRequest& request);

  // The holder before did not release it: its operation may still be running in the driver.
  bool taken_over() const { return taken_over_; }

  // It was renewed too late: another process may hold the Lease.
  bool lost() const { return lost_; }

  // The uptime at which to call Renew(), at the latest.
  absl::Duration renew_at() const { return renew_at_; }

  // ABORTED if the Lease was lost: then do not renew again. After another error, retry soon.
  absl::Status Renew(const CallContext& ctx, k8s::ApiClient& api);

  // Deletes the Lease. One that was lost is no error. After another error it expires by itself.
  absl::Status Release(const CallContext& ctx, k8s::ApiClient& api);

  // Release() with a deadline of its own. An error is logged.
  void End(const Clock& clock, k8s::ApiClient& api);

 private:
  VolumeLease(objects::Lease lease, bool taken_over, absl::Duration renew_at)
      : lease_(std::move(lease)), taken_over_(taken_over), renew_at_(renew_at) {}

  // Creates the Lease, or takes over the one that `await_free` returns. Nothing if that is gone, or
  // another process was quicker.
  static absl::StatusOr<std::optional<VolumeLease>> TryTake(
      const CallContext& ctx, k8s::ApiClient& api, const VolumeLeaseRequest& request,
      absl::FunctionRef<absl::StatusOr<std::optional<objects::Lease>>()> await_free);
  absl::Status ReadAgain(const CallContext& ctx, k8s::ApiClient& api);

  objects::Lease lease_;  // as last seen
  bool taken_over_;
  bool lost_ = false;
  absl::Duration renew_at_;  // By the clock's Uptime().
};

// Deletes the Leases in `lease_namespace` that expired long ago, because their holders died without
// a successor. Best effort: returns the first error after trying all.
absl::Status RemoveStaleVolumeLeases(const CallContext& ctx, k8s::ApiClient& api,
                                     const std::string& lease_namespace);

}  // namespace csidelta::csi
