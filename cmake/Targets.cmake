set(CSIDELTA_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND CSIDELTA_WARNINGS -Wno-restrict)  # GCC 12: false positives in std::string
  if(CSIDELTA_UNITE)
    list(APPEND CSIDELTA_WARNINGS -Wno-subobject-linkage)  # It takes an included source for a header; dev asks.
  endif()
else()
  list(APPEND CSIDELTA_WARNINGS -Wthread-safety -Wno-sign-conversion)
endif()

# csidelta_unite(variable name source...): where CSIDELTA_UNITE is on, one source that includes them all, for most of a
# compiler's time, and of clang-tidy's, goes to headers that they share. Those that have options of their own stay alone.
# CMake's UNITY_BUILD would name them by absolute paths, which the compiler cache takes for other sources in every
# checkout.
function(csidelta_unite variable name)
  set(alone)
  set(text)
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  string(REGEX REPLACE "^src/" "" folder "${folder}")
  foreach(source ${ARGN})
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(NOT CSIDELTA_UNITE OR options)
      list(APPEND alone ${source})
    else()
      string(APPEND text "#include \"${folder}/${source}\"\n")
    endif()
  endforeach()
  if(text)
    set(file "${CMAKE_CURRENT_BINARY_DIR}/${name}_united.cc")
    set(check "bugprone-suspicious-include")
    file(CONFIGURE OUTPUT "${file}" CONTENT "// NOLINTBEGIN(${check})\n${text}// NOLINTEND(${check})\n" @ONLY)
    list(APPEND alone "${file}")
  endif()
  set(${variable} ${alone} PARENT_SCOPE)
endfunction()

# csidelta_library(NAME folder [FUZZED|BUSY] SOURCES ... DEPS ...): one folder below src/, as csidelta::folder.
function(csidelta_library)
  cmake_parse_arguments(ARG "FUZZED;BUSY" "NAME" "SOURCES;DEPS" ${ARGN})
  csidelta_unite(sources ${ARG_NAME} ${ARG_SOURCES})
  add_library(csidelta_${ARG_NAME} STATIC ${sources})
  add_library(csidelta::${ARG_NAME} ALIAS csidelta_${ARG_NAME})
  target_include_directories(csidelta_${ARG_NAME} PUBLIC "${PROJECT_SOURCE_DIR}/src")
  target_compile_options(csidelta_${ARG_NAME} PRIVATE ${CSIDELTA_WARNINGS})
  target_link_libraries(csidelta_${ARG_NAME} PUBLIC ${ARG_DEPS})
  if(ARG_BUSY)
    target_compile_options(csidelta_${ARG_NAME} PRIVATE ${CSIDELTA_BUSY_OPTIONS})
    csidelta_precompile(csidelta_${ARG_NAME} BUSY)
  elseif(ARG_FUZZED)
    target_compile_options(csidelta_${ARG_NAME} PRIVATE ${CSIDELTA_FUZZED_OPTIONS})
    csidelta_precompile(csidelta_${ARG_NAME} FUZZED)
  else()
    csidelta_precompile(csidelta_${ARG_NAME})
  endif()
endfunction()

# csidelta_proto(NAME x ROOT dir SOURCES a.proto b/c.proto [GRPC [TRANSPORT target]]): generated code as
# csidelta::x. Files are compiled from ROOT, so that they register under the names their protocol gives them;
# they are included by the same names. TRANSPORT: which gRPC to link, csidelta_grpc unless said.
function(csidelta_proto)
  cmake_parse_arguments(ARG "GRPC" "NAME;ROOT;TRANSPORT" "SOURCES;DEPS" ${ARGN})
  set(out "${CMAKE_CURRENT_BINARY_DIR}/gen")
  set(generated)
  foreach(source ${ARG_SOURCES})
    string(REGEX REPLACE "\\.proto$" "" stem "${source}")
    set(files "${out}/${stem}.pb.cc" "${out}/${stem}.pb.h")
    set(arguments --cpp_out=${out})
    if(ARG_GRPC)
      list(APPEND files "${out}/${stem}.grpc.pb.cc" "${out}/${stem}.grpc.pb.h")
      list(APPEND arguments --grpc_out=${out} --plugin=protoc-gen-grpc=${GRPC_CPP_PLUGIN})
    endif()
    add_custom_command(
      OUTPUT ${files}
      COMMAND ${CMAKE_COMMAND} -E make_directory "${out}"
      COMMAND protobuf::protoc -I "${ARG_ROOT}" ${arguments} "${source}"
      WORKING_DIRECTORY "${ARG_ROOT}"
      DEPENDS "${ARG_ROOT}/${source}"
      VERBATIM)
    list(APPEND generated ${files})
  endforeach()
  add_library(csidelta_${ARG_NAME} STATIC ${generated})
  add_library(csidelta::${ARG_NAME} ALIAS csidelta_${ARG_NAME})
  target_include_directories(csidelta_${ARG_NAME} SYSTEM PUBLIC "${out}")
  if(CSIDELTA_SANITIZE OR CSIDELTA_COVERAGE)
    # Not our code, like the archives that it goes with: compiled as the plain debug build compiles it, so
    # that the compiler cache holds one object for all of them.
    set_target_properties(csidelta_${ARG_NAME} PROPERTIES COMPILE_OPTIONS "")
  endif()
  target_link_libraries(csidelta_${ARG_NAME} PUBLIC ${ARG_DEPS} protobuf::libprotobuf)
  if(ARG_TRANSPORT)
    target_link_libraries(csidelta_${ARG_NAME} PUBLIC ${ARG_TRANSPORT})
  elseif(ARG_GRPC)
    target_link_libraries(csidelta_${ARG_NAME} PUBLIC csidelta_grpc)
  endif()
endfunction()

# What the thread sanitizer builds: the tests with the label "threads", which have several of them, ours or
# the code's, and do not call the distribution's gRPC, which it reports falsely.
if(CSIDELTA_BUILD_TESTS)
  add_custom_target(csidelta_tsan_tests)
endif()

# What is run beside the unit tests, by root or under real hosts: tests with the label "slow", and programs.
if(CSIDELTA_BUILD_TESTS)
  add_custom_target(csidelta_real_tests)
endif()

# csidelta_test(NAME x_test SOURCES ... DEPS ... LABELS unit|grpc|threads|slow|sweep)
function(csidelta_test)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_SOURCES)
    set(ARG_SOURCES ${ARG_NAME}.cc)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_include_directories(${ARG_NAME} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_options(${ARG_NAME} PRIVATE ${CSIDELTA_WARNINGS})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  csidelta_precompile(${ARG_NAME} TESTS)
  if(CSIDELTA_SANITIZE MATCHES "undefined")
    # The code under test is checked. In a test these cost a quarter of compiling it, and what they find there the
    # address sanitizer mostly finds, too.
    target_compile_options(${ARG_NAME} PRIVATE -fno-sanitize=undefined)
  endif()
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(csidelta_tsan_tests ${ARG_NAME})
  endif()
  if("slow" IN_LIST ARG_LABELS)
    add_dependencies(csidelta_real_tests ${ARG_NAME})
  endif()
  set(seconds_max 120)
  if("slow" IN_LIST ARG_LABELS)
    set(seconds_max 900)  # Hundreds of keys are derived.
  elseif(CSIDELTA_SANITIZE)
    set(seconds_max 480)  # Three to five times slower.
  endif()
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${seconds_max})
endfunction()

# csidelta_static_executable(target): one file that runs in an empty root: no interpreter, no shared library.
# Position-independent, and without symbols in a release. Sanitizers need their shared parts, so not with them.
function(csidelta_static_executable target)
  if(CSIDELTA_SANITIZE)
    return()
  endif()
  target_compile_options(${target} PRIVATE -fPIE)
  target_link_options(${target} PRIVATE -static-pie)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_link_options(${target} PRIVATE -Wl,--strip-all)
  endif()
endfunction()
