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
int CountToRemove(const std::optional<QuotaUse>& use, int needed) {
  return use.has_value()
             ? static_cast<int>(std::max<int64_t>(
                   1, std::min<int64_t>(use->used - use->limit, kRemovedAtOnceMax) + needed))
             : needed;
}

std::string QuotaUseText(const absl::Status& refused, const std::optional<QuotaUse>& use) {
  if (use.has_value()) {
    return absl::StrCat("quota ", use->name, ": ", use->used, " of ", use->limit, " used");
  }
  return std::string(refused.message());
}

bool MakesRoom(const SnapshotEntry& entry, csi::RoomLimit limit) {
  return limit == csi::RoomLimit::kQuota ||
         ActionOf(entry, /*with_data=*/false) == DataAction::kDeleted;
}

// Why those of the PVCs stay that might have gone.
std::string WhyNone(const RetentionPlan& plan, csi::RoomLimit limit) {
  std::vector<std::string> reasons;
  for (const PruneDecision& one : plan.decisions) {
    const SnapshotEntry& entry = plan.entries[one.entry];
    if (one.verdict == PruneVerdict::kKept) {
      reasons.push_back(absl::StrCat(entry.name, ": ", absl::StrJoin(one.messages, ", ")));
    } else if (one.verdict == PruneVerdict::kRemoved && !MakesRoom(entry, limit)) {
      reasons.push_back(absl::StrCat(entry.name, ": the storage would keep its data"));
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

std::string NamesOf(const RetentionPlan& plan, const std::vector<std::size_t>& chosen) {
  const std::size_t shown = std::min(chosen.size(), kNamesShownMax);
  return absl::StrCat(
      absl::StrJoin(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(shown), ", ",
                    [&](std::string* out, std::size_t i) { out->append(plan.entries[i].name); }),
      chosen.size() > shown ? ", ..." : "");
}

// As positions in the plan.
struct Leaving {
  std::vector<std::size_t> going;   // deletion was requested already
  std::vector<std::size_t> chosen;  // is to be deleted now
  bool is_enough = false;
};

Leaving LeavingForQuota(const RetentionPlan& plan, std::size_t needed) {
  Leaving leaving;
  for (std::size_t i = 0; i < plan.entries.size() && leaving.going.size() < needed; ++i) {
    if (plan.entries[i].status.state == csi::SnapshotState::kDeleting) {
      leaving.going.push_back(i);
    }
  }
  leaving.chosen = ChooseForRoom(plan, csi::RoomLimit::kQuota);
  const std::size_t count = needed - leaving.going.size();
  leaving.is_enough = leaving.chosen.size() >= count;
  leaving.chosen.resize(std::min(count, leaving.chosen.size()));
  return leaving;
}

// One of each PVC: a driver may limit each volume by itself, and does not say which one is full.
Leaving LeavingForDriver(const RetentionPlan& plan) {
  Leaving leaving;
  std::set<std::string> pvcs;
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    const SnapshotEntry& entry = plan.entries[i];
    if (entry.is_selected && entry.status.state == csi::SnapshotState::kDeleting &&
        pvcs.insert(entry.pvc).second) {
      leaving.going.push_back(i);
    }
  }
  for (const std::size_t i : ChooseForRoom(plan, csi::RoomLimit::kDriver)) {
    if (pvcs.insert(plan.entries[i].pvc).second) {
      leaving.chosen.push_back(i);
    }
  }
  leaving.is_enough = !pvcs.empty();
  return leaving;
}

}  // namespace

std::vector<std::size_t> ChooseForRoom(const RetentionPlan& plan, csi::RoomLimit limit) {
  std::vector<std::size_t> chosen;
  for (const PruneDecision& one : plan.decisions) {
    CSIDELTA_CHECK(one.entry < plan.entries.size());
    if (one.verdict == PruneVerdict::kRemoved && MakesRoom(plan.entries[one.entry], limit)) {
      chosen.push_back(one.entry);
    }
  }
  std::reverse(chosen.begin(), chosen.end());  // Of two of the same second the older one.
  std::stable_sort(chosen.begin(), chosen.end(), [&](std::size_t left, std::size_t right) {
    return DateOf(plan.entries[left]) < DateOf(plan.entries[right]);
  });
  return chosen;
}

std::string ExplainRoom(const CallContext& ctx, k8s::ApiClient& api,
                        const RetentionRequest& request, const absl::Status& refused, int needed) {
  const csi::RoomLimit limit = csi::OutOfRoom(refused).value_or(csi::RoomLimit::kQuota);
  const std::optional<QuotaUse> use = ParseQuotaRefusal(refused.message());
  const std::string text = QuotaUseText(refused, use);
  const absl::StatusOr<RetentionPlan> plan = PlanRetention(ctx, api, request);
  if (!plan.ok()) {
    return absl::StrCat(text, "; ", ListHint(request));
  }
  std::vector<std::size_t> chosen = ChooseForRoom(*plan, limit);
  const auto count = static_cast<std::size_t>(CountToRemove(use, needed));
  if (chosen.size() < count) {
    return absl::StrCat(text, "; ", WhyNone(*plan, limit), "; ", ListHint(request));
  }
  chosen.resize(count);
  return absl::StrCat(text, "; --make-room removes the oldest ", count, " that rules allow (",
                      NamesOf(*plan, chosen), ")");
}

absl::Status RoomMaker::MakeInQuota(const CreationRequest& one, int needed) {
  CSIDELTA_CHECK(needed > 0);
  // The quota may still count earlier deletions: nothing more is deleted for that.
  const absl::Status refused =
      has_deleted_ ? AwaitQuota(one, needed, kQuotaLagMax) : AskQuotas(one, needed);
  if (csi::OutOfRoom(refused) != csi::RoomLimit::kQuota) {
    return refused;
  }
  RETURN_IF_ERROR(Remove(csi::RoomLimit::kQuota, refused,
                         CountToRemove(ParseQuotaRefusal(refused.message()), needed)));
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
                              : LeavingForDriver(*plan);
  if (!leaving.is_enough) {
    return absl::ResourceExhaustedError(
        absl::StrCat(QuotaUseText(refused, ParseQuotaRefusal(refused.message())),
                     "; nothing was deleted, ", WhyNone(*plan, limit), "; ", ListHint(request_)));
  }
  std::vector<std::size_t> going = leaving.going;
  for (const std::size_t i : leaving.chosen) {
    RETURN_IF_ERROR(ctx_.Check());
    const std::size_t deleted_before = report_.deleted.size();
    RemoveByRule(ctx_, api_, plan->entries[i], request_.mover_namespace, report_);
    if (report_.deleted.size() > deleted_before) {
      going.push_back(i);
      has_deleted_ = true;
    }
  }
  if (going.empty()) {  // Each is needed since it was read, or was refused, which is reported.
    return absl::ResourceExhaustedError(absl::StrCat(
        QuotaUseText(refused, ParseQuotaRefusal(refused.message())), "; none could be deleted"));
  }
  const CallContext limited = ctx_.WithTimeout(wait_max_);
  for (const std::size_t i : going) {
    RETURN_IF_ERROR(
        AwaitRemoval(limited, api_, plan->entries[i], limit == csi::RoomLimit::kDriver));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::snapshots
