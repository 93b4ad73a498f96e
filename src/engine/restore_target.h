#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace csidelta::engine {

// The target of a restore before it is written.
struct RestoreTarget {
  enum class Kind { kNewFile, kFile, kDevice };
  Kind kind = Kind::kNewFile;
  int64_t size_bytes = 0;

  // Whether it has data to lose.
  bool holds_something() const { return kind != Kind::kNewFile && size_bytes > 0; }
};

// "created file", "wrote over file", "wrote device".
std::string Describe(const RestoreTarget& target);
// The same for machine-readable output: "new-file", "file", "device".
std::string NameOf(RestoreTarget::Kind kind);

// `status`, marked as an error about a target that is too small.
absl::Status AsTargetTooSmall(absl::Status status);
bool IsTargetTooSmall(const absl::Status& status);

// Examines the target for a volume of `volume_bytes`, and changes nothing. Errors in addition to
// those of FileBlockDevice::OpenForWrite():
//   INVALID_ARGUMENT     "-": an image is not written in its order, so to no pipe
//   FAILED_PRECONDITION  it lies below /dev and is no device: a file there would take memory, and
//                        be taken for the device whose name was mistyped
absl::StatusOr<RestoreTarget> ExamineTarget(const std::string& path, int64_t volume_bytes);

}  // namespace csidelta::engine
