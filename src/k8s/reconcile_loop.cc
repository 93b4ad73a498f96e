#include "k8s/reconcile_loop.h"

#include <algorithm>
#include <thread>

#include "base/check.h"
#include "base/log.h"
#include "k8s/object.h"

namespace csidelta::k8s {
namespace {

// 2 s, 4 s, 8 s, ... after the first, second, third error in a row.
absl::Duration PauseAfter(int errors) {
  const int doublings = std::clamp(errors - 1, 0, 10);
  return std::min(kReconcileAgainMax, kReconcileAgainFirst * (int64_t{1} << doublings));
}

}  // namespace

void WorkQueue::Add(const Key& key, absl::Duration due, uint64_t sequence) {
  const auto [found, is_new] = namespaces_.try_emplace(key.first);
  if (is_new) {
    found->second.round =
        ++rounds_;  // Behind those that wait already: it may have been served now.
  }
  found->second.objects.emplace(due, sequence, key.second);
}

void WorkQueue::Remove(const Key& key, absl::Duration due, uint64_t sequence) {
  const auto found = namespaces_.find(key.first);
  if (found == namespaces_.end()) {
    return;
  }
  found->second.objects.erase({due, sequence, key.second});
  if (found->second.objects.empty()) {
    namespaces_.erase(found);
  }
}

bool WorkQueue::HasDue(absl::Duration now) const {
  for (const auto& [name, waiting] : namespaces_) {
    if (std::get<0>(*waiting.objects.begin()) <= now) {
      return true;
    }
  }
  return false;
}

std::optional<WorkQueue::Key> WorkQueue::Next(absl::Duration now) {
  auto next = namespaces_.end();
  for (auto one = namespaces_.begin(); one != namespaces_.end(); ++one) {
    CSIDELTA_CHECK(!one->second.objects.empty());  // Remove() takes such a namespace away.
    const bool is_due = std::get<0>(*one->second.objects.begin()) <= now;
    if (is_due && (next == namespaces_.end() || one->second.round < next->second.round)) {
      next = one;
    }
  }
  if (next == namespaces_.end()) {
    return std::nullopt;
  }
  next->second.round = ++rounds_;
  return Key{next->first, std::get<2>(*next->second.objects.begin())};
}

void WorkQueue::ForEachDue(absl::Duration now,
                           absl::FunctionRef<void(absl::Duration due)> note) const {
  for (const auto& [name, waiting] : namespaces_) {
    for (const auto& [due, sequence, object] : waiting.objects) {
      if (due > now) {
        break;
      }
      note(due);
    }
  }
}

QueueFigures& QueueFigures::operator+=(const QueueFigures& other) {
  due += other.due;
  oldest_wait = std::max(oldest_wait, other.oldest_wait);
  reconciles += other.reconciles;
  reconcile_time += other.reconcile_time;
  retries += other.retries;
  return *this;
}

ReconcileLoop::ReconcileLoop(ResourceType type, Reconciler& reconciler, std::function<bool()> leads,
                             const Clock& clock, int concurrent, const ObjectCache* cache)
    : type_(std::move(type)),
      reconciler_(reconciler),
      leads_(std::move(leads)),
      clock_(clock),
      concurrent_(concurrent),
      cache_(cache) {
  CSIDELTA_CHECK(concurrent_ >= 1);
}

// --- What there is

void ReconcileLoop::OnObjectChanged(const Json& object) {
  const Key key(Namespace(object), Name(object));
  const MutexLock lock(mutex_);
  if (!reconciler_.Concerns(object)) {
    Drop(key);
    return;
  }
  const bool is_new = !objects_.contains(key);
  Watched& watched = objects_[key];
  watched.text = cache_ != nullptr && cache_->Has(CacheKey(key)) ? "" : TextOf(object);
  if (is_new || !IsOwnChange(key)) {
    Schedule(key, watched, clock_.Uptime());
  }
  changed_.notify_all();
}

void ReconcileLoop::OnObjectDeleted(const ObjectId& id, const Json* /*last*/) {
  const MutexLock lock(mutex_);
  Drop({id.namespace_name, id.name});
}

void ReconcileLoop::OnListed() {
  const MutexLock lock(mutex_);
  is_synced_ = true;
  changed_.notify_all();
}

bool ReconcileLoop::Holds(const ObjectId& id) const {
  const MutexLock lock(mutex_);
  return objects_.contains({id.namespace_name, id.name});
}

void ReconcileLoop::Enqueue(absl::string_view namespace_name, absl::string_view name) {
  const MutexLock lock(mutex_);
  const auto found = objects_.find({std::string(namespace_name), std::string(name)});
  if (found != objects_.end()) {
    found->second.is_woken = true;
    Schedule(found->first, found->second, clock_.Uptime());
    changed_.notify_all();
  }
}

bool ReconcileLoop::is_synced() const {
  const MutexLock lock(mutex_);
  return is_synced_;
}

QueueFigures ReconcileLoop::figures() const {
  const MutexLock lock(mutex_);
  QueueFigures figures = done_;
  const absl::Duration now = clock_.Uptime();
  queue_.ForEachDue(now, [&](absl::Duration due) {
    ++figures.due;
    figures.oldest_wait = std::max(figures.oldest_wait, now - due);
  });
  return figures;
}

absl::Duration ReconcileLoop::oldest_reconcile() const {
  const MutexLock lock(mutex_);
  const absl::Duration now = clock_.Uptime();
  absl::Duration oldest = absl::ZeroDuration();
  for (const auto& [key, begun] : taken_) {
    oldest = std::max(oldest, now - begun);
  }
  return oldest;
}

bool ReconcileLoop::IsOwnChange(const Key& key) const {
  return cache_ != nullptr && cache_->IsOwnWrite(CacheKey(key));
}

std::string ReconcileLoop::TextOf(const Json& object) const {
  Json reduced = WithoutManagedFields(object);
  reconciler_.Reduce(reduced);
  std::string text = DumpJson(reduced);
  text.shrink_to_fit();
  return text;
}

void ReconcileLoop::Drop(const Key& key) {
  if (const auto found = objects_.find(key); found != objects_.end()) {
    Unschedule(key, found->second);
    objects_.erase(found);
  }
}

// --- The queue

void ReconcileLoop::Schedule(const Key& key, Watched& watched, absl::Duration due) {
  if (watched.due <= due) {
    return;
  }
  Unschedule(key, watched);
  watched.due = due;
  watched.sequence = ++sequences_;
  if (!taken_.contains(key)) {
    queue_.Add(key, due, watched.sequence);
  }
}

void ReconcileLoop::Unschedule(const Key& key, Watched& watched) {
  queue_.Remove(key, watched.due, watched.sequence);
  watched.due = absl::InfiniteDuration();
}

bool ReconcileLoop::IsDue() const { return is_synced_ && queue_.HasDue(clock_.Uptime()); }

// False when nothing is due.
bool ReconcileLoop::Take(Taken& taken) {
  const MutexLock lock(mutex_);
  while (is_synced_) {
    std::optional<Key> next = queue_.Next(clock_.Uptime());
    if (!next.has_value()) {
      break;
    }
    taken.key = *std::move(next);
    Watched& watched = objects_.at(taken.key);
    CSIDELTA_CHECK(!watched.text.empty() || cache_ != nullptr);
    std::optional<Json> object = watched.text.empty()
                                     ? cache_->Last(CacheKey(taken.key))
                                     : std::optional(ParseJson(watched.text).value_or(Json()));
    if (!object.has_value()) {  // This process has ended it, which the informer will tell.
      Drop(taken.key);
      continue;
    }
    Unschedule(taken.key, watched);
    watched.is_woken = false;
    // Schedule() keeps an object that is being reconciled out of the queue.
    CSIDELTA_CHECK(!taken_.contains(taken.key));
    taken_.emplace(taken.key, clock_.Uptime());
    taken.object = *std::move(object);
    taken.lead = lead_.get_token();
    return true;
  }
  return false;
}

void ReconcileLoop::Settle(const Taken& taken, const absl::StatusOr<absl::Time>& next,
                           absl::Time now, absl::Duration took) {
  const MutexLock lock(mutex_);
  ++done_.reconciles;
  done_.reconcile_time += took;
  done_.retries += next.ok() || absl::IsAborted(next.status()) ? 0 : 1;
  CSIDELTA_CHECK(taken_.contains(taken.key));
  taken_.erase(taken.key);
  const auto found = objects_.find(taken.key);
  if (found == objects_.end()) {
    return;
  }
  Watched& watched = found->second;
  if (const absl::Duration changed_at = watched.due; changed_at != absl::InfiniteDuration()) {
    Unschedule(taken.key, watched);  // It changed meanwhile, which made it due.
    if (watched.is_woken || !IsOwnChange(taken.key)) {
      Schedule(taken.key, watched, changed_at);
      return;
    }
  }
  if (absl::IsAborted(next.status())) {
    Schedule(taken.key, watched, clock_.Uptime() + kReconcileAgainAfterChange);
    return;
  }
  watched.errors = next.ok() ? 0 : watched.errors + 1;
  if (!next.ok()) {
    Schedule(taken.key, watched, clock_.Uptime() + PauseAfter(watched.errors));
  } else if (*next != absl::InfiniteFuture()) {
    Schedule(taken.key, watched, clock_.Uptime() + (*next - now));
  } else if (!reconciler_.Concerns(taken.object)) {
    objects_.erase(found);
  }
}

// --- The work

void ReconcileLoop::Reconcile(const CallContext& ctx, const Taken& taken) {
  std::stop_source stop;
  const std::stop_callback at_end(ctx.stop, [&stop] { stop.request_stop(); });
  const std::stop_callback without_lead(taken.lead, [&stop] { stop.request_stop(); });
  CallContext bounded = ctx.WithTimeout(kReconcileTimeMax);
  bounded.stop = stop.get_token();
  const absl::Duration begun = clock_.Uptime();
  const absl::StatusOr<absl::Time> next = reconciler_.Reconcile(bounded, taken.object);
  Settle(taken, next, ctx.clock->Now(), clock_.Uptime() - begun);
  if (!next.ok() && !absl::IsAborted(next.status()) && !stop.stop_requested()) {
    LogError(taken, next.status());
  }
}

void ReconcileLoop::LogError(const Taken& taken, const absl::Status& error) const {
  CSIDELTA_LOG(kWarn, "an object could not be moved on", {"kind", type_.kind},
               {"namespace", taken.key.first}, {"name", taken.key.second},
               {"error", std::string(error.message())});
}

void ReconcileLoop::WorkOnce(const CallContext& ctx) {
  Taken taken;
  while (ctx.Check().ok() && leads_() && Take(taken)) {
    Reconcile(ctx, taken);
  }
}

void ReconcileLoop::WorkOn(const CallContext& ctx) {
  while (ctx.Check().ok()) {
    WorkOnce(ctx);
    MutexLock lock(mutex_);
    changed_.wait_for(lock, ctx.stop, absl::ToChronoMilliseconds(kLeadCheckedEvery),
                      [this]()
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return IsDue() && leads_(); });
  }
}

void ReconcileLoop::StopUnlessLeading() {
  if (!leads_()) {
    const MutexLock lock(mutex_);
    lead_.request_stop();
    lead_ = std::stop_source();
  }
}

void ReconcileLoop::Work(const CallContext& ctx) {
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(concurrent_));
  for (int i = 0; i < concurrent_; ++i) {
    threads.emplace_back([this, &ctx] { WorkOn(ctx); });
  }
  Mutex idle_mutex;
  std::condition_variable_any idle;
  while (ctx.Check().ok()) {
    StopUnlessLeading();
    MutexLock lock(idle_mutex);
    idle.wait_for(lock, ctx.stop, absl::ToChronoMilliseconds(kLeadCheckedEvery),
                  [] { return false; });
  }
}

}  // namespace csidelta::k8s
