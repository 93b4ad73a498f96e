#pragma once

#include <cstdio>
#include <cstdlib>

// Stops the process when an invariant of the program is broken. What the world does wrong is an
// absl::Status.
#define CSIDELTA_CHECK(condition)                                                               \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      std::fprintf(                                                                             \
          stderr,                                                                               \
          "{\"@level\":\"error\",\"@message\":\"check failed: %s\",\"logSource\":\"%s:%d\"}\n", \
          #condition, __FILE__, __LINE__);                                                      \
      std::abort();                                                                             \
    }                                                                                           \
  } while (false)
