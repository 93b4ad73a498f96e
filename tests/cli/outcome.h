#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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

// Nothing in `text` makes a terminal do anything but show it, or begins a line of its own.
inline void ExpectHarmless(const std::string& text) {
  for (const char* const part : {"\x1b", "\x07", "\b", "\u202e", "\u2028", "\n next"}) {
    EXPECT_EQ(text.find(part), std::string::npos);
  }
}

// The names in a list that a verb printed.
inline std::vector<std::string> NamesOf(const Json& list) {
  std::vector<std::string> names;
  for (const Json& one : list) {
    names.push_back(GetString(one, {"name"}));
  }
  return names;
}

// "name decision Reason" of what a prune printed, in its order.
inline std::vector<std::string> PruneDecisions(const Json& result) {
  std::vector<std::string> texts;
  for (const Json& one : result.value("snapshots", Json::array())) {
    texts.push_back(absl::StrCat(GetString(one, {"name"}), " ", GetString(one, {"decision"}), " ",
                                 GetString(one, {"reason"})));
  }
  return texts;
}

}  // namespace csidelta::cli
