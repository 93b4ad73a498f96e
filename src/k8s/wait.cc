#include "k8s/wait.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/random.h"
#include "base/retry.h"
#include "base/status_macros.h"
#include "k8s/object.h"

namespace csidelta::k8s {
namespace {

constexpr absl::Duration kPollInterval = absl::Seconds(1);
// A watch that ends at once again and again must not become a busy loop.
constexpr BackoffOptions kWatchAgainBackoff = {.delay_first = absl::Milliseconds(50),
                                               .delay_max = absl::Seconds(5)};

// What the object looks like now, and from where a watch goes on.
struct Look {
  bool done = false;
  std::string resource_version;
};

// One waiter's state: what it waits for and how it has gone so far. Without a name in its key it
// waits among all objects of the kind and namespace, and ignores that one is gone.
class Waiter {
 public:
  Waiter(const CallContext& ctx, ApiClient& client, const ObjectKey& key, Predicate done)
      : ctx_(ctx),
        client_(client),
        key_(key),
        field_selector_(key.name.empty() ? "" : absl::StrCat("metadata.name=", key.name)),
        done_(done) {}

  // `known` and `exists` each spare the first read.
  absl::Status Run(const Json* known, bool exists);

 private:
  absl::StatusOr<Look> PollOnce();
  absl::StatusOr<Look> EvaluateKnown();

  // A list by name instead of a get: only it tells the resourceVersion from which a watch goes on
  // without a gap when the object does not exist.
  absl::StatusOr<Look> PollByList();
  absl::StatusOr<Look> PollByGet();

  // Follows the object until it is done, or the watch ends. OK also when the watch is to be set up
  // again.
  absl::Status WatchFrom(const std::string& resource_version);

  // Returns whether to go on watching.
  bool Consider(const WatchEvent& event);
  absl::Status Poll();

  const CallContext& ctx_;
  ApiClient& client_;
  const ObjectKey& key_;
  const std::string field_selector_;
  const Predicate done_;
  const Json* known_ = nullptr;  // until it was looked at
  bool exists_ = false;          // until a watch has looked
  bool saw_event_ = false;
  bool finished_ = false;
  absl::Status outcome_;
};

absl::Status Waiter::Run(const Json* known, bool exists) {
  known_ = known;
  exists_ = exists;
  Backoff backoff(kWatchAgainBackoff, Random::Real());
  while (true) {
    RETURN_IF_ERROR(ctx_.Check());
    ASSIGN_OR_RETURN(const Look look, PollOnce());
    if (look.done) {
      return absl::OkStatus();
    }
    saw_event_ = false;
    if (absl::Status status = WatchFrom(look.resource_version); !status.ok()) {
      return absl::IsPermissionDenied(status) ? Poll() : status;
    }
    if (finished_) {
      return outcome_;
    }
    if (saw_event_) {
      backoff.Reset();
      continue;
    }
    RETURN_IF_ERROR(ctx_.Pause(backoff.NextDelay()));
  }
}

absl::StatusOr<Look> Waiter::PollOnce() {
  if (std::exchange(exists_, false)) {
    return Look{};  // A watch from nowhere begins with what is there.
  }
  return known_ != nullptr ? EvaluateKnown() : PollByList();
}

absl::StatusOr<Look> Waiter::EvaluateKnown() {
  const Json* known = std::exchange(known_, nullptr);
  ASSIGN_OR_RETURN(const bool done, done_(known));
  return Look{.done = done, .resource_version = ResourceVersion(*known)};
}

absl::StatusOr<Look> Waiter::PollByList() {
  const absl::StatusOr<ObjectList> list =
      client_.List(ctx_, key_.type, key_.namespace_name, {.field_selector = field_selector_});
  if (absl::IsPermissionDenied(list.status()) && !key_.name.empty()) {
    return PollByGet();
  }
  RETURN_IF_ERROR(list.status());
  Look look{.resource_version = list->resource_version};
  if (list->items.empty() && !key_.name.empty()) {
    ASSIGN_OR_RETURN(look.done, done_(nullptr));
  }
  for (auto object = list->items.begin(); object != list->items.end() && !look.done; ++object) {
    ASSIGN_OR_RETURN(look.done, done_(&*object));
  }
  return look;
}

absl::StatusOr<Look> Waiter::PollByGet() {
  const absl::StatusOr<Json> object = client_.Get(ctx_, key_);
  if (!object.ok() && !absl::IsNotFound(object.status())) {
    return object.status();
  }
  ASSIGN_OR_RETURN(const bool done, done_(object.ok() ? &*object : nullptr));
  return Look{.done = done, .resource_version = object.ok() ? ResourceVersion(*object) : ""};
}

absl::Status Waiter::WatchFrom(const std::string& resource_version) {
  const WatchOptions options{.field_selector = field_selector_,
                             .resource_version = resource_version};
  const absl::Status status =
      client_.Watch(ctx_, key_.type, key_.namespace_name, options,
                    [this](const WatchEvent& event) { return Consider(event); });
  if (finished_ || absl::IsOutOfRange(status) || IsRetryable(status)) {
    return absl::OkStatus();
  }
  return status;
}

bool Waiter::Consider(const WatchEvent& event) {
  saw_event_ = true;
  const bool gone = event.kind == WatchEvent::Kind::kDeleted;
  if (event.kind == WatchEvent::Kind::kBookmark || (gone && key_.name.empty())) {
    return true;
  }
  const absl::StatusOr<bool> done = done_(gone ? nullptr : &event.object);
  finished_ = !done.ok() || *done;
  outcome_ = done.status();
  return !finished_;
}

absl::Status Waiter::Poll() {
  while (true) {
    RETURN_IF_ERROR(ctx_.Pause(kPollInterval));
    ASSIGN_OR_RETURN(const Look look, key_.name.empty() ? PollByList() : PollByGet());
    if (look.done) {
      return absl::OkStatus();
    }
  }
}

}  // namespace

absl::Status WaitFor(const CallContext& ctx, ApiClient& client, const ObjectKey& key,
                     Predicate done, const Json* known) {
  return Annotate(Waiter(ctx, client, key, done).Run(known, false),
                  absl::StrCat("wait for ", ToString(key)));
}

absl::Status WaitForExisting(const CallContext& ctx, ApiClient& client, const ObjectKey& key,
                             Predicate done) {
  return Annotate(Waiter(ctx, client, key, done).Run(nullptr, true),
                  absl::StrCat("wait for ", ToString(key)));
}

absl::Status WaitForAmong(const CallContext& ctx, ApiClient& client, const ResourceType& type,
                          absl::string_view namespace_name, Predicate done) {
  const ObjectKey any{type, std::string(namespace_name), ""};
  return Annotate(Waiter(ctx, client, any, done).Run(nullptr, false),
                  absl::StrCat("wait among ", ToString(type)));
}

}  // namespace csidelta::k8s
