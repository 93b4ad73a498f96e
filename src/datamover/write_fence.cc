#include "datamover/write_fence.h"

#include <algorithm>

#include "base/log.h"
#include "base/status_macros.h"

namespace csidelta::datamover {
namespace {

constexpr absl::Duration kFencePollEvery = absl::Milliseconds(500);

}  // namespace

WriteFence::WriteFence(const Clock& clock) : clock_(clock), renewed_(Now()) {}

void WriteFence::Renew(const Moment& asked) {
  const MutexLock lock(mutex_);
  renewed_ = asked;
  if (has_warned_ && IsOpen()) {
    has_warned_ = false;
    CSIDELTA_LOG(kInfo, "the task is reached again, and is this Pod's: writing goes on");
  }
}

void WriteFence::Close() {
  const MutexLock lock(mutex_);
  closed_ = true;
}

bool WriteFence::IsOpen() const {
  const Moment now = Now();
  const absl::Duration passed = std::max(now.uptime - renewed_.uptime, now.now - renewed_.now);
  return passed < kWriteFenceAfter;
}

absl::Status WriteFence::Await(const CallContext& ctx) {
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (closed_) {
        return absl::FailedPreconditionError(
            "the task was given to another Pod: this one writes nothing more into the volume");
      }
      if (IsOpen()) {
        return absl::OkStatus();
      }
      if (!has_warned_) {
        has_warned_ = true;
        CSIDELTA_LOG(kWarn,
                     "the task could not be reached for two minutes: writes into the volume pause "
                     "until it confirms that it still belongs to this Pod");
      }
    }
    RETURN_IF_ERROR(ctx.Check());
    ctx.clock->SleepFor(kFencePollEvery, ctx.stop);
  }
}

}  // namespace csidelta::datamover
