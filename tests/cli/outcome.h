#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/json.h"
#include "cli/exit_code.h"

namespace csidelta::cli {

// What one run of the program left.
struct Outcome {
  ExitCode code = ExitCode::kOk;
  std::string out;
  std::string error;

  // The last line of stdout, as JSON.
  Json Result() const {
    const std::vector<std::string> lines = absl::StrSplit(out, '\n', absl::SkipEmpty());
    return lines.empty() ? Json() : ParseJson(lines.back()).value_or(Json());
  }
};

}  // namespace csidelta::cli
