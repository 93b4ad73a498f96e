#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace csidelta {

// A row of a decision table that holds: why something is refused, kept or of no use.
struct Finding {
  absl::string_view code;  // "LastReady"; for programs: a literal, which the table names
  std::string message;     // for people: why, and what to do, in one line

  bool operator==(const Finding&) const = default;
};

inline std::vector<std::string> MessagesOf(const std::vector<Finding>& findings) {
  std::vector<std::string> messages;
  messages.reserve(findings.size());
  for (const Finding& one : findings) {
    messages.push_back(one.message);
  }
  return messages;
}

}  // namespace csidelta
