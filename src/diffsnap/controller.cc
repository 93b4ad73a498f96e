#include "diffsnap/controller.h"

#include <chrono>

#include "base/log.h"
#include "csi/snapshot_types.h"

namespace csidelta::diffsnap {
namespace {

// After an error of the API server.
constexpr absl::Duration kAgainAfter = absl::Seconds(2);
// How often it is looked whether something became due, or we became the leader.
constexpr std::chrono::milliseconds kLookEvery{500};
// What one object may take.
constexpr absl::Duration kObjectTimeMax = absl::Seconds(30);

}  // namespace

Controller::Controller(std::string driver, PairTable& pairs, Reconciler& reconciler,
                       std::function<bool()> leads)
    : driver_(std::move(driver)),
      pairs_(pairs),
      reconciler_(reconciler),
      leads_(std::move(leads)) {}

absl::Status Controller::Follow(const CallContext& ctx, k8s::ApiClient& api) {
  return k8s::Follow(ctx, api, DifferentialSnapshotType(), *this);
}

Controller::Key Controller::KeyOf(const Json& object) {
  return {csi::Namespace(object), csi::Name(object)};
}

void Controller::OnAll(const std::vector<Json>& objects) {
  std::scoped_lock lock(mutex_);
  std::set<Key> there;
  for (const Json& object : objects) {
    there.insert(KeyOf(object));
    Keep(object);
  }
  std::vector<Key> gone;
  for (const auto& [key, followed] : objects_) {
    if (!there.contains(key)) {
      gone.push_back(key);
    }
  }
  for (const Key& key : gone) {
    Drop(key);
  }
  pairs_.SetSynced();
  has_news_ = true;
  changed_.notify_all();
}

void Controller::OnEvent(const k8s::WatchEvent& event) {
  std::scoped_lock lock(mutex_);
  if (event.kind == k8s::WatchEvent::Kind::kDeleted) {
    Drop(KeyOf(event.object));
  } else {
    Keep(event.object);
  }
  has_news_ = true;
  changed_.notify_all();
}

void Controller::Keep(const Json& object) {
  const Key key = KeyOf(object);
  Followed& followed = objects_[key];
  followed.object = object;
  Schedule(key, followed, absl::InfinitePast());
  if (StateOf(object) == RequestState::kSuccess && ResolvedOf(object).driver == driver_ &&
      !csi::BeingDeleted(object)) {
    pairs_.Put(key.first, key.second, PairOf(object));
  } else {
    pairs_.Remove(key.first, key.second);
  }
}

void Controller::Drop(const Key& key) {
  if (const auto found = objects_.find(key); found != objects_.end()) {
    Schedule(key, found->second, absl::InfiniteFuture());
    objects_.erase(found);
  }
  pairs_.Remove(key.first, key.second);
}

void Controller::Schedule(const Key& key, Followed& followed, absl::Time due) {
  queue_.erase({followed.due, key});
  followed.due = due;
  if (due != absl::InfiniteFuture()) {
    queue_.emplace(due, key);
  }
}

bool Controller::TakeDue(absl::Time now, Json& object) {
  std::scoped_lock lock(mutex_);
  if (queue_.empty() || queue_.begin()->first > now) {
    return false;
  }
  const Key key = queue_.begin()->second;
  Followed& followed = objects_.at(key);
  Schedule(key, followed, absl::InfiniteFuture());
  object = followed.object;
  return true;
}

void Controller::SetDue(const Json& object, absl::Time due) {
  std::scoped_lock lock(mutex_);
  const auto found = objects_.find(KeyOf(object));
  if (found != objects_.end() && found->second.due == absl::InfiniteFuture()) {
    Schedule(found->first, found->second, due);
  }
}

void Controller::WorkOnce(const CallContext& ctx) {
  Json object;
  while (ctx.Check().ok() && leads_() && TakeDue(ctx.clock->Now(), object)) {
    const absl::StatusOr<absl::Time> next =
        reconciler_.Reconcile(ctx.WithTimeout(kObjectTimeMax), object);
    if (next.ok()) {
      SetDue(object, *next);
      continue;
    }
    SetDue(object, ctx.clock->Now() + kAgainAfter);
    if (!absl::IsAborted(next.status())) {
      CSIDELTA_LOG(kWarn, "a DifferentialSnapshot could not be moved on",
                   {"namespace", csi::Namespace(object)}, {"name", csi::Name(object)},
                   {"error", std::string(next.status().message())});
    }
  }
}

void Controller::Work(const CallContext& ctx) {
  while (ctx.Check().ok()) {
    WorkOnce(ctx);
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, ctx.stop, kLookEvery, [this] { return has_news_; });
    has_news_ = false;
  }
}

}  // namespace csidelta::diffsnap
