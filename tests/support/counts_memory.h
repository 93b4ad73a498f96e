#pragma once

#include <iostream>

namespace csidelta::support {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CSIDELTA_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CSIDELTA_TEST_SANITIZED 1
#endif
#endif

// Whether the memory of this process is that of the code under test. Where it is not, says so.
inline bool CountsMemory() {
#if defined(CSIDELTA_TEST_SANITIZED)
  std::cout << "memory is not compared: a sanitizer's own says nothing of the code's\n";
  return false;
#else
  return true;
#endif
}

}  // namespace csidelta::support
