#include "datamover/presence.h"

#include "absl/status/status.h"
#include "objects/client.h"
#include "objects/object.h"

namespace csidelta::datamover {
namespace {

// Less than kBaseLookedAtEvery, so that a base that is reconciled again gets a new answer.
constexpr absl::Duration kPresenceAskedEvery = absl::Minutes(5);
// More than kMissingGracePeriod.
constexpr absl::Duration kPresenceKeptFor = absl::Hours(2);

}  // namespace

absl::StatusOr<absl::Duration> ObjectPresence::MissingFor(const CallContext& ctx,
                                                          k8s::ApiClient& api,
                                                          const k8s::ObjectKey& key) {
  const absl::Time now = ctx.clock->Now();
  EraseOld(now);
  Answer& answer =
      answers_.try_emplace(ToString(key), Answer{absl::InfinitePast(), {}}).first->second;
  if (now - answer.asked_at >= kPresenceAskedEvery) {
    const absl::Status found = objects::Get<objects::Object>(ctx, api, key).status();
    if (!found.ok() && !absl::IsNotFound(found) && !absl::IsPermissionDenied(found)) {
      return found;
    }
    answer.asked_at = now;
    answer.missing_since =
        absl::IsNotFound(found) ? std::optional(answer.missing_since.value_or(now)) : std::nullopt;
  }
  return answer.missing_since.has_value() ? now - *answer.missing_since : absl::ZeroDuration();
}

void ObjectPresence::EraseOld(absl::Time now) {
  if (now - looked_through_at_ < kPresenceKeptFor) {
    return;
  }
  looked_through_at_ = now;
  std::erase_if(answers_,
                [now](const auto& one) { return now - one.second.asked_at > kPresenceKeptFor; });
}

}  // namespace csidelta::datamover
