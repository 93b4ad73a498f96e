#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/json.h"
#include "cli/arguments.h"

namespace csidelta::cli {

// Flags of verbs that a Pod of inplace/volume_copy.h runs, for the program that started the Pod.
struct PodFlags {
  std::string start_before;
  std::string result_file;

  void Declare(ArgumentTable& table);
  // Nothing where none is given. INVALID_ARGUMENT for what is no time.
  absl::StatusOr<std::optional<absl::Time>> StartBefore() const;
  // FAILED_PRECONDITION when it is too late to begin; INVALID_ARGUMENT for what is no time.
  absl::Status CheckTime(const CallContext& ctx) const;
  // Writes the result where it is wanted. That it cannot is no error: it stands in the log as well.
  void LeaveResult(const Json& result) const;
};

}  // namespace csidelta::cli
