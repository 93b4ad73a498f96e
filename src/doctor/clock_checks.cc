#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "doctor/checks.h"
#include "doctor/sample_worker.h"
#include "objects/client.h"
#include "objects/core.h"
#include "objects/node.h"

namespace csidelta::doctor {
namespace {

using objects::Lease;
using objects::Node;

constexpr char kNodeLeases[] = "kube-node-lease";
// A kubelet that renewed its Lease longer ago is not ready.
constexpr absl::Duration kNodeLeaseLasts = absl::Seconds(40);
constexpr absl::Duration kAskTimeMax = absl::Seconds(10);

// How far a clock is ahead of the API server's, for sure; negative: behind.
void ReportSkew(CheckContext& context, const std::string& subject, absl::Duration skew) {
  const absl::Duration distance = absl::AbsDuration(skew);
  if (distance <= kSkewNoted) {
    return;
  }
  std::string text =
      absl::StrCat("its clock is ", absl::FormatDuration(absl::Trunc(distance, absl::Seconds(1))),
                   skew > absl::ZeroDuration() ? " ahead of" : " behind", " the API server's");
  if (distance > kSkewMax) {
    context.Fault(subject, std::move(text), kClockRemediation);
  } else {
    context.Note(subject, std::move(text), kClockRemediation);
  }
}

// The API server's time is between these two moments of this machine's clock plus the skew.
struct ServerTime {
  absl::Time stamp;  // whole seconds, rounded down
  absl::Time asked_at;
  absl::Time answered_at;

  // How far this machine's clock is ahead for sure; negative: behind; 0: perhaps not at all.
  absl::Duration LocalSkew() const {
    if (asked_at > stamp + absl::Seconds(1)) {
      return asked_at - stamp - absl::Seconds(1);
    }
    return answered_at < stamp ? answered_at - stamp : absl::ZeroDuration();
  }
};

// By a dry run, whose answer has the time of its creation.
absl::StatusOr<ServerTime> AskTime(CheckContext& context) {
  Lease lease = Lease::Make(context.options().mover_namespace, SampleName(context));
  const absl::Time asked_at = context.ctx().clock->Now();
  lease.Acquire(lease.name(), absl::Seconds(1), asked_at);
  ASSIGN_OR_RETURN(const Lease answer, objects::DryRunCreate(context.ctx().WithTimeout(kAskTimeMax),
                                                             context.cache().api(), lease));
  const std::optional<absl::Time> stamp = answer.created_at();
  if (!stamp.has_value()) {
    return absl::UnavailableError("the API server's answer has no creationTimestamp");
  }
  return ServerTime{
      .stamp = *stamp, .asked_at = asked_at, .answered_at = context.ctx().clock->Now()};
}

// Of a node whose kubelet renewed its Lease at `renewed`, some time before `now` of the API server:
// how far it is ahead for sure, or, where it is ready, behind.
absl::Duration SkewOfNode(absl::Time renewed, absl::Time now, bool is_ready) {
  if (renewed > now + absl::Seconds(1)) {
    return renewed - now - absl::Seconds(1);
  }
  return is_ready && renewed + kNodeLeaseLasts < now ? renewed + kNodeLeaseLasts - now
                                                     : absl::ZeroDuration();
}

}  // namespace

void CheckClockSkew(CheckContext& context) {
  std::map<std::string, bool> is_ready;
  for (const Node& node : context.List<Node>()) {
    is_ready[node.name()] = node.is_ready();
  }
  const std::vector<Lease> leases = context.List<Lease>(kNodeLeases);
  const absl::StatusOr<ServerTime> time = AskTime(context);
  if (!context.IsKnown("the API server's clock", time.status())) {
    return;
  }
  ReportSkew(context, "this machine", time->LocalSkew());
  for (const Lease& lease : leases) {
    const auto node = is_ready.find(lease.name());
    if (const auto renewed = lease.renewed_at(); node != is_ready.end() && renewed.has_value()) {
      ReportSkew(context, absl::StrCat("node ", lease.name()),
                 SkewOfNode(*renewed, time->stamp, node->second));
    }
  }
}

}  // namespace csidelta::doctor
