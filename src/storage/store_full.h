#pragma once

#include "absl/status/status.h"

namespace csidelta::storage {

// Marks a status that says that the place has no room left, or that its quota is used up: a few
// tries show whether that was a mistake, and waiting makes no room.
absl::Status AsFull(absl::Status status);
bool IsFull(const absl::Status& status);

}  // namespace csidelta::storage
