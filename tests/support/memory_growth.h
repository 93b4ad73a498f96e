#pragma once

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"

namespace csidelta::support {

// How much more memory this process held, at any moment since this was made, than it did then.
//
// The kernel keeps the peak of a process for its whole life (VmHWM), so what ran before in the same
// program could hide what is measured here, and so could memory that it gave back to the allocator
// but not to the kernel. So the allocator gives back what it can, and the peak restarts (a "5"
// in /proc/self/clear_refs, proc(5)). getrusage() will not do: its peak outlives even the exec().
class MemoryGrowth {
 public:
  MemoryGrowth() {
    ::malloc_trim(0);
    std::ofstream clear("/proc/self/clear_refs");
    clear << "5" << std::flush;
    EXPECT_TRUE(clear.good()) << "the peak of this process's memory cannot be reset";
    begin_bytes_ = PeakBytes();
    EXPECT_GT(begin_bytes_, 0);
  }

  int64_t bytes() const { return PeakBytes() - begin_bytes_; }

 private:
  static int64_t PeakBytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (absl::StartsWith(line, "VmHWM:")) {
        int64_t kibibytes = 0;
        std::istringstream(line.substr(sizeof("VmHWM:") - 1)) >> kibibytes;
        return kibibytes << 10;
      }
    }
    return 0;
  }

  int64_t begin_bytes_ = 0;
};

}  // namespace csidelta::support
