# What ctest runs: an entry is one command that tests something, or that makes what others need. scripts/dev/entry.py
# starts it, keeps its whole output and its report, and shows what failed. cmake/Runs.cmake has those that are no program
# of GoogleTest.
#
# csidelta_entry(NAME x TIER t KIND gtest|pytest|lines|command COMMAND word...
#                [CHOICE word...] [OPTIONS --root...] [SOURCES file...] [LABELS in-...] [ENVIRONMENT NAME=value...]
#                [NEEDS fixture...] [MAKES fixture] [AFTER entry...] [LOCK lock...] [ALONE]
#                [SECONDS n] [COST n] [NICE n] [SLOTS n])
# CHOICE: the end of the command; a run of single tests has others in its place. SOURCES: what the tests are written in,
# relative to the checkout. NEEDS: what entries make that have to pass before. AFTER: entries that end before, well or not.
# COST: seconds on two cores; of those that could begin the dearest does. SLOTS: of CSIDELTA_SLOTS, the entries at a time.
# LABELS say which runs have it: in-test (./dev test), in-ci (what ./dev ci adds), in-all-1 to in-all-4 (./dev test --all),
# in-sweep, in-sweep-all, in-interop. Entries that only make something have none: what needs them brings them in.
function(csidelta_entry)
  cmake_parse_arguments(ARG "ALONE" "NAME;TIER;KIND;MAKES;SECONDS;COST;NICE;SLOTS"
                        "COMMAND;CHOICE;OPTIONS;SOURCES;LABELS;ENVIRONMENT;NEEDS;AFTER;LOCK" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${ARG_NAME}: unknown: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  foreach(default "SECONDS 600" "COST 0" "NICE 0" "SLOTS 1")
    separate_arguments(default)
    list(POP_FRONT default name)
    if(NOT ARG_${name})
      set(ARG_${name} ${default})
    endif()
  endforeach()
  add_test(NAME ${ARG_NAME} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
           COMMAND /usr/bin/python3 "${PROJECT_SOURCE_DIR}/scripts/dev/entry.py" --name ${ARG_NAME} --tier ${ARG_TIER}
                   --kind ${ARG_KIND} --seconds ${ARG_SECONDS} --nice ${ARG_NICE}
                   --programs "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}" ${ARG_OPTIONS} -- ${ARG_COMMAND} ::: ${ARG_CHOICE})
  # entry.py ends what takes too long, and waits while it tidies up. Who waits longer is ended by ctest.
  math(EXPR limit "${ARG_SECONDS} + 300")
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${limit} COST ${ARG_COST} PROCESSORS ${ARG_SLOTS}
                       LABELS "tier:${ARG_TIER};kind:${ARG_KIND};${ARG_LABELS}")
  list(TRANSFORM ARG_SOURCES PREPEND "${PROJECT_SOURCE_DIR}/")
  foreach(property "NEEDS FIXTURES_REQUIRED" "MAKES FIXTURES_SETUP" "AFTER DEPENDS" "LOCK RESOURCE_LOCK"
          "SOURCES REQUIRED_FILES" "ENVIRONMENT ENVIRONMENT" "ALONE RUN_SERIAL")
    separate_arguments(property)
    list(POP_FRONT property name)
    if(ARG_${name})
      set_tests_properties(${ARG_NAME} PROPERTIES ${property} "${ARG_${name}}")
    endif()
  endforeach()
endfunction()

# csidelta_program_entries(NAME program LABELS ... SOURCES ... SWEEPS ... SHARDS n SECONDS n): the entries of a test
# program, by what its label says that it needs:
#   unit: nothing; run everywhere, by a plain user.
#   root: loop devices, mounts, chroot. Plain programs besides.
#   restic: the restic of the distribution (in NAME), and newer ones (in NAME.later).
# Of unit tests, NAME.sweep is those that draw samples, and NAME.quiet those that promise seconds. Under a sanitizer, and
# in the presets dev and coverage, a program is one entry, whose tier is the preset.
function(csidelta_program_entries)
  cmake_parse_arguments(ARG "" "NAME;SHARDS;SECONDS" "LABELS;SOURCES;SWEEPS" ${ARGN})
  set(program KIND gtest COMMAND "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${ARG_NAME}")
  set(common ${program} SOURCES ${ARG_SOURCES} SECONDS ${ARG_SECONDS})
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
    get_filename_component(preset "${CMAKE_BINARY_DIR}" NAME)
    # With the 30 callers that it keeps of each allocation by default, the address sanitizer takes 1.7 times the processor time.
    csidelta_sharded_entry(${ARG_NAME} ${ARG_SHARDS} TIER ${preset} LABELS ${ARG_LABELS} ${common}
                           ENVIRONMENT ASAN_OPTIONS=malloc_context_size=4)
  elseif("root" IN_LIST ARG_LABELS)
    csidelta_entry(NAME ${ARG_NAME} TIER root OPTIONS --root NEEDS root-tests LABELS in-all-3 LOCK root ${common})
  elseif("restic" IN_LIST ARG_LABELS)
    set(later */Trixie* */Sid* */trixie* */sid*)
    list(JOIN later : later)
    csidelta_sharded_entry(${ARG_NAME} ${ARG_SHARDS} TIER restic NEEDS real-tests LABELS in-test COST 60 NICE 15 SLOTS 2
                           CHOICE "--gtest_filter=*-${later}" ${common})
    csidelta_sharded_entry(${ARG_NAME}.later ${ARG_SHARDS} TIER restic NEEDS real-tests restics LABELS in-all-4 in-interop
                           SLOTS 2 ${common})
  else()
    csidelta_sharded_entry(${ARG_NAME} ${ARG_SHARDS} TIER unit NEEDS unit-tests LABELS unit in-test in-all-4 NICE 15 SLOTS 2
                           ${common})
    if(ARG_SWEEPS)
      csidelta_entry(NAME ${ARG_NAME}.sweep TIER sweep NEEDS unit-tests LABELS in-sweep in-sweep-all SLOTS 3
                     OPTIONS --only suites ${program} SOURCES ${ARG_SWEEPS} SECONDS 7200)
    endif()
    set(promising)
    foreach(source ${ARG_SOURCES})
      if(EXISTS "${PROJECT_SOURCE_DIR}/${source}")
        file(STRINGS "${PROJECT_SOURCE_DIR}/${source}" found REGEX "support::AssertsSeconds\\(")
        if(found)
          list(APPEND promising ${source})
        endif()
      endif()
    endforeach()
    if(promising)
      csidelta_entry(NAME ${ARG_NAME}.quiet TIER "unit-quiet" NEEDS unit-tests LABELS in-all-4 ALONE
                     ENVIRONMENT CSI_DELTA_QUIET=1 OPTIONS --only seconds ${program} SOURCES ${promising})
    endif()
  endif()
endfunction()

# csidelta_sharded_entry(name shards ...): an entry, or one for each share of its tests: name.1of3 ...
function(csidelta_sharded_entry name shards)
  if(shards EQUAL 1)
    csidelta_entry(NAME ${name} ${ARGN})
  else()
    math(EXPR last "${shards} - 1")
    foreach(index RANGE ${last})
      math(EXPR number "${index} + 1")
      csidelta_entry(NAME ${name}.${number}of${shards} ${ARGN}
                     ENVIRONMENT GTEST_TOTAL_SHARDS=${shards} GTEST_SHARD_INDEX=${index})
    endforeach()
  endif()
endfunction()
