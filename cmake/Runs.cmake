# What ctest runs beside the programs of GoogleTest: builds, checks, Velero's plugin managers, stores, the real stack, and
# what only ./dev test --all, sweep or interop has. docs/testing.md says what each proves.
set(python /usr/bin/python3)
set(scripts "${PROJECT_SOURCE_DIR}/scripts")
set(tests "${PROJECT_SOURCE_DIR}/tests")
set(pytest ${python} -m pytest)

# csidelta_build_entry(name MAKES fixture ...): makes targets of a preset. One build of a tree at a time.
function(csidelta_build_entry name preset)
  cmake_parse_arguments(ARG "" "" "TARGETS" ${ARGN})
  csidelta_entry(NAME ${name} TIER build KIND command LOCK tree-${preset} SECONDS 5400 ${ARG_UNPARSED_ARGUMENTS}
                 COMMAND ${python} "${scripts}/dev/build.py" ${preset} CHOICE ${ARG_TARGETS})
endfunction()
csidelta_build_entry(build-programs release MAKES programs COST 900 TARGETS velero-plugin-for-csi-delta csi-delta)
csidelta_build_entry(build-real-tests release MAKES real-tests NEEDS programs COST 800
                     TARGETS csidelta_real_tests csidelta_restic_tests)
csidelta_build_entry(build-unit-tests release MAKES unit-tests AFTER build-programs build-real-tests COST 700 NICE 15
                     TARGETS csidelta_unit_tests)
csidelta_build_entry(build-root-tests release MAKES root-tests AFTER build-programs TARGETS csidelta_root_tests)
csidelta_build_entry(build-row-programs release MAKES row-programs TARGETS csi-delta csi-delta-fast)

# csidelta_go_entry(name MAKES fixture CHOICE modules ...): makes Go programs, once per state of their sources.
function(csidelta_go_entry name)
  csidelta_entry(NAME ${name} TIER build KIND command LOCK go SECONDS 3600 ${ARGN})
endfunction()
set(bed ${python} "${tests}/e2e/build.py")
csidelta_go_entry(go-bed MAKES bed COST 1000 COMMAND ${bed} CHOICE --but velero113)
csidelta_go_entry(go-old-velero MAKES old-velero AFTER go-bed COMMAND ${bed} CHOICE velero113)
csidelta_go_entry(go-stores MAKES stores AFTER go-bed COMMAND ${bed} CHOICE s3 helm kube)
csidelta_go_entry(go-emulators MAKES emulators AFTER go-stores NICE 10 COMMAND ${python} "${tests}/s3/emulators.py")
csidelta_go_entry(go-sanity MAKES sanity AFTER go-bed COMMAND ${bed} CHOICE csi)
csidelta_go_entry(go-hosts MAKES hosts AFTER go-bed NICE 10 COMMAND ${python} "${tests}/pluginmanager/run.py" --build-only
                  CHOICE --version=118)
csidelta_go_entry(go-old-host MAKES old-host AFTER go-hosts go-old-velero  # Which compiles half of its packages.
                  COMMAND ${python} "${tests}/pluginmanager/run.py" --build-only CHOICE --version=113)
csidelta_go_entry(go-all-hosts MAKES all-hosts AFTER go-hosts go-old-host
                  COMMAND ${python} "${tests}/pluginmanager/run.py" --build-only)
csidelta_entry(NAME site-tools TIER build KIND command MAKES site-tools COMMAND ${python} "${scripts}/docs/docs.py")
csidelta_entry(NAME later-restics TIER build KIND command MAKES restics COMMAND ${python} "${scripts}/dev/debian.py")

# Checks and scripts.
foreach(check fmt layers style versions shellcheck)
  csidelta_entry(NAME ${check} TIER checks KIND command LABELS in-test in-all-1 COMMAND ${python} "${scripts}/lint/lint.py" ${check})
endforeach()
csidelta_entry(NAME scripts TIER scripts KIND pytest SECONDS 600 LABELS in-test in-all-1 COST 30
               COMMAND ${pytest} CHOICE "${tests}/scripts" -m "not clang_tidy")
csidelta_entry(NAME docs TIER docs KIND pytest NEEDS site-tools programs NICE 15 LABELS in-test in-all-1
               COMMAND ${pytest} CHOICE "${tests}/docs")
csidelta_entry(NAME clang-tidy-rules TIER clang-tidy KIND pytest LABELS in-ci COMMAND ${pytest} CHOICE "${tests}/scripts" -m clang_tidy)
csidelta_entry(NAME clang-tidy TIER clang-tidy KIND command LABELS in-ci LOCK tree-tidy SECONDS 5400 NICE 10
               COMMAND ${python} "${scripts}/lint/lint.py" clang-tidy CHOICE "^src/")
csidelta_entry(NAME clang-tidy-tests TIER clang-tidy KIND command LABELS in-all-4 LOCK tree-tidy SECONDS 5400 NICE 19
               COMMAND ${python} "${scripts}/lint/lint.py" clang-tidy CHOICE "^tests/")

# The plugin under Velero's own plugin managers, alone and at work on a fake API server. As with journeys, ./dev ci adds the
# oldest Velero to the newest one; --all has every release.
set(under_test --scripted "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/plugin_under_test")
set(at_work --fake-cluster "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/fake_cluster")
set(every --version=118 --version=117 --version=116 --version=114 --version=113)
# They keep all cores busy by themselves, and would starve the compiler.
set(host TIER host KIND lines SECONDS 1800)
csidelta_entry(NAME pluginmanager ${host} NEEDS real-tests hosts AFTER build-unit-tests NICE 19 SLOTS 2 LABELS in-test
               COMMAND ${python} "${tests}/pluginmanager/run.py" ${under_test} CHOICE --version=118)
csidelta_entry(NAME host ${host} NEEDS real-tests hosts AFTER build-unit-tests NICE 19 SLOTS 2 LABELS in-test COST 60
               COMMAND ${python} "${tests}/host/run.py" ${at_work} CHOICE --version=118)
csidelta_entry(NAME pluginmanager-old-velero ${host} NEEDS real-tests old-host LABELS in-ci
               COMMAND ${python} "${tests}/pluginmanager/run.py" ${under_test} CHOICE --version=113)
csidelta_entry(NAME host-old-velero ${host} NEEDS real-tests old-host LABELS in-ci COST 30
               COMMAND ${python} "${tests}/host/run.py" ${at_work} CHOICE --version=113)
csidelta_entry(NAME pluginmanager.all ${host} NEEDS real-tests all-hosts LABELS in-all-4
               COMMAND ${python} "${tests}/pluginmanager/run.py" ${under_test} CHOICE ${every})
csidelta_entry(NAME host.all ${host} NEEDS real-tests all-hosts LABELS in-all-4
               COMMAND ${python} "${tests}/host/run.py" ${at_work} CHOICE ${every})

# A real S3 server, emulators of other clouds, the chart, and the image.
csidelta_entry(NAME s3 TIER s3 KIND pytest NEEDS real-tests stores emulators NICE 15 SECONDS 900 COST 90 LABELS in-test in-all-4
               COMMAND ${pytest} CHOICE "${tests}/s3" "${tests}/chart")
csidelta_entry(NAME image TIER image KIND pytest OPTIONS --root NEEDS programs LABELS in-ci in-all-1
               COMMAND ${pytest} CHOICE "${tests}/image")

# The real stack: two test beds at a time, for two cores run more of them slower. What moves volumes has one of its own.
set(e2e KIND pytest OPTIONS --root)
set(old_velero "${tests}/e2e/test_old_velero.py")
set(journeys TIER journeys ${e2e} SECONDS 3600 COMMAND ${pytest})
csidelta_entry(NAME journeys ${journeys} NEEDS real-tests bed LABELS in-test COST 400
               CHOICE "${tests}/e2e" -m "(journey or bed) and not moves" --ignore=${old_velero})
csidelta_entry(NAME journeys-moves ${journeys} NEEDS real-tests bed emulators LABELS in-test COST 460
               CHOICE "${tests}/e2e" -m "(journey or bed) and moves" --ignore=${old_velero})
csidelta_entry(NAME journeys-old-velero ${journeys} NEEDS real-tests bed old-velero LABELS in-ci COST 60
               CHOICE "${old_velero}" -m journey)
csidelta_entry(NAME e2e TIER e2e ${e2e} SECONDS 14400 NEEDS real-tests bed emulators COMMAND ${pytest} CHOICE "${tests}/e2e")
csidelta_entry(NAME e2e-sweep TIER sweep ${e2e} SECONDS 14400 NEEDS real-tests bed LABELS in-sweep in-sweep-all
               COMMAND ${pytest} CHOICE "${tests}/e2e" -m "sweep or long")

# ./dev test --all: a quarter of the files in each part, beside what only computes (nice 19), after what a lack of processors
# could disturb. Files that promise seconds run alone.
set(of_all "${tests}/e2e/test_privileges.py")
set(tells "${of_all}::test_the_data_mover_uses_each_right_and_needs_no_other")  # Of the scenarios beside it.
set(before_1 docs image)
set(before_3 conformance_real csi_sanity csi_driver_root_test contract_root_test plugin_static_test)
set(before_4 pluginmanager.all host.all s3)
file(GLOB files CONFIGURE_DEPENDS "${tests}/e2e/test_*.py")
list(SORT files)
foreach(part 1 2 3 4)
  set(plain_${part})
  set(quiet_${part})
endforeach()
set(part 0)
foreach(file ${files})
  math(EXPR part "${part} % 4 + 1")
  file(STRINGS "${file}" promises REGEX "(import|from) promises")
  if(promises)
    list(APPEND quiet_${part} "${file}")
  else()
    list(APPEND plain_${part} "${file}")
  endif()
endforeach()
foreach(part 1 2 3 4)
  set(scenarios TIER scenarios ${e2e} SECONDS 7200 NEEDS real-tests bed old-velero emulators LABELS in-all-${part} may-be-empty
                AFTER ${before_${part}} COMMAND ${pytest} ENVIRONMENT CSI_DELTA_PART=1)
  set(moving ${plain_${part}})
  if(NOT of_all IN_LIST moving)
    list(APPEND moving "${tells}")
  endif()
  csidelta_entry(NAME scenarios-${part} ${scenarios} CHOICE ${plain_${part}} -m "not moves and not long")
  csidelta_entry(NAME scenarios-moves-${part} ${scenarios} CHOICE ${moving} -m "moves and not long")
  if(quiet_${part})
    csidelta_entry(NAME scenarios-quiet-${part} ${scenarios} ALONE AFTER scenarios-${part} scenarios-moves-${part}
                   ENVIRONMENT CSI_DELTA_QUIET=1 CHOICE ${quiet_${part}} "${tells}" -m "not long")
  endif()
endforeach()
csidelta_entry(NAME fuzz TIER fuzz KIND command LABELS in-all-1 SECONDS 5400 NICE 19 COMMAND ${python} "${scripts}/fuzz/fuzz.py")
csidelta_build_entry(dev dev LABELS in-all-2 NICE 19
                     TARGETS all csidelta_unit_tests csidelta_real_tests csidelta_root_tests)  # Each source alone.
set(rows TIER rows KIND command OPTIONS --root NEEDS row-programs LOCK rows)
csidelta_entry(NAME packs ${rows} LABELS in-all-3 SECONDS 3600 NICE 19
               COMMAND ${python} "${tests}/bench/engine_packs.py" CHOICE --chunks-per-pack 8)  # 1.25 million.

# ./dev sweep, and ./dev interop.
csidelta_entry(NAME packs-64 ${rows} LABELS in-sweep-all SECONDS 3600
               COMMAND ${python} "${tests}/bench/engine_packs.py" CHOICE --chunks-per-pack 64)
csidelta_entry(NAME packs-1 ${rows} LABELS in-sweep-all SECONDS 7200
               COMMAND ${python} "${tests}/bench/engine_packs.py" CHOICE --chunks-per-pack 1)
csidelta_entry(NAME verbs ${rows} LABELS in-sweep-all SECONDS 3600 COMMAND ${python} "${tests}/bench/engine_verbs.py")
set(lines TIER "slow-lines" KIND lines OPTIONS --root NEEDS row-programs LABELS in-sweep-all SECONDS 3600)
csidelta_entry(NAME scaled ${lines} COMMAND ${python} "${tests}/bench/slow_line.py")
csidelta_entry(NAME unscaled ${lines} COMMAND ${python} "${tests}/bench/slow_line.py" --unscaled)
set(interop KIND lines LABELS in-interop NEEDS programs)
set(program --program "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/csi-delta")
csidelta_entry(NAME marks TIER marks ${interop} SECONDS 1800 COMMAND ${python} "${tests}/interop/marks.py" ${program})
csidelta_entry(NAME rustic TIER rustic ${interop} SECONDS 4000 COMMAND ${python} "${scripts}/dev/interop.py" ${program})
