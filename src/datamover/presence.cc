#include "datamover/presence.h"

#include "absl/status/status.h"
#include "objects/client.h"
#include "objects/object.h"

namespace csidelta::datamover {
namespace {

// Less than kBaseReconciledEvery, so that a base that is reconciled again gets a new answer.
constexpr absl::Duration kPresenceAskedEvery = absl::Minutes(5);
// More than kMissingGracePeriod.
constexpr absl::Duration kPresenceKeptFor = absl::Hours(2);

}  // namespace

absl::StatusOr<absl::Duration> ObjectPresence::MissingFor(const CallContext& ctx,
                                                          k8s::ApiClient& api,
                                                          const k8s::ObjectKey& key) {
  const absl::Time now = ctx.clock->Now();
  if (now - cleaned_at_ >= kPresenceKeptFor) {
    cleaned_at_ = now;
    std::erase_if(answers_,
                  [now](const auto& one) { return now - one.second.asked_at > kPresenceKeptFor; });
  }
  Answer& answer = answers_[ToString(key)];
  if (now - answer.asked_at >= kPresenceAskedEvery) {
    const absl::Status status = objects::Get<objects::Object>(ctx, api, key).status();
    if (!status.ok() && !absl::IsNotFound(status) && !absl::IsPermissionDenied(status)) {
      return status;
    }
    answer = {.asked_at = now,
              .missing_since = absl::IsNotFound(status)
                                   ? std::optional(answer.missing_since.value_or(now))
                                   : std::nullopt};
  }
  return answer.missing_since.has_value() ? now - *answer.missing_since : absl::ZeroDuration();
}

}  // namespace csidelta::datamover
