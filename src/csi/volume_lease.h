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

// Before the id of a restore, where the name of a VolumeSnapshot stands else: no name begins so.
inline constexpr char kRestoreHolderPrefix[] = "restore/";

// How long a turn outlives a process that died with it, and when a living one renews.
inline constexpr absl::Duration kVolumeLeaseDuration = absl::Seconds(20);
inline constexpr absl::Duration kVolumeLeaseRenewAfter = absl::Seconds(8);

// Whose turn, for which volume; or for which group of volumes, with the group's name and an id of
// it that no claim's uid looks like.
struct VolumeLeaseRequest {
  std::string lease_namespace;  // Velero's; the PVC's own for a VolumeSnapshot of a person
  std::string claim_namespace;
  std::string claim_name;
  std::string claim_uid;
  std::string backup_name;  // this and the next: "" for a VolumeSnapshot of a person
  std::string backup_uid;
  std::string holder;             // unique to this call, in all processes
  std::string subject = "claim";  // what name and uid are of, for messages
  // Of a person, or kRestoreHolderPrefix and the restore; the PVC then owns the Lease.
  std::string snapshot_name = {};
};

// The right to have the driver cut a snapshot of one volume, in all processes of one Velero: a
// Lease named after the claim's uid. Its creator holds it; the next in line watches it and
// takes over when it is deleted, or has not been renewed for kVolumeLeaseDuration as seen by the
// waiting side's own clock, so that clocks need not agree. The Lease is owned by its Backup, which
// takes it along at the latest.
//
//   absent --Take--> held --Release--> absent
//                    held --holder died, kVolumeLeaseDuration--> held by the next
//
// Two requests when the volume is free. Not thread-safe: one owner, which calls
// Release().
class VolumeLease {
 public:
  // Waits for the turn. DEADLINE_EXCEEDED, naming the holder, when `ctx` ends first.
  static absl::StatusOr<VolumeLease> Take(const CallContext& ctx, k8s::ApiClient& api,
                                          const VolumeLeaseRequest& request);

  // The same without waiting: nothing when the Lease is held, and then `held_by` says for what.
  // It is not held against the request when it is for the same VolumeSnapshot, which an earlier run
  // began; nor when it was not renewed for longer than clocks differ.
  static absl::StatusOr<std::optional<VolumeLease>> TakeIfFree(const CallContext& ctx,
                                                               k8s::ApiClient& api,
                                                               const VolumeLeaseRequest& request,
                                                               std::string& held_by);

  // What the Lease is held for now, where TakeIfFree() would not get it: "backup nightly". "" when
  // it is free. Takes nothing.
  static absl::StatusOr<std::string> HeldForOther(const CallContext& ctx, k8s::ApiClient& api,
                                                  const VolumeLeaseRequest& request);

  // The holder before never ended its turn: what it began may still be going on in the driver.
  bool taken_over() const { return taken_over_; }

  // Renewing came too late: another process may have the lease by now.
  bool lost() const { return lost_; }

  // When to call Renew(), at the latest.
  absl::Duration renew_at() const { return renew_at_; }

  // ABORTED when the turn was lost: there is no need to renew again. After another error, try again
  // soon.
  absl::Status Renew(const CallContext& ctx, k8s::ApiClient& api);

  // Ends the turn. A turn already lost is no error. After another error the Lease runs out by
  // itself.
  absl::Status Release(const CallContext& ctx, k8s::ApiClient& api);

  // Release() in a time of its own. An error is logged.
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

// Deletes the Leases of turns in `lease_namespace` that ran out long ago, because their holders
// died without a successor. Best effort: returns the first error after trying all.
absl::Status RemoveStaleVolumeLeases(const CallContext& ctx, k8s::ApiClient& api,
                                     const std::string& lease_namespace);

}  // namespace csidelta::csi
