#include "snapshots/snapshot_room.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "snapshots/quota.h"
#include "snapshots/snapshot_removal.h"

namespace csidelta::snapshots {
namespace {

// A quota's use is counted again some time after an object is gone.
constexpr absl::Duration kQuotaLagMax = absl::Seconds(30);
constexpr absl::Duration kQuotaPauseFirst = absl::Milliseconds(100);
constexpr absl::Duration kQuotaPauseMax = absl::Seconds(2);
constexpr std::size_t kNamesShownMax = 5;
constexpr int64_t kRemovedAtOnceMax = 10'000;

// How many must go so that `needed` more are allowed: a limit may have been lowered since.
int CountToRemove(const absl::Status& refused, int needed) {
  const std::optional<QuotaUse> use = ParseQuotaRefusal(refused.message());
  return use.has_value()
             ? static_cast<int>(std::max<int64_t>(
                   1, std::min<int64_t>(use->used - use->limit, kRemovedAtOnceMax) + needed))
             : needed;
}

std::string QuotaUseText(const absl::Status& refused) {
  if (const auto use = ParseQuotaRefusal(refused.message()); use.has_value()) {
    return absl::StrCat("quota ", use->name, ": ", use->used, " of ", use->limit, " used");
  }
  return std::string(refused.message());
}

bool MakesRoom(const Unit& unit, csi::RoomLimit limit) {
  return limit == csi::RoomLimit::kQuota ||
         ActionOf(unit, /*with_data=*/false) == DataAction::kDeleted;
}

// Why those of the PVCs stay that might have gone.
std::string WhyNone(const RetentionPlan& plan, csi::RoomLimit limit) {
  std::vector<std::string> reasons;
  for (const PlannedRetention& one : plan) {
    if (one.decision.verdict == PruneVerdict::kKept) {
      reasons.push_back(absl::StrCat(ShownName(one.unit.front()), ": ",
                                     absl::StrJoin(one.decision.messages, ", ")));
    } else if (one.goes() && !MakesRoom(one.unit, limit)) {
      reasons.push_back(absl::StrCat(ShownName(one.unit), ": the storage would keep its data"));
    }
  }
  const std::size_t shown = std::min(reasons.size(), kNamesShownMax);
  const std::string more =
      reasons.size() > shown ? absl::StrCat(", and ", reasons.size() - shown, " more") : "";
  reasons.resize(shown);
  return reasons.empty()
             ? "csi-delta snapshot made none of these PVCs, and others go only with --any-maker"
             : absl::StrCat("all are kept: ", absl::StrJoin(reasons, ", "), more);
}

std::string ListHint(const RetentionRequest& request) {
  return absl::StrCat("csi-delta snapshot list -n ", request.namespace_name,
                      " shows what could be deleted");
}

// Leaves the first ones, which are `count` VolumeSnapshots or more if there are so many. Returns
// how many they are.
std::size_t LeaveFirst(std::vector<Unit>& units, std::size_t count) {
  std::size_t left = 0;
  std::size_t i = 0;
  for (; i < units.size() && left < count; ++i) {
    left += units[i].size();
  }
  units.resize(i);
  return left;
}

std::string NamesOf(const std::vector<Unit>& chosen) {
  const std::size_t shown = std::min(chosen.size(), kNamesShownMax);
  return absl::StrCat(
      absl::StrJoin(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(shown), ", ",
                    [](std::string* out, const Unit& unit) { out->append(ShownName(unit)); }),
      chosen.size() > shown ? ", ..." : "");
}

struct Leaving {
  Unit going;                // deletion was requested already
  std::vector<Unit> chosen;  // is to be deleted now
  bool is_enough = false;
};

Leaving LeavingForQuota(const RetentionPlan& plan, std::size_t needed) {
  Leaving leaving;
  for (const PlannedRetention& one : plan) {
    if (IsBeingDeleted(one.unit.front()) && leaving.going.size() < needed) {
      leaving.going.push_back(one.unit.front());
    }
  }
  leaving.chosen = ChooseForRoom(plan, csi::RoomLimit::kQuota);
  const std::size_t count = needed - leaving.going.size();
  leaving.is_enough = LeaveFirst(leaving.chosen, count) >= count;
  return leaving;
}

// One of each of the PVCs: a driver may limit each volume by itself, and does not say which one is
// full.
Leaving LeavingForDriver(const RetentionPlan& plan, std::set<std::string> pvcs) {
  Leaving leaving;
  for (const PlannedRetention& one : plan) {
    const SnapshotEntry& entry = one.unit.front();
    if (entry.is_selected && IsBeingDeleted(entry) && pvcs.erase(entry.pvc) > 0) {
      leaving.going.push_back(entry);
    }
  }
  for (Unit& unit : ChooseForRoom(plan, csi::RoomLimit::kDriver)) {
    std::size_t full = 0;  // of its PVCs
    for (const SnapshotEntry& entry : unit) {
      full += pvcs.erase(entry.pvc);
    }
    if (full > 0) {
      leaving.chosen.push_back(std::move(unit));
    }
  }
  leaving.is_enough = !leaving.going.empty() || !leaving.chosen.empty();
  return leaving;
}

}  // namespace

std::vector<Unit> ChooseForRoom(const RetentionPlan& plan, csi::RoomLimit limit) {
  std::vector<Unit> chosen;
  for (const PlannedRetention& one : plan) {
    if (one.goes() && MakesRoom(one.unit, limit)) {
      chosen.push_back(one.unit);
    }
  }
  std::reverse(chosen.begin(), chosen.end());  // Of two of the same second the older one.
  std::stable_sort(chosen.begin(), chosen.end(), [](const Unit& left, const Unit& right) {
    return DateOf(left.front()) < DateOf(right.front());
  });
  return chosen;
}

std::string ExplainRoom(const CallContext& ctx, k8s::ApiClient& api,
                        const RetentionRequest& request, const absl::Status& refused, int needed) {
  const csi::RoomLimit limit = csi::OutOfRoom(refused).value_or(csi::RoomLimit::kQuota);
  const std::string text = QuotaUseText(refused);
  const absl::StatusOr<RetentionPlan> plan = PlanRetention(ctx, api, request);
  if (!plan.ok()) {
    return absl::StrCat(text, "; ", ListHint(request));
  }
  std::vector<Unit> chosen = ChooseForRoom(*plan, limit);
  const auto count = static_cast<std::size_t>(CountToRemove(refused, needed));
  const std::size_t removed = LeaveFirst(chosen, count);
  if (removed < count) {
    return absl::StrCat(text, "; ", WhyNone(*plan, limit), "; ", ListHint(request));
  }
  return absl::StrCat(text, "; --make-room removes the oldest ", removed, " that rules allow (",
                      NamesOf(chosen), ")");
}

absl::Status RoomMaker::MakeInQuota(const CreationRequest& one, int needed) {
  CSIDELTA_CHECK(needed > 0);
  // The quota may still count earlier deletions: nothing more is deleted for that.
  const absl::Status refused =
      has_deleted_ ? AwaitQuota(one, needed, kQuotaLagMax) : AskQuotas(one, needed);
  if (csi::OutOfRoom(refused) != csi::RoomLimit::kQuota) {
    return refused;
  }
  RETURN_IF_ERROR(Remove(csi::RoomLimit::kQuota, refused, CountToRemove(refused, needed)));
  const absl::Status counted = AwaitQuota(one, needed, kQuotaLagMax);
  return csi::OutOfRoom(counted).has_value()
             ? absl::DeadlineExceededError(
                   absl::StrCat("the quota does not show what was deleted: ", counted.message()))
             : counted;
}

absl::Status RoomMaker::MakeInDriver(const absl::Status& refused) {
  return Remove(csi::RoomLimit::kDriver, refused, 1);
}

Retention RoomMaker::TakeReport() { return std::exchange(report_, {}); }

// A dry run checks room for one, and the quotas for the others.
absl::Status RoomMaker::AskQuotas(const CreationRequest& one, int needed) {
  const absl::Status answer = TryCreate(ctx_, api_, one);
  if (!answer.ok() || needed <= 1) {
    return answer;
  }
  const absl::Status counted = CheckQuotas(ctx_, api_, request_.namespace_name, needed);
  return absl::IsPermissionDenied(counted) ? absl::OkStatus() : counted;
}

// Returns the last refusal if it outlasts `wait_max`.
absl::Status RoomMaker::AwaitQuota(const CreationRequest& one, int needed,
                                   absl::Duration wait_max) {
  const absl::Duration end = ctx_.clock->Uptime() + wait_max;
  absl::Duration pause = kQuotaPauseFirst;
  while (true) {
    const absl::Status answer = AskQuotas(one, needed);
    if (!csi::OutOfRoom(answer).has_value() || ctx_.clock->Uptime() + pause >= end) {
      return answer;
    }
    ctx_.clock->SleepFor(pause, ctx_.stop);
    RETURN_IF_ERROR(ctx_.Check());
    pause = std::min(2 * pause, kQuotaPauseMax);
  }
}

absl::Status RoomMaker::Remove(csi::RoomLimit limit, const absl::Status& refused, int needed) {
  const absl::StatusOr<RetentionPlan> plan = PlanRetention(ctx_, api_, request_);
  RETURN_IF_ERROR(
      Annotate(plan.status(), absl::StrCat(refused.message(), "; nothing was deleted")));
  const Leaving leaving = limit == csi::RoomLimit::kQuota
                              ? LeavingForQuota(*plan, static_cast<std::size_t>(needed))
                              : LeavingForDriver(*plan, request_.pvcs);
  if (!leaving.is_enough) {
    return absl::ResourceExhaustedError(
        absl::StrCat(QuotaUseText(refused), "; nothing was deleted, ", WhyNone(*plan, limit), "; ",
                     ListHint(request_)));
  }
  Unit going = leaving.going;
  for (const Unit& unit : leaving.chosen) {
    RETURN_IF_ERROR(ctx_.Check());
    const std::size_t deleted_before = report_.deleted.size();
    RemoveByRule(ctx_, api_, unit, request_.mover_namespace, report_);
    if (report_.deleted.size() > deleted_before) {
      going.insert(going.end(), unit.begin(), unit.end());
      has_deleted_ = true;
    }
  }
  if (going.empty()) {  // Each is needed since it was read, or was refused, which is reported.
    return absl::ResourceExhaustedError(
        absl::StrCat(QuotaUseText(refused), "; none could be deleted"));
  }
  const CallContext limited = ctx_.WithTimeout(wait_max_);
  for (const SnapshotEntry& entry : going) {
    RETURN_IF_ERROR(AwaitRemoval(limited, api_, entry, limit == csi::RoomLimit::kDriver));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::snapshots
