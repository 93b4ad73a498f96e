#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace csidelta {

// Returns `status`, payloads included, with "`context`: " before its message; an OK status is
// returned as it is. Add context once per layer, naming the thing: Annotate(status, "get
// volumesnapshot ns/name").
absl::Status Annotate(const absl::Status& status, absl::string_view context);
// The same of a result: its value as it is, or its error with the context.
template <typename T>
absl::StatusOr<T> Annotate(absl::StatusOr<T> result, absl::string_view context) {
  return result.ok() ? std::move(result) : absl::StatusOr<T>(Annotate(result.status(), context));
}

// Whether the same call may succeed when made again later: UNAVAILABLE, RESOURCE_EXHAUSTED,
// ABORTED. The one place that decides it. Only decorators and reconcile loops retry.
bool IsRetryable(const absl::Status& status);

namespace internal {
inline const absl::Status& ToStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& ToStatus(const absl::StatusOr<T>& result) {
  return result.status();
}
}  // namespace internal

// A property of a status that neither its code nor its message has; Annotate() keeps it.
//
//   constexpr StatusMark kFull("csi-delta/store-full");
//   return kFull.On(absl::ResourceExhaustedError("..."));  ...  if (kFull.IsOn(status)) { ... }
class StatusMark {
 public:
  // `name` is the mark's alone, and outlives it.
  explicit constexpr StatusMark(absl::string_view name) : name_(name) {}

  // The status with the mark. REQUIRES that it is not OK, which can have none.
  absl::Status On(absl::Status status) const {
    status.SetPayload(name_, absl::Cord());
    return status;
  }
  bool IsOn(const absl::Status& status) const { return status.GetPayload(name_).has_value(); }

 private:
  absl::string_view name_;
};

// INVALID_ARGUMENT for a flag that has to be given: "give --image: what workers run". Pure.
inline absl::Status MissingFlag(absl::string_view flag, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("give ", flag, ": ", what));
}

}  // namespace csidelta

#define CSIDELTA_CONCAT_INNER_(a, b) a##b
#define CSIDELTA_CONCAT_(a, b) CSIDELTA_CONCAT_INNER_(a, b)

// Evaluates `expr`, an absl::Status, and returns it from this function unless it is OK. `expr` may
// be a call with a lambda that uses these macros itself.
#define RETURN_IF_ERROR(expr) \
  CSIDELTA_RETURN_IF_ERROR_(CSIDELTA_CONCAT_(csidelta_status_, __COUNTER__), expr)
#define CSIDELTA_RETURN_IF_ERROR_(status, expr)       \
  do {                                                \
    if (absl::Status status = (expr); !status.ok()) { \
      return status;                                  \
    }                                                 \
  } while (false)

// Evaluates `expr`, an absl::StatusOr, and moves its value into `lhs`, or returns its status.
#define ASSIGN_OR_RETURN(lhs, expr) \
  CSIDELTA_ASSIGN_OR_RETURN_(CSIDELTA_CONCAT_(csidelta_result_, __COUNTER__), lhs, expr)
#define CSIDELTA_ASSIGN_OR_RETURN_(result, lhs, expr) \
  auto result = (expr);                               \
  if (!result.ok()) {                                 \
    return ::csidelta::internal::ToStatus(result);    \
  }                                                   \
  lhs = *std::move(result)
