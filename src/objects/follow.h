#pragma once

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "k8s/follow.h"
#include "k8s/reconcile_loop.h"
#include "objects/client.h"
#include "objects/object.h"

// k8s::ObjectFollower and k8s::Reconciler, which say what is asked of them, in the types of
// objects/. What an API server tells of that is of another kind is left out.
namespace csidelta::objects {

template <typename Kind>
class Follower : public k8s::ObjectFollower {
 public:
  // Borrows `next`, which is told the same afterwards; null: nobody.
  explicit Follower(k8s::ObjectFollower* next = nullptr) : next_(next) {}

  void OnPage(const std::vector<Json>& objects, bool is_first) final {
    std::vector<Kind> page;
    page.reserve(objects.size());
    for (const Json& json : objects) {
      if (absl::StatusOr<Kind> one = As<Kind>(json); one.ok()) {
        page.push_back(*std::move(one));
      }
    }
    OnObjects(std::move(page), is_first);
    if (next_ != nullptr) {
      next_->OnPage(objects, is_first);
    }
  }
  void OnListed() final {
    OnWhole();
    if (next_ != nullptr) {
      next_->OnListed();
    }
  }
  void OnEvent(const k8s::WatchEvent& event) final {
    const absl::StatusOr<Kind> object = As<Kind>(event.object);
    if (object.ok()) {
      event.kind == k8s::WatchEvent::Kind::kDeleted ? OnDeleted(*object) : OnChanged(*object);
    }
    if (next_ != nullptr) {
      next_->OnEvent(event);
    }
  }

 private:
  // A page of a list, as OnPage() of k8s::ObjectFollower.
  virtual void OnObjects(std::vector<Kind> page, bool is_first) = 0;
  virtual void OnWhole() = 0;                      // the list, as OnListed()
  virtual void OnChanged(const Kind& object) = 0;  // or new
  virtual void OnDeleted(const Kind& object) = 0;

  k8s::ObjectFollower* const next_;
};

template <typename Kind>
class Reconciler : public k8s::Reconciler {
 public:
  absl::StatusOr<absl::Time> Reconcile(const CallContext& ctx, const Json& object) final {
    ASSIGN_OR_RETURN(const Kind kind, As<Kind>(object));
    return ReconcileOne(ctx, kind);
  }
  bool Concerns(const Json& object) const final {
    const absl::StatusOr<Kind> kind = As<Kind>(object);
    return !kind.ok() || IsConcerned(*kind);
  }
  void Reduce(Json& object) const final {
    if (absl::StatusOr<Kind> kind = As<Kind>(object); kind.ok()) {
      ReduceOne(*kind);
      object = kind->json();
    }
  }

 private:
  // As those of k8s::Reconciler.
  virtual absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx, const Kind& object) = 0;
  virtual bool IsConcerned(const Kind& /*object*/) const { return true; }
  virtual void ReduceOne(Kind& /*object*/) const {}
};

}  // namespace csidelta::objects
