#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "csi/volume_lease.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/volume_snapshot.h"

// Waiting for what others make of a volume, or of several, while a turn is held.
namespace csidelta::csi {

// Keeps its turn while it waits. A turn lost does not end the wait. A refusal does not end it at
// once either, because the same was allowed a moment ago. Borrows everything.
class LeaseWaiter {
 public:
  LeaseWaiter(const CallContext& ctx, const Environment& env, VolumeLease& lease)
      : LeaseWaiter(ctx, env.api, {&lease}) {}
  // With as many turns to keep as there are: none, or several.
  LeaseWaiter(const CallContext& ctx, k8s::ApiClient& api, std::vector<VolumeLease*> turns)
      : ctx_(ctx), api_(api), leases_(std::move(turns)) {}

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
  // By `once`, which waits for as long as it is told to, and may be called again.
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
  // What a slice's predicate has said.
  struct Evaluated {
    bool was_asked = false;
    absl::Status status = absl::OkStatus();
  };

  absl::Status WaitInSlices(
      absl::FunctionRef<absl::Status(const CallContext& slice, Evaluated& evaluated)> once);
  // When the first of them is to be renewed.
  absl::Duration RenewAt() const;
  void Renew();

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  std::vector<VolumeLease*> leases_;
};

// Whose VolumeSnapshots are waited for.
struct OtherSnapshots {
  std::string namespace_name;
  // Whether a VolumeSnapshot is of one of the volumes, and managed by another program.
  std::function<bool(const objects::VolumeSnapshot& snapshot)> concerns;
  // Managed VolumeSnapshots are ordered by leases and left out, unless a holder was lost.
  bool managed_too = false;
  std::string of;  // "claim shop/data", for messages
};

// Waits for the lease, and then until the VolumeSnapshots managed by another program are cut,
// failed, gone, or too old to be waited for. Has `make` do its work under the lease, which is ended
// afterwards. Begins again where the lease was lost before `make`: another process may be doing the
// same. DEADLINE_EXCEEDED, naming the VolumeSnapshot, when the waits together take longer than
// `wait_max`.
absl::Status RunUnderLease(const CallContext& ctx, const Environment& env,
                           const VolumeLeaseRequest& request, const OtherSnapshots& others,
                           absl::Duration wait_max,
                           absl::FunctionRef<absl::Status(VolumeLease& lease)> make);

}  // namespace csidelta::csi
