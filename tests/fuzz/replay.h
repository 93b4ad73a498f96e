#pragma once

#include <cstddef>
#include <cstdint>

namespace csidelta::fuzz {

using Target = int (*)(const uint8_t* data, std::size_t bytes);

// Registers the test FuzzReplayTest.<name>: it runs the target over no bytes at all and over every
// file of its corpus, so that what libFuzzer once found stays found, with any compiler.
bool RegisterReplay(const char* name, Target target);

}  // namespace csidelta::fuzz

#define CSIDELTA_REPLAY(name)                               \
  [[maybe_unused]] static const bool name##_is_registered = \
      csidelta::fuzz::RegisterReplay(#name, name)
