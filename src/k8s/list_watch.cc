#include "k8s/list_watch.h"

#include <string>

#include "base/log.h"
#include "base/random.h"
#include "base/retry.h"
#include "base/status_macros.h"
#include "k8s/object.h"

namespace csidelta::k8s {
namespace {

constexpr BackoffOptions kAgainBackoff = {.delay_first = absl::Milliseconds(100),
                                          .delay_max = absl::Seconds(10)};

// A watch that lasted so long was a real one.
constexpr absl::Duration kWatchTimeMin = absl::Seconds(1);

class ListWatch {
 public:
  ListWatch(const CallContext& ctx, ApiClient& client, const WatchedObjects& objects,
            ObjectEventHandler& handler)
      : ctx_(ctx), client_(client), objects_(objects), handler_(handler), version_(objects.after) {}

  absl::Status Run() {
    while (true) {
      RETURN_IF_ERROR(ctx_.Check());
      if (const absl::Status status = version_.empty() ? ListOnce() : WatchOnce(); !status.ok()) {
        RETURN_IF_ERROR(ctx_.Check());
        Consider(status);
        RETURN_IF_ERROR(ctx_.Pause(backoff_.NextDelay()));
      }
    }
  }

 private:
  absl::Status ListOnce() {
    ASSIGN_OR_RETURN(version_,
                     client_.ListPages(ctx_, objects_.type, objects_.namespace_name,
                                       {.label_selector = objects_.label_selector},
                                       [this](const std::vector<Json>& page, bool is_first) {
                                         handler_.OnPage(page, is_first);
                                       }));
    handler_.OnListed();
    backoff_.Reset();
    return absl::OkStatus();
  }

  // OK also when the server ended the watch. One that ended as soon as it began, and brought
  // nothing, is not begun again at once.
  absl::Status WatchOnce() {
    bool saw_event = false;
    const absl::Duration begun = ctx_.clock->Uptime();
    const WatchOptions options{.label_selector = objects_.label_selector,
                               .resource_version = version_};
    const auto sink = [&](const WatchEvent& event) {
      saw_event = true;
      version_ = ResourceVersion(event.object);
      if (event.kind != WatchEvent::Kind::kBookmark) {
        handler_.OnEvent(event);
      }
      return true;
    };
    RETURN_IF_ERROR(client_.Watch(ctx_, objects_.type, objects_.namespace_name, options, sink));
    if (saw_event || ctx_.clock->Uptime() - begun >= kWatchTimeMin) {
      backoff_.Reset();
      return absl::OkStatus();
    }
    return ctx_.Pause(backoff_.NextDelay());
  }

  // After an outage a watch goes on where it was; after anything else there is a new list.
  void Consider(const absl::Status& status) {
    if (IsRetryable(status)) {
      return;
    }
    version_.clear();
    if (!absl::IsOutOfRange(status)) {
      CSIDELTA_LOG(kWarn, "objects cannot be followed; trying again",
                   {"resource", ToString(objects_.type)}, {"error", std::string(status.message())});
    }
  }

  const CallContext& ctx_;
  ApiClient& client_;
  const WatchedObjects& objects_;
  ObjectEventHandler& handler_;
  std::string version_;  // from where to watch; "": list first
  Backoff backoff_{kAgainBackoff, Random::Real()};
};

}  // namespace

absl::Status ListAndWatch(const CallContext& ctx, ApiClient& client, const WatchedObjects& objects,
                          ObjectEventHandler& handler) {
  return ListWatch(ctx, client, objects, handler).Run();
}

}  // namespace csidelta::k8s
