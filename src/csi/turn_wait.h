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
#include "base/json.h"
#include "csi/environment.h"
#include "csi/volume_turn.h"
#include "k8s/api_client.h"

// Waiting for what others make of a volume, or of several, while a turn is held.
namespace csidelta::csi {

// An API server that has just started refuses everybody until it knows its roles.
inline constexpr absl::Duration kRefusalPatience = absl::Seconds(15);
inline constexpr absl::Duration kRefusalPause = absl::Milliseconds(500);
// How long a refusal of the driver may stand and still pass: a quota that somebody raises, a limit
// of calls per minute.
inline constexpr absl::Duration kRefusalIsFinalAfter = absl::Minutes(1);

// Whether `status` may be the answer of an API server that is starting. Pure.
bool MayBeStarting(const absl::Status& status);

// Keeps its turn while it waits. A turn lost does not end the wait. A refusal does not end it at
// once either, because the same was allowed a moment ago. Borrows everything.
class TurnWaiter {
 public:
  TurnWaiter(const CallContext& ctx, const Environment& env, VolumeTurn& turn)
      : TurnWaiter(ctx, env.api, {&turn}) {}
  // With as many turns to keep as there are: none, or several.
  TurnWaiter(const CallContext& ctx, k8s::ApiClient& api, std::vector<VolumeTurn*> turns)
      : ctx_(ctx), api_(api), turns_(std::move(turns)) {}

  using Predicate = absl::FunctionRef<absl::StatusOr<bool>(const Json* object)>;

  // As k8s::WaitFor.
  absl::Status WaitFor(const k8s::ObjectKey& key, Predicate done, const Json* known = nullptr);
  // As k8s::WaitForExisting.
  absl::Status WaitForExisting(const k8s::ObjectKey& key, Predicate done);
  // As k8s::WaitForAmong, in one namespace.
  absl::Status WaitForAmong(const k8s::ResourceType& type, absl::string_view namespace_name,
                            Predicate done);
  // By `once`, which waits for as long as it is told to, and may be called again.
  absl::Status Wait(
      Predicate done,
      absl::FunctionRef<absl::Status(const CallContext& slice, Predicate judge)> once);

 private:
  // When the first of them is to be renewed.
  absl::Time RenewAt() const;
  void Renew();

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  std::vector<VolumeTurn*> turns_;
};

// Whose VolumeSnapshots are waited for.
struct OtherSnapshots {
  std::string namespace_name;
  // Whether a VolumeSnapshot is of one of the volumes, and of other hands.
  std::function<bool(const Json& snapshot)> concerns;
  // VolumeSnapshots of ours are ordered by turns and left out, unless a turn was cut short.
  bool ours_too = false;
  std::string of;  // "claim shop/data", for messages
};

// Waits until the VolumeSnapshots of other hands are cut, failed, gone, or too old to be waited
// for. ABORTED when the turn was lost meanwhile: somebody else may be doing the same.
// DEADLINE_EXCEEDED, naming the VolumeSnapshot, when `ctx` ends first.
absl::Status AwaitOthers(const CallContext& ctx, const Environment& env,
                         const OtherSnapshots& others, VolumeTurn& turn);

// What the driver says through the status of the objects. Its sidecar asks again after every error;
// one that asking again does not change is believed when it has stood for kRefusalIsFinalAfter.
class DriversWord {
 public:
  // `of`: what is cut, for messages. `awaited`: "snapshot handle". `timeout`: how long the wait is.
  DriversWord(std::string of, std::string awaited, absl::Duration timeout)
      : of_(std::move(of)), awaited_(std::move(awaited)), timeout_(timeout) {}

  // Hears what `object` says now. FAILED_PRECONDITION when that is final.
  absl::Status Hear(const Json& object, absl::Time now);

  // `status`; what the driver said last is in the message when the time ran out.
  absl::Status AddTo(const absl::Status& status) const;

  // "" when the driver had nothing to complain of last.
  const std::string& error() const { return error_; }

 private:
  std::string of_;
  std::string awaited_;
  absl::Duration timeout_;
  std::string error_;
  absl::Time refused_since_ = absl::InfiniteFuture();
};

}  // namespace csidelta::csi
