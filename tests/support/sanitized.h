#pragma once

#include <gtest/gtest.h>

#include <iostream>

namespace csidelta::support {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr const char* kSanitizer = "the address sanitizer";
#elif defined(__SANITIZE_THREAD__)
inline constexpr const char* kSanitizer = "the thread sanitizer";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr const char* kSanitizer = "the address sanitizer";
#elif __has_feature(thread_sanitizer)
inline constexpr const char* kSanitizer = "the thread sanitizer";
#else
inline constexpr const char* kSanitizer = nullptr;
#endif
#else
inline constexpr const char* kSanitizer = nullptr;
#endif

// Whether to assert a promise that a sanitizer makes meaningless, because its memory is not the
// code's. Where it is left out, the output has a line "left out under ...", and the report of the
// test the property "left_out".
inline bool AssertsUnsanitized(const char* promise) {
  if (kSanitizer == nullptr) {
    return true;
  }
  std::cout << "left out under " << kSanitizer << ": " << promise << "\n";
  testing::Test::RecordProperty("left_out", promise);
  return false;
}

}  // namespace csidelta::support
