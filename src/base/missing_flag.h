#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace csidelta {

// INVALID_ARGUMENT for a flag that has to be given: "give --image: what workers run". Pure.
inline absl::Status MissingFlag(absl::string_view flag, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("give ", flag, ": ", what));
}

}  // namespace csidelta
