#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "k8s/api_client.h"

namespace csidelta::k8s {

using Predicate = absl::FunctionRef<absl::StatusOr<bool>(const Json* object)>;

// Reads one object until `done` ends the wait, then watches it by name. It reads again whenever the
// watch ends or is too old. `done` gets nullptr while the object does not exist. It returns true to
// end the wait, false to continue, or an error to end it with that error. Returns DEADLINE_EXCEEDED
// or CANCELLED from ctx. If watching is not allowed (PERMISSION_DENIED on watch), it polls once a
// second.
//
// `known` spares the first read: the object as the API server has just returned it, or nullptr.
absl::Status WaitFor(const CallContext& ctx, ApiClient& client, const ObjectKey& key,
                     Predicate done, const Json* known = nullptr);

// The same for an object that certainly exists: the watch is the first request, and brings its
// current state. That it has gone meanwhile is noticed when the watch ends.
absl::Status WaitForExisting(const CallContext& ctx, ApiClient& client, const ObjectKey& key,
                             Predicate done);

// Gives `done` every object of a kind in a namespace, and each again whenever it changes, until
// `done` ends the wait. It lists, then watches, and lists again whenever the watch ends or is too
// old. What is deleted is not told. Where watching is not allowed, lists once a second. Else as
// WaitFor.
absl::Status WaitForAmong(const CallContext& ctx, ApiClient& client, const ResourceType& type,
                          absl::string_view namespace_name, Predicate done);

}  // namespace csidelta::k8s
