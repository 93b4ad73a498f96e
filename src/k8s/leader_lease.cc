#include "k8s/leader_lease.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "k8s/object.h"

namespace csidelta::k8s {
namespace {

// What a step may take, so that a server that hangs does not hide the end of our time.
constexpr absl::Duration kStepTimeMax = absl::Seconds(4);

const ResourceType& LeaseType() {
  static const auto& type =
      *new ResourceType{"coordination.k8s.io", "v1", "leases", "Lease", /*namespaced=*/true};
  return type;
}

std::string HolderOf(const Json& lease) { return GetString(lease, {"spec", "holderIdentity"}); }

// Another process was quicker: what there is now is looked at in the next step.
bool IsLostRace(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsNotFound(status) || absl::IsAlreadyExists(status);
}

}  // namespace

LeaderLease::LeaderLease(ApiClient& api, LeaderLeaseOptions options)
    : api_(api),
      options_(std::move(options)),
      key_{.type = LeaseType(), .namespace_name = options_.namespace_name, .name = options_.name} {
  CSIDELTA_CHECK(!options_.holder.empty());
}

absl::Status LeaderLease::Step(const CallContext& ctx) {
  if (held_.has_value()) {
    RETURN_IF_ERROR(Hold(ctx, *std::exchange(held_, std::nullopt)));
  }
  return held_.has_value() ? absl::OkStatus() : Look(ctx);
}

absl::Status LeaderLease::Look(const CallContext& ctx) {
  absl::StatusOr<Json> lease = api_.Get(ctx, key_);
  if (absl::IsNotFound(lease.status())) {
    return Create(ctx);
  }
  RETURN_IF_ERROR(lease.status());
  const std::string holder = HolderOf(*lease);
  if (holder == options_.holder) {
    return Hold(ctx, *std::move(lease));
  }
  SetLeadsUntil(absl::ZeroDuration());
  const std::string version = ResourceVersion(*lease);
  if (version != seen_version_) {
    seen_version_ = version;
    seen_at_ = ctx.clock->Uptime();
  }
  return holder.empty() || ctx.clock->Uptime() - seen_at_ >= kLeaseDuration
             ? Hold(ctx, *std::move(lease))
             : absl::OkStatus();
}

Json LeaderLease::Spec(absl::Time now) const {
  return {{"holderIdentity", options_.holder},
          {"leaseDurationSeconds", absl::ToInt64Seconds(kLeaseDuration)},
          {"acquireTime", FormatRfc3339Micros(now)},
          {"renewTime", FormatRfc3339Micros(now)}};
}

absl::Status LeaderLease::Create(const CallContext& ctx) {
  const absl::Duration begun = ctx.clock->Uptime();
  const absl::Status created =
      api_.Create(ctx, key_.type, key_.namespace_name,
                  {{"apiVersion", "coordination.k8s.io/v1"},
                   {"kind", "Lease"},
                   {"metadata", {{"name", key_.name}, {"namespace", key_.namespace_name}}},
                   {"spec", Spec(ctx.clock->Now())}})
          .status();
  if (created.ok()) {
    SetLeadsUntil(begun + kLeadTimeMax);
  }
  return IsLostRace(created) ? absl::OkStatus() : created;
}

// Renews the Lease that this process holds, or takes it.
absl::Status LeaderLease::Hold(const CallContext& ctx, Json lease) {
  const absl::Duration begun = ctx.clock->Uptime();
  if (HolderOf(lease) == options_.holder) {
    SetJson(lease, {"spec", "renewTime"}, FormatRfc3339Micros(ctx.clock->Now()));
  } else {
    const int64_t transitions = GetInt(lease, {"spec", "leaseTransitions"});
    lease["spec"] = Spec(ctx.clock->Now());
    lease["spec"]["leaseTransitions"] = transitions + 1;
  }
  absl::StatusOr<Json> held = api_.Update(ctx, key_, lease);
  if (!held.ok()) {
    return IsLostRace(held.status()) ? absl::OkStatus() : held.status();
  }
  SetLeadsUntil(begun + kLeadTimeMax);
  held_ = *std::move(held);
  return absl::OkStatus();
}

absl::Status LeaderLease::Release(const CallContext& ctx) {
  SetLeadsUntil(absl::ZeroDuration());
  held_.reset();
  absl::StatusOr<Json> lease = api_.Get(ctx, key_);
  if (!lease.ok() || HolderOf(*lease) != options_.holder) {
    return absl::IsNotFound(lease.status()) ? absl::OkStatus() : lease.status();
  }
  SetJson(*lease, {"spec", "holderIdentity"}, "");
  const absl::Status released = api_.Update(ctx, key_, *lease).status();
  return IsLostRace(released) ? absl::OkStatus() : released;
}

void LeaderLease::Run(const CallContext& ctx) {
  bool led = false;
  while (ctx.Check().ok()) {
    heartbeat_.Beat(*ctx.clock);
    const absl::Status stepped = Step(ctx.WithTimeout(kStepTimeMax));
    if (!stepped.ok() && ctx.Check().ok()) {
      CSIDELTA_LOG(kWarn, "the lease could not be taken or renewed",
                   {"lease", absl::StrCat(key_.namespace_name, "/", key_.name)},
                   {"error", std::string(stepped.message())});
    }
    if (leads(*ctx.clock) != led) {
      led = !led;
      CSIDELTA_LOG(kInfo, led ? "this process leads" : "this process follows",
                   {"lease", absl::StrCat(key_.namespace_name, "/", key_.name)},
                   {"holder", options_.holder});
    }
    ctx.clock->SleepFor(kLeaseStepEvery, ctx.stop);
  }
  CallContext last = ctx;
  last.stop = {};
  last.deadline = absl::InfiniteDuration();
  if (const absl::Status released = Release(last.WithTimeout(kStepTimeMax)); !released.ok()) {
    CSIDELTA_LOG(kWarn, "the lease could not be given up",
                 {"error", std::string(released.message())});
  }
}

bool LeaderLease::leads(const Clock& clock) const {
  const MutexLock lock(mutex_);
  return clock.Uptime() < leads_until_;
}

void LeaderLease::SetLeadsUntil(absl::Duration uptime) {
  const MutexLock lock(mutex_);
  leads_until_ = uptime;
}

}  // namespace csidelta::k8s
