#pragma once

#include <cstdint>
#include <functional>

#include "absl/strings/string_view.h"

// What is told of work while it is under way; all of it may be called by several threads at once.
namespace csidelta::engine {

// Sentences for people: `note` for those who want to know, `warn` for everybody.
struct Listener {
  std::function<void(absl::string_view sentence)> note = [](absl::string_view) {};
  std::function<void(absl::string_view sentence)> warn = [](absl::string_view) {};
};

// How far it is, in what the work counts: bytes of a volume, or things. `total`: 0 where it is not
// known.
using Progress = std::function<void(absl::string_view stage, int64_t done, int64_t total)>;

}  // namespace csidelta::engine
