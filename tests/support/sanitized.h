#pragma once

namespace csidelta::support {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CSIDELTA_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CSIDELTA_TEST_SANITIZED 1
#endif
#endif

#if defined(CSIDELTA_TEST_SANITIZED)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

// How often as long as promised something may take: a sanitizer's slowness is not the code's.
inline constexpr int kSlowness = kIsSanitized ? 5 : 1;

}  // namespace csidelta::support
