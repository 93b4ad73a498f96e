#include "k8s/wait.h"

#include <algorithm>
#include <optional>
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

using Predicate = absl::FunctionRef<absl::StatusOr<bool>(const Json* object)>;

// What the object looks like now, and from where a watch goes on.
struct Look {
  bool done = false;
  std::string resource_version;
};

// One waiter's state: what it waits for and how it has gone so far.
class Waiter {
 public:
  Waiter(const CallContext& ctx, ApiClient& client, const ObjectKey& key, Predicate done)
      : ctx_(ctx), client_(client), key_(key), done_(done) {}

  // `known` and `exists` each spare the first read.
  absl::Status Run(const Json* known, bool exists);

 private:
  absl::StatusOr<Look> LookOnce();
  absl::StatusOr<Look> LookAtKnown();

  // A list by name instead of a get: only it tells the resourceVersion from which a watch goes on
  // without a gap when the object does not exist.
  absl::StatusOr<Look> LookByList();
  absl::StatusOr<bool> LookByGet();

  // Follows the object until it is done, or the watch ends. OK also when the watch is to be set up
  // again.
  absl::Status WatchFrom(const std::string& resource_version);

  // Returns whether to go on watching.
  bool Consider(const WatchEvent& event);
  absl::Status Poll();

  const CallContext& ctx_;
  ApiClient& client_;
  const ObjectKey& key_;
  const Predicate done_;
  const Json* known_ = nullptr;  // until it was looked at
  bool exists_ = false;          // until a watch has looked
  std::string last_resource_version_;
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
    ASSIGN_OR_RETURN(const Look look, LookOnce());
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

absl::StatusOr<Look> Waiter::LookOnce() {
  if (std::exchange(exists_, false)) {
    return Look{};  // A watch from nowhere begins with what is there.
  }
  return known_ != nullptr ? LookAtKnown() : LookByList();
}

absl::StatusOr<Look> Waiter::LookAtKnown() {
  const Json* known = std::exchange(known_, nullptr);
  ASSIGN_OR_RETURN(const bool done, done_(known));
  return Look{.done = done, .resource_version = ResourceVersion(*known)};
}

absl::StatusOr<Look> Waiter::LookByList() {
  const ListOptions options{.field_selector = absl::StrCat("metadata.name=", key_.name)};
  absl::StatusOr<ObjectList> list = client_.List(ctx_, key_.type, key_.namespace_name, options);
  if (absl::IsPermissionDenied(list.status())) {
    ASSIGN_OR_RETURN(const bool done, LookByGet());
    return Look{.done = done, .resource_version = last_resource_version_};
  }
  RETURN_IF_ERROR(list.status());
  const Json* object = list->items.empty() ? nullptr : &list->items.front();
  ASSIGN_OR_RETURN(const bool done, done_(object));
  return Look{.done = done, .resource_version = list->resource_version};
}

absl::StatusOr<bool> Waiter::LookByGet() {
  const absl::StatusOr<Json> object = client_.Get(ctx_, key_);
  if (absl::IsNotFound(object.status())) {
    last_resource_version_.clear();
    return done_(nullptr);
  }
  RETURN_IF_ERROR(object.status());
  last_resource_version_ = ResourceVersion(*object);
  return done_(&*object);
}

absl::Status Waiter::WatchFrom(const std::string& resource_version) {
  const WatchOptions options{.field_selector = absl::StrCat("metadata.name=", key_.name),
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
  if (event.kind == WatchEvent::Kind::kBookmark) {
    return true;
  }
  const bool gone = event.kind == WatchEvent::Kind::kDeleted;
  const absl::StatusOr<bool> done = done_(gone ? nullptr : &event.object);
  finished_ = !done.ok() || *done;
  outcome_ = done.status();
  return !finished_;
}

absl::Status Waiter::Poll() {
  while (true) {
    ASSIGN_OR_RETURN(const bool done, LookByGet());
    if (done) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(ctx_.Pause(kPollInterval));
  }
}

// Waits among the objects of a kind in a namespace.
class CrowdWaiter {
 public:
  CrowdWaiter(const CallContext& ctx, ApiClient& client, const ResourceType& type,
              absl::string_view namespace_name, Predicate done)
      : ctx_(ctx), client_(client), type_(type), namespace_name_(namespace_name), done_(done) {}

  absl::Status Run() {
    Backoff backoff(kWatchAgainBackoff, Random::Real());
    while (true) {
      RETURN_IF_ERROR(ctx_.Check());
      ASSIGN_OR_RETURN(const ObjectList all, client_.List(ctx_, type_, namespace_name_, {}));
      for (const Json& object : all.items) {
        ASSIGN_OR_RETURN(const bool done, done_(&object));
        if (done) {
          return absl::OkStatus();
        }
      }
      const WatchOptions options{.resource_version = all.resource_version};
      absl::StatusOr<bool> done = false;
      bool saw_event = false;
      const absl::Status status =
          client_.Watch(ctx_, type_, namespace_name_, options, [&](const WatchEvent& event) {
            saw_event = true;
            if (event.kind == WatchEvent::Kind::kAdded ||
                event.kind == WatchEvent::Kind::kModified) {
              done = done_(&event.object);
            }
            return done.ok() && !*done;
          });
      if (!done.ok() || *done) {
        return done.status();
      }
      if (!status.ok() && !absl::IsOutOfRange(status) && !IsRetryable(status) &&
          !absl::IsPermissionDenied(status)) {
        return status;
      }
      if (saw_event) {
        backoff.Reset();
        continue;
      }
      RETURN_IF_ERROR(
          ctx_.Pause(absl::IsPermissionDenied(status) ? kPollInterval : backoff.NextDelay()));
    }
  }

 private:
  const CallContext& ctx_;
  ApiClient& client_;
  const ResourceType& type_;
  const absl::string_view namespace_name_;
  const Predicate done_;
};

}  // namespace

absl::Status WaitFor(const CallContext& ctx, ApiClient& client, const ObjectKey& key,
                     absl::FunctionRef<absl::StatusOr<bool>(const Json* object)> done,
                     const Json* known) {
  return Annotate(Waiter(ctx, client, key, done).Run(known, false),
                  absl::StrCat("wait for ", ToString(key)));
}

absl::Status WaitForExisting(const CallContext& ctx, ApiClient& client, const ObjectKey& key,
                             absl::FunctionRef<absl::StatusOr<bool>(const Json* object)> done) {
  return Annotate(Waiter(ctx, client, key, done).Run(nullptr, true),
                  absl::StrCat("wait for ", ToString(key)));
}

absl::Status WaitForAmong(const CallContext& ctx, ApiClient& client, const ResourceType& type,
                          absl::string_view namespace_name,
                          absl::FunctionRef<absl::StatusOr<bool>(const Json* object)> done) {
  return Annotate(CrowdWaiter(ctx, client, type, namespace_name, done).Run(),
                  absl::StrCat("wait among ", ToString(type)));
}

}  // namespace csidelta::k8s
