#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace csidelta {

// The same of a result: its value as it is, or its error with the context.
template <typename T>
absl::StatusOr<T> Annotate(absl::StatusOr<T> result, absl::string_view context) {
  return result.ok() ? std::move(result) : absl::StatusOr<T>(Annotate(result.status(), context));
}

}  // namespace csidelta
