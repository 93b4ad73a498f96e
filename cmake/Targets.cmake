set(CSIDELTA_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12: false positives in std::string; and it warns of members that a designated initializer leaves out, which the
  # language initializes (clang does not warn).
  list(APPEND CSIDELTA_WARNINGS -Wno-restrict -Wno-missing-field-initializers)
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

# csidelta_library(NAME folder [FUZZED|BUSY] [TESTS] SOURCES ... DEPS ...): one folder below src/, as csidelta::folder;
# with TESTS something that only tests use, which is optimized where it is BUSY.
function(csidelta_library)
  cmake_parse_arguments(ARG "FUZZED;BUSY;TESTS" "NAME" "SOURCES;DEPS" ${ARGN})
  csidelta_unite(sources ${ARG_NAME} ${ARG_SOURCES})
  add_library(csidelta_${ARG_NAME} STATIC ${sources})
  add_library(csidelta::${ARG_NAME} ALIAS csidelta_${ARG_NAME})
  target_include_directories(csidelta_${ARG_NAME} PUBLIC "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(csidelta_${ARG_NAME} PUBLIC ${ARG_DEPS})
  if(NOT ARG_TESTS)
    target_compile_options(csidelta_${ARG_NAME} PRIVATE ${CSIDELTA_WARNINGS})
  endif()
  if(ARG_TESTS)
    target_include_directories(csidelta_${ARG_NAME} PUBLIC "${PROJECT_SOURCE_DIR}")
    target_compile_options(csidelta_${ARG_NAME} PRIVATE ${CSIDELTA_WARNINGS})
    if(ARG_BUSY)
      csidelta_precompile(csidelta_${ARG_NAME})
    else()
      target_compile_options(csidelta_${ARG_NAME} PRIVATE ${CSIDELTA_TEST_OPTIONS})
      target_link_libraries(csidelta_${ARG_NAME} PRIVATE GTest::gmock)  # It is among the precompiled headers.
      csidelta_precompile(csidelta_${ARG_NAME} TESTS)
    endif()
  elseif(ARG_BUSY)
    target_compile_options(csidelta_${ARG_NAME} PRIVATE ${CSIDELTA_BUSY_OPTIONS} ${CSIDELTA_BUSY_SPEED})
    csidelta_precompile(csidelta_${ARG_NAME} BUSY)
  elseif(ARG_FUZZED)
    target_compile_options(csidelta_${ARG_NAME} PRIVATE ${CSIDELTA_FUZZED_OPTIONS})
    csidelta_precompile(csidelta_${ARG_NAME} FUZZED)
  else()
    csidelta_precompile(csidelta_${ARG_NAME})
  endif()
endfunction()

# csidelta_proto(NAME x ROOT dir SOURCES a.proto b/c.proto [GRPC [TRANSPORT target]] [SPEED]): generated code as
# csidelta::x. Files are compiled from ROOT, so that they register under the names their protocol gives them;
# they are included by the same names. TRANSPORT: which gRPC to link, csidelta_grpc unless said. SPEED: messages have code
# of their own instead of reflection's, which takes twice as long to compile and is half as large again.
function(csidelta_proto)
  cmake_parse_arguments(ARG "GRPC;SPEED" "NAME;ROOT;TRANSPORT" "SOURCES;DEPS" ${ARGN})
  set(out "${CMAKE_CURRENT_BINARY_DIR}/gen")
  set(generated)
  set(mode code_size)
  if(ARG_SPEED)
    set(mode speed)
  endif()
  foreach(source ${ARG_SOURCES})
    string(REGEX REPLACE "\\.proto$" "" stem "${source}")
    set(files "${out}/${stem}.pb.cc" "${out}/${stem}.pb.h")
    set(arguments --cpp_out=${mode}:${out})
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

# What is built together: all unit tests, all of root, of restic; what other tiers drive on real servers and under real
# hosts ("real"); and what the thread sanitizer runs ("tsan"): programs some of whose sources start threads.
if(CSIDELTA_BUILD_TESTS)
  foreach(label unit root restic real tsan)
    add_custom_target(csidelta_${label}_tests)
  endforeach()
  foreach(label root restic real)  # Their tiers run what is shipped, as it is now.
    add_dependencies(csidelta_${label}_tests velero-plugin-for-csi-delta csi-delta)
  endforeach()
endif()

# csidelta_tests(NAME folder_test SOURCES x_test.cc ... [THREADS ...] [SWEEPS ...] [HELPERS ...] [DEPS ...]
#                [LABELS ...] [PARTS n] [SHARDS n] [SECONDS n] [ALONE reason])
# The tests of a folder, as one program. Where CSIDELTA_UNITE is on its sources are compiled as one, or as so many PARTS,
# for most of a compiler's time goes to headers that they share; hence each source has a namespace of its own, named
# after it. A second program in a folder says why it is ALONE.
# THREADS: those of the sources that start threads, ours or the code's, and do not call the distribution's gRPC, which the
# thread sanitizer reports falsely; it builds these alone. SWEEPS: those that draw samples of crash points or faults.
# GENERATED: a file that is compiled instead of the sources. SHARDS: in how many processes the program runs.
function(csidelta_tests)
  cmake_parse_arguments(ARG "" "NAME;PARTS;SHARDS;SECONDS;ALONE" "SOURCES;THREADS;SWEEPS;HELPERS;GENERATED;DEPS;LABELS" ${ARGN})
  foreach(source ${ARG_THREADS} ${ARG_SWEEPS})
    if(NOT source IN_LIST ARG_SOURCES)
      message(FATAL_ERROR "${ARG_NAME}: ${source} is none of its sources")
    endif()
  endforeach()
  foreach(source ${ARG_HELPERS})
    file(STRINGS ${source} tests REGEX "^TEST(_F|_P)?\\(")
    if(tests)
      # Built without the source that instantiates them, for THREADS, they would be tests that never run.
      message(FATAL_ERROR "${ARG_NAME}: ${source} holds tests: it belongs to the SOURCES, and to the THREADS if they do")
    endif()
  endforeach()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_PARTS)
    set(ARG_PARTS 1)
  endif()
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  if(NOT ARG_SECONDS)
    set(ARG_SECONDS 600)  # It finds what hangs; beside the journeys a program may get a tenth of a core.
  endif()
  if(CSIDELTA_SANITIZE)
    math(EXPR ARG_SECONDS "2 * ${ARG_SECONDS}")  # Three to five times slower, and nothing beside them.
  endif()
  if(ARG_THREADS)
    list(APPEND ARG_LABELS threads)
    if(CSIDELTA_SANITIZE MATCHES "thread")
      set(ARG_SOURCES ${ARG_THREADS})
      set(ARG_SWEEPS)
      set(ARG_PARTS 1)
    endif()
  endif()

  set(compiled ${ARG_GENERATED})
  if(NOT ARG_GENERATED)
    list(LENGTH ARG_SOURCES count)
    math(EXPR count "(${count} + ${ARG_PARTS} - 1) / ${ARG_PARTS}")
    foreach(part RANGE 1 ${ARG_PARTS})
      math(EXPR begin "(${part} - 1) * ${count}")
      list(SUBLIST ARG_SOURCES ${begin} ${count} these)
      set(name ${ARG_NAME})
      if(ARG_PARTS GREATER 1)
        set(name ${ARG_NAME}_${part})
      endif()
      csidelta_unite(sources ${name} ${these})
      list(APPEND compiled ${sources})
    endforeach()
  endif()
  csidelta_unite(helpers ${ARG_NAME}_helpers ${ARG_HELPERS})
  add_executable(${ARG_NAME} ${compiled} ${helpers})
  target_include_directories(${ARG_NAME} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_options(${ARG_NAME} PRIVATE ${CSIDELTA_WARNINGS} ${CSIDELTA_TEST_OPTIONS})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} csidelta::test_paths GTest::gmock GTest::gtest_main)
  csidelta_precompile(${ARG_NAME} TESTS)
  foreach(label ${ARG_LABELS})
    string(REPLACE threads tsan label ${label})
    add_dependencies(csidelta_${label}_tests ${ARG_NAME})
  endforeach()
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  list(TRANSFORM ARG_SOURCES PREPEND "${folder}/")
  list(TRANSFORM ARG_SWEEPS PREPEND "${folder}/")
  csidelta_program_entries(NAME ${ARG_NAME} LABELS ${ARG_LABELS} SOURCES ${ARG_SOURCES} SWEEPS ${ARG_SWEEPS}
                           SHARDS ${ARG_SHARDS} SECONDS ${ARG_SECONDS})
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
