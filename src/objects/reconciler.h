#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "k8s/reconcile_loop.h"
#include "objects/client.h"
#include "objects/object.h"

namespace csidelta::objects {

// k8s::Reconciler for the objects of one kind.
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
