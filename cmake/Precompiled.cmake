# Headers that nearly every source includes, parsed once per preset: without it a compiler spends two thirds of its
# time on them. The preset dev does without (CSIDELTA_PRECOMPILE), so that it finds a source that forgot one of its
# includes. Our own headers stay out: they change, and are to be linted;
# but for one of tests, which declares what is instantiated once for all of them.
set(CSIDELTA_PRECOMPILED
  <algorithm> <array> <atomic> <chrono> <condition_variable> <cstdint> <deque> <filesystem> <fstream> <functional>
  <limits> <map> <memory> <mutex> <optional> <set> <sstream> <stop_token> <string> <string_view> <thread> <utility>
  <variant> <vector>
  <absl/cleanup/cleanup.h> <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h>
  <absl/functional/function_ref.h> <absl/status/status.h> <absl/status/statusor.h> <absl/strings/ascii.h>
  <absl/strings/escaping.h> <absl/strings/match.h> <absl/strings/numbers.h> <absl/strings/str_cat.h>
  <absl/strings/str_format.h> <absl/strings/str_join.h> <absl/strings/str_replace.h> <absl/strings/str_split.h>
  <absl/strings/string_view.h> <absl/strings/strip.h> <absl/time/time.h> <absl/types/span.h>
  <nlohmann/json.hpp>)
set(CSIDELTA_PRECOMPILED_TESTS ${CSIDELTA_PRECOMPILED} <gmock/gmock.h> <gtest/gtest.h> "\"tests/support/instances.h\"")

# csidelta_precompiled_headers(target HEADERS header... [OPTIONS option...]): makes a target whose precompiled
# headers others reuse, who are compiled with the same options.
function(csidelta_precompiled_headers target)
  cmake_parse_arguments(ARG "" "" "HEADERS;OPTIONS" ${ARGN})
  file(CONFIGURE OUTPUT "${target}.cc" CONTENT "")
  add_library(${target} OBJECT "${CMAKE_CURRENT_BINARY_DIR}/${target}.cc")
  target_precompile_headers(${target} PRIVATE ${ARG_HEADERS})
  target_compile_options(${target} PRIVATE ${ARG_OPTIONS})
  # Without the time of its making two of the same content are the same.
  target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  # What the compiler cache takes the file for. The file itself names the folder that it was made in; this is the
  # text of all that was parsed, so that every checkout finds the same objects.
  list(TRANSFORM ARG_HEADERS REPLACE "(.+)" "#include \\1\n" OUTPUT_VARIABLE lines)
  string(JOIN "" text ${lines})
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${target}_text.cc")
  file(CONFIGURE OUTPUT "${source}" CONTENT "${text}")
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  get_directory_property(options COMPILE_OPTIONS)
  list(TRANSFORM ARG_OPTIONS REPLACE "^SHELL:" "" OUTPUT_VARIABLE own)
  string(JOIN " " own ${own})
  separate_arguments(own UNIX_COMMAND "${own}")
  list(APPEND options ${own})
  get_directory_property(definitions COMPILE_DEFINITIONS)
  list(TRANSFORM definitions PREPEND -D)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 -I "${PROJECT_SOURCE_DIR}" ${flags} ${options} ${definitions} -E -P "${source}"
                  OUTPUT_VARIABLE parsed COMMAND_ERROR_IS_FATAL ANY)
  string(SHA256 digest "${CMAKE_CXX_COMPILER_VERSION} ${flags} ${options} ${definitions} ${parsed}")
  file(GENERATE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.pch.sum"
       CONTENT "${digest}")
endfunction()

if(CSIDELTA_PRECOMPILE)
  # CMake also names the header itself, which clang does not ask for, by a path that ccache does not see through.
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -Xclang -include-pch -Xclang <PCH_FILE>)
  csidelta_precompiled_headers(csidelta_precompiled HEADERS ${CSIDELTA_PRECOMPILED})
  if(CSIDELTA_FUZZED_OPTIONS)
    csidelta_precompiled_headers(csidelta_precompiled_fuzzed
      HEADERS ${CSIDELTA_PRECOMPILED} OPTIONS ${CSIDELTA_FUZZED_OPTIONS})
  endif()
  if(CSIDELTA_BUSY_OPTIONS)
    csidelta_precompiled_headers(csidelta_precompiled_busy
      HEADERS ${CSIDELTA_PRECOMPILED} OPTIONS ${CSIDELTA_BUSY_OPTIONS})
  endif()
  if(CSIDELTA_BUILD_TESTS)
    csidelta_precompiled_headers(csidelta_precompiled_tests
      HEADERS ${CSIDELTA_PRECOMPILED_TESTS} OPTIONS ${CSIDELTA_TEST_OPTIONS})
    target_link_libraries(csidelta_precompiled_tests PRIVATE GTest::gmock)
    target_include_directories(csidelta_precompiled_tests PRIVATE "${PROJECT_SOURCE_DIR}")
    set_target_properties(csidelta_precompiled_tests PROPERTIES EXCLUDE_FROM_ALL ON)
    add_library(csidelta_instances OBJECT EXCLUDE_FROM_ALL tests/support/instances.cc)
    target_include_directories(csidelta_instances PRIVATE "${PROJECT_SOURCE_DIR}")
    target_compile_options(csidelta_instances PRIVATE -O1)
    add_library(csidelta_instances_archive STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:csidelta_instances>)
  endif()
endif()

# csidelta_precompile(target [TESTS|FUZZED|BUSY]): the target's sources begin with these headers; those of tests with
# GoogleTest.
function(csidelta_precompile target)
  if(NOT CSIDELTA_PRECOMPILE)
    return()
  endif()
  if("TESTS" IN_LIST ARGN)
    target_precompile_headers(${target} REUSE_FROM csidelta_precompiled_tests)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")  # Ahead of all others: of several copies of a function the linker takes the first.
      target_link_options(${target} PRIVATE $<TARGET_OBJECTS:csidelta_instances>)
      add_dependencies(${target} csidelta_instances)
    else()
      target_link_libraries(${target} PUBLIC csidelta_instances_archive)
    endif()
  elseif("BUSY" IN_LIST ARGN AND CSIDELTA_BUSY_OPTIONS)
    target_precompile_headers(${target} REUSE_FROM csidelta_precompiled_busy)
  elseif("FUZZED" IN_LIST ARGN AND CSIDELTA_FUZZED_OPTIONS)
    target_precompile_headers(${target} REUSE_FROM csidelta_precompiled_fuzzed)
  else()
    target_precompile_headers(${target} REUSE_FROM csidelta_precompiled)
  endif()
endfunction()
