# Compiler, warnings, sanitizers. Everything here applies to our own code; third-party headers are SYSTEM.
option(CSIDELTA_BUILD_TESTS "Build the tests" ON)
option(CSIDELTA_FUZZ "Build libFuzzer targets (clang only)" OFF)
option(CSIDELTA_PRECOMPILE "Parse the most used headers of others once (clang only)" OFF)
option(CSIDELTA_UNITE "Compile the sources of a library as one" OFF)
option(CSIDELTA_COVERAGE "Count executed lines" OFF)
set(CSIDELTA_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")
# Smaller programs than with -Os, and less work for the compiler. What works on every byte (BUSY) has -Os or more.
set(CMAKE_CXX_FLAGS_RELEASE "-Oz -DNDEBUG -g0")

# With its allocator in place of the C library's, a compiler takes 7 % less of a processor.
find_file(TCMALLOC_LIBRARY libtcmalloc_minimal.so.4 PATH_SUFFIXES lib/x86_64-linux-gnu)
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  if(TCMALLOC_LIBRARY)
    list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER env "LD_PRELOAD=${TCMALLOC_LIBRARY}")
  endif()
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_definitions(_GLIBCXX_ASSERTIONS)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong
                      -ffunction-sections -fdata-sections)
  add_link_options(-Wl,--gc-sections)
endif()
if(CSIDELTA_SANITIZE)
  add_compile_options(-fsanitize=${CSIDELTA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # A fifth of a position-independent program would be its relocations.
  add_link_options(-fsanitize=${CSIDELTA_SANITIZE} -no-pie)
endif()
# Libraries that a fuzz target explores (FUZZED) tell libFuzzer where an input went. Those that do nearly all that takes
# tests long (BUSY) are optimized a little under the address sanitizer, which triples the time of compiling them.
if(CSIDELTA_FUZZ)
  set(CSIDELTA_FUZZED_OPTIONS -fsanitize=fuzzer-no-link)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(CSIDELTA_BUSY_SPEED -Os)
endif()
if(CSIDELTA_SANITIZE MATCHES "address")
  set(CSIDELTA_BUSY_OPTIONS ${CSIDELTA_FUZZED_OPTIONS} -O1)
endif()
# Tests, fakes and the servers that tests talk to. They are not shipped, and optimized they would take three times as
# long to compile. The libraries under test are those of the programs.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(CSIDELTA_TEST_OPTIONS "SHELL:-O0 -U_FORTIFY_SOURCE")
elseif(CSIDELTA_SANITIZE MATCHES "undefined")
  # The libraries under test are checked. In tests these checks would cost a quarter of the compiler's time, and what
  # they find there the address sanitizer mostly finds, too.
  set(CSIDELTA_TEST_OPTIONS -fno-sanitize=undefined)
endif()
if(CSIDELTA_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)  # Threads count too.
  add_link_options(--coverage)
endif()
