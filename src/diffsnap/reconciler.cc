#include "diffsnap/reconciler.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/human_text.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/event.h"
#include "objects/patch.h"

namespace csidelta::diffsnap {
namespace {

using Kind = Resolution::Kind;
using objects::DifferentialSnapshot;
using objects::RequestCondition;
using objects::RequestState;

constexpr absl::Duration kLookAgainFirst = absl::Seconds(1);
constexpr absl::Duration kRequeueAfterMax = absl::Seconds(15);
// What is stored must be what is compared later.
constexpr std::size_t kErrorBytesMax = 1024;
constexpr char kComponent[] = "csi-delta-diffsnap";

// "NotReady" of "NotReady: why".
std::string CodeOf(absl::string_view error) {
  return std::string(error.substr(0, error.find(':')));
}

// Accepted, and how ready it is.
std::vector<RequestCondition> Conditions(const std::string& driver, bool is_ready,
                                         absl::string_view reason, absl::string_view message) {
  return {{.type = "Accepted",
           .is_met = true,
           .reason = "DriverFound",
           .message = absl::StrCat("the controller alongside ", driver)},
          {.type = "Ready",
           .is_met = is_ready,
           .reason = std::string(reason),
           .message = std::string(message)}};
}

bool IsFinal(const DifferentialSnapshot& object) {
  const RequestState state = object.state();
  return state == RequestState::kSuccess || state == RequestState::kFailure;
}

// A courtesy: without it the state still says all.
void Tell(const CallContext& ctx, k8s::ApiClient& api, const DifferentialSnapshot& object,
          k8s::EventType type, absl::string_view reason, absl::string_view message) {
  const absl::Status told = objects::EmitEvent(ctx, api, object, type, reason, message, kComponent);
  if (!told.ok()) {
    CSIDELTA_LOG(kWarn, "the event was not written", {"namespace", object.namespace_name()},
                 {"name", object.name()}, {"error", std::string(told.message())});
  }
}

}  // namespace

Reconciler::Reconciler(k8s::ApiClient& api, const ContentIndex& contents, ReconcilerOptions options)
    : api_(api), contents_(contents), options_(std::move(options)) {}

bool Reconciler::IsConcerned(const DifferentialSnapshot& object) const {
  return !object.is_being_deleted() &&
         (!IsFinal(object) || object.resolved().driver == options_.driver);
}

void Reconciler::ReduceOne(DifferentialSnapshot& object) const {
  object.RemoveUnneeded(IsFinal(object));
  // Those that are wrong stay, to be refused when the target is known.
  if (FaultOfParameters(object).empty()) {
    object.RemoveParameters();
  }
}

absl::StatusOr<absl::Time> Reconciler::ReconcileOne(const CallContext& ctx,
                                                    const DifferentialSnapshot& object) {
  if (object.is_being_deleted()) {
    return absl::InfiniteFuture();
  }
  const absl::Time created = object.created_at().value_or(ctx.clock->Now());
  if (!IsFinal(object)) {
    return Admit(ctx, object, created);
  }
  return object.resolved().driver == options_.driver
             ? DeleteAt(ctx, object, created + options_.object_age_max)
             : absl::InfiniteFuture();
}

absl::StatusOr<absl::Time> Reconciler::Admit(const CallContext& ctx,
                                             const DifferentialSnapshot& object,
                                             absl::Time created) {
  const absl::Time deadline = created + options_.admission_time_max;
  const bool is_late = ctx.clock->Now() >= deadline;
  ASSIGN_OR_RETURN(Resolution resolution, Resolve(ctx, api_, contents_, options_.driver, object));
  switch (resolution.kind) {
    case Kind::kForeign:
      return DeleteAt(ctx, object, created + std::max(options_.object_age_max, kForeignAgeMax));
    case Kind::kUnresolved:
      break;
    case Kind::kSuccess:
      RETURN_IF_ERROR(Succeed(ctx, object, resolution.resolved));
      return created + options_.object_age_max;
    case Kind::kNotReady:
      if (!is_late) {
        RETURN_IF_ERROR(Suspend(ctx, object, resolution));
        break;
      }
      absl::StrAppend(&resolution.error, "; it was waited for until ", FormatRfc3339(deadline));
      [[fallthrough]];
    case Kind::kFailure:
      RETURN_IF_ERROR(Fail(ctx, object, resolution));
      return created + options_.object_age_max;
  }
  if (is_late) {
    return DeleteAt(ctx, object, std::max(deadline, created + options_.object_age_max));
  }
  const absl::Duration age = ctx.clock->Now() - created;
  return std::min(deadline,
                  ctx.clock->Now() + std::clamp(age / 4, kLookAgainFirst, kRequeueAfterMax));
}

absl::StatusOr<absl::Time> Reconciler::DeleteAt(const CallContext& ctx,
                                                const DifferentialSnapshot& object,
                                                absl::Time then) {
  if (ctx.clock->Now() < then) {
    return then;
  }
  RETURN_IF_ERROR(k8s::IgnoreNotFound(api_.Delete(ctx, object.key(), {.uid = object.uid()})));
  return absl::InfiniteFuture();
}

absl::Status Reconciler::Succeed(const CallContext& ctx, const DifferentialSnapshot& object,
                                 const objects::ResolvedNames& resolved) {
  constexpr char kServed[] = "the pages can be read at status.url";
  ASSIGN_OR_RETURN(const std::string ca_pem, options_.read_ca());
  RETURN_IF_ERROR(
      Write(ctx, object,
            {.state = RequestState::kSuccess,
             .resolved = resolved,
             .conditions = Conditions(options_.driver, true, "Served", kServed),
             .url = absl::StrCat(options_.url, "/", object.namespace_name(), "/", object.name()),
             .audience = options_.audience,
             .ca_pem = ca_pem}));
  Tell(ctx, api_, object, k8s::EventType::kNormal, "Ready", kServed);
  return absl::OkStatus();
}

absl::Status Reconciler::Fail(const CallContext& ctx, const DifferentialSnapshot& object,
                              const Resolution& resolution) {
  const std::string error = CutText(resolution.error, kErrorBytesMax);
  const std::string code = CodeOf(error);
  RETURN_IF_ERROR(Write(ctx, object,
                        {.state = RequestState::kFailure,
                         .error = error,
                         .resolved = resolution.resolved,
                         .conditions = Conditions(options_.driver, false, code, error)}));
  Tell(ctx, api_, object, k8s::EventType::kWarning, code, error);
  return absl::OkStatus();
}

absl::Status Reconciler::Suspend(const CallContext& ctx, const DifferentialSnapshot& object,
                                 const Resolution& resolution) {
  const std::string error = CutText(resolution.error, kErrorBytesMax);
  if (object.state() == RequestState::kPending && object.error() == error) {
    return absl::OkStatus();
  }
  return Write(ctx, object,
               {.state = RequestState::kPending,
                .error = error,
                .resolved = resolution.resolved,
                .conditions = Conditions(options_.driver, false, CodeOf(error), error)});
}

absl::Status Reconciler::Write(const CallContext& ctx, const DifferentialSnapshot& object,
                               const objects::RequestStatus& status) {
  objects::Patch patch;
  patch.IfVersion(object.resource_version())
      .IfUid(object.uid())
      .SetRequestStatus(object, status, ctx.clock->Now());
  return k8s::IgnoreNotFound(objects::Apply(ctx, api_, object.key(), patch, "status"));
}

Controller::Controller(std::string driver, PairTable& pairs, Reconciler& reconciler,
                       std::function<bool()> leads, const Clock& clock)
    : driver_(std::move(driver)),
      pairs_(pairs),
      loop_(DifferentialSnapshot::Type(), reconciler, std::move(leads), clock),
      informer_({.type = DifferentialSnapshot::Type()}, {this, &loop_}) {}

void Controller::OnChanged(const DifferentialSnapshot& object) {
  if (object.state() != objects::RequestState::kSuccess || object.resolved().driver != driver_ ||
      object.is_being_deleted()) {
    pairs_.Remove(object.namespace_name(), object.name());
  } else if (!pairs_.Put(object.namespace_name(), object.name(), PairOf(object))) {
    CSIDELTA_LOG(kWarn, "too many DifferentialSnapshots are served; this one is not",
                 {"namespace", object.namespace_name()}, {"name", object.name()});
  }
}

}  // namespace csidelta::diffsnap
