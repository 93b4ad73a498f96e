#pragma once

#include "absl/status/status.h"

namespace csidelta::storage {

// Marks a status that says that an object is not deleted because the place retains it: by an object
// lock, until its time is over, or, where servers do not tell the two apart, because the right to
// delete is missing. Trying again soon changes nothing.
absl::Status AsRetained(absl::Status status);
bool IsRetained(const absl::Status& status);

}  // namespace csidelta::storage
