#pragma once

#include <iostream>

#include "tests/support/sanitized.h"

namespace csidelta::support {

// Whether the memory of this process is that of the code under test. Where it is not, says so.
inline bool CountsMemory() {
  if (kIsSanitized) {
    std::cout << "memory is not compared: a sanitizer's own says nothing of the code's\n";
  }
  return !kIsSanitized;
}

}  // namespace csidelta::support
