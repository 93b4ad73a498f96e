#include "k8s/informer.h"

#include "absl/algorithm/container.h"
#include "base/check.h"
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
  ListWatch(const CallContext& ctx, ApiClient& client, Informer& informer, std::string after)
      : ctx_(ctx),
        client_(client),
        objects_(informer.objects()),
        informer_(informer),
        version_(std::move(after)) {}

  absl::Status Run() {
    while (true) {
      RETURN_IF_ERROR(ctx_.Check());
      Beat();
      if (const absl::Status status = version_.empty() ? ListOnce() : WatchOnce(); !status.ok()) {
        RETURN_IF_ERROR(ctx_.Check());
        Consider(status);
        RETURN_IF_ERROR(ctx_.Pause(backoff_.NextDelay()));
      }
    }
  }

 private:
  void Beat() { informer_.heartbeat().Beat(*ctx_.clock); }

  absl::Status ListOnce() {
    ASSIGN_OR_RETURN(version_,
                     client_.ListPages(ctx_, objects_.type, objects_.namespace_name,
                                       {.label_selector = objects_.label_selector},
                                       [this](const std::vector<Json>& page, bool is_first) {
                                         Beat();
                                         informer_.OnPage(page, is_first);
                                       }));
    informer_.OnListed();
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
      Beat();
      saw_event = true;
      version_ = ResourceVersion(event.object);
      if (event.kind != WatchEvent::Kind::kBookmark) {
        informer_.OnEvent(event);
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
  Informer& informer_;
  std::string version_;  // from where to watch; "": list first
  Backoff backoff_{kAgainBackoff, Random::Real()};
};

}  // namespace

ObjectId IdOf(const Json& object) {
  return {.namespace_name = Namespace(object), .name = k8s::Name(object), .uid = Uid(object)};
}

void Informer::Add(ObjectEventHandler& handler) {
  const MutexLock lock(mutex_);
  CSIDELTA_CHECK(list_ == 0);
  handlers_.push_back(&handler);
}

absl::Status Informer::Run(const CallContext& ctx, ApiClient& api, const std::string& after) {
  {
    const MutexLock lock(mutex_);
    ++list_;
  }
  return ListWatch(ctx, api, *this, after).Run();
}

void Informer::Expect(const ObjectId& id) {
  const MutexLock lock(mutex_);
  const auto [known, is_new] =
      known_.try_emplace({id.namespace_name, id.name}, Known{.uid = id.uid});
  known->second.version =
      0;  // An earlier one of that name keeps its uid until its end is reported.
  known->second.list = list_;
}

void Informer::OnPage(const std::vector<Json>& objects, bool is_first) {
  {
    const MutexLock lock(mutex_);
    list_ += is_first ? 1 : 0;
  }
  absl::c_for_each(objects, [this](const Json& object) { Report(object); });
}

void Informer::OnListed() {
  std::vector<ObjectId> gone;
  {
    const MutexLock lock(mutex_);
    std::erase_if(known_, [&](const auto& known) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      if (known.second.list == list_) {
        return false;
      }
      gone.push_back({known.first.first, known.first.second, known.second.uid});
      return true;
    });
  }
  for (const ObjectId& id : gone) {
    ReportDeleted(id, nullptr);
  }
  for (ObjectEventHandler* const handler : handlers_) {
    handler->OnListed();
  }
}

void Informer::OnEvent(const WatchEvent& event) {
  CSIDELTA_CHECK(event.kind != WatchEvent::Kind::kBookmark);
  if (event.kind != WatchEvent::Kind::kDeleted) {
    Report(event.object);
    return;
  }
  const ObjectId id = IdOf(event.object);
  {
    const MutexLock lock(mutex_);
    const auto found = known_.find({id.namespace_name, id.name});
    // This process may have made another object of that name, which comes later.
    if (found != known_.end() && (found->second.uid.empty() || found->second.uid == id.uid)) {
      known_.erase(found);
    }
  }
  ReportDeleted(id, &event.object);
}

void Informer::Report(const Json& object) {
  const ObjectId id = IdOf(object);
  const Name name(id.namespace_name, id.name);
  const uint64_t version = VersionNumber(object);
  std::string replaced;
  {
    const MutexLock lock(mutex_);
    Known& known = known_[name];
    known.list = list_;
    if (version > 0 && known.uid == id.uid && known.version == version) {
      return;
    }
    replaced = known.uid == id.uid ? "" : known.uid;
    known.uid = id.uid;
    known.version = version;
  }
  if (!replaced.empty()) {
    ReportDeleted({id.namespace_name, id.name, replaced}, nullptr);
  }
  bool is_held = false;
  for (ObjectEventHandler* const handler : handlers_) {
    handler->OnObjectChanged(object);
    is_held = handler->Holds(id) || is_held;
  }
  if (!is_held) {
    const MutexLock lock(mutex_);
    const auto found = known_.find(name);
    // Another version: it is expected since.
    if (found != known_.end() && found->second.version == version) {
      known_.erase(found);
    }
  }
}

void Informer::ReportDeleted(const ObjectId& id, const Json* last) {
  for (ObjectEventHandler* const handler : handlers_) {
    handler->OnObjectDeleted(id, last);
  }
}

}  // namespace csidelta::k8s
