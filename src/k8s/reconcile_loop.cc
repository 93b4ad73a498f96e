#include "k8s/reconcile_loop.h"

#include <chrono>

#include "base/log.h"
#include "k8s/object.h"

namespace csidelta::k8s {
namespace {

// After an error of the API server, and after a change by another.
constexpr absl::Duration kAgainAfter = absl::Seconds(2);
constexpr absl::Duration kAgainAfterChange = absl::Milliseconds(100);
// How often it is looked whether something became due, or we became the leader.
constexpr std::chrono::milliseconds kLookEvery{500};
// What one object may take.
constexpr absl::Duration kObjectTimeMax = absl::Seconds(30);

}  // namespace

ReconcileLoop::ReconcileLoop(FollowedObjects objects, Reconciler& reconciler,
                             std::function<bool()> leads)
    : followed_(std::move(objects)), reconciler_(reconciler), leads_(std::move(leads)) {}

absl::Status ReconcileLoop::Follow(const CallContext& ctx, ApiClient& api) {
  return k8s::Follow(ctx, api, followed_, *this);
}

ReconcileLoop::Key ReconcileLoop::KeyOf(const Json& object) {
  return {Namespace(object), Name(object)};
}

void ReconcileLoop::OnPage(const std::vector<Json>& objects, bool is_first) {
  std::scoped_lock lock(mutex_);
  list_ += is_first ? 1 : 0;
  for (const Json& object : objects) {
    Keep(object);
  }
}

void ReconcileLoop::OnListed() {
  std::scoped_lock lock(mutex_);
  for (auto next = objects_.begin(); next != objects_.end();) {
    const auto one = next++;
    if (one->second.list != list_) {
      Drop(one->first);
    }
  }
  is_synced_ = true;
  Tell();
}

void ReconcileLoop::OnEvent(const WatchEvent& event) {
  std::scoped_lock lock(mutex_);
  if (event.kind == WatchEvent::Kind::kDeleted) {
    Drop(KeyOf(event.object));
  } else {
    Keep(event.object);
  }
  Tell();
}

void ReconcileLoop::Wake(absl::string_view namespace_name, absl::string_view name) {
  std::scoped_lock lock(mutex_);
  const auto found = objects_.find({std::string(namespace_name), std::string(name)});
  if (found != objects_.end()) {
    Schedule(found->first, found->second, absl::InfinitePast());
    Tell();
  }
}

bool ReconcileLoop::is_synced() const {
  std::scoped_lock lock(mutex_);
  return is_synced_;
}

void ReconcileLoop::Keep(const Json& object) {
  const Key key = KeyOf(object);
  if (!reconciler_.Concerns(object)) {
    Drop(key);
    return;
  }
  Json reduced = object;
  if (const auto metadata = reduced.find("metadata"); metadata != reduced.end()) {
    metadata->erase("managedFields");  // Two fifths of an object, and nobody's business.
  }
  reconciler_.Reduce(reduced);
  Followed& followed = objects_[key];
  followed.text = DumpJson(reduced);
  followed.text.shrink_to_fit();
  followed.list = list_;
  Schedule(key, followed, absl::InfinitePast());
}

void ReconcileLoop::Drop(const Key& key) {
  if (const auto found = objects_.find(key); found != objects_.end()) {
    Schedule(key, found->second, absl::InfiniteFuture());
    objects_.erase(found);
  }
}

void ReconcileLoop::Tell() {
  has_news_ = true;
  changed_.notify_all();
}

void ReconcileLoop::Schedule(const Key& key, Followed& followed, absl::Time due) {
  queue_.erase({followed.due, key});
  followed.due = due;
  if (due != absl::InfiniteFuture()) {
    queue_.emplace(due, key);
  }
}

bool ReconcileLoop::TakeDue(absl::Time now, Json& object) {
  std::scoped_lock lock(mutex_);
  if (!is_synced_ || queue_.empty() || queue_.begin()->first > now) {
    return false;
  }
  const Key key = queue_.begin()->second;
  Followed& followed = objects_.at(key);
  Schedule(key, followed, absl::InfiniteFuture());
  object = ParseJson(followed.text).value_or(Json());
  return true;
}

void ReconcileLoop::SetDue(const Json& object, absl::Time due) {
  std::scoped_lock lock(mutex_);
  const auto found = objects_.find(KeyOf(object));
  if (found == objects_.end() || found->second.due != absl::InfiniteFuture()) {
    return;
  }
  if (due == absl::InfiniteFuture() && !reconciler_.Concerns(object)) {
    objects_.erase(found);
    return;
  }
  Schedule(found->first, found->second, due);
}

void ReconcileLoop::WorkOnce(const CallContext& ctx) {
  Json object;
  while (ctx.Check().ok() && leads_() && TakeDue(ctx.clock->Now(), object)) {
    const absl::StatusOr<absl::Time> next =
        reconciler_.Reconcile(ctx.WithTimeout(kObjectTimeMax), object);
    if (next.ok()) {
      SetDue(object, *next);
      continue;
    }
    if (absl::IsAborted(next.status())) {
      SetDue(object, ctx.clock->Now() + kAgainAfterChange);
      continue;
    }
    SetDue(object, ctx.clock->Now() + kAgainAfter);
    CSIDELTA_LOG(kWarn, "an object could not be moved on", {"kind", followed_.type.kind},
                 {"namespace", Namespace(object)}, {"name", Name(object)},
                 {"error", std::string(next.status().message())});
  }
}

void ReconcileLoop::Work(const CallContext& ctx) {
  while (ctx.Check().ok()) {
    WorkOnce(ctx);
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, ctx.stop, kLookEvery, [this] { return has_news_; });
    has_news_ = false;
  }
}

}  // namespace csidelta::k8s
