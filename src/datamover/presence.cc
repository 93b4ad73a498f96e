#include "datamover/presence.h"

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/object.h"

namespace csidelta::datamover {
namespace {

// Less than kBaseReconciledEvery, so that a base that is reconciled again gets a new answer.
constexpr absl::Duration kPresenceAskedEvery = absl::Minutes(5);
// More than kMissingGracePeriod.
constexpr absl::Duration kPresenceKeptFor = absl::Hours(2);

}  // namespace

absl::StatusOr<ObjectPresence::Answer> ObjectPresence::AnswerFor(const CallContext& ctx,
                                                                 k8s::ApiClient& api,
                                                                 const k8s::ObjectKey& key) {
  const absl::Time now = ctx.clock->Now();
  EraseOld(now);
  Answer& answer = answers_[ToString(key)];
  if (now - answer.asked_at < kPresenceAskedEvery) {
    return answer;
  }
  const absl::StatusOr<objects::Object> found = objects::Get<objects::Object>(ctx, api, key);
  const absl::Status& status = found.status();
  if (!found.ok() && !absl::IsNotFound(status) && !absl::IsPermissionDenied(status)) {
    return status;
  }
  answer = {.asked_at = now,
            .status = status,
            .missing_since = absl::IsNotFound(status)
                                 ? std::optional(answer.missing_since.value_or(now))
                                 : std::nullopt};
  return answer;
}

absl::StatusOr<absl::Duration> ObjectPresence::MissingFor(const CallContext& ctx,
                                                          k8s::ApiClient& api,
                                                          const k8s::ObjectKey& key) {
  ASSIGN_OR_RETURN(const Answer answer, AnswerFor(ctx, api, key));
  return answer.missing_since.has_value() ? ctx.clock->Now() - *answer.missing_since
                                          : absl::ZeroDuration();
}

void ObjectPresence::EraseOld(absl::Time now) {
  if (now - cleaned_at_ < kPresenceKeptFor) {
    return;
  }
  cleaned_at_ = now;
  std::erase_if(answers_,
                [now](const auto& one) { return now - one.second.asked_at > kPresenceKeptFor; });
}

}  // namespace csidelta::datamover
