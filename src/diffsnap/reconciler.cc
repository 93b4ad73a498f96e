#include "diffsnap/reconciler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "k8s/event_recorder.h"
#include "k8s/find.h"
#include "k8s/object.h"

namespace csidelta::diffsnap {
namespace {

using Kind = Resolution::Kind;

constexpr absl::Duration kLookAgainFirst = absl::Seconds(1);
constexpr absl::Duration kLookAgainMax = absl::Seconds(15);
constexpr std::size_t kErrorBytesMax = 1024;
constexpr char kComponent[] = "csi-delta-diffsnap";

// "NotReady" of "NotReady: why".
std::string CodeOf(absl::string_view error) {
  return std::string(error.substr(0, error.find(':')));
}

std::string TimeOfLastTransition(const Json& object, absl::string_view type,
                                 absl::string_view status, absl::Time now) {
  const Json* conditions = FindJson(object, {"status", "conditions"});
  if (conditions != nullptr && conditions->is_array()) {
    for (const Json& condition : *conditions) {
      const std::string since = GetString(condition, {"lastTransitionTime"});
      if (GetString(condition, {"type"}) == type && GetString(condition, {"status"}) == status &&
          ParseRfc3339(since).has_value()) {
        return since;
      }
    }
  }
  return FormatRfc3339Seconds(now);
}

struct Condition {
  std::string type;
  std::string status;
  std::string reason;
  std::string message;
};

Json ToJson(const Json& object, const Condition& condition, absl::Time now) {
  return {
      {"type", condition.type},
      {"status", condition.status},
      {"reason", condition.reason},
      {"message", condition.message},
      {"lastTransitionTime", TimeOfLastTransition(object, condition.type, condition.status, now)},
      {"observedGeneration", GetInt(object, {"metadata", "generation"})}};
}

// Accepted, and how ready it is.
Json Conditions(const Json& object, const std::string& driver, const Condition& ready,
                absl::Time now) {
  return Json::array({ToJson(object,
                             {.type = "Accepted",
                              .status = "True",
                              .reason = "DriverFound",
                              .message = absl::StrCat("the controller beside ", driver)},
                             now),
                      ToJson(object, ready, now)});
}

// Not cut inside of a character: what is stored must be what is compared later.
std::string CutError(std::string error) {
  if (error.size() <= kErrorBytesMax) {
    return error;
  }
  std::size_t end = kErrorBytesMax;
  while (end > 0 && (static_cast<unsigned char>(error[end]) & 0xC0) == 0x80) {
    --end;
  }
  error.resize(end);
  return error;
}

bool IsFinal(const Json& object) {
  const RequestState state = StateOf(object);
  return state == RequestState::kSuccess || state == RequestState::kFailure;
}

// A courtesy: without it the state still says all.
void Tell(const CallContext& ctx, k8s::ApiClient& api, const Json& object, k8s::EventType type,
          absl::string_view reason, absl::string_view message) {
  const absl::Status told = k8s::EmitEvent(ctx, api, object, type, reason, message, kComponent);
  if (!told.ok()) {
    CSIDELTA_LOG(kWarn, "the event was not written", {"namespace", k8s::Namespace(object)},
                 {"name", k8s::Name(object)}, {"error", std::string(told.message())});
  }
}

}  // namespace

Reconciler::Reconciler(k8s::ApiClient& api, ReconcilerOptions options)
    : api_(api), options_(std::move(options)) {}

absl::StatusOr<absl::Time> Reconciler::Reconcile(const CallContext& ctx, const Json& object) {
  if (k8s::BeingDeleted(object)) {
    return absl::InfiniteFuture();
  }
  const absl::Time created = k8s::CreatedAt(object).value_or(ctx.clock->Now());
  if (!IsFinal(object)) {
    return Admit(ctx, object, created);
  }
  if (ResolvedOf(object).driver != options_.driver) {
    return absl::InfiniteFuture();
  }
  const absl::Time ends = created + options_.object_age_max;
  if (ctx.clock->Now() < ends) {
    return ends;
  }
  RETURN_IF_ERROR(Delete(ctx, object));
  return absl::InfiniteFuture();
}

absl::StatusOr<absl::Time> Reconciler::Admit(const CallContext& ctx, const Json& object,
                                             absl::Time created) {
  const absl::Time deadline = created + options_.admission_time_max;
  const bool is_late = ctx.clock->Now() >= deadline;
  ASSIGN_OR_RETURN(Resolution resolution, Resolve(ctx, api_, options_.driver, object));
  switch (resolution.kind) {
    case Kind::kForeign:
      return absl::InfiniteFuture();
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
    return absl::InfiniteFuture();
  }
  const absl::Duration age = ctx.clock->Now() - created;
  return std::min(deadline, ctx.clock->Now() + std::clamp(age / 4, kLookAgainFirst, kLookAgainMax));
}

absl::Status Reconciler::Delete(const CallContext& ctx, const Json& object) {
  const absl::Status status = api_.Delete(ctx, DifferentialSnapshotKey(object),
                                          {.uid = k8s::Uid(object), .resource_version = ""});
  return k8s::IgnoreNotFound(status);
}

absl::Status Reconciler::Succeed(const CallContext& ctx, const Json& object,
                                 const ResolvedNames& resolved) {
  ASSIGN_OR_RETURN(const std::string ca_pem, options_.read_ca());
  Json status{
      {"state", ToString(RequestState::kSuccess)},
      {"error", nullptr},
      {"url", absl::StrCat(options_.url, "/", k8s::Namespace(object), "/", k8s::Name(object))},
      {"audience", options_.audience},
      {"resolved", diffsnap::ToJson(resolved)},
      {"conditions", Conditions(object, options_.driver,
                                {.type = "Ready",
                                 .status = "True",
                                 .reason = "Served",
                                 .message = "the pages can be read at status.url"},
                                ctx.clock->Now())}};
  if (!ca_pem.empty()) {
    status["caBundle"] = absl::Base64Escape(ca_pem);
  }
  RETURN_IF_ERROR(Write(ctx, object, std::move(status)));
  Tell(ctx, api_, object, k8s::EventType::kNormal, "Ready", "the pages can be read at status.url");
  return absl::OkStatus();
}

absl::Status Reconciler::Fail(const CallContext& ctx, const Json& object,
                              const Resolution& resolution) {
  const std::string error = CutError(resolution.error);
  const std::string code = CodeOf(error);
  RETURN_IF_ERROR(
      Write(ctx, object,
            {{"state", ToString(RequestState::kFailure)},
             {"error", error},
             {"resolved", diffsnap::ToJson(resolution.resolved)},
             {"conditions",
              Conditions(object, options_.driver,
                         {.type = "Ready", .status = "False", .reason = code, .message = error},
                         ctx.clock->Now())}}));
  Tell(ctx, api_, object, k8s::EventType::kWarning, code, error);
  return absl::OkStatus();
}

absl::Status Reconciler::Suspend(const CallContext& ctx, const Json& object,
                                 const Resolution& resolution) {
  const std::string error = CutError(resolution.error);
  if (StateOf(object) == RequestState::kPending &&
      GetString(object, {"status", "error"}) == error) {
    return absl::OkStatus();
  }
  return Write(
      ctx, object,
      {{"state", ToString(RequestState::kPending)},
       {"error", error},
       {"resolved", diffsnap::ToJson(resolution.resolved)},
       {"conditions",
        Conditions(object, options_.driver,
                   {.type = "Ready", .status = "False", .reason = CodeOf(error), .message = error},
                   ctx.clock->Now())}});
}

absl::Status Reconciler::Write(const CallContext& ctx, const Json& object, Json status) {
  const Json patch{
      {"metadata", {{"resourceVersion", k8s::ResourceVersion(object)}, {"uid", k8s::Uid(object)}}},
      {"status", std::move(status)}};
  const absl::Status written =
      api_.Patch(ctx, DifferentialSnapshotKey(object), k8s::PatchKind::kMerge, patch, "status")
          .status();
  return k8s::IgnoreNotFound(written);
}

}  // namespace csidelta::diffsnap
